/* Recording sigmoid: saves nothing; the backward reads the input again. */
#include "autograd/record/pointwise.h"

static th_status backward(th_node *node) {
  th__point_backward kernel = {th__f32->sigmoid_bwd, th__f64->sigmoid_bwd, .cost = 10};
  return th__pointwise_backward(node, th_node_input(node, 0), kernel);
}

static th__unary *const op = th_sigmoid;
static const th_check checks[] = {
    {"", th__run_unary, &op, .input_count = 1, .inputs = {{"x", TH_FILL_NORMAL, 0, 2, {3, 5}}}},
    {"saturated", th__run_unary, &op, .input_count = 1,
     .inputs = {{"x", TH_FILL_NORMAL, 8, 2, {3, 5}}}},
    {"transposed", th__run_unary_transposed, &op, .input_count = 1,
     .inputs = {{"x", TH_FILL_NORMAL, 0, 2, {4, 5}}}},
    {"large", th__run_unary, &op, .large = true, .input_count = 1,
     .inputs = {{"x", TH_FILL_NORMAL, 0, 3, {4, 64, 96}}}},
    {0}};

const th_op th__op_sigmoid = {"sigmoid", backward, checks};

th_tensor *th_sigmoid(th_tape *tape, th_tensor *x) {
  th__point_forward kernel = {th__f32->sigmoid_fwd, th__f64->sigmoid_fwd, .cost = 8};
  return th__pointwise(tape, &th__op_sigmoid, kernel, x);
}
