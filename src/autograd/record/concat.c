/* concat: tensors joined along one axis.
 * Shapes    x_k (.., n_k, ..), the other axes equal   y (.., sum of n_k, ..)
 * Forward   y_..(n_0 + .. + n_(k-1) + i).. = x_k ..i..: each piece is copied into its window of y
 * Saves     the axis
 * Backward  dL/dx_k ..i.. = dL/dy_..(n_0 + .. + n_(k-1) + i)..: the same window of dL/dy. A tensor that
 *           stands there twice gets both.
 * Checks    split() gives the pieces back.   tests/ops/test_concat.c */
#include "autograd/tape.h"

/* The part of whole that a piece fills, from element `begin` of the axis on: a header, no memory. */
static th_tensor window(const th_tensor *whole, const th_tensor *piece, int axis, ptrdiff_t begin) {
  th_tensor part = *whole;
  part.count = piece->count;
  part.shape = piece->shape;
  part.data = th__at(whole, begin * whole->strides[axis]);
  return part;
}

static th_status backward(th_node *node) {
  int axis = *(int *)th_node_saved(node);
  ptrdiff_t begin = 0;
  for (int i = 0; i < node->input_count; i++) {
    const th_tensor *piece = th_node_input(node, i);
    th_tensor *dx = th_node_grad(node, i);
    if (dx != NULL && piece->count > 0) {
      th_tensor dy = window(th_node_upstream(node), piece, axis, begin);
      th__tensor_add(dx, &dy);
    }
    begin += piece->shape[axis];
  }
  return TH_OK;
}

/* ---- checks ---- */

static th_tensor *run(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  return th_concat(tape, in, 3, 1);
}

/* A tensor, another between, and the first again, turned: its gradient has two parts. */
static th_tensor *run_twice(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  th_tensor *pieces[] = {in[0], in[1], th_transpose(tape, in[0], 0, 1)};
  return th_concat(tape, pieces, 3, -1);
}

/* clang-format off */
#define IN(name, ...) {name, TH_FILL_NORMAL, 0, __VA_ARGS__}
static const th_check checks[] = {
    {"", run, .input_count = 3, .inputs = {IN("a", 3, {2, 3, 2}), IN("b", 3, {2, 1, 2}), IN("c", 3, {2, 2, 2})}},
    {"twice", run_twice, .input_count = 2, .inputs = {IN("a", 2, {3, 3}), IN("b", 2, {3, 2})}},
    {"large", run, .large = true, .input_count = 3, .inputs = {IN("a", 2, {100, 96}), IN("b", 2, {100, 7}), IN("c", 2, {100, 64})}},
    {0}};
/* clang-format on */

const th_op th__op_concat = {"concat", backward, checks};

/* ---- recording ---- */

/* The length of the joined axis, or -1 with an error. */
static ptrdiff_t joined_length(th_tape *tape, th_tensor *const *pieces, int count, int axis) {
  const th_tensor *first = pieces[0];
  ptrdiff_t length = 0;
  for (int i = 0; i < count; i++) {
    const th_tensor *x = pieces[i];
    bool fits = x->ndim == first->ndim;
    for (int a = 0; fits && a < x->ndim; a++) fits = a == axis || x->shape[a] == first->shape[a];
    if (!fits) {
      th_fail(tape, TH_ERR_SHAPE, "concat",
              "piece %d is %s but piece 0 is %s; they may differ in axis %d only", i, TH__TEXT(x),
              TH__TEXT(first), axis);
      return -1;
    }
    if (x->dtype != first->dtype) {
      th_fail(tape, TH_ERR_DTYPE, "concat", "piece %d is %s but piece 0 is %s", i,
              th_dtype_name(x->dtype), th_dtype_name(first->dtype));
      return -1;
    }
    if (x->shape[axis] > PTRDIFF_MAX - length) {
      th_fail(tape, TH_ERR_SHAPE, "concat", "axis %d is longer than an index can count", axis);
      return -1;
    }
    length += x->shape[axis];
  }
  return length;
}

th_tensor *th_concat(th_tape *tape, th_tensor *const *pieces, int count, int axis) {
  if (tape == NULL || tape->error.status != TH_OK) return NULL;
  TH__REQUIRE(tape, pieces != NULL && count >= 1, TH_ERR_VALUE, "concat",
              "%d pieces; at least one is expected", pieces == NULL ? 0 : count);
  if (!th__ready(tape, "concat", count, pieces) || !th__valid_axis(tape, "concat", pieces[0], &axis))
    return NULL;
  ptrdiff_t length = joined_length(tape, pieces, count, axis);
  if (length < 0) return NULL;
  ptrdiff_t shape[TH_MAX_DIMS];
  for (int i = 0; i < pieces[0]->ndim; i++) shape[i] = pieces[0]->shape[i];
  shape[axis] = length;

  th_tensor *y = th_output(tape, pieces[0]->dtype, pieces[0]->ndim, shape);
  if (y == NULL) return NULL;
  ptrdiff_t begin = 0;
  for (int i = 0; i < count; i++) {
    if (pieces[i]->count > 0) {
      th_tensor part = window(y, pieces[i], axis, begin);
      th__tensor_copy(&part, pieces[i]);
    }
    begin += pieces[i]->shape[axis];
  }
  return th_record(tape, &th__op_concat, y, pieces, count, &axis, sizeof axis);
}
