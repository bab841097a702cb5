/* rms_norm: each row divided by its root mean square, then times a gain.
 * Shapes    x y dy dx: (rows, n), gain dgain: (n), stats: (rows, 2), contiguous; gain and the gradients
 *           may each be NULL
 * Forward   r = 1 / sqrt(sum_j x_j^2 / n + eps);  z_j = x_j r;  y_j = z_j gain_j
 *           r is kept as a product u s, u = 1 in every usual row (norm.h).
 * Saves     u, s of each row
 * Backward  With h_j = dL/dz_j = g_j gain_j (g: the argument dy), from dr/dx_j = -r^3 x_j / n:
 *           dz_i/dx_j = r (delta_ij - z_i z_j / n)
 *           dL/dx_j = r (h_j - z_j sum_i h_i z_i / n)                                   O(n) per row
 *           n = 1: 1 - z^2 = eps r^2, which does not cancel: dL/dx = r h eps r^2
 *           dL/dgain_j = sum over rows of g_j z_j
 * Writes    y, stats: overwrites.  dx, dgain: accumulates (+=), always.
 * Edges     n = 0: nothing.  a row of zeros: y = 0, dx = h / sqrt(eps).
 * Checks    sum_j x_j dL/dx_j = 0 and f(a x) = f(x) for a > 0 where eps is small.
 * tests/ops/test_rms_norm.c */
#include "ops/norm.h"

#define STATS 2 /* u, s */

/* u and s of a row whose squares are no `real`. NaN if an x_j is infinite. */
static __attribute__((noinline)) void scale_of_extreme(ptrdiff_t n, acc eps, const real *x,
                                                       real *stats) {
  acc least = th__least_unit(eps), unit = least, squares = 0;
  for (ptrdiff_t j = 0; j < n; j++) {
    acc size = fabs((acc)x[j]);
    unit = size > unit ? size : unit;
  }
  for (ptrdiff_t j = 0; j < n; j++) {
    acc z = (acc)x[j] / unit;
    squares += z * z;
  }
  th__split_inverse(unit, least, squares / (acc)n, &stats[0], &stats[1]);
}

static void row_fwd(ptrdiff_t n, acc eps, const real *restrict x, const real *restrict gain,
                    real *restrict y, real *restrict stats) {
  real squares = 0;
#pragma omp simd reduction(+ : squares)
  for (ptrdiff_t j = 0; j < n; j++) squares += x[j] * x[j];
  acc mean = (acc)squares / (acc)n + eps;
  stats[0] = 1;
  stats[1] = (real)(1 / sqrt(mean));
  if (!th__squares_suffice(squares, mean)) scale_of_extreme(n, eps, x, stats);
  real u = stats[0], s = stats[1];
  if (gain != NULL) {
#pragma omp simd
    for (ptrdiff_t j = 0; j < n; j++) y[j] = x[j] * u * s * gain[j];
    return;
  }
#pragma omp simd
  for (ptrdiff_t j = 0; j < n; j++) y[j] = x[j] * u * s;
}

void RN(rms_norm_fwd)(ptrdiff_t rows, ptrdiff_t n, double eps, const real *x, const real *gain,
                      real *y, real *stats) {
  if (n == 0) return;
  for (ptrdiff_t i = 0; i < rows; i++)
    row_fwd(n, eps, x + i * n, gain, y + i * n, stats + i * STATS);
}

static void row_bwd(ptrdiff_t n, const real *restrict x, const real *restrict gain,
                    const real *restrict stats, const real *restrict dy, real *restrict dx) {
  real u = stats[0], s = stats[1], dot = 0;
  if (gain != NULL) {
#pragma omp simd reduction(+ : dot)
    for (ptrdiff_t j = 0; j < n; j++) dot += dy[j] * gain[j] * (x[j] * u * s);
    real slope = dot / (real)n;
#pragma omp simd
    for (ptrdiff_t j = 0; j < n; j++) dx[j] += (dy[j] * gain[j] - x[j] * u * s * slope) * u * s;
    return;
  }
#pragma omp simd reduction(+ : dot)
  for (ptrdiff_t j = 0; j < n; j++) dot += dy[j] * (x[j] * u * s);
  real slope = dot / (real)n;
#pragma omp simd
  for (ptrdiff_t j = 0; j < n; j++) dx[j] += (dy[j] - x[j] * u * s * slope) * u * s;
}

void RN(rms_norm_bwd)(ptrdiff_t rows, ptrdiff_t n, double eps, const real *x, const real *gain,
                      const real *stats, const real *dy, real *dx) {
  if (n > 1)
    for (ptrdiff_t i = 0; i < rows; i++)
      row_bwd(n, x + i * n, gain, stats + i * STATS, dy + i * n, dx + i * n);
  for (ptrdiff_t i = 0; n == 1 && i < rows; i++) {
    acc r = (acc)stats[i * STATS] * (acc)stats[i * STATS + 1];
    acc h = (acc)dy[i] * (gain != NULL ? (acc)gain[0] : 1);
    dx[i] += (real)(h * r * (eps * r * r));
  }
}

#define STRIP 64 /* columns at a time: their sums stay in the nearest cache */
#define RUN 32   /* rows whose sum is kept in `real` before it goes to the long sum */

/* x and dy point at the strip's first column; their rows are ld apart. */
static void strip_bwd(ptrdiff_t rows, ptrdiff_t n, ptrdiff_t ld, const real *restrict x,
                      const real *restrict stats, const real *restrict dy, real *dgain) {
  acc gains[STRIP] = {0};
  for (ptrdiff_t begin = 0; begin < rows; begin += RUN) {
    ptrdiff_t end = rows - begin > RUN ? begin + RUN : rows;
    real gain[STRIP] = {0};
    for (ptrdiff_t i = begin; i < end; i++) {
      const real *xi = x + i * ld, *gi = dy + i * ld;
      real u = stats[i * STATS], s = stats[i * STATS + 1];
#pragma omp simd
      for (ptrdiff_t j = 0; j < n; j++) gain[j] += gi[j] * (xi[j] * u * s);
    }
#pragma omp simd
    for (ptrdiff_t j = 0; j < n; j++) gains[j] += (acc)gain[j];
  }
  for (ptrdiff_t j = 0; j < n; j++) dgain[j] += (real)gains[j];
}

void RN(rms_norm_dgain)(ptrdiff_t rows, ptrdiff_t n, ptrdiff_t ld, const real *x, const real *stats,
                        const real *dy, real *dgain) {
  for (ptrdiff_t j = 0; j < n; j += STRIP)
    strip_bwd(rows, n - j > STRIP ? STRIP : n - j, ld, x + j, stats, dy + j, dgain + j);
}
