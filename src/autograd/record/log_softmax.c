/* Recording log_softmax: last axis, any leading shape; saves two numbers per row. */
#include "autograd/record/log_sum.h"

static th_status backward(th_node *node) {
  th__log_sum_backward kernel = {th__f32->log_softmax_bwd, th__f64->log_softmax_bwd};
  return th__log_sum_backward_rows(node, kernel);
}

static th__unary *const op = th_log_softmax;

/* clang-format off */
static const th_check checks[] = {
    {"", th__run_unary, &op, .input_count = 1, .inputs = {{"x", TH_FILL_NORMAL, 0, 2, {3, 5}}}},
    {"saturated", th__run_unary, &op, .input_count = 1, .inputs = {{"x", TH_FILL_NORMAL, 8, 2, {4, 6}}}},
    {"large", th__run_unary, &op, .large = true, .input_count = 1, .inputs = {{"x", TH_FILL_NORMAL, 0, 3, {4, 32, 64}}}},
    {0}};
/* clang-format on */

const th_op th__op_log_softmax = {"log_softmax", backward, checks};

th_tensor *th_log_softmax(th_tape *tape, th_tensor *x) {
  th__log_sum_forward kernel = {th__f32->log_softmax_fwd, th__f64->log_softmax_fwd};
  return th__log_sum(tape, &th__op_log_softmax, kernel, x, false);
}
