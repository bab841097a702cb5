/* silu: y = x s(x) with s = sigmoid (Elfwing, Uchibe & Doya 2017, arXiv:1702.03118), element by element.
 * Shapes    x y dy dx : n elements, contiguous
 * Forward   y = x s(x)
 * Saves     nothing beside its input
 * Backward  dy/dx = s + x s (1 - s) = s(x) (1 + x s(-x)), so with g = dL/dy: dL/dx = g s(x) (1 + x s(-x))
 *           s(-x) in place of 1 - s(x), which is 0 in f32 from x = 17 on.
 * Writes    y: overwrites.  dx: accumulates (+=), always.
 * Edges     x = -inf: y = 0, slope 0.  x = inf: y = inf, slope 1.  NaN stays NaN.  Where e^x is below
 *           RMIN, y and slope are 0.
 * Checks    y(x) - y(-x) = x; the slopes at x and -x add up to 1.   tests/ops/test_silu.c */
#include "ops/real.h"
#include "ops/vecmath.h"

void RN(silu_fwd)(ptrdiff_t n, const real *restrict x, real *restrict y) {
#pragma omp simd
  for (ptrdiff_t i = 0; i < n; i++) y[i] = th__silu(x[i]);
}

void RN(silu_bwd)(ptrdiff_t n, const real *restrict x, const real *restrict dy, real *restrict dx) {
#pragma omp simd
  for (ptrdiff_t i = 0; i < n; i++) dx[i] += dy[i] * th__silu_slope(x[i]);
}
