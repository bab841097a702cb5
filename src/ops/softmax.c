/* softmax: row-wise softmax over the last axis.
 * Shapes    x y dy dx : (rows, n), row-major, contiguous; dx may not alias dy
 * Forward   m = max_j x_j;  y_i = exp(x_i - m) / sum_j exp(x_j - m)
 * Saves     y  (x is not needed again)
 * Backward  Jacobian J_ij = y_i (delta_ij - y_j).  With g = dL/dy (the argument dy):
 *           dL/dx_j = sum_i g_i J_ij = y_j (g_j - sum_i g_i y_i)                       O(n) per row
 *           g is first shifted by its value at the row's largest y: same result on paper (rows of J
 *           sum to 0), and no cancellation when the row is saturated. The largest entry itself is
 *           minus the sum of the others, which is exact where 1 - y would round to 0.
 * Writes    y: overwrites.  dx: accumulates (+=), always.
 * Edges     n = 0: nothing.  row all -inf: y = 0, dx = 0.  y below RMIN: 0.
 * Checks    rows of dx sum to 0; f(x + c) = f(x).   tests/ops/test_softmax.c */
#include "ops/real.h"
#include "ops/vecmath.h"

static void row_fwd(ptrdiff_t n, const real *restrict x, real *restrict y) {
  real max = -RINF;
#pragma omp simd reduction(max : max)
  for (ptrdiff_t j = 0; j < n; j++) max = x[j] > max ? x[j] : max;
  /* A row of -inf: exp(-inf - 0) = 0 everywhere. NaN is not "> max" and reaches the sum below. */
  if (max == -RINF) max = 0;

  real sum = 0;
#pragma omp simd reduction(+ : sum)
  for (ptrdiff_t j = 0; j < n; j++) {
    real e = th__exp(x[j] - max);
    y[j] = e;
    sum += e;
  }
  real inverse = sum > 0 || sum != sum ? 1 / sum : 0;
#pragma omp simd
  for (ptrdiff_t j = 0; j < n; j++) {
    real p = y[j] * inverse;
    y[j] = p < RMIN ? 0 : p;
  }
}

void RN(softmax_fwd)(ptrdiff_t rows, ptrdiff_t n, const real *x, real *y) {
  for (ptrdiff_t i = 0; i < rows; i++) row_fwd(n, x + i * n, y + i * n);
}

static void row_bwd(ptrdiff_t n, const real *restrict y, const real *restrict dy,
                    real *restrict dx) {
  ptrdiff_t top = 0;
  for (ptrdiff_t j = 1; j < n; j++)
    if (y[j] > y[top]) top = j;
  real shift = dy[top];

  real dot = 0; /* sum over j of y_j (g_j - shift): the term of `top` is 0 */
#pragma omp simd reduction(+ : dot)
  for (ptrdiff_t j = 0; j < n; j++) dot += y[j] * (dy[j] - shift);
#pragma omp simd
  for (ptrdiff_t j = 0; j < n; j++) dx[j] += y[j] * (dy[j] - shift - dot);
}

void RN(softmax_bwd)(ptrdiff_t rows, ptrdiff_t n, const real *y, const real *dy, real *dx) {
  if (n == 0) return;
  for (ptrdiff_t i = 0; i < rows; i++) row_bwd(n, y + i * n, dy + i * n, dx + i * n);
}
