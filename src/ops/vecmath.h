/* vecmath.h: elementary functions written so that any compiler can run them on whole vectors (no
 * branches, no tables, no calls), for use inside `#pragma omp simd` loops. In f64, where only checks
 * run and the last bit matters, they are the C library's.
 *
 *   th__exp(x)         e^x, with 0 in place of subnormal results
 *   th__sigmoid(x)     1 / (1 + e^-x) = (1 + tanh(x/2)) / 2
 *   th__sigmoid_slope(x)  its derivative, s (1 - s) with s = sigmoid(x)
 *   th__tanh(x)        1 - 2 / (1 + e^(2x))
 *   th__normal_pdf(x)  e^(-x^2/2) / sqrt(2 pi)
 *   th__normal_cdf(x)  (1 + erf(x / sqrt 2)) / 2
 *   th__silu(x), th__silu_slope(x)  x sigmoid(x) and its derivative
 *
 * All but exp keep their relative accuracy where they are small; the forms on the right, which
 * contain a 1 that cancels, do not. (The slope of silu has a zero at -1.278, near which it is right to
 * the same absolute error.) NaN stays NaN. tests/ops/test_vecmath.c measures the errors. */
#ifndef TH_OPS_VECMATH_H
#define TH_OPS_VECMATH_H

#include <string.h>

#include "ops/real.h"

#define TH__SQRT_HALF 0.70710678118654752440    /* sqrt(1/2) */
#define TH__INV_SQRT_2PI 0.39894228040143267794 /* 1 / sqrt(2 pi) */

#if TH_REAL_BITS == 32

#define TH__EXP_LOW (-87.33654f) /* e^x is subnormal below */
#define TH__EXP_HIGH 88.72283f   /* and infinite above */

/* e^(x + small) for TH__EXP_LOW <= x <= TH__EXP_HIGH. x = n ln 2 + r with |r| <= ln 2 / 2, and e^r by
 * the polynomial of Moshier's Cephes (expf.c). `small` is what x lost when it was rounded. */
static inline float th__exp_sum(float x, float small) {
  /* Adding 1.5 * 2^23 leaves the nearest integer in the low bits of the sum. */
  const float magic = 12582912.0f;
  float shifted = x * 1.44269504f + magic;
  float n = shifted - magic;
  float r = x - n * 0.693359375f;
  r = r + n * 2.12194440e-4f;
  r = r + small;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = (p * r) * r + r + 1.0f;
  /* n may be 128, whose power of two is no float: two factors. */
  int32_t exponent;
  memcpy(&exponent, &shifted, sizeof exponent);
  exponent -= 0x4B400000;
  int32_t upper = exponent >> 1, lower = exponent - upper;
  int32_t bits1 = (upper + 127) << 23, bits2 = (lower + 127) << 23;
  float factor1, factor2;
  memcpy(&factor1, &bits1, sizeof factor1);
  memcpy(&factor2, &bits2, sizeof factor2);
  return p * factor1 * factor2;
}

/* To 1.1 units in the last place on [-87.33, 88.72]; below exactly 0, above +inf. */
static inline float th__exp(float x) {
  float clamped = x > TH__EXP_LOW ? x : TH__EXP_LOW; /* NaN too becomes a number, for the integers */
  clamped = clamped < TH__EXP_HIGH ? clamped : TH__EXP_HIGH;
  float y = th__exp_sum(clamped, -0.0f);
  y = x < TH__EXP_LOW ? 0.0f : y;
  y = x > TH__EXP_HIGH ? INFINITY : y;
  return x != x ? x : y;
}

/* To 3 units in the last place. */
static inline float th__sigmoid(float x) {
  float e = th__exp(-fabsf(x));
  float y = 1.0f / (1.0f + e); /* of |x|, which no e can overflow */
  return x < 0.0f ? e * y : y;
}

/* To 3 units in the last place, subnormal x included. Below 0.625 by the polynomial of Moshier's Cephes
 * (tanhf.c); beyond, 1 is at least twice what is taken from it. */
static inline float th__tanh(float x) {
  float t = fabsf(x), square = t * t;
  float c = -5.70498872745e-3f;
  c = c * square + 2.06390887954e-2f;
  c = c * square - 5.37397155531e-2f;
  c = c * square + 1.33314422036e-1f;
  c = c * square - 3.33332819422e-1f;
  float middle = t + t * (c * square);
  float outside = 1.0f - 2.0f / (1.0f + th__exp(2.0f * t));
  float y = copysignf(t < 0.625f ? middle : outside, x);
  return x != x ? x : y;
}

