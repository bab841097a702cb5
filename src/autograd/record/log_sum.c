#include "autograd/record/log_sum.h"

typedef struct rows_of {
  th__log_sum_forward forward;
  th__log_sum_backward backward;
  ptrdiff_t n, width; /* of a row of x, and of y */
  const th_tensor *x, *y, *dy;
  void *stats; /* [rows, 2] of x's type */
  th_tensor *dx;
} rows_of;

static void *stats_at(const rows_of *r, ptrdiff_t row) {
  return (char *)r->stats + 2 * row * (ptrdiff_t)th_dtype_size(r->x->dtype);
}

static void forward_rows(const void *context, ptrdiff_t begin, ptrdiff_t end) {
  const rows_of *r = context;
  const void *x = th__at(r->x, begin * r->n);
  void *y = th__at(r->y, begin * r->width), *stats = stats_at(r, begin);
  if (r->x->dtype == TH_F32)
    r->forward.f32(end - begin, r->n, x, y, stats);
  else
    r->forward.f64(end - begin, r->n, x, y, stats);
}

static void backward_rows(const void *context, ptrdiff_t begin, ptrdiff_t end) {
  const rows_of *r = context;
  const void *x = th__at(r->x, begin * r->n), *dy = th__at(r->dy, begin * r->width);
  void *dx = th__at(r->dx, begin * r->n), *stats = stats_at(r, begin);
  if (r->x->dtype == TH_F32)
    r->backward.f32(end - begin, r->n, x, stats, dy, dx);
  else
    r->backward.f64(end - begin, r->n, x, stats, dy, dx);
}

th_status th__log_sum_backward_rows(th_node *node, th__log_sum_backward kernel) {
  rows_of r = {.backward = kernel,
               .x = th_node_input(node, 0),
               .dy = th_node_upstream(node),
               .stats = *(void **)th_node_saved(node),
               .dx = th_node_grad(node, 0)};
  r.n = th__dim(r.x, -1);
  r.width = r.dy->ndim == r.x->ndim ? r.n : 1;
  if (r.n > 0) th__parallel(r.x->count / r.n, th__grain(8 * r.n), backward_rows, &r);
  return TH_OK;
}

th_tensor *th__log_sum(th_tape *tape, const th_op *op, th__log_sum_forward kernel, th_tensor *x,
                       bool reduces) {
  if (!th__ready(tape, op->name, 1, &x) || !th__same_dtype(tape, op->name, 1, &x)) return NULL;
  TH__REQUIRE(tape, x->ndim >= 1, TH_ERR_SHAPE, op->name,
              "a scalar has no last axis; give at least one dimension");
  x = th_contiguous(tape, x);
  if (x == NULL) return NULL;
  th_tensor *y = th_output(tape, x->dtype, x->ndim - reduces, x->shape);
  if (y == NULL) return NULL;
  rows_of r = {.forward = kernel, .n = th__dim(x, -1), .x = x, .y = y};
  r.width = reduces ? 1 : r.n;
  if (y->count > 0) {
    ptrdiff_t rows = y->count / r.width;
    r.stats = th_tape_alloc(tape, 2 * (size_t)rows * th_dtype_size(x->dtype));
    if (r.stats == NULL) return NULL;
    th__parallel(rows, th__grain(8 * r.n), forward_rows, &r);
  }
  return th_record(tape, op, y, &x, 1, &r.stats, sizeof r.stats);
}
