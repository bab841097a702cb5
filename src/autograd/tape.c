/* tape.c: making, resetting and freeing a tape; its error; values and nodes on it. */
#include "autograd/tape.h"

#include <stdarg.h>
#include <string.h>

#include "tensor/alloc.h"
#include "tensor/error.h"

const th_op *const th__ops[] = {
#define OP(name) &th__op_##name,
#include "autograd/ops.def"
#undef OP
    NULL};

/* ---- life ---- */

th_tape *th_tape_new(void) {
  th_tape *tape = th__alloc_zero(sizeof *tape);
  if (tape != NULL) tape->recording = true;
  return tape;
}

void th_tape_free(th_tape *tape) {
  if (tape == NULL) return;
  th__arena_free(&tape->arena);
  th__free(tape);
}

void th_tape_reset(th_tape *tape) {
  th__arena_reset(&tape->arena);
  tape->last = NULL;
  tape->node_count = 0;
  memset(tape->spares, 0, sizeof tape->spares);
  tape->turns = NULL;
  tape->consumed = false;
}

bool th_tape_set_recording(th_tape *tape, bool on) {
  bool before = tape->recording;
  tape->recording = on;
  return before;
}

size_t th_tape_node_count(const th_tape *tape) { return tape->node_count; }
size_t th_tape_bytes(const th_tape *tape) { return tape->arena.held; }

/* ---- errors ---- */

th_status th_tape_status(const th_tape *tape) {
  return tape == NULL ? TH_ERR_MEMORY : tape->error.status;
}
const char *th_tape_message(const th_tape *tape) {
  return tape == NULL ? "th_tape_new: out of memory" : tape->error.message;
}
void th_tape_clear_error(th_tape *tape) { tape->error = (th_error){0}; }

th_tensor *th_fail(th_tape *tape, th_status status, const char *op, const char *format, ...) {
  if (tape == NULL || tape->error.status != TH_OK) return NULL;
  char sentence[sizeof tape->error.message];
  va_list args;
  va_start(args, format);
  th_error formatted;
  th__error_v(&formatted, status, format, args);
  va_end(args);
  memcpy(sentence, formatted.message, sizeof sentence);
  th__error(&tape->error, status, "%s: %.*s", op, (int)(sizeof sentence - strlen(op) - 3), sentence);
  return NULL;
}

bool th__ready(th_tape *tape, const char *op, int count, th_tensor *const *inputs) {
  if (tape == NULL || tape->error.status != TH_OK) return false;
  for (int i = 0; i < count; i++)
    if (inputs[i] == NULL) {
      th_fail(tape, TH_ERR_VALUE, op, "input %d is NULL; was it made on another tape that failed?",
              i);
      return false;
    } else if (inputs[i]->tape != NULL && inputs[i]->tape != tape) {
      th_fail(tape, TH_ERR_STATE, op, "input %d lives on another tape; th_input() copies it", i);
      return false;
    }
  return true;
}

bool th__same_dtype(th_tape *tape, const char *op, int count, th_tensor *const *inputs) {
  const th_tensor *first = NULL;
  for (int i = 0; i < count; i++) {
    const th_tensor *x = inputs[i];
    if (x == NULL) continue;
    if (!th__is_float(x)) {
      th_fail(tape, TH_ERR_DTYPE, op, "input %d is %s; f32 or f64 is expected", i,
              th_dtype_name(x->dtype));
      return false;
    }
    if (first == NULL) first = x;
    if (x->dtype != first->dtype) {
      th_fail(tape, TH_ERR_DTYPE, op, "input %d is %s but input 0 is %s; use one type throughout",
              i, th_dtype_name(x->dtype), th_dtype_name(first->dtype));
      return false;
    }
  }
  return true;
}

bool th__valid_axis(th_tape *tape, const char *op, const th_tensor *x, int *axis) {
  int given = *axis;
  if (*axis < 0) *axis += x->ndim;
  if (*axis >= 0 && *axis < x->ndim) return true;
  th_fail(tape, TH_ERR_SHAPE, op, "axis %d does not exist in shape %s", given, TH__TEXT(x));
  return false;
}

/* ---- values ---- */

void *th_tape_alloc(th_tape *tape, size_t bytes) {
  if (tape == NULL || tape->error.status != TH_OK) return NULL;
  void *memory = th__arena_alloc(&tape->arena, bytes);
  if (memory == NULL)
    th_fail(tape, TH_ERR_MEMORY, "tape",
            "out of memory: %zu bytes asked for, %zu held; use a smaller batch or model", bytes,
            tape->arena.held);
  return memory;
}

static th_tensor *new_header(th_tape *tape, th_dtype dtype, int ndim, const ptrdiff_t *shape,
                             ptrdiff_t count) {
  void *memory = th_tape_alloc(tape, th__tensor_size(ndim));
  if (memory == NULL) return NULL;
  th_tensor *tensor = th__tensor_init(memory, dtype, ndim, shape, count);
  tensor->tape = tape;
  return tensor;
}

/* Here and not with the tensors, because a value's name lies in its tape's arena. */
void th_tensor_set_name(th_tensor *tensor, const char *name) {
  size_t length = strnlen(name, 63);
  char *copy =
      tensor->tape != NULL ? th_tape_alloc(tensor->tape, length + 1) : th__alloc(length + 1);
  if (copy == NULL) return;
  memcpy(copy, name, length);
  copy[length] = '\0';
  if (tensor->tape == NULL && tensor->name[0] != '\0') th__free((void *)(uintptr_t)tensor->name);
  if (length == 0 && tensor->tape == NULL) {
    th__free(copy);
    tensor->name = "";
  } else
    tensor->name = copy;
}

