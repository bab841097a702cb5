/* mean: over one axis or all; recorded as a sum with a factor (reduce.c), derived in src/ops/sum.c.
 * Forward   y_j = sum_i x_ij / r  over the r elements of the axis
 * Backward  dy_j/dx_ij = 1 / r, so dL/dx_ij = g_j / r with g = dL/dy
 * Checks    r times the mean is the sum.   tests/ops/test_mean.c */
#include "autograd/record/reduce.h"

static const th__reduction all = {th_mean, TH_ALL_AXES}, first = {th_mean, 0},
                           middle = {th_mean, 1}, last = {th_mean, -1};
#define X(...)                                                                                     \
  {                                                                                                \
    { "x", TH_FILL_NORMAL, 0, __VA_ARGS__ }                                                        \
  }
static const th_check checks[] = {
    {"all", th__run_reduction, &all, .input_count = 1, .inputs = X(3, {2, 3, 4})},
    {"first axis", th__run_reduction, &first, .input_count = 1, .inputs = X(3, {2, 3, 4})},
    {"middle axis", th__run_reduction, &middle, .input_count = 1, .inputs = X(3, {2, 3, 4})},
    {"last axis", th__run_reduction, &last, .input_count = 1, .inputs = X(3, {2, 3, 4})},
    {"transposed", th__run_reduction_transposed, &middle, .input_count = 1, .inputs = X(2, {3, 4})},
    {"all, large", th__run_reduction, &all, .large = true, .input_count = 1,
     .inputs = X(3, {4, 64, 96})},
    {"middle axis, large", th__run_reduction, &middle, .large = true, .input_count = 1,
     .inputs = X(3, {4, 64, 96})},
    {0}};
#undef X

const th_op th__op_mean = {"mean", th__reduce_backward, checks};

th_tensor *th_mean(th_tape *tape, th_tensor *x, int axis) {
  return th__reduce(tape, &th__op_mean, x, axis, true);
}
