/* gelu: goldens, tails to their own last digits, every f32 magnitude, infinities, identities,
 * accumulation, views, rejection. */
#include "unary.h"

#include <float.h>

#include "golden/gelu.inc"

static th_tensor *exact(th_tape *tape, th_tensor *x) { return th_gelu(tape, x, TH_GELU_EXACT); }
static th_tensor *by_tanh(th_tape *tape, th_tensor *x) { return th_gelu(tape, x, TH_GELU_TANH); }

TEST_BOTH(gelu, golden_exact) {
  expect_golden(dtype, exact, 2, golden_gelu_exact_plain_x_shape, golden_gelu_exact_plain_x,
                golden_gelu_exact_plain_dy, golden_gelu_exact_plain_y, golden_gelu_exact_plain_dx);
}

TEST_BOTH(gelu, golden_tanh) {
  expect_golden(dtype, by_tanh, 2, golden_gelu_tanh_plain_x_shape, golden_gelu_tanh_plain_x,
                golden_gelu_tanh_plain_dy, golden_gelu_tanh_plain_y, golden_gelu_tanh_plain_dx);
}

/* Relative to each value itself, down to the smallest normal number. */
static void expect_digits(const char *what, const th_tensor *got, const double *want, double limit,
                          double floor) {
  double values[64];
  th_tensor_read(got, values);
  for (ptrdiff_t i = 0; i < th_tensor_count(got); i++)
    cr_assert(fabs(values[i] - want[i]) <= limit * fabs(want[i]) + floor,
              "%s[%td]: got %.17g, want %.17g", what, i, values[i], want[i]);
}

static void expect_digits_far_out(th_dtype dtype, th_unary_op *op, const double *values,
                                  const double *dy, const double *y, const double *dx,
                                  double limit) {
  double floor = dtype == TH_F32 ? (double)FLT_MIN : DBL_MIN;
  th_tape *tape = th_tape_new();
  th_tensor *x = make(tape, dtype, 1, golden_gelu_exact_tails_x_shape, values);
  th_tensor *out = op(tape, x);
  expect_digits("y", out, y, limit, floor);
  backward_from(tape, out, dy);
  expect_digits("dx", th_tensor_grad(x), dx, limit, floor);
  th_tape_free(tape);
}

/* 1 + erf and 1 + tanh cancel at x = -6 in f32 and at -9 in f64; what is left of y must be right. In
 * the tanh form the limit allows for the rounding of 2u, which reaches 150. */
TEST_BOTH(gelu, tails_keep_their_digits) {
  expect_digits_far_out(dtype, exact, golden_gelu_exact_tails_x, golden_gelu_exact_tails_dy,
                        golden_gelu_exact_tails_y, golden_gelu_exact_tails_dx,
                        dtype == TH_F32 ? 1e-6 : 1e-13);
  expect_digits_far_out(dtype, by_tanh, golden_gelu_tanh_tails_x, golden_gelu_tanh_tails_dy,
                        golden_gelu_tanh_tails_y, golden_gelu_tanh_tails_dx,
                        dtype == TH_F32 ? 1e-5 : 1e-13);
}

/* The slope has a zero near -0.75, around which its two terms, of some 0.2 each, cancel. */
static double cancelled(double x) { return x < -0.3 && x > -1.5 ? 0.2 : 0; }

/* Where e^... falls below the smallest normal number it is 0, which is seen times x in y, and times x
 * and the slope of 2u (some 16) in the slope. */
static void sweep(th_unary_op *op, double limit) {
  f32_against_f64(op, limit, cancelled, 14 * (double)FLT_MIN, 16 * 14 * (double)FLT_MIN);
}

Test(gelu, every_magnitude_exact) { sweep(exact, 8e-7); }
Test(gelu, every_magnitude_tanh) { sweep(by_tanh, 2e-5); }

TEST_BOTH(gelu, infinities_and_nan) {
  const double x[] = {INFINITY, -INFINITY, NAN, 1e30, -1e30}, limits[] = {INFINITY, 0, 0, 1e30, 0};
  const double slopes[] = {1, 0, 0, 1, 0};
  for (int form = 0; form < 2; form++) {
    double y[5], slope[5];
    evaluate(dtype, form == 0 ? exact : by_tanh, 5, x, y, slope);
    for (int i = 0; i < 5; i++) {
      if (i == 2)
        cr_assert(isnan(y[i]) && isnan(slope[i]));
      else {
        cr_assert(y[i] == limits[i] || fabs(y[i] / limits[i] - 1) < 1e-6, "y[%d] = %g", i, y[i]);
        cr_assert_eq(slope[i], slopes[i], "slope[%d] = %g", i, slope[i]);
      }
    }
  }
}

/* P(x) + P(-x) = 1, so y(x) - y(-x) = x; and the slopes at x and -x add up to 1. */
TEST_BOTH(gelu, identities) {
  enum { count = 1000 };
  static double x[count], y[2][count], slope[2][count], mirrored[count];
  for (int i = 0; i < count; i++) {
    x[i] = 0.015625 * i;
    mirrored[i] = -x[i];
  }
  for (int form = 0; form < 2; form++) {
    evaluate(dtype, form == 0 ? exact : by_tanh, count, x, y[0], slope[0]);
    evaluate(dtype, form == 0 ? exact : by_tanh, count, mirrored, y[1], slope[1]);
    for (int i = 0; i < count; i++) {
      double limit = dtype == TH_F32 ? 5e-7 : 1e-15;
      cr_assert(fabs(y[0][i] - y[1][i] - x[i]) <= limit * fmax(1, x[i]), "x = %g", x[i]);
      cr_assert(fabs(slope[0][i] + slope[1][i] - 1) <= limit, "x = %g", x[i]);
    }
  }
}

/* The two forms are what they are called: they differ, by 5e-4 at most (Hendrycks & Gimpel). */
TEST_BOTH(gelu, forms_differ_a_little) {
  enum { count = 400 };
  double x[count], y[2][count], slope[count], largest = 0;
  for (int i = 0; i < count; i++) x[i] = (i - 200) / 40.0;
  evaluate(dtype, exact, count, x, y[0], slope);
  evaluate(dtype, by_tanh, count, x, y[1], slope);
  for (int i = 0; i < count; i++) largest = fmax(largest, fabs(y[0][i] - y[1][i]));
  cr_assert(largest > 3e-4 && largest < 6e-4, "%g", largest);
}

TEST_BOTH(gelu, gradients_accumulate) {
  expect_accumulates(dtype, exact);
  expect_accumulates(dtype, by_tanh);
}

TEST_BOTH(gelu, views) {
  expect_views(dtype, exact);
  expect_views(dtype, by_tanh);
}

TEST_BOTH(gelu, no_elements_and_scalars) { expect_small(dtype, exact); }

Test(gelu, threads_do_not_matter) {
  expect_same_bits(exact);
  expect_same_bits(by_tanh);
}

Test(gelu, rejects) {
  expect_rejects(exact, "gelu: ");
  th_tape *tape = th_tape_new();
  cr_assert_null(th_gelu(tape, th_input(tape, TH_F32, TH_SHAPE(3), NULL), (th_gelu_form)7));
  expect_error(tape, TH_ERR_VALUE, "form 7");
  th_tape_free(tape);
}
