/* tanh: goldens, tails to their own last digits, every f32 magnitude, infinities, identities,
 * accumulation, views, threads, rejection. */
#include "unary.h"

#include <float.h>

#include "golden/tanh.inc"
#include "gradients.h"

TEST_BOTH(tanh, golden) {
  expect_golden(dtype, th_tanh, 2, golden_tanh_plain_x_shape, golden_tanh_plain_x,
                golden_tanh_plain_dy, golden_tanh_plain_y, golden_tanh_plain_dx);
}

Test(tanh, gradients) { check_gradients("tanh"); }

/* From x = 9.5 on 1 - y^2 is 0 in f32, and 1 + y at -9.5; the slope is not. And at 2^-60 y is x. */
TEST_BOTH(tanh, tails_keep_their_digits) {
  expect_tails(dtype, th_tanh, golden_tanh_tails_x_shape, golden_tanh_tails_x, golden_tanh_tails_dy,
               golden_tanh_tails_y, golden_tanh_tails_dx);
}

/* Numbers below the smallest normal one may count as 0, and so may a slope. */
Test(tanh, every_magnitude) {
  f32_against_f64(th_tanh, 6e-7, NULL, (double)FLT_MIN, 4 * (double)FLT_MIN);
}

TEST_BOTH(tanh, infinities_huge_values_and_nan) {
  expect_ends(dtype, th_tanh, (double[]){1, -1, 1, -1}, (double[]){0, 0, 0, 0});
}

/* Odd, with an even slope, to the last bit. */
TEST_BOTH(tanh, identities) {
  enum { count = 1000 };
  static double x[count], y[2][count], slope[2][count], mirrored[count];
  for (int i = 0; i < count; i++) {
    x[i] = 0.015625 * i;
    mirrored[i] = -x[i];
  }
  evaluate(dtype, th_tanh, count, x, y[0], slope[0]);
  evaluate(dtype, th_tanh, count, mirrored, y[1], slope[1]);
  for (int i = 0; i < count; i++) {
    cr_assert_eq(y[0][i], -y[1][i], "x = %g", x[i]);
    cr_assert_eq(slope[0][i], slope[1][i], "x = %g", x[i]);
    cr_assert(fabs(slope[0][i] + y[0][i] * y[0][i] - 1) <= (dtype == TH_F32 ? 4e-7 : 1e-15));
  }
}

TEST_BOTH(tanh, zero_keeps_its_sign) {
  double y[2], slope[2];
  evaluate(dtype, th_tanh, 2, (double[]){0, -0.0}, y, slope);
  cr_assert(y[0] == 0 && y[1] == 0 && !signbit(y[0]) && signbit(y[1]));
  cr_assert(slope[0] == 1 && slope[1] == 1);
}

TEST_BOTH(tanh, gradients_accumulate) { expect_accumulates(dtype, th_tanh); }

TEST_BOTH(tanh, views) { expect_views(dtype, th_tanh); }

TEST_BOTH(tanh, no_elements_and_scalars) { expect_small(dtype, th_tanh); }

Test(tanh, threads_do_not_matter) { expect_same_bits(th_tanh); }

Test(tanh, rejects) { expect_rejects(th_tanh, "tanh: "); }
