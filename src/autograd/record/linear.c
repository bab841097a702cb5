/* Recording linear: x of any rank is one matrix of rows; saves nothing. */
#include "autograd/gemm.h"
#include "autograd/tape.h"

/* y = x W^T + b as BLAS sees it. Computed anew for the backward: the inputs have not moved. */
typedef struct plan {
  ptrdiff_t rows, in, out, ldx;
  th__matrix w;
} plan;

static bool plan_of(const th_tensor *x, const th_tensor *weight, plan *p) {
  p->out = weight->shape[0];
  p->in = weight->shape[1];
  return th__rows_of(x, &p->rows, &p->ldx) && th__matrix_of(weight, &p->w);
}

static ptrdiff_t at_least_1(ptrdiff_t n) { return n > 1 ? n : 1; }

static void forward(const plan *p, const th_tensor *x, const th_tensor *weight,
                    const th_tensor *bias, th_tensor *y) {
  th__product product = {.dtype = x->dtype, .m = p->rows, .n = p->out, .k = p->in};
  product.a = x->data;
  product.lda = p->ldx;
  product.b = weight->data;
  product.ldb = p->w.ld;
  product.tb = !p->w.transposed;
  product.c = y->data;
  product.ldc = at_least_1(p->out);
  if (bias != NULL) product.bias = bias->data;
  th__products(&product, 1);
}

/* dx += dy W */
static th__product to_x(const plan *p, const th_tensor *dy, const th_tensor *weight, th_tensor *dx) {
  return (th__product){.dtype = dy->dtype,
                       .accumulate = true,
                       .m = p->rows,
                       .n = p->in,
                       .k = p->out,
                       .a = dy->data,
                       .lda = at_least_1(p->out),
                       .b = weight->data,
                       .ldb = p->w.ld,
                       .tb = p->w.transposed,
                       .c = dx->data,
                       .ldc = p->ldx};
}

/* dW += dy^T x, or its transpose where W is stored that way */
static th__product to_weight(const plan *p, const th_tensor *dy, const th_tensor *x,
                             th_tensor *dweight) {
  th__product product = {.dtype = dy->dtype, .accumulate = true, .ta = true, .k = p->rows};
  bool t = p->w.transposed;
  product.m = t ? p->in : p->out;
  product.n = t ? p->out : p->in;
  product.a = t ? x->data : dy->data;
  product.lda = t ? p->ldx : at_least_1(p->out);
  product.b = t ? dy->data : x->data;
  product.ldb = t ? at_least_1(p->out) : p->ldx;
  product.c = dweight->data;
  product.ldc = p->w.ld;
  return product;
}

/* db += sums of dy's columns */
static th__product to_bias(const plan *p, const th_tensor *dy, th_tensor *dbias) {
  return (th__product){.dtype = dy->dtype,
                       .accumulate = true,
                       .m = 1,
                       .n = p->out,
                       .k = p->rows,
                       .b = dy->data,
                       .ldb = at_least_1(p->out),
                       .c = dbias->data,
                       .ldc = at_least_1(p->out)};
}

static th_status backward(th_node *node) {
  const th_tensor *x = th_node_input(node, 0), *weight = th_node_input(node, 1);
  const th_tensor *dy = th_node_upstream(node);
  th_tensor *dx = th_node_grad(node, 0), *dweight = th_node_grad(node, 1);
  th_tensor *dbias = th_node_grad(node, 2);
  plan p;
  plan_of(x, weight, &p);
  th__product products[TH__MAX_PRODUCTS];
  int count = 0;
  if (dweight != NULL) products[count++] = to_weight(&p, dy, x, dweight);
  if (dx != NULL) products[count++] = to_x(&p, dy, weight, dx);
  if (dbias != NULL) products[count++] = to_bias(&p, dy, dbias);
  const th_tensor *bias = th_node_input(node, 2);
  bool shared = th__share_grad(x, weight) || th__share_grad(x, bias) || th__share_grad(weight, bias);
  if (shared) /* linear(x, x): one after the other */
    for (int i = 0; i < count; i++) th__products(&products[i], 1);
  else
    th__products(products, count);
  return TH_OK;
}

/* ---- checks ---- */

static th_tensor *run(th_tape *tape, th_tensor *const *in, const void *context) {
  return th_linear(tape, in[0], in[1], context != NULL ? in[2] : NULL);
}

