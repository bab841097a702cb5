/* Recording softmax: last axis, any leading shape; saves nothing but its own output. */
#include "autograd/tape.h"

typedef struct rows_of {
  ptrdiff_t n;
  const th_tensor *x, *y, *dy;
  th_tensor *dx;
} rows_of;

static void forward_rows(const void *context, ptrdiff_t begin, ptrdiff_t end) {
  const rows_of *r = context;
  ptrdiff_t at = begin * r->n;
  TH__CALL(r->x->dtype, softmax_fwd, end - begin, r->n, th__at(r->x, at), th__at(r->y, at));
}

static void backward_rows(const void *context, ptrdiff_t begin, ptrdiff_t end) {
  const rows_of *r = context;
  ptrdiff_t at = begin * r->n;
  TH__CALL(r->y->dtype, softmax_bwd, end - begin, r->n, th__at(r->y, at), th__at(r->dy, at),
           th__at(r->dx, at));
}

static th_status backward(th_node *node) {
  rows_of r = {.y = th_node_output(node), .dy = th_node_upstream(node), .dx = th_node_grad(node, 0)};
  r.n = th__dim(r.y, -1);
  if (r.n > 0) th__parallel(r.y->count / r.n, th__grain(4 * r.n), backward_rows, &r);
  return TH_OK;
}

static th_tensor *run(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  return th_softmax(tape, in[0]);
}

static const th_check checks[] = {
    {"", run, .input_count = 1, .inputs = {{"x", TH_FILL_NORMAL, 0, 2, {3, 5}}}},
    {"saturated", run, .input_count = 1, .inputs = {{"x", TH_FILL_NORMAL, 8, 2, {4, 6}}}},
    {"large", run, .large = true, .input_count = 1,
     .inputs = {{"x", TH_FILL_NORMAL, 0, 3, {4, 32, 64}}}},
    {0}};

const th_op th__op_softmax = {"softmax", backward, checks};

th_tensor *th_softmax(th_tape *tape, th_tensor *x) {
  if (!TH__READY(tape, "softmax", x) || !th__same_dtype(tape, "softmax", 1, &x)) return NULL;
  TH__REQUIRE(tape, x->ndim >= 1, TH_ERR_SHAPE, "softmax",
              "a scalar has no last axis; give at least one dimension");
  x = th_contiguous(tape, x);
  if (x == NULL) return NULL;
  th_tensor *y = th_output(tape, x->dtype, x->ndim, x->shape);
  if (y == NULL) return NULL;
  rows_of r = {.n = th__dim(x, -1), .x = x, .y = y};
  if (r.n > 0) th__parallel(x->count / r.n, th__grain(8 * r.n), forward_rows, &r);
  return th_record(tape, &th__op_softmax, y, &x, 1, NULL, 0);
}
