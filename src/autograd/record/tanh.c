/* Recording tanh: saves nothing; the backward reads the input again. */
#include "autograd/record/pointwise.h"

static void forward(th_dtype dtype, ptrdiff_t n, const void *x, void *y) {
  TH__CALL(dtype, tanh_fwd, n, x, y);
}

static void slope(th_dtype dtype, ptrdiff_t n, const void *x, const void *dy, void *dx) {
  TH__CALL(dtype, tanh_bwd, n, x, dy, dx);
}

static th_status backward(th_node *node) { return th__pointwise_backward(node, slope); }

static th_tensor *run(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  return th_tanh(tape, in[0]);
}

static th_tensor *run_transposed(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  return th_tanh(tape, th_transpose(tape, in[0], 0, 1));
}

static const th_check checks[] = {
    {"", run, .input_count = 1, .inputs = {{"x", TH_FILL_NORMAL, 0, 2, {3, 5}}}},
    {"saturated", run, .input_count = 1, .inputs = {{"x", TH_FILL_NORMAL, 4, 2, {3, 5}}}},
    {"transposed", run_transposed, .input_count = 1,
     .inputs = {{"x", TH_FILL_NORMAL, 0, 2, {4, 5}}}},
    {"large", run, .large = true, .input_count = 1,
     .inputs = {{"x", TH_FILL_NORMAL, 0, 3, {4, 64, 96}}}},
    {0}};

const th_op th__op_tanh = {"tanh", backward, checks};

th_tensor *th_tanh(th_tape *tape, th_tensor *x) {
  return th__pointwise(tape, &th__op_tanh, forward, x);
}
