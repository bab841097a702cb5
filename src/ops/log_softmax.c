/* log_softmax: row-wise logarithm of the softmax over the last axis.
 * Shapes    x y dy dx: (rows, n), stats: (rows, 2), contiguous; dx may not alias dy
 * Forward   t = the row's first largest entry;  o = sum_{j != t} exp(x_j - x_t)
 *           y_j = (x_j - x_t) - log(1 + o)
 *           The maximum goes first (1e8 and its neighbours keep their differences), and 1 + o is never
 *           formed: y_t = -log1p(o) keeps its digits where o is small.
 * Saves     x_t and o of each row; x is on the tape.  exp(y_j) would be worse: y is rounded
 * Backward  p_j = exp(y_j) = exp(x_j - x_t) / (1 + o).  dy_i/dx_j = delta_ij - p_j, with g = dL/dy:
 *           dL/dx_j = g_j - p_j sum_i g_i                                               O(n) per row
 *           At t, where 1 - p_t may round to 0, the same with g_t's own part gathered:
 *           dL/dx_t = g_t (1 - p_t) - p_t sum_{i != t} g_i,  1 - p_t = o / (1 + o)
 * Writes    y, stats: overwrites.  dx: accumulates (+=), always.
 * Edges     n = 0: nothing.  entry -inf: y = -inf, dx = g.  row all -inf: y = -inf, dx = 0.  A weight
 *           below RMIN counts as 0.
 * Checks    rows of dx sum to 0; f(x + c) = f(x).   tests/ops/test_log_softmax.c */
#include "ops/real.h"
#include "ops/rowsum.h"
#include "ops/vecmath.h"

#define STATS 2 /* x_t, o */

static void row_fwd(ptrdiff_t n, const real *restrict x, real *restrict y, real *restrict stats) {
  ptrdiff_t t = th__largest(n, x);
  real max = x[t];
  if (max == -RINF) { /* all -inf */
    for (ptrdiff_t j = 0; j < n; j++) y[j] = -RINF;
    stats[0] = max;
    stats[1] = 0;
    return;
  }
  acc others = th__sum_exp(n, x, max, t);
  real log_sum = (real)log1p(others + (acc)(max - max)); /* max - max: NaN if max is infinite */
#pragma omp simd
  for (ptrdiff_t j = 0; j < n; j++) y[j] = (x[j] - max) - log_sum;
  stats[0] = max;
  stats[1] = (real)others;
}

void RN(log_softmax_fwd)(ptrdiff_t rows, ptrdiff_t n, const real *x, real *y, real *stats) {
  if (n == 0) return;
  for (ptrdiff_t i = 0; i < rows; i++) row_fwd(n, x + i * n, y + i * n, stats + i * STATS);
}

static void row_bwd(ptrdiff_t n, const real *restrict x, const real *restrict stats,
                    const real *restrict dy, real *restrict dx) {
  real max = stats[0];
  if (max == -RINF) return;
  ptrdiff_t t = 0;
  while (t < n - 1 && x[t] != max) t++;
  acc others = (acc)stats[1], inverse = 1 / (1 + others);
  acc rest = th__sum_others(n, dy, t); /* sum of g without g_t */
  real top = (real)((acc)dy[t] * (others * inverse) - inverse * rest);
  real sum = (real)(rest + (acc)dy[t]), scale = (real)inverse;

  real before = dx[t];
#pragma omp simd
  for (ptrdiff_t j = 0; j < n; j++) {
    real p = th__exp(x[j] - max) * scale;
    dx[j] += dy[j] - (p < RMIN ? 0 : p) * sum;
  }
  dx[t] = before + top;
}

void RN(log_softmax_bwd)(ptrdiff_t rows, ptrdiff_t n, const real *x, const real *stats,
                         const real *dy, real *dx) {
  if (n == 0) return;
  for (ptrdiff_t i = 0; i < rows; i++)
    row_bwd(n, x + i * n, stats + i * STATS, dy + i * n, dx + i * n);
}
