/* silu: goldens, tails to their own last digits, every f32 magnitude, infinities, identities,
 * accumulation, views, threads, rejection. */
#include "unary.h"

#include <float.h>

#include "golden/silu.inc"
#include "gradients.h"

TEST_BOTH(silu, golden) {
  expect_golden(dtype, th_silu, 2, golden_silu_plain_x_shape, golden_silu_plain_x,
                golden_silu_plain_dy, golden_silu_plain_y, golden_silu_plain_dx);
}

Test(silu, gradients) { check_gradients("silu"); }

/* From x = 17 on 1 - sigmoid is 0 in f32. */
TEST_BOTH(silu, tails_keep_their_digits) {
  expect_tails(dtype, th_silu, golden_silu_tails_x_shape, golden_silu_tails_x, golden_silu_tails_dy,
               golden_silu_tails_y, golden_silu_tails_dx);
}

/* The slope has a zero at -1.278, around which 1 and x sigmoid(-x) cancel. */
static double cancelled(double x) { return x < -0.5 && x > -2.5 ? 0.25 : 0; }

/* Where e^-|x| is below the smallest normal number, it is 0: seen times x, which is -87 there. */
Test(silu, every_magnitude) {
  f32_against_f64(th_silu, 8e-7, cancelled, 88 * (double)FLT_MIN, 88 * (double)FLT_MIN);
}

TEST_BOTH(silu, infinities_huge_values_and_nan) {
  expect_ends(dtype, th_silu, (double[]){INFINITY, 0, INFINITY, 0}, (double[]){1, 0, 1, 0});
}

/* y(x) - y(-x) = x, and the slopes at x and -x add up to 1. */
TEST_BOTH(silu, identities) {
  enum { count = 1000 };
  static double x[count], y[2][count], slope[2][count], mirrored[count];
  for (int i = 0; i < count; i++) {
    x[i] = 0.015625 * i;
    mirrored[i] = -x[i];
  }
  evaluate(dtype, th_silu, count, x, y[0], slope[0]);
  evaluate(dtype, th_silu, count, mirrored, y[1], slope[1]);
  for (int i = 0; i < count; i++) {
    double limit = dtype == TH_F32 ? 5e-7 : 1e-15;
    cr_assert(fabs(y[0][i] - y[1][i] - x[i]) <= limit * fmax(1, x[i]), "x = %g", x[i]);
    cr_assert(fabs(slope[0][i] + slope[1][i] - 1) <= 2 * limit, "x = %g", x[i]);
  }
}

TEST_BOTH(silu, gradients_accumulate) { expect_accumulates(dtype, th_silu); }

TEST_BOTH(silu, views) { expect_views(dtype, th_silu); }

TEST_BOTH(silu, no_elements_and_scalars) { expect_small(dtype, th_silu); }

Test(silu, threads_do_not_matter) { expect_same_bits(th_silu); }

Test(silu, rejects) { expect_rejects(th_silu, "silu: "); }