th_tensor *th_output(th_tape *tape, th_dtype dtype, int ndim, const ptrdiff_t *shape) {
  if (tape == NULL || tape->error.status != TH_OK) return NULL;
  ptrdiff_t count;
  if (th__shape_count("output", dtype, ndim, shape, &count, &tape->error) != TH_OK) return NULL;
  th_tensor *tensor = new_header(tape, dtype, ndim, shape, count);
  if (tensor == NULL) return NULL;
  tensor->data = th_tape_alloc(tape, (size_t)count * th_dtype_size(dtype));
  return tensor->data == NULL ? NULL : tensor;
}

th_tensor *th_input(th_tape *tape, th_dtype dtype, int ndim, const ptrdiff_t *shape,
                    const void *data) {
  th_tensor *tensor = th_output(tape, dtype, ndim, shape);
  if (tensor == NULL || tensor->count == 0) return tensor;
  size_t bytes = (size_t)tensor->count * th_dtype_size(dtype);
  if (data != NULL)
    memcpy(tensor->data, data, bytes);
  else
    memset(tensor->data, 0, bytes);
  return tensor;
}

th_tensor *th_input_grad(th_tape *tape, th_dtype dtype, int ndim, const ptrdiff_t *shape,
                         const void *data) {
  if (dtype != TH_F32 && dtype != TH_F64)
    return th_fail(tape, TH_ERR_DTYPE, "th_input_grad", "%s has no gradient; use f32 or f64",
                   th_dtype_name(dtype));
  th_tensor *tensor = th_input(tape, dtype, ndim, shape, data);
  if (tensor != NULL) tensor->wants_grad = tensor->keeps_grad = true;
  return tensor;
}

th_tensor *th__view(th_tape *tape, th_tensor *x, int ndim, const ptrdiff_t *shape,
                    const ptrdiff_t *strides, ptrdiff_t offset) {
  ptrdiff_t count = 1;
  for (int i = 0; i < ndim; i++) count *= shape[i];
  th_tensor *view = new_header(tape, x->dtype, ndim, shape, count);
  if (view == NULL) return NULL;
  if (ndim > 0) memcpy(view->strides, strides, (size_t)ndim * sizeof *strides);
  view->data = th__at(x, offset);
  view->base = x->base != NULL ? x->base : x;
  view->wants_grad = x->wants_grad;
  return view;
}

th_tensor *th_detach(th_tape *tape, th_tensor *x) {
  if (!TH__READY(tape, "th_detach", x)) return NULL;
  th_tensor *view = th__view(tape, x, x->ndim, x->shape, x->strides, 0);
  if (view == NULL) return NULL;
  view->base = NULL;
  view->wants_grad = false;
  return view;
}

th_tensor *th__keep(th_tape *tape, const th_tensor *x) {
  th_tensor *copy = th_output(tape, x->dtype, x->ndim, x->shape);
  if (copy != NULL) th__tensor_copy(copy, x);
  return copy;
}

th_tensor *th__dense_rows(th_tape *tape, th_tensor *x) {
  if (x->ndim == 0 || x->strides[x->ndim - 1] == 1 || x->shape[x->ndim - 1] <= 1) return x;
  return th_contiguous(tape, x);
}

/* ---- nodes ---- */

bool th__wanted(const th_tape *tape, int count, th_tensor *const *inputs) {
  if (!tape->recording) return false;
  for (int i = 0; i < count; i++)
    if (inputs[i] != NULL && inputs[i]->wants_grad) return true;
  return false;
}

th_tensor *th_record(th_tape *tape, const th_op *op, th_tensor *output, th_tensor *const *inputs,
                     int input_count, const void *saved, size_t saved_bytes) {
  if (output == NULL || tape == NULL || tape->error.status != TH_OK) return NULL;
  if (!th__wanted(tape, input_count, inputs)) return output;
  size_t pointers = (size_t)input_count * sizeof(th_tensor *);
  th_node *node = th_tape_alloc(tape, sizeof *node + pointers);
  if (node == NULL) return NULL;
  *node = (th_node){.previous = tape->last, .op = op, .output = output, .input_count = input_count};
  memcpy(node->inputs, inputs, pointers);
  if (saved_bytes > 0) {
    node->saved = th_tape_alloc(tape, saved_bytes);
    if (node->saved == NULL) return NULL;
    memcpy(node->saved, saved, saved_bytes);
  }
  output->wants_grad = true;
  tape->last = node;
  tape->node_count++;
  return output;
}

th_tensor *th_node_input(const th_node *node, int i) { return node->inputs[i]; }
th_tensor *th_node_output(const th_node *node) { return node->output; }
const th_tensor *th_node_upstream(const th_node *node) { return node->output->grad; }
void *th_node_saved(const th_node *node) { return node->saved; }
void *th_node_workspace(th_node *node, size_t bytes) {
  return th_tape_alloc(node->output->tape, bytes);
}
th_tensor *th_node_grad(const th_node *node, int i) {
  th_tensor *input = node->inputs[i];
  return input != NULL && input->wants_grad ? input->grad : NULL;
}
