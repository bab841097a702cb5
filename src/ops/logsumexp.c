/* logsumexp: row-wise logarithm of the sum of exponentials over the last axis.
 * Shapes    x dx: (rows, n), y dy: (rows), stats: (rows, 2), contiguous
 * Forward   t = the row's first largest entry;  o = sum_{j != t} exp(x_j - x_t)
 *           y = log sum_j exp(x_j) = x_t + log(1 + o)
 *           The maximum goes first, so nothing overflows; log1p(o) keeps its digits where o is small.
 * Saves     x_t and 1 / (1 + o) of each row; x is on the tape.  exp(x_j - y) would be worse: y is rounded
 * Backward  dy/dx_j = exp(x_j) / sum_i exp(x_i) = p_j, the softmax, so with g = dL/dy:
 *           dL/dx_j = g exp(x_j - x_t) / (1 + o)        products only: each is right to its own digits
 * Writes    y, stats: overwrites.  dx: accumulates (+=), always.
 * Edges     n = 0: y = -inf.  row all -inf: y = -inf, dx = 0.  an entry inf: y = inf, dx NaN there and 0
 *           elsewhere (inf - inf has no value).  NaN in the row: y = NaN.  A weight below RMIN counts
 *           as 0.
 * Checks    y(x + c) = y(x) + c; with g = 1, rows of dx sum to 1.   tests/ops/test_logsumexp.c */
#include "ops/real.h"
#include "ops/rowsum.h"
#include "ops/vecmath.h"

#define STATS 2 /* x_t, 1 / (1 + o) */

static bool has_nan(ptrdiff_t n, const real *x) {
  for (ptrdiff_t j = 0; j < n; j++)
    if (x[j] != x[j]) return true;
  return false;
}

static real row_fwd(ptrdiff_t n, const real *x, real *stats) {
  ptrdiff_t t = th__largest(n, x);
  real max = x[t];
  if (max == -RINF || max == RINF) { /* x_j - x_t has no value */
    stats[1] = 1;
    return stats[0] = has_nan(n, x) ? (real)NAN : max;
  }
  acc others = th__sum_exp(n, x, max, t);
  stats[0] = max;
  stats[1] = (real)(1 / (1 + others));
  return (real)((acc)max + log1p(others));
}

void RN(logsumexp_fwd)(ptrdiff_t rows, ptrdiff_t n, const real *x, real *y, real *stats) {
  for (ptrdiff_t i = 0; i < rows; i++)
    y[i] = n == 0 ? -RINF : row_fwd(n, x + i * n, stats + i * STATS);
}

static void row_bwd(ptrdiff_t n, const real *restrict x, const real *restrict stats, real g,
                    real *restrict dx) {
  real max = stats[0], scale = stats[1];
  if (max == -RINF) return;
#pragma omp simd
  for (ptrdiff_t j = 0; j < n; j++) {
    real p = th__exp(x[j] - max) * scale;
    dx[j] += g * (p < RMIN ? 0 : p);
  }
}

void RN(logsumexp_bwd)(ptrdiff_t rows, ptrdiff_t n, const real *x, const real *stats,
                       const real *dy, real *dx) {
  for (ptrdiff_t i = 0; i < rows; i++) row_bwd(n, x + i * n, stats + i * STATS, dy[i], dx + i * n);
}
