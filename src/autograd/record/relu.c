/* Recording relu: saves nothing but its own output. */
#include "autograd/record/pointwise.h"

static th_status backward(th_node *node) {
  th__point_backward kernel = {th__f32->relu_bwd, th__f64->relu_bwd, .cost = 1};
  return th__pointwise_backward(node, th_node_output(node), kernel);
}

static th__unary *const op = th_relu;
static const th_check checks[] = {
    {"", th__run_unary, &op, .kinks = true, .input_count = 1,
     .inputs = {{"x", TH_FILL_NORMAL, 0, 2, {4, 5}}}},
    {"transposed", th__run_unary_transposed, &op, .kinks = true, .input_count = 1,
     .inputs = {{"x", TH_FILL_NORMAL, 0, 2, {4, 5}}}},
    {"large", th__run_unary, &op, .large = true, .kinks = true, .input_count = 1,
     .inputs = {{"x", TH_FILL_NORMAL, 0, 3, {4, 32, 32}}}},
    {0}};

const th_op th__op_relu = {"relu", backward, checks};

th_tensor *th_relu(th_tape *tape, th_tensor *x) {
  th__point_forward kernel = {th__f32->relu_fwd, th__f64->relu_fwd, .cost = 1};
  return th__pointwise(tape, &th__op_relu, kernel, x);
}
