/* sigmoid: y = 1 / (1 + e^-x), element by element.
 * Shapes    x y dy dx : n elements, contiguous
 * Forward   with e = e^-|x| <= 1:  y = 1 / (1 + e) for x >= 0,  e / (1 + e) for x < 0; nothing overflows
 * Saves     nothing beside its input
 * Backward  dy/dx = y (1 - y) = e / (1 + e)^2, so with g = dL/dy: dL/dx = g e / (1 + e)^2
 *           From y alone it cannot be had: 1 - y is 0 in f32 from x = 17 on, while the slope is 4e-8
 *           there and a normal number up to x = 87. Hence x is read again, not y.
 * Writes    y: overwrites.  dx: accumulates (+=), always.
 * Edges     -inf: y = 0, inf: y = 1, slope 0.  NaN stays NaN.  y and slope below RMIN are 0.
 * Checks    y(x) + y(-x) = 1; the slope is even.   tests/ops/test_sigmoid.c */
#include "ops/real.h"
#include "ops/vecmath.h"

void RN(sigmoid_fwd)(ptrdiff_t n, const real *restrict x, real *restrict y) {
#pragma omp simd
  for (ptrdiff_t i = 0; i < n; i++) y[i] = th__sigmoid(x[i]);
}

void RN(sigmoid_bwd)(ptrdiff_t n, const real *restrict x, const real *restrict dy,
                     real *restrict dx) {
#pragma omp simd
  for (ptrdiff_t i = 0; i < n; i++) dx[i] += dy[i] * th__sigmoid_slope(x[i]);
}
