/* Recording bias: one row added to every row; saves nothing. */
#include "autograd/record/broadcast.h"

typedef struct rows_of {
  ptrdiff_t n;
  const th_tensor *x, *bias;
  th_tensor *y;
} rows_of;

static void forward_rows(const void *context, ptrdiff_t begin, ptrdiff_t end) {
  const rows_of *r = context;
  ptrdiff_t at = begin * r->n;
  TH__CALL(r->y->dtype, bias_fwd, end - begin, r->n, th__at(r->x, at), r->bias->data,
           th__at(r->y, at));
}

/* The bias is an operand that was stretched over the rows. */
static th_status backward(th_node *node) {
  th_status status = th__operand_backward(node, 0, 1.0, NULL);
  return status != TH_OK ? status : th__operand_backward(node, 1, 1.0, NULL);
}

static th_tensor *run(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  return th_bias(tape, in[0], in[1]);
}

static th_tensor *run_transposed(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  return th_bias(tape, th_transpose(tape, in[0], 0, 1), in[1]);
}

#define X(name, ...)                                                                               \
  { name, TH_FILL_NORMAL, 0, __VA_ARGS__ }
static const th_check checks[] = {
    {"", run, .input_count = 2, .inputs = {X("x", 2, {3, 4}), X("bias", 1, {4})}},
    {"one row", run, .input_count = 2, .inputs = {X("x", 1, {4}), X("bias", 1, {4})}},
    {"transposed", run_transposed, .input_count = 2,
     .inputs = {X("x", 3, {4, 2, 3}), X("bias", 1, {3})}},
    {"large", run, .large = true, .input_count = 2,
     .inputs = {X("x", 3, {4, 64, 96}), X("bias", 1, {96})}},
    {0}};
#undef X

const th_op th__op_bias = {"bias", backward, checks};

th_tensor *th_bias(th_tape *tape, th_tensor *x, th_tensor *bias) {
  if (!TH__READY(tape, "bias", x, bias) ||
      !th__same_dtype(tape, "bias", 2, (th_tensor *[]){x, bias}))
    return NULL;
  TH__REQUIRE(tape, x->ndim >= 1 && bias->ndim == 1 && th__dim(x, -1) == bias->shape[0],
              TH_ERR_SHAPE, "bias",
              "x is %s and the bias is %s; a bias of one axis, as long as x's last, is expected",
              TH__TEXT(x), TH__TEXT(bias));
  x = th_contiguous(tape, x);
  bias = th_contiguous(tape, bias);
  th_tensor *y = x == NULL || bias == NULL ? NULL : th_output(tape, x->dtype, x->ndim, x->shape);
  if (y == NULL) return NULL;
  rows_of r = {.n = bias->shape[0], .x = x, .bias = bias, .y = y};
  if (r.n > 0) th__parallel(x->count / r.n, th__grain(r.n), forward_rows, &r);
  return th_record(tape, &th__op_bias, y, (th_tensor *[]){x, bias}, 2, NULL, 0);
}
