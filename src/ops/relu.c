/* relu: y = max(x, 0).
 * Shapes    x y dy dx : n elements, contiguous
 * Forward   y_i = x_i if x_i > 0, otherwise 0
 * Saves     nothing but its own output (y > 0 exactly where x > 0)
 * Backward  dy_i/dx_i = 1 where x_i > 0 and 0 where x_i < 0; at x_i = 0 there is a kink, and the
 *           derivative is taken to be 0: dL/dx_i = g_i if y_i > 0, otherwise 0, with g = dL/dy
 * Writes    y: overwrites.  dx: accumulates (+=), always.
 * Edges     NaN is not "<= 0": it comes through, forward, and takes its upstream gradient with it.
 *           A masked upstream NaN or Inf is left out, not multiplied by 0.
 * Checks    relu(relu(x)) = relu(x); relu(x) - relu(-x) = x.   tests/ops/test_relu.c */
#include "ops/real.h"

void RN(relu_fwd)(ptrdiff_t n, const real *restrict x, real *restrict y) {
#pragma omp simd
  for (ptrdiff_t i = 0; i < n; i++) y[i] = x[i] <= 0 ? 0 : x[i];
}

void RN(relu_bwd)(ptrdiff_t n, const real *restrict y, const real *restrict dy, real *restrict dx) {
#pragma omp simd
  for (ptrdiff_t i = 0; i < n; i++) {
    real g = dy[i]; /* read in any case: a conditional read does not vectorise everywhere */
    dx[i] += y[i] <= 0 ? 0 : g;
  }
}
