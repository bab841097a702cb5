/* relu: golden, the kink (C14), NaN and Inf, properties, accumulation, views, rejection. */
#include "unary.h"

#include "golden/relu.inc"

TEST_BOTH(relu, golden) {
  expect_golden(dtype, th_relu, 2, golden_relu_plain_x_shape, golden_relu_plain_x,
                golden_relu_plain_dy, golden_relu_plain_y, golden_relu_plain_dx);
}

/* C14: the derivative at 0, of either sign, is 0; beside it, it is 0 or 1. */
TEST_BOTH(relu, derivative_at_zero_is_zero) {
  th_tape *tape = th_tape_new();
  th_tensor *x = make(tape, dtype, TH_SHAPE(6), (double[]){0, -0.0, 1e-7, -1e-7, 1e-30, -1e-30});
  th_tensor *y = th_relu(tape, x);
  backward_from(tape, y, (double[]){2, 3, 4, 5, 6, 7});
  expect_values("dx", th_tensor_grad(x), (double[]){0, 0, 4, 0, 6, 0}, 0);
  double values[6];
  th_tensor_read(y, values);
  cr_assert(values[1] == 0 && !signbit(values[1]));
  th_tape_free(tape);
}

/* NaN and Inf come through; where y is 0, an upstream NaN is left out rather than multiplied by 0. */
TEST_BOTH(relu, nan_and_inf) {
  th_tape *tape = th_tape_new();
  th_tensor *x = make(tape, dtype, TH_SHAPE(5), (double[]){NAN, INFINITY, -INFINITY, -1, 1});
  th_tensor *y = th_relu(tape, x);
  double values[5];
  th_tensor_read(y, values);
  cr_assert(isnan(values[0]) && isinf(values[1]) && values[2] == 0 && values[3] == 0);
  backward_from(tape, y, (double[]){2, 3, NAN, INFINITY, NAN});
  th_tensor_read(th_tensor_grad(x), values);
  cr_assert(values[0] == 2 && values[1] == 3 && values[2] == 0 && values[3] == 0);
  cr_assert(isnan(values[4]));
  th_tape_free(tape);
}

/* relu(relu(x)) = relu(x) and relu(x) - relu(-x) = x, bit for bit. */
TEST_BOTH(relu, identities) {
  enum { count = 1000 };
  th_tape *tape = th_tape_new();
  th_tensor *x = th_input(tape, dtype, TH_SHAPE(count), NULL);
  th_init_normal(x, 0, 1, (th_random){11, 0, 0});
  th_tensor *y = th_relu(tape, x);
  th_tensor *back = th_sub(tape, y, th_relu(tape, th_scale(tape, x, -1)));
  size_t bytes = count * th_dtype_size(dtype);
  cr_assert(memcmp(th_tensor_data(th_relu(tape, y)), th_tensor_data(y), bytes) == 0);
  cr_assert(memcmp(th_tensor_data(back), th_tensor_data(x), bytes) == 0);
  th_tape_free(tape);
}

TEST_BOTH(relu, gradients_accumulate) { expect_accumulates(dtype, th_relu); }
TEST_BOTH(relu, views) { expect_views(dtype, th_relu); }
TEST_BOTH(relu, no_elements_and_scalars) { expect_small(dtype, th_relu); }
Test(relu, threads_do_not_matter) { expect_same_bits(th_relu); }
Test(relu, rejects) { expect_rejects(th_relu, "relu: "); }
