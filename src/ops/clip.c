/* clip: what clipping by the global norm needs of one array. Update kernels: nothing is recorded.
 * Shapes    x : (n), contiguous
 * Computes  sum_squares   *sum = sum_i (x_i / unit)^2, in double. With unit = 1 squares of f32 neither
 *                         overflow nor vanish; f64 beyond 1e+-150 needs unit = the largest |x|.
 *           largest       *max = max_i |x_i|; NaN if there is one, else infinity if there is one
 *           rescale       x_i <- x_i / norm * limit, in double: limit / norm alone may be too small
 * Writes    sum, max: overwrite.  x: in place.
 * Edges     n = 0: sum = max = 0.
 * Checks    goldens, tests/optim/test_clip.c */
#include "ops/real.h"

void RN(sum_squares)(ptrdiff_t n, double unit, const real *x, double *sum) {
  acc total = 0;
  if (unit == 1.0) {
#pragma omp simd reduction(+ : total)
    for (ptrdiff_t i = 0; i < n; i++) total += (acc)x[i] * (acc)x[i];
  } else {
#pragma omp simd reduction(+ : total)
    for (ptrdiff_t i = 0; i < n; i++) total += ((acc)x[i] / unit) * ((acc)x[i] / unit);
  }
  *sum = total;
}

void RN(largest)(ptrdiff_t n, const real *x, double *max) {
  acc top = 0;
  for (ptrdiff_t i = 0; i < n; i++) {
    acc size = fabs((acc)x[i]);
    if (size != size) { /* nothing is larger than NaN */
      top = size;
      break;
    }
    top = size > top ? size : top;
  }
  *max = top;
}

void RN(rescale)(ptrdiff_t n, double norm, double limit, real *x) {
#pragma omp simd
  for (ptrdiff_t i = 0; i < n; i++) x[i] = (real)((acc)x[i] / norm * limit);
}