/* x * x - square, exactly, if square = x * x rounded. */
static inline float th__square_rest(float x, float square) {
#if defined(__FMA__) || defined(FP_FAST_FMAF)
  return fmaf(x, x, -square);
#else
  /* Dekker 1971: the upper 12 bits of x and the rest; their products are exact. */
  int32_t bits;
  memcpy(&bits, &x, sizeof bits);
  bits &= ~0xFFF;
  float head;
  memcpy(&head, &bits, sizeof head);
  float tail = x - head;
  return ((head * head - square) + 2.0f * head * tail) + tail * tail;
#endif
}

/* e^(-x^2/2). The rounding of x^2 alone would cost x^2/4 units in the last place. */
static inline float th__gauss(float x) {
  float t = fabsf(x);
  t = t < 13.25f ? t : 13.25f; /* e^-87.8: beyond what is still a normal number */
  float square = t * t, rest = th__square_rest(t, square);
  float exponent = -0.5f * square;
  float clamped = exponent > TH__EXP_LOW ? exponent : TH__EXP_LOW;
  float y = th__exp_sum(clamped, -0.5f * rest);
  return exponent < TH__EXP_LOW ? 0.0f : y;
}

/* To 3 units in the last place down to 1.2e-38, |x| < 13.1; 0 beyond. */
static inline float th__normal_pdf(float x) {
  float y = (float)TH__INV_SQRT_2PI * th__gauss(x);
  return x != x ? x : y;
}

/* To 5 units in the last place (to 3.5 for x > -1.125), down to 1.2e-38. With t = |x|: for t < 1.125 it
 * is 1/2 + x times a polynomial in x^2; beyond, cdf(-t) = e^(-t^2/2) m(t) with a function m that falls
 * slowly, and m(t) (t + 2.25) is a polynomial in u = 1 / (t + 2.25), fitted on 1.125 <= t <= 14 to
 * 2e-8. (Shepherd & Laframboise 1981, Math. Comp. 36, 249-253, do much the same.) */
static inline float th__normal_cdf(float x) {
  float square = x * x;
  float c = -7.242097581e-6f;
  c = c * square + 1.124289993e-4f;
  c = c * square - 1.185385860e-3f;
  c = c * square + 9.972982109e-3f;
  c = c * square - 6.649031490e-2f;
  c = c * square + 3.989422917e-1f;
  float middle = 0.5f + x * c;

  float t = fabsf(x);
  t = t < 14.0f ? t : 14.0f;
  float u = 1.0f / (t + 2.25f);
  float m = -73.49253845f;
  m = m * u + 64.24427795f;
  m = m * u + 8.946700096f;
  m = m * u - 22.81487656f;
  m = m * u + 2.263823986f;
  m = m * u + 1.500415564f;
  m = m * u + 1.644761205f;
  m = m * u + 8.967283368e-1f;
  m = m * u + 3.989560902e-1f;
  float below = th__gauss(x) * (m * u);
  float outside = x < 0.0f ? below : 1.0f - below;

  float y = t < 1.125f ? middle : outside;
  return x != x ? x : y;
}

#else

static inline double th__exp(double x) { return x < -708.39641853226408 ? 0.0 : exp(x); }

static inline double th__sigmoid(double x) {
  double e = exp(-fabs(x)), y = 1.0 / (1.0 + e);
  return x < 0.0 ? e * y : y;
}

static inline double th__tanh(double x) { return tanh(x); }

static inline double th__normal_pdf(double x) { return TH__INV_SQRT_2PI * exp(-0.5 * x * x); }
static inline double th__normal_cdf(double x) { return 0.5 * erfc(-TH__SQRT_HALF * x); }

#endif

/* s (1 - s) = e / (1 + e)^2 with e = e^-x, or e^x: it is even. To 4.5 units in the last place. */
static inline real th__sigmoid_slope(real x) {
  real e = th__exp(-RF(fabs)(x)), y = 1 / (1 + e);
  return (e * y) * y;
}

/* Beyond +-1000 sigmoid is 0 or 1 to the last bit in both precisions: with x held there, 0 * inf does
 * not arise. */
#define TH__SILU_FAR RC(1000.0)
static inline real th__silu_above(real x) { return x < -TH__SILU_FAR ? -TH__SILU_FAR : x; }

/* To 4 units in the last place. */
static inline real th__silu(real x) { return th__silu_above(x) * th__sigmoid(x); }

/* s + x s (1 - s) = s (1 + x sigmoid(-x)) */
static inline real th__silu_slope(real x) {
  x = th__silu_above(x) > TH__SILU_FAR ? TH__SILU_FAR : th__silu_above(x);
  return th__sigmoid(x) * (1 + x * th__sigmoid(-x));
}

#endif
