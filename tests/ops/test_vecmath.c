/* vecmath: the f32 functions against the C library's in f64, over every magnitude and both signs. What
 * an error may be is what vecmath.h claims. */
#include <criterion/criterion.h>

#define TH_REAL_BITS 32
#define TH_ISA test
#include "ops/vecmath.h"

typedef float function(float x);
typedef double reference(double x);

static float step_of(float value) { return nextafterf(fabsf(value), INFINITY) - fabsf(value); }

/* Compares at each 1009th float in low .. high; where the result is below the smallest normal number,
 * the function may also give less of it, or 0. Returns the largest error in units in the last place. */
static double largest_error(function *f, reference *exact, float low, float high) {
  double largest = 0;
  long compared = 0;
  for (uint32_t bits = 0; bits < 0x7F800000u; bits += 1009)
    for (uint32_t sign = 0; sign < 2; sign++) {
      uint32_t pattern = bits | sign << 31;
      float x;
      memcpy(&x, &pattern, sizeof x);
      if (!(x >= low && x <= high)) continue;
      double got = (double)f(x), want = exact((double)x);
      compared++;
      if (fabs(want) < (double)FLT_MIN)
        cr_assert(got >= 0 && got <= want * 1.001 + 1e-44, "x = %.9g: %g", (double)x, got);
      else
        largest = fmax(largest, fabs(got - want) / (double)step_of((float)want));
      cr_assert_not(isnan(got), "x = %.9g", (double)x);
    }
  cr_assert_gt(compared, 50000);
  return largest;
}

static void expect_error_below(function *f, reference *exact, float low, float high, double limit) {
  double error = largest_error(f, exact, low, high);
  cr_assert(error <= limit, "%.3f units in the last place, more than %g", error, limit);
}

static double sigmoid(double x) { return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x)); }
static double pdf(double x) { return 0.39894228040143267794 * exp(-0.5 * x * x); }
static double cdf(double x) { return 0.5 * erfc(-x * 0.70710678118654752440); }

static double sigmoid_slope(double x) { return sigmoid(x) * sigmoid(-x); }
static double silu(double x) { return x * sigmoid(x); }

Test(vecmath, exp) {
  expect_error_below(th__exp, exp, -87.33f, 88.72f, 1.1);
  cr_assert_eq(th__exp(0), 1);
  cr_assert_eq(th__exp(-0.0f), 1);
}

/* No subnormal result, and the ends of the range are where they should be. */
Test(vecmath, exp_ends) {
  for (float x = -86; x > -120; x = nextafterf(x * 1.0001f, -INFINITY)) {
    float y = th__exp(x);
    cr_assert(y == 0 || isnormal(y), "x = %.9g: %g", (double)x, (double)y);
    cr_assert((y == 0) == (x < -87.33654f), "x = %.9g: %g", (double)x, (double)y);
  }
  cr_assert(isfinite(th__exp(88.722f)) && isinf(th__exp(88.7229f)));
  cr_assert(th__exp(-INFINITY) == 0 && th__exp(INFINITY) == INFINITY && isnan(th__exp(NAN)));
  cr_assert(th__exp(-FLT_MAX) == 0 && th__exp(FLT_MAX) == INFINITY);
}

Test(vecmath, sigmoid) {
  expect_error_below(th__sigmoid, sigmoid, -87.33f, FLT_MAX, 3);
  cr_assert(th__sigmoid(-INFINITY) == 0 && th__sigmoid(INFINITY) == 1 && isnan(th__sigmoid(NAN)));
  cr_assert(th__sigmoid(-88) == 0 && th__sigmoid(0) == 0.5f);
}

/* Slopes too small for a normal number are 0, on both sides. */
Test(vecmath, sigmoid_slope) {
  expect_error_below(th__sigmoid_slope, sigmoid_slope, -87.33f, 87.33f, 4.5);
  cr_assert(th__sigmoid_slope(-INFINITY) == 0 && th__sigmoid_slope(INFINITY) == 0);
  cr_assert(isnan(th__sigmoid_slope(NAN)) && th__sigmoid_slope(0) == 0.25f);
  cr_assert(th__sigmoid_slope(88) == 0 && th__sigmoid_slope(-88) == 0);
}

/* Near 0 too the error is a few units in the last place of y, which is as small as x. */
Test(vecmath, tanh) {
  expect_error_below(th__tanh, tanh, FLT_MIN, FLT_MAX, 3);
  expect_error_below(th__tanh, tanh, -FLT_MAX, -FLT_MIN, 3);
  for (float x = FLT_TRUE_MIN; x < FLT_MIN; x *= 3) cr_assert_eq(th__tanh(-x), -x);
  cr_assert(th__tanh(INFINITY) == 1 && th__tanh(-INFINITY) == -1 && isnan(th__tanh(NAN)));
  cr_assert(th__tanh(0) == 0 && !signbit(th__tanh(0)) && signbit(th__tanh(-0.0f)));
}

/* Where two formulas meet, the function does not step down; and it never exceeds 1. */
Test(vecmath, tanh_has_no_seam) {
  for (float x = 0.62f; x < 0.63f; x = nextafterf(x, 2)) {
    float y = th__tanh(x), next = th__tanh(nextafterf(x, 2));
    cr_assert(fabsf(y - next) < 3e-7f, "x = %.9g: %.9g, %.9g", (double)x, (double)y, (double)next);
  }
  for (float x = 8; x < 100; x += 0.0625f) cr_assert(th__tanh(x) <= 1 && th__tanh(-x) >= -1);
}

Test(vecmath, silu) {
  expect_error_below(th__silu, silu, FLT_MIN, FLT_MAX, 4);
  expect_error_below(th__silu, silu, -87.33f, -2 * FLT_MIN, 4);
  cr_assert(th__silu(-INFINITY) == 0 && th__silu(INFINITY) == INFINITY && isnan(th__silu(NAN)));
  cr_assert(th__silu_slope(-INFINITY) == 0 && th__silu_slope(INFINITY) == 1);
  cr_assert(isnan(th__silu_slope(NAN)) && th__silu_slope(0) == 0.5f);
}

Test(vecmath, normal_pdf) {
  expect_error_below(th__normal_pdf, pdf, -FLT_MAX, FLT_MAX, 3);
  cr_assert(th__normal_pdf(-INFINITY) == 0 && th__normal_pdf(INFINITY) == 0);
  cr_assert(isnan(th__normal_pdf(NAN)) && th__normal_pdf(3) == th__normal_pdf(-3));
}

Test(vecmath, normal_cdf) {
  expect_error_below(th__normal_cdf, cdf, -FLT_MAX, -1.125f, 5);
  expect_error_below(th__normal_cdf, cdf, -1.125f, FLT_MAX, 3.5);
  cr_assert(th__normal_cdf(-INFINITY) == 0 && th__normal_cdf(INFINITY) == 1);
  cr_assert(isnan(th__normal_cdf(NAN)) && th__normal_cdf(0) == 0.5f);
}

/* Where two formulas meet, the function does not step. */
Test(vecmath, normal_cdf_has_no_seam) {
  for (float x = 1.12f; x < 1.13f; x = nextafterf(x, 2)) {
    float y = th__normal_cdf(-x), next = th__normal_cdf(-nextafterf(x, 2));
    cr_assert(fabsf(y - next) < 1e-7f, "x = -%.9g: %.9g, %.9g", (double)x, (double)y, (double)next);
  }
}
