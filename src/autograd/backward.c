/* backward.c: the reverse walk, and where gradients get their memory.
 *
 * A gradient is made, zeroed, when the first of its consumers is about to add to it, and its memory
 * goes to a free list once the op that produced the value has read it: a backward pass needs a few
 * buffers that stay in cache, not one per value. Leaves and retained values keep theirs. */
#include "autograd/tape.h"

#include <string.h>

/* ---- memory ---- */

#define SPARE_LEAST 64 /* bytes; smaller ones would not hold their own list entry */

/* From x's first element to its last: more than its count for a retained view with gaps. */
static size_t spare_bytes(const th_tensor *x) {
  ptrdiff_t span = x->count > 0 ? 1 : 0;
  for (int i = 0; i < x->ndim && span > 0; i++) span += (x->shape[i] - 1) * x->strides[i];
  size_t bytes = (size_t)span * th_dtype_size(x->dtype);
  return bytes < SPARE_LEAST ? SPARE_LEAST : bytes;
}

static th__spare **spares_of(th_tape *tape, size_t bytes) {
  size_t hash = bytes / 8 * 0x9E3779B1u; /* 2^32 / golden ratio: neighbouring sizes lie far apart */
  return &tape->spares[(hash >> 16) % TH__SPARE_LISTS];
}

static void *take_memory(th_tape *tape, size_t bytes) {
  for (th__spare **link = spares_of(tape, bytes); *link != NULL; link = &(*link)->next)
    if ((*link)->bytes == bytes) {
      th__spare *spare = *link;
      *link = spare->next;
      return spare;
    }
  return th_tape_alloc(tape, bytes);
}

static void recycle(th_tape *tape, th_tensor *x) {
  th__spare *spare = x->grad->data;
  size_t bytes = spare_bytes(x);
  th__spare **first = spares_of(tape, bytes);
  *spare = (th__spare){.next = *first, .bytes = bytes};
  *first = spare;
  x->grad = NULL;
}

static th_tensor *grad_header(th_tape *tape, const th_tensor *x) {
  void *memory = th_tape_alloc(tape, th__tensor_size(x->ndim));
  if (memory == NULL) return NULL;
  th_tensor *grad = th__tensor_init(memory, x->dtype, x->ndim, x->shape, x->count);
  grad->tape = tape;
  if (x->ndim > 0) memcpy(grad->strides, x->strides, (size_t)x->ndim * sizeof *x->strides);
  return grad;
}

/* Makes sure that x has a gradient to add to; false when memory ends. A view's gradient is the same
 * window into its base's. */
static bool ensure_grad(th_tape *tape, th_tensor *x) {
  th_tensor *root = x->base != NULL ? x->base : x;
  if (root->grad == NULL) {
    th_tensor *grad = grad_header(tape, root);
    void *memory = grad == NULL ? NULL : take_memory(tape, spare_bytes(root));
    if (memory == NULL) return false;
    memset(memory, 0, spare_bytes(root));
    grad->data = memory;
    root->grad = grad;
  }
  if (x != root) {
    if (x->grad == NULL && (x->grad = grad_header(tape, x)) == NULL) return false;
    x->grad->data = (char *)root->grad->data + ((char *)x->data - (char *)root->data);
  }
  root->grad_arrived = true;
  return true;
}

/* ---- the walk ---- */

static th_status run_node(th_tape *tape, th_node *node) {
  for (int i = 0; i < node->input_count; i++) {
    th_tensor *input = node->inputs[i];
    if (input != NULL && input->wants_grad && !ensure_grad(tape, input)) return TH_ERR_MEMORY;
  }
  return node->op->backward(node);
}

/* A backward that stops half-way leaves some leaves with part of a gradient: no step may use them. */
static void mark_broken(const th_tape *tape) {
  for (const th_node *node = tape->last; node != NULL; node = node->previous)
    for (int i = 0; i < node->input_count; i++) {
      th_tensor *input = node->inputs[i];
      if (input == NULL || !input->wants_grad) continue;
      th_tensor *root = input->base != NULL ? input->base : input;
      if (root->grad_arrived) root->grad_broken = true;
    }
}

