/* softmax: goldens, accumulation, properties, saturation (C04), subnormals, rejection. */
#include "support.h"

#include "golden/softmax.inc"

TEST_BOTH(softmax, golden) {
  th_tape *tape = th_tape_new();
  th_tensor *x = make(tape, dtype, 2, golden_softmax_rank2_x_shape, golden_softmax_rank2_x);
  th_tensor *y = th_softmax(tape, x);
  expect_values("y", y, golden_softmax_rank2_y, tolerances[dtype].value);
  backward_from(tape, y, golden_softmax_rank2_dy);
  expect_values("dx", th_tensor_grad(x), golden_softmax_rank2_dx, tolerances[dtype].gradient);
  th_tape_free(tape);
}

/* C04: gradients +-p(1-p) keep their relative accuracy however far apart the logits are. */
TEST_BOTH(softmax, saturated_gradient_is_exact) {
  const double gaps[] = {10, 20, 40, 64};
  th_tape *tape = th_tape_new();
  for (int i = 0; i < 4; i++) {
    th_tensor *x = make(tape, dtype, TH_SHAPE(1, 2), (double[]){gaps[i], 0});
    backward_from(tape, th_softmax(tape, x), (double[]){1, 0});
    double e = exp(-gaps[i]), pq = e / ((1 + e) * (1 + e));
    expect_relative("dx", th_tensor_grad(x), (double[]){pq, -pq}, dtype == TH_F32 ? 1e-6 : 1e-14);
    th_tape_reset(tape);
  }
  th_tape_free(tape);
}

TEST_BOTH(softmax, two_uses_add_up) {
  th_tape *tape = th_tape_new();
  th_tensor *x = make(tape, dtype, 2, golden_softmax_rank2_x_shape, golden_softmax_rank2_x);
  th_tensor *y = th_add(tape, th_softmax(tape, x), th_softmax(tape, x));
  double twice[15];
  for (int i = 0; i < 15; i++) twice[i] = 2 * golden_softmax_rank2_dx[i];
  backward_from(tape, y, golden_softmax_rank2_dy);
  expect_values("dx", th_tensor_grad(x), twice, tolerances[dtype].gradient);
  th_tape_free(tape);
}

TEST_BOTH(softmax, row_of_minus_infinity_gives_zeros) {
  th_tape *tape = th_tape_new();
  th_tensor *x = make(tape, dtype, TH_SHAPE(2, 2), (double[]){-INFINITY, -INFINITY, -INFINITY, 3});
  th_tensor *y = th_softmax(tape, x);
  expect_values("y", y, (double[]){0, 0, 0, 1}, 0);
  backward_from(tape, y, (double[]){1, 2, 3, 4});
  expect_values("dx", th_tensor_grad(x), (double[]){0, 0, 0, 0}, 0);
  th_tape_free(tape);
}

/* C27: weights too small for a normal number are 0, not subnormal. */
Test(softmax, no_subnormal_weights) {
  th_tape *tape = th_tape_new();
  for (double gap = 80; gap < 110; gap += 0.25) {
    th_tensor *y = th_softmax(tape, make(tape, TH_F32, TH_SHAPE(1, 2), (double[]){0, -gap}));
    float weight = ((const float *)th_tensor_data(y))[1];
    cr_assert(weight == 0 || isnormal(weight), "gap %g: %g", gap, (double)weight);
    th_tape_reset(tape);
  }
  th_tape_free(tape);
}

Test(softmax, nan_comes_through) {
  th_tape *tape = th_tape_new();
  th_tensor *y = th_softmax(tape, make(tape, TH_F32, TH_SHAPE(1, 3), (double[]){1, NAN, 2}));
  for (int i = 0; i < 3; i++) cr_assert(isnan(((const float *)th_tensor_data(y))[i]));
  th_tape_free(tape);
}

Test(softmax, rejects) {
  th_tape *tape = th_tape_new();
  cr_assert_null(th_softmax(tape, th_input(tape, TH_F32, TH_SCALAR, NULL)));
  expect_error(tape, TH_ERR_SHAPE, "scalar");
  cr_assert_null(th_softmax(tape, th_input(tape, TH_I32, TH_SHAPE(2), NULL)));
  expect_error(tape, TH_ERR_DTYPE, "i32");
  cr_assert_null(th_softmax(tape, NULL));
  expect_error(tape, TH_ERR_VALUE, "NULL");
  th_tape_free(tape);
}
