/* cross_entropy: -log softmax(x)[target] of each row; the mean is taken where it is recorded.
 * Shapes    x dx: (rows, n), targets losses: (rows), stats: (rows, 3), contiguous; a row whose target
 *           is TH_IGNORE does not count; other targets lie within 0..n-1 (checked where recorded)
 * Forward   m = max_j x_j;  e_j = exp(x_j - m);  t = target;  o = sum_{j != t} e_j;  s = e_t + o
 *           loss = (m - x_t) + log s
 *           The maximum goes first, and both terms are >= 0, so nothing cancels (two logits of 1e8
 *           give log 2). Where x_t = m, e_t is 1 and the loss log1p(o): right to the last digit when
 *           the target has nearly all the weight.
 * Saves     m, 1/s, o/s of each row. The weights are computed anew: reading x again and taking
 *           exponentials costs less than writing and reading rows x n weights.
 * Backward  With c = dL/dloss / (rows that count):
 *           dL/dx_j = c e_j / s                            j != t
 *           dL/dx_t = c (e_t / s - 1) = -c o / s           minus the sum of the others: p_t - 1 would
 *                                                          round to 0 once p_t is near 1
 * Writes    losses (0 for ignored rows), stats: overwrites.  dx: accumulates (+=), always.
 * Edges     x_t = -inf: loss inf.  row all -inf: NaN.  A gradient below RMIN is 0 (no subnormals).
 * Checks    rows of dx sum to 0; f(x + c) = f(x).   tests/ops/test_cross_entropy.c */
#include "ops/real.h"
#include "ops/rowsum.h"
#include "ops/vecmath.h"
#include "tapehead.h"

#define STATS 3 /* m, 1/s, o/s */

static double row_fwd(ptrdiff_t n, const real *x, ptrdiff_t t, real *stats) {
  real max = -RINF;
#pragma omp simd reduction(max : max)
  for (ptrdiff_t j = 0; j < n; j++) max = x[j] > max ? x[j] : max;
  acc target = (acc)th__exp(x[t] - max);
  acc others = th__sum_exp(n, x, max, t);
  acc inverse = 1 / (target + others), missed = others * inverse;
  stats[0] = max;
  stats[1] = (real)inverse;
  stats[2] = (real)missed;
  acc gap = (acc)max - (acc)x[t];
  return gap == 0 ? log1p(others) : gap + log(target + others);
}

void RN(cross_entropy_fwd)(ptrdiff_t rows, ptrdiff_t n, const real *x, const int32_t *targets,
                           double *losses, real *stats) {
  for (ptrdiff_t i = 0; i < rows; i++)
    losses[i] = targets[i] == TH_IGNORE ? 0 : row_fwd(n, x + i * n, targets[i], stats + i * STATS);
}

static real normal(real value) { return value > -RMIN && value < RMIN ? 0 : value; }

static void row_bwd(ptrdiff_t n, const real *restrict x, ptrdiff_t t, const real *restrict stats,
                    real scale, real *restrict dx) {
  real max = stats[0], factor = stats[1] * scale, before = dx[t];
#pragma omp simd
  for (ptrdiff_t j = 0; j < n; j++) dx[j] += normal(th__exp(x[j] - max) * factor);
  dx[t] = before - normal(stats[2] * scale);
}

void RN(cross_entropy_bwd)(ptrdiff_t rows, ptrdiff_t n, double scale, const real *x,
                           const int32_t *targets, const real *stats, real *dx) {
  for (ptrdiff_t i = 0; i < rows; i++)
    if (targets[i] != TH_IGNORE)
      row_bwd(n, x + i * n, targets[i], stats + i * STATS, (real)scale, dx + i * n);
}