static th_status walk(th_tape *tape) {
  tape->consumed = true; /* also when it fails half-way: what it left behind is no place to start */
  for (th_node *node = tape->last; node != NULL; node = node->previous) {
    th_tensor *output = node->output;
    if (output->grad == NULL) continue; /* the loss does not depend on it */
    th_status status = run_node(tape, node);
    if (status != TH_OK) {
      th_fail(tape, status, node->op->name, "backward failed: %s", th_status_text(status));
      mark_broken(tape);
      return tape->error.status;
    }
    if (!output->keeps_grad) recycle(tape, output);
  }
  return TH_OK;
}

static bool startable(th_tape *tape, th_tensor *y) {
  if (!TH__READY(tape, "th_backward", y)) return false;
  if (tape->consumed) {
    th_fail(tape, TH_ERR_STATE, "th_backward",
            "this tape has already run backward; call th_tape_reset() and record again");
    return false;
  }
  if (!y->wants_grad) {
    th_fail(tape, TH_ERR_STATE, "th_backward",
            "nothing that led to this value has a wanted gradient: use th_tensor_require_grad() or "
            "th_input_grad(), and check th_tape_set_recording()");
    return false;
  }
  if (!ensure_grad(tape, y)) return false;
  return true;
}

th_status th_backward(th_tape *tape, th_tensor *loss) {
  if (tape != NULL && tape->error.status == TH_OK && loss != NULL && loss->count != 1)
    th_fail(tape, TH_ERR_SHAPE, "th_backward",
            "the loss has shape %s; reduce it to one number, or use th_backward_from()",
            TH__TEXT(loss));
  if (!startable(tape, loss)) return th_tape_status(tape);
  th__set(loss->grad, 0, th__get(loss->grad, 0) + 1.0);
  return walk(tape);
}

th_status th_backward_from(th_tape *tape, th_tensor *y, const th_tensor *upstream) {
  if (tape != NULL && tape->error.status == TH_OK && y != NULL && upstream != NULL &&
      (!th__same_shape(y, upstream) || y->dtype != upstream->dtype))
    th_fail(tape, TH_ERR_SHAPE, "th_backward_from",
            "upstream is %s %s but y is %s %s; they must be alike", th_dtype_name(upstream->dtype),
            TH__TEXT(upstream), th_dtype_name(y->dtype), TH__TEXT(y));
  if (tape != NULL && y != NULL && upstream == NULL)
    th_fail(tape, TH_ERR_VALUE, "th_backward_from", "upstream is NULL");
  if (!startable(tape, y)) return th_tape_status(tape);
  th__tensor_add(y->grad, upstream);
  return walk(tape);
}

/* ---- inner gradients on request ---- */

/* A view shares its gradient's memory with other users of its base. Asked for, it gets a gradient of
 * its own, and a node that adds it to the base's. */
static th_status view_backward(th_node *node) {
  th__tensor_add(th_node_grad(node, 0), th_node_upstream(node));
  return TH_OK;
}
static const th_op view_op = {.name = "view", .backward = view_backward};

th_tensor *th_retain_grad(th_tape *tape, th_tensor *x) {
  if (!TH__READY(tape, "th_retain_grad", x)) return NULL;
  TH__REQUIRE(tape, x->wants_grad, TH_ERR_STATE, "th_retain_grad",
              "no gradient flows through this value, so there is none to keep");
  if (x->base != NULL) {
    th_tensor *source = th__view(tape, x, x->ndim, x->shape, x->strides, 0);
    if (source == NULL) return NULL;
    x->base = NULL;
    if (th_record(tape, &view_op, x, &source, 1, NULL, 0) == NULL) return NULL;
  }
  x->keeps_grad = true;
  return x;
}
