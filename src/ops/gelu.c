/* gelu: y = x P(x), where P is the normal distribution function, or its tanh approximation.
 * Shapes    x y dy dx : n elements, contiguous
 * Forward   exact   P(x) = (1 + erf(x / sqrt 2)) / 2
 *           tanh    P(x) = (1 + tanh u) / 2 with u = sqrt(2 / pi) (x + 0.044715 x^3)
 *           As 1 + tanh u = 2 / (1 + e^(-2u)), the latter is sigmoid(2u), which unlike 1 + tanh u does
 *           not cancel on the negative side. Likewise th__normal_cdf instead of 1 + erf.
 * Saves     nothing beside its input
 * Backward  dy/dx = P(x) + x P'(x), and dL/dx = g dy/dx with g = dL/dy:
 *           exact   P'(x) = e^(-x^2/2) / sqrt(2 pi)
 *           tanh    with s = sigmoid(2u): ds/d(2u) = s (1 - s) = sigmoid(2u) sigmoid(-2u), so that
 *                   P'(x) = s sigmoid(-2u) d(2u)/dx,  d(2u)/dx = 2 sqrt(2 / pi) (1 + 3 0.044715 x^2)
 * Writes    y: overwrites.  dx: accumulates (+=), always.
 * Edges     x = -inf: y = 0, slope 0.  x = inf: y = inf, slope 1.  NaN stays NaN. Where P is 0 or 1 to
 *           the last bit, x is replaced by +-40, so that 0 * inf does not arise.
 * Checks    y(x) - y(-x) = x.   tests/ops/test_gelu.c */
#include "ops/real.h"
#include "ops/vecmath.h"

#define FAR RC(40.0)
#define SLOPE RC(1.5957691216057307117598) /* 2 sqrt(2/pi) */
#define CUBIC RC(0.044715)

static inline real above(real x) { return x < -FAR ? -FAR : x; }
static inline real within(real x) { return above(x) > FAR ? FAR : above(x); }

static inline real twice_u(real x) { return SLOPE * x * (1 + CUBIC * x * x); }

static inline real exact_slope(real x) { return th__normal_cdf(x) + x * th__normal_pdf(x); }

static inline real tanh_slope(real x) {
  real s = th__sigmoid(twice_u(x)), rest = th__sigmoid(-twice_u(x));
  return s + x * (s * rest) * (SLOPE * (1 + 3 * CUBIC * x * x));
}

void RN(gelu_fwd)(ptrdiff_t n, bool tanh_form, const real *restrict x, real *restrict y) {
  if (tanh_form) {
#pragma omp simd
    for (ptrdiff_t i = 0; i < n; i++) y[i] = above(x[i]) * th__sigmoid(twice_u(within(x[i])));
  } else {
#pragma omp simd
    for (ptrdiff_t i = 0; i < n; i++) y[i] = above(x[i]) * th__normal_cdf(x[i]);
  }
}

void RN(gelu_bwd)(ptrdiff_t n, bool tanh_form, const real *restrict x, const real *restrict dy,
                  real *restrict dx) {
  if (tanh_form) {
#pragma omp simd
    for (ptrdiff_t i = 0; i < n; i++) dx[i] += dy[i] * tanh_slope(within(x[i]));
  } else {
#pragma omp simd
    for (ptrdiff_t i = 0; i < n; i++) dx[i] += dy[i] * exact_slope(within(x[i]));
  }
}