static th_tensor *run_strided(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  th_tensor *x = th_slice(tape, in[0], 2, 1, 5);
  return th_linear(tape, x, th_transpose(tape, in[1], 0, 1), in[2]);
}

static const char with_bias = 1;

/* clang-format off */
static const th_check checks[] = {
    {"", run, .input_count = 2, .inputs = {
        {"x", TH_FILL_NORMAL, 0, 2, {3, 4}}, {"weight", TH_FILL_NORMAL, 0, 2, {5, 4}}}},
    {"bias", run, &with_bias, .input_count = 3, .inputs = {
        {"x", TH_FILL_NORMAL, 0, 3, {2, 3, 4}}, {"weight", TH_FILL_NORMAL, 0, 2, {5, 4}}, {"bias", TH_FILL_NORMAL, 0, 1, {5}}}},
    {"strided", run_strided, .input_count = 3, .inputs = {
        {"x", TH_FILL_NORMAL, 0, 3, {2, 3, 6}}, {"weight", TH_FILL_NORMAL, 0, 2, {4, 5}}, {"bias", TH_FILL_NORMAL, 0, 1, {5}}}},
    {"large", run, &with_bias, .large = true, .input_count = 3, .inputs = {
        {"x", TH_FILL_NORMAL, 0, 3, {4, 64, 96}}, {"weight", TH_FILL_NORMAL, 0.1, 2, {160, 96}}, {"bias", TH_FILL_NORMAL, 0, 1, {160}}}},
    {0}};
/* clang-format on */

const th_op th__op_linear = {"linear", backward, checks};

/* ---- recording ---- */

static bool valid(th_tape *tape, const th_tensor *x, const th_tensor *weight,
                  const th_tensor *bias) {
  if (weight->ndim != 2)
    th_fail(tape, TH_ERR_SHAPE, "linear", "the weight is %s; [out, in] is expected",
            TH__TEXT(weight));
  else if (x->ndim < 1)
    th_fail(tape, TH_ERR_SHAPE, "linear", "x is a scalar; [..., %td] is expected", weight->shape[1]);
  else if (th__dim(x, -1) != weight->shape[1])
    th_fail(tape, TH_ERR_SHAPE, "linear",
            "x is %s but the weight [out, in] is %s; x's last axis must have in = %td elements",
            TH__TEXT(x), TH__TEXT(weight), weight->shape[1]);
  else if (bias != NULL && (bias->ndim != 1 || bias->shape[0] != weight->shape[0]))
    th_fail(tape, TH_ERR_SHAPE, "linear",
            "the bias is %s but the weight [out, in] is %s; a bias of [%td] is expected",
            TH__TEXT(bias), TH__TEXT(weight), weight->shape[0]);
  else
    return true;
  return false;
}

th_tensor *th_linear(th_tape *tape, th_tensor *x, th_tensor *weight, th_tensor *bias) {
  if (!TH__READY(tape, "linear", x, weight, bias != NULL ? bias : x)) return NULL;
  th_tensor *inputs[] = {x, weight, bias};
  if (!th__same_dtype(tape, "linear", 3, inputs) || !valid(tape, x, weight, bias)) return NULL;

  plan p;
  if (!th__rows_of(x, &p.rows, &p.ldx)) inputs[0] = th_contiguous(tape, x);
  if (!th__matrix_of(weight, &p.w)) inputs[1] = th_contiguous(tape, weight);
  if (bias != NULL) inputs[2] = th_contiguous(tape, bias);
  if (inputs[0] == NULL || inputs[1] == NULL || (bias != NULL && inputs[2] == NULL)) return NULL;
  plan_of(inputs[0], inputs[1], &p);
  if (!th__blas_sizes(tape, "linear", 5, (ptrdiff_t[]){p.rows, p.in, p.out, p.ldx, p.w.ld}))
    return NULL;

  ptrdiff_t shape[TH_MAX_DIMS];
  for (int i = 0; i < x->ndim; i++) shape[i] = x->shape[i];
  shape[x->ndim - 1] = p.out;
  th_tensor *y = th_output(tape, x->dtype, x->ndim, shape);
  if (y == NULL) return NULL;
  forward(&p, inputs[0], inputs[1], inputs[2], y);
  return th_record(tape, &th__op_linear, y, inputs, 3, NULL, 0);
}
