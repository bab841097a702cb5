/* mean: over one axis or all; recorded as a sum with a factor (reduce.c), derived in src/ops/sum.c.
 * Forward   y_j = sum_i x_ij / r  over the r elements of the axis
 * Backward  dy_j/dx_ij = 1 / r, so dL/dx_ij = g_j / r with g = dL/dy
 * Checks    r times the mean is the sum.   tests/ops/test_mean.c */
#include "autograd/record/reduce.h"

static th_tensor *run(th_tape *tape, th_tensor *const *in, const void *context) {
  return th_mean(tape, in[0], *(const int *)context);
}

static th_tensor *run_transposed(th_tape *tape, th_tensor *const *in, const void *context) {
  return th_mean(tape, th_transpose(tape, in[0], 0, 1), *(const int *)context);
}

static const int all = TH_ALL_AXES, first = 0, middle = 1, last = -1;
#define X(...)                                                                                     \
  {                                                                                                \
    { "x", TH_FILL_NORMAL, 0, __VA_ARGS__ }                                                        \
  }
static const th_check checks[] = {
    {"all", run, &all, .input_count = 1, .inputs = X(3, {2, 3, 4})},
    {"first axis", run, &first, .input_count = 1, .inputs = X(3, {2, 3, 4})},
    {"middle axis", run, &middle, .input_count = 1, .inputs = X(3, {2, 3, 4})},
    {"last axis", run, &last, .input_count = 1, .inputs = X(3, {2, 3, 4})},
    {"transposed", run_transposed, &middle, .input_count = 1, .inputs = X(2, {3, 4})},
    {"all, large", run, &all, .large = true, .input_count = 1, .inputs = X(3, {4, 64, 96})},
    {"middle axis, large", run, &middle, .large = true, .input_count = 1,
     .inputs = X(3, {4, 64, 96})},
    {0}};
#undef X

const th_op th__op_mean = {"mean", th__reduce_backward, checks};

th_tensor *th_mean(th_tape *tape, th_tensor *x, int axis) {
  return th__reduce(tape, &th__op_mean, x, axis, true);
}
