/* scale: y = f x for one number f.
 * Shapes    x y dy dx : n elements, contiguous
 * Forward   y_i = f x_i
 * Saves     f
 * Backward  dy_i/dx_i = f, so dL/dx_i = f g_i with g = dL/dy: add_bwd (add.c) with factor f
 * Writes    y: overwrites.
 * Checks    scale(scale(x, 1/4), 4) = x.   tests/ops/test_scale.c */
#include "ops/real.h"

void RN(scale_fwd)(ptrdiff_t n, double factor, const real *restrict x, real *restrict y) {
  const real f = (real)factor;
#pragma omp simd
  for (ptrdiff_t i = 0; i < n; i++) y[i] = f * x[i];
}
