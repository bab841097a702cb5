/* x is read as [outer, n, inner] and summed over n; a sum over everything has outer = inner = 1. */
#include "autograd/record/reduce.h"

#include <string.h>

typedef struct saved {
  ptrdiff_t n, inner;
  double divisor;
} saved;

typedef struct reduction {
  saved s;
  const th_tensor *x, *y, *dy;
  th_tensor *dx;
  double *parts; /* of a sum to one number: one per piece */
  ptrdiff_t grain;
} reduction;

static ptrdiff_t least(ptrdiff_t a, ptrdiff_t b) { return a < b ? a : b; }

/* ---- forward ---- */

static void forward_outputs(const void *context, ptrdiff_t begin, ptrdiff_t end) {
  const reduction *r = context;
  ptrdiff_t n = r->s.n, inner = r->s.inner;
  if (inner == 1) { /* each output sums n neighbours */
    TH__CALL(r->x->dtype, sum_fwd, n, end - begin, r->s.divisor, th__at(r->x, begin * n), 1, n,
             NULL, 0, 0, th__at(r->y, begin), 1);
    return;
  }
  while (begin < end) { /* a run of neighbouring outputs sums n rows */
    ptrdiff_t outer = begin / inner, column = begin % inner;
    ptrdiff_t run = least(inner - column, end - begin);
    TH__CALL(r->x->dtype, sum_fwd, n, run, r->s.divisor, th__at(r->x, outer * n * inner + column),
             inner, 1, NULL, 0, 0, th__at(r->y, begin), 1);
    begin += run;
  }
}

static void forward_part(const void *context, ptrdiff_t begin, ptrdiff_t end) {
  const reduction *r = context;
  TH__CALL(r->x->dtype, sum_part, end - begin, th__at(r->x, begin), &r->parts[begin / r->grain]);
}

/* Pieces first, each to its own place, then the pieces in their order: no thread has a say in it. */
static bool to_one_number(th_tape *tape, reduction *r, th_tensor *y) {
  double sum = 0, one_part = 0;
  r->grain = th__grain(1);
  ptrdiff_t pieces = r->x->count == 0 ? 0 : (r->x->count - 1) / r->grain + 1;
  r->parts = pieces <= 1 ? &one_part : th_tape_alloc(tape, (size_t)pieces * sizeof(double));
  if (r->parts == NULL) return false;
  th__parallel(r->x->count, r->grain, forward_part, r);
  for (ptrdiff_t i = 0; i < pieces; i++) sum += r->parts[i];
  th__set(y, 0, sum / r->s.divisor);
  return true;
}

static void to_many(reduction *r, th_tensor *y) {
  if (y->count > 0) memset(y->data, 0, (size_t)y->count * th_dtype_size(y->dtype));
  /* Side by side, fewer than 64 columns per piece would share cache lines between threads. */
  ptrdiff_t grain = th__grain(r->s.n);
  if (r->s.inner > 1 && grain < 64) grain = 64;
  th__parallel(y->count, grain, forward_outputs, r);
}

/* ---- backward ---- */

/* Elements of dx: a line of them takes one upstream element (inner = 1), or a row of them. */
static void backward_elements(const void *context, ptrdiff_t begin, ptrdiff_t end) {
  const reduction *r = context;
  ptrdiff_t n = r->s.n, inner = r->s.inner, length = inner == 1 ? n : inner;
  while (begin < end) {
    ptrdiff_t line = begin / length, at = begin % length;
    ptrdiff_t run = least(length - at, end - begin);
    ptrdiff_t from = inner == 1 ? line : line / n * inner + at;
    TH__CALL(r->dx->dtype, add_bwd, run, 1.0 / r->s.divisor, th__at(r->dy, from), inner != 1,
             th__at(r->dx, begin));
    begin += run;
  }
}

th_status th__reduce_backward(th_node *node) {
  const saved *s = th_node_saved(node);
  reduction r = {.s = *s, .dy = th_node_upstream(node), .dx = th_node_grad(node, 0)};
  th__parallel(r.dx->count, th__grain(1), backward_elements, &r);
  return TH_OK;
}

/* ---- recording ---- */

th_tensor *th__reduce(th_tape *tape, const th_op *op, th_tensor *x, int axis, bool mean) {
  if (!th__ready(tape, op->name, 1, &x) || !th__same_dtype(tape, op->name, 1, &x)) return NULL;
  saved s = {.n = x->count, .inner = 1};
  int ndim = 0;
  ptrdiff_t shape[TH_MAX_DIMS];
  if (axis != TH_ALL_AXES) {
    int at = axis < 0 ? axis + x->ndim : axis;
    TH__REQUIRE(tape, at >= 0 && at < x->ndim, TH_ERR_SHAPE, op->name,
                "axis %d does not exist in shape %s; TH_ALL_AXES sums over all", axis, TH__TEXT(x));
    for (int i = 0; i < x->ndim; i++)
      if (i != at) shape[ndim++] = x->shape[i];
    for (int i = at + 1; i < x->ndim; i++) s.inner *= x->shape[i];
    s.n = x->shape[at];
  }
  TH__REQUIRE(tape, !mean || s.n > 0, TH_ERR_SHAPE, op->name,
              "there is no element to take the mean of in shape %s", TH__TEXT(x));
  s.divisor = mean ? (double)s.n : 1.0;
  x = th_contiguous(tape, x);
  th_tensor *y = x == NULL ? NULL : th_output(tape, x->dtype, ndim, shape);
  if (y == NULL) return NULL;
  reduction r = {.s = s, .x = x, .y = y};
  if (y->count != 1)
    to_many(&r, y);
  else if (!to_one_number(tape, &r, y))
    return NULL;
  return th_record(tape, op, y, &x, 1, &s, sizeof s);
}

/* ---- checks ---- */

th_tensor *th__run_reduction(th_tape *tape, th_tensor *const *in, const void *context) {
  const th__reduction *r = context;
  return r->op(tape, in[0], r->axis);
}

th_tensor *th__run_reduction_transposed(th_tape *tape, th_tensor *const *in, const void *context) {
  const th__reduction *r = context;
  return r->op(tape, th_transpose(tape, in[0], 0, 1), r->axis);
}
