/* layer_norm: each row shifted and scaled to mean 0 and variance 1, then times a gain, plus a bias.
 * Shapes    x y dy dx: (rows, n), gain bias dgain dbias: (n), stats: (rows, 4), contiguous; gain, bias
 *           and the gradients may each be NULL
 * Forward   m = sum_j x_j / n;  v = sum_j (x_j - m)^2 / n;  r = 1 / sqrt(v + eps)
 *           z_j = (x_j - m) r;  y_j = z_j gain_j + bias_j
 *           m is kept as base + rest: base is the rounded mean, rest the mean of x - base, which is
 *           exact where x and base are close. So a mean of 1000 costs no digits, and the z of a
 *           constant row are exactly 0. r is kept as a product u s, u = 1 in every usual row (norm.h).
 * Saves     base, rest, s, u of each row
 * Backward  With h_j = dL/dz_j = g_j gain_j (g: the argument dy), from
 *           dz_i/dx_j = r (delta_ij - 1/n - z_i z_j / n):
 *           dL/dx_j = r (h_j - sum_i h_i / n - z_j sum_i h_i z_i / n)                   O(n) per row
 *           dL/dgain_j = sum over rows of g_j z_j;  dL/dbias_j = sum over rows of g_j
 * Writes    y, stats: overwrites.  dx, dgain, dbias: accumulates (+=), always.
 * Edges     n = 0: nothing.  n = 1: y = bias, dx = 0, dgain = 0, exactly.  constant row: the same but
 *           dx = (h - mean h) / sqrt(eps).
 * Checks    rows of dx sum to 0; f(a x + c) = f(x) for a > 0 where eps is small.
 * tests/ops/test_layer_norm.c */
#include "ops/norm.h"

#define STATS 4 /* base, rest, s, u */

static real row_mean(ptrdiff_t n, const real *x, real base) {
  real sum = 0;
#pragma omp simd reduction(+ : sum)
  for (ptrdiff_t j = 0; j < n; j++) sum += x[j] - base;
  return sum / (real)n;
}

/* ---- rows whose sum or squares are no `real`, or vanish: in `acc`, one number at a time ---- */

#define APART __attribute__((noinline))

static acc deviation(real x, const real *stats) { return (acc)x - (acc)stats[0] - (acc)stats[1]; }

static acc extreme_z(real x, const real *stats) {
  return deviation(x, stats) * (acc)stats[2] * (acc)stats[3];
}

static real mean_of_large(ptrdiff_t n, const real *x, real base) {
  acc sum = 0;
  for (ptrdiff_t j = 0; j < n; j++) sum += ((acc)x[j] - (acc)base) * 0x1p-64;
  return (real)(sum / (acc)n * 0x1p64);
}

/* All NaN if an x_j is infinite. */
static APART void extreme_stats(ptrdiff_t n, acc eps, const real *x, real *stats) {
  if (!(fabs((acc)stats[0]) + fabs((acc)stats[1]) < (acc)RINF)) {
    stats[0] = mean_of_large(n, x, 0);
    stats[1] = mean_of_large(n, x, stats[0]);
  }
  acc least = th__least_unit(eps), unit = least, squares = 0;
  for (ptrdiff_t j = 0; j < n; j++) {
    acc size = fabs(deviation(x[j], stats));
    unit = size > unit ? size : unit;
  }
  for (ptrdiff_t j = 0; j < n; j++) {
    acc z = deviation(x[j], stats) / unit;
    squares += z * z;
  }
  th__split_inverse(unit, least, squares / (acc)n, &stats[3], &stats[2]);
}

static APART void extreme_row_fwd(ptrdiff_t n, const real *x, const real *gain, const real *bias,
                                  const real *stats, real *y) {
  for (ptrdiff_t j = 0; j < n; j++) {
    acc z = extreme_z(x[j], stats) * (gain != NULL ? (acc)gain[j] : 1);
    y[j] = (real)(z + (bias != NULL ? (acc)bias[j] : 0));
  }
}

static APART void extreme_row_bwd(ptrdiff_t n, const real *x, const real *gain, const real *stats,
                                  const real *dy, real *dx) {
  acc sum = 0, dot = 0;
  for (ptrdiff_t j = 0; j < n; j++) {
    acc h = (acc)dy[j] * (gain != NULL ? (acc)gain[j] : 1);
    sum += h;
    dot += h * extreme_z(x[j], stats);
  }
  for (ptrdiff_t j = 0; j < n; j++) {
    acc h = (acc)dy[j] * (gain != NULL ? (acc)gain[j] : 1);
    acc inner = h - sum / (acc)n - extreme_z(x[j], stats) * (dot / (acc)n);
    dx[j] += (real)(inner * (acc)stats[2] * (acc)stats[3]);
  }
}

static APART void extreme_columns(ptrdiff_t n, const real *x, const real *stats, const real *dy,
                                  real *dgain, real *dbias) {
  for (ptrdiff_t j = 0; j < n; j++) {
    dgain[j] += (real)((acc)dy[j] * extreme_z(x[j], stats));
    dbias[j] += dy[j];
  }
}

/* ---- all others ---- */

