/* vecmath.h: elementary functions written so that any compiler can run them on whole vectors (no
 * branches, no tables, no calls), for use inside `#pragma omp simd` loops. In f64, where only checks
 * run and the last bit matters, they are the C library's. */
#ifndef TH_OPS_VECMATH_H
#define TH_OPS_VECMATH_H

#include <string.h>

#include "ops/real.h"

#if TH_REAL_BITS == 32

/* e^x to 1.1 units in the last place on [-87.33, 88.72]; below it exactly 0 (the result would be
 * subnormal), above it +inf; NaN stays NaN. x = n ln 2 + r with |r| <= ln 2 / 2, and e^r by the
 * polynomial of Moshier's Cephes (expf.c). */
static inline float th__exp(float x) {
  const float low = -87.33654f, high = 88.72283f;
  float clamped = x < low ? low : x;
  clamped = clamped > high ? high : clamped;
  /* Adding 1.5 * 2^23 leaves the nearest integer in the low bits of the sum. */
  const float magic = 12582912.0f;
  float shifted = clamped * 1.44269504f + magic;
  float n = shifted - magic;
  float r = clamped - n * 0.693359375f;
  r = r + n * 2.12194440e-4f;
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
  float y = p * factor1 * factor2;
  y = x < low ? 0.0f : y;
  y = x > high ? INFINITY : y;
  return x != x ? x : y;
}

#else

static inline double th__exp(double x) { return x < -708.39641853226408 ? 0.0 : exp(x); }

#endif

#endif
