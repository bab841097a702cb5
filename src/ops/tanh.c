/* tanh: y = tanh x, element by element.
 * Shapes    x y dy dx : n elements, contiguous
 * Forward   y = (e^x - e^-x) / (e^x + e^-x)      th__tanh (vecmath.h): y is right to its last digits for
 *           small x too, where 1 - 2 / (1 + e^(2x)) would cancel
 * Saves     nothing beside its input
 * Backward  dy/dx = 1 - y^2 = 1 / cosh(x)^2 = 4 e^(-2|x|) / (1 + e^(-2|x|))^2, so with g = dL/dy:
 *           dL/dx = g 4 sigmoid_slope(2x)
 *           From y alone it cannot be had: 1 - y^2 is 0 in f32 from x = 9.02 on, while the slope is
 *           6e-8 there and a normal number up to x = 44. Hence x is read again, not y.
 * Writes    y: overwrites.  dx: accumulates (+=), always.
 * Edges     +-inf: y = +-1, slope 0.  NaN stays NaN.  A slope below RMIN is 0.
 * Checks    tanh(-x) = -tanh(x); tanh(x) = 2 sigmoid(2x) - 1.   tests/ops/test_tanh.c */
#include "ops/real.h"
#include "ops/vecmath.h"

void RN(tanh_fwd)(ptrdiff_t n, const real *restrict x, real *restrict y) {
#pragma omp simd
  for (ptrdiff_t i = 0; i < n; i++) y[i] = th__tanh(x[i]);
}

void RN(tanh_bwd)(ptrdiff_t n, const real *restrict x, const real *restrict dy, real *restrict dx) {
#pragma omp simd
  for (ptrdiff_t i = 0; i < n; i++) dx[i] += dy[i] * (4 * th__sigmoid_slope(2 * x[i]));
}
