/* Recording logsumexp: last axis, any leading shape; saves two numbers per row. */
#include "autograd/tape.h"

typedef struct rows_of {
  ptrdiff_t n;
  const th_tensor *x, *y, *dy;
  void *stats; /* [rows, 2] of x's type */
  th_tensor *dx;
} rows_of;

static void *stats_at(const rows_of *r, ptrdiff_t row) {
  return (char *)r->stats + 2 * row * (ptrdiff_t)th_dtype_size(r->x->dtype);
}

static void forward_rows(const void *context, ptrdiff_t begin, ptrdiff_t end) {
  const rows_of *r = context;
  TH__CALL(r->x->dtype, logsumexp_fwd, end - begin, r->n, th__at(r->x, begin * r->n),
           th__at(r->y, begin), stats_at(r, begin));
}

static void backward_rows(const void *context, ptrdiff_t begin, ptrdiff_t end) {
  const rows_of *r = context;
  ptrdiff_t at = begin * r->n;
  TH__CALL(r->x->dtype, logsumexp_bwd, end - begin, r->n, th__at(r->x, at), stats_at(r, begin),
           th__at(r->dy, begin), th__at(r->dx, at));
}

static th_status backward(th_node *node) {
  rows_of r = {.x = th_node_input(node, 0),
               .dy = th_node_upstream(node),
               .stats = *(void **)th_node_saved(node),
               .dx = th_node_grad(node, 0)};
  r.n = th__dim(r.x, -1);
  if (r.n > 0) th__parallel(r.dy->count, th__grain(8 * r.n), backward_rows, &r);
  return TH_OK;
}

static th_tensor *run(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  return th_logsumexp(tape, in[0]);
}

static th_tensor *run_transposed(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  return th_logsumexp(tape, th_transpose(tape, in[0], 0, 1));
}

/* clang-format off */
static const th_check checks[] = {
    {"", run, .input_count = 1, .inputs = {{"x", TH_FILL_NORMAL, 0, 2, {3, 5}}}},
    {"one row", run, .input_count = 1, .inputs = {{"x", TH_FILL_NORMAL, 0, 1, {6}}}},
    {"saturated", run, .input_count = 1, .inputs = {{"x", TH_FILL_NORMAL, 8, 2, {4, 6}}}},
    {"transposed", run_transposed, .input_count = 1, .inputs = {{"x", TH_FILL_NORMAL, 0, 2, {4, 5}}}},
    {"large", run, .large = true, .input_count = 1, .inputs = {{"x", TH_FILL_NORMAL, 0, 3, {4, 32, 64}}}},
    {0}};
/* clang-format on */

const th_op th__op_logsumexp = {"logsumexp", backward, checks};

th_tensor *th_logsumexp(th_tape *tape, th_tensor *x) {
  if (!TH__READY(tape, "logsumexp", x) || !th__same_dtype(tape, "logsumexp", 1, &x)) return NULL;
  TH__REQUIRE(tape, x->ndim >= 1, TH_ERR_SHAPE, "logsumexp",
              "a scalar has no last axis; give at least one dimension");
  x = th_contiguous(tape, x);
  if (x == NULL) return NULL;
  th_tensor *y = th_output(tape, x->dtype, x->ndim - 1, x->shape);
  if (y == NULL) return NULL;
  rows_of r = {.n = th__dim(x, -1), .x = x, .y = y};
  r.stats = th_tape_alloc(tape, 2 * (size_t)y->count * th_dtype_size(x->dtype));
  if (r.stats == NULL) return NULL;
  th__parallel(y->count, th__grain(8 * r.n), forward_rows, &r);
  return th_record(tape, &th__op_logsumexp, y, &x, 1, &r.stats, sizeof r.stats);
}
