/* sigmoid: goldens, tails to their own last digits, every f32 magnitude, infinities, identities,
 * accumulation, views, threads, rejection. */
#include "unary.h"

#include <float.h>

#include "golden/sigmoid.inc"
#include "gradients.h"

TEST_BOTH(sigmoid, golden) {
  expect_golden(dtype, th_sigmoid, 2, golden_sigmoid_plain_x_shape, golden_sigmoid_plain_x,
                golden_sigmoid_plain_dy, golden_sigmoid_plain_y, golden_sigmoid_plain_dx);
}

Test(sigmoid, gradients) { check_gradients("sigmoid"); }

/* From x = 17 on 1 - y is 0 in f32; the slope is not. */
TEST_BOTH(sigmoid, tails_keep_their_digits) {
  expect_tails(dtype, th_sigmoid, golden_sigmoid_tails_x_shape, golden_sigmoid_tails_x,
               golden_sigmoid_tails_dy, golden_sigmoid_tails_y, golden_sigmoid_tails_dx);
}

/* Where e^-|x| is below the smallest normal number, it is 0. */
Test(sigmoid, every_magnitude) {
  f32_against_f64(th_sigmoid, 6e-7, NULL, (double)FLT_MIN, (double)FLT_MIN);
}

TEST_BOTH(sigmoid, infinities_huge_values_and_nan) {
  expect_ends(dtype, th_sigmoid, (double[]){1, 0, 1, 0}, (double[]){0, 0, 0, 0});
}

TEST_BOTH(sigmoid, identities) {
  enum { count = 1000 };
  static double x[count], y[2][count], slope[2][count], mirrored[count];
  for (int i = 0; i < count; i++) {
    x[i] = 0.015625 * i;
    mirrored[i] = -x[i];
  }
  evaluate(dtype, th_sigmoid, count, x, y[0], slope[0]);
  evaluate(dtype, th_sigmoid, count, mirrored, y[1], slope[1]);
  for (int i = 0; i < count; i++) {
    double limit = dtype == TH_F32 ? 4e-7 : 1e-15;
    cr_assert(fabs(y[0][i] + y[1][i] - 1) <= limit, "x = %g", x[i]);
    cr_assert_eq(slope[0][i], slope[1][i], "x = %g", x[i]);
    cr_assert(fabs(slope[0][i] - y[0][i] * y[1][i]) <= 2 * limit * slope[0][i], "x = %g", x[i]);
  }
}

TEST_BOTH(sigmoid, gradients_accumulate) { expect_accumulates(dtype, th_sigmoid); }

TEST_BOTH(sigmoid, views) { expect_views(dtype, th_sigmoid); }

TEST_BOTH(sigmoid, no_elements_and_scalars) { expect_small(dtype, th_sigmoid); }

Test(sigmoid, threads_do_not_matter) { expect_same_bits(th_sigmoid); }

Test(sigmoid, rejects) { expect_rejects(th_sigmoid, "sigmoid: "); }