static void row_fwd(ptrdiff_t n, acc eps, const real *restrict x, const real *restrict gain,
                    const real *restrict bias, real *restrict y, real *restrict stats) {
  real base = row_mean(n, x, 0), rest = row_mean(n, x, base);
  real squares = 0;
#pragma omp simd reduction(+ : squares)
  for (ptrdiff_t j = 0; j < n; j++) {
    real d = x[j] - base - rest;
    squares += d * d;
  }
  acc mean = (acc)squares / (acc)n + eps;
  real r = (real)(1 / sqrt(mean));
  stats[0] = base;
  stats[1] = rest;
  stats[2] = r;
  stats[3] = 1;
  if (!th__squares_suffice(squares, mean)) {
    extreme_stats(n, eps, x, stats);
    extreme_row_fwd(n, x, gain, bias, stats, y);
    return;
  }
  if (gain != NULL && bias != NULL) {
#pragma omp simd
    for (ptrdiff_t j = 0; j < n; j++) y[j] = (x[j] - base - rest) * r * gain[j] + bias[j];
    return;
  }
#pragma omp simd
  for (ptrdiff_t j = 0; j < n; j++) y[j] = (x[j] - base - rest) * r;
  if (gain != NULL)
    for (ptrdiff_t j = 0; j < n; j++) y[j] *= gain[j];
  if (bias != NULL)
    for (ptrdiff_t j = 0; j < n; j++) y[j] += bias[j];
}

void RN(layer_norm_fwd)(ptrdiff_t rows, ptrdiff_t n, double eps, const real *x, const real *gain,
                        const real *bias, real *y, real *stats) {
  if (n == 0) return;
  for (ptrdiff_t i = 0; i < rows; i++)
    row_fwd(n, eps, x + i * n, gain, bias, y + i * n, stats + i * STATS);
}

static void row_bwd(ptrdiff_t n, const real *restrict x, const real *restrict gain,
                    const real *restrict stats, const real *restrict dy, real *restrict dx) {
  if (stats[3] != 1) {
    extreme_row_bwd(n, x, gain, stats, dy, dx);
    return;
  }
  real base = stats[0], rest = stats[1], r = stats[2];
  real sum = 0, dot = 0;
  if (gain != NULL) {
#pragma omp simd reduction(+ : sum, dot)
    for (ptrdiff_t j = 0; j < n; j++) {
      real h = dy[j] * gain[j];
      sum += h;
      dot += h * ((x[j] - base - rest) * r);
    }
    real mean = sum / (real)n, slope = dot / (real)n;
#pragma omp simd
    for (ptrdiff_t j = 0; j < n; j++)
      dx[j] += r * (dy[j] * gain[j] - mean - (x[j] - base - rest) * r * slope);
    return;
  }
#pragma omp simd reduction(+ : sum, dot)
  for (ptrdiff_t j = 0; j < n; j++) {
    sum += dy[j];
    dot += dy[j] * ((x[j] - base - rest) * r);
  }
  real mean = sum / (real)n, slope = dot / (real)n;
#pragma omp simd
  for (ptrdiff_t j = 0; j < n; j++) dx[j] += r * (dy[j] - mean - (x[j] - base - rest) * r * slope);
}

void RN(layer_norm_bwd)(ptrdiff_t rows, ptrdiff_t n, const real *x, const real *gain,
                        const real *stats, const real *dy, real *dx) {
  if (n <= 1) return; /* z of a single number is 0, whatever the number: no gradient */
  for (ptrdiff_t i = 0; i < rows; i++)
    row_bwd(n, x + i * n, gain, stats + i * STATS, dy + i * n, dx + i * n);
}

#define STRIP 64 /* columns at a time: their sums stay in the nearest cache */
#define RUN 32   /* rows whose sum is kept in `real` before it goes to the long sum */

/* x and dy point at the strip's first column; their rows are ld apart. */
static void strip_bwd(ptrdiff_t rows, ptrdiff_t n, ptrdiff_t ld, const real *restrict x,
                      const real *restrict stats, const real *restrict dy, real *dgain,
                      real *dbias) {
  acc gains[STRIP] = {0}, biases[STRIP] = {0};
  for (ptrdiff_t begin = 0; begin < rows; begin += RUN) {
    ptrdiff_t end = rows - begin > RUN ? begin + RUN : rows;
    real gain[STRIP] = {0}, bias[STRIP] = {0};
    for (ptrdiff_t i = begin; i < end; i++) {
      const real *xi = x + i * ld, *gi = dy + i * ld;
      const real *row = stats + i * STATS;
      real base = row[0], rest = row[1], r = row[2];
      if (row[3] != 1) {
        extreme_columns(n, xi, row, gi, gain, bias);
        continue;
      }
#pragma omp simd
      for (ptrdiff_t j = 0; j < n; j++) {
        gain[j] += gi[j] * ((xi[j] - base - rest) * r);
        bias[j] += gi[j];
      }
    }
#pragma omp simd
    for (ptrdiff_t j = 0; j < n; j++) {
      gains[j] += (acc)gain[j];
      biases[j] += (acc)bias[j];
    }
  }
  for (ptrdiff_t j = 0; j < n && dgain != NULL; j++) dgain[j] += (real)gains[j];
  for (ptrdiff_t j = 0; j < n && dbias != NULL; j++) dbias[j] += (real)biases[j];
}

void RN(layer_norm_dgain)(ptrdiff_t rows, ptrdiff_t n, ptrdiff_t ld, const real *x,
                          const real *stats, const real *dy, real *dgain, real *dbias) {
  for (ptrdiff_t j = 0; j < n; j += STRIP)
    strip_bwd(rows, n - j > STRIP ? STRIP : n - j, ld, x + j, stats, dy + j,
              dgain == NULL ? NULL : dgain + j, dbias == NULL ? NULL : dbias + j);
}
