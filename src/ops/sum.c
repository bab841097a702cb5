/* sum, mean: over one axis or over everything; also the backward of every stretched operand.
 * Shapes    x : (r, n) with strides xr and xn; y : n with stride yn; the axis of length r is summed
 * Forward   y_j = sum_i x_ij / d            d = 1, or r for the mean (and -1 for sub's operand b)
 *           with weights w (r, n), where a product is folded back (mul.c): y_j = sum_i x_ij w_ij / d
 * Saves     nothing
 * Backward  dy_j/dx_ij = 1 / d, so dL/dx_ij = g_j / d: add_bwd (add.c), g spread over the axis
 * Sums      are taken in `acc` and in an order that depends on the sizes alone.
 * Writes    y: accumulates (+=), because a folded gradient does; a forward starts from zeros.
 * Edges     r = 0: adds 0.
 * Checks    sum(x) / n = mean(x); equals the naive sum in f64; any number of threads gives the same
 *           bits.   tests/ops/test_sum.c, test_mean.c */
#include "ops/real.h"

static inline acc line_sum(ptrdiff_t r, const real *x, ptrdiff_t xr) {
  acc sum = 0;
#pragma omp simd reduction(+ : sum)
  for (ptrdiff_t i = 0; i < r; i++) sum += (acc)x[i * xr];
  return sum;
}

static inline acc line_dot(ptrdiff_t r, const real *x, ptrdiff_t xr, const real *w, ptrdiff_t wr) {
  acc sum = 0;
#pragma omp simd reduction(+ : sum)
  for (ptrdiff_t i = 0; i < r; i++) sum += (acc)x[i * xr] * (acc)w[i * wr];
  return sum;
}

/* One y at a time: for an axis whose elements lie side by side, and for any strides at all. */
static acc one(ptrdiff_t r, const real *x, ptrdiff_t xr, const real *w, ptrdiff_t wr) {
  if (w == NULL) return xr == 1 ? line_sum(r, x, 1) : line_sum(r, x, xr);
  return xr == 1 && wr == 1 ? line_dot(r, x, 1, w, 1) : line_dot(r, x, xr, w, wr);
}

/* Where the columns lie side by side: a strip of them at a time, row by row, so that memory is read
 * in order. */
#define STRIP 128

static void strip_sum(ptrdiff_t r, ptrdiff_t n, const real *restrict x, ptrdiff_t xr,
                      acc *restrict sum) {
  ptrdiff_t i = 0;
  for (; i + 4 <= r; i += 4) {
    const real *x0 = x + i * xr, *x1 = x0 + xr, *x2 = x1 + xr, *x3 = x2 + xr;
#pragma omp simd
    for (ptrdiff_t j = 0; j < n; j++)
      sum[j] += ((acc)x0[j] + (acc)x1[j]) + ((acc)x2[j] + (acc)x3[j]);
  }
  for (; i < r; i++) {
#pragma omp simd
    for (ptrdiff_t j = 0; j < n; j++) sum[j] += (acc)x[i * xr + j];
  }
}

static inline void strip_dot(ptrdiff_t r, ptrdiff_t n, const real *restrict x, ptrdiff_t xr,
                             const real *restrict w, ptrdiff_t wr, ptrdiff_t wn, acc *restrict sum) {
  for (ptrdiff_t i = 0; i < r; i++) {
#pragma omp simd
    for (ptrdiff_t j = 0; j < n; j++) sum[j] += (acc)x[i * xr + j] * (acc)w[i * wr + j * wn];
  }
}

static void strips(ptrdiff_t r, ptrdiff_t n, double divisor, const real *x, ptrdiff_t xr,
                   const real *w, ptrdiff_t wr, ptrdiff_t wn, real *y, ptrdiff_t yn) {
  for (ptrdiff_t begin = 0; begin < n; begin += STRIP) {
    ptrdiff_t width = n - begin < STRIP ? n - begin : STRIP;
    acc sum[STRIP] = {0};
    if (w == NULL)
      strip_sum(r, width, x + begin, xr, sum);
    else if (wn == 1)
      strip_dot(r, width, x + begin, xr, w + begin, wr, 1, sum);
    else
      strip_dot(r, width, x + begin, xr, w + begin * wn, wr, wn, sum);
    for (ptrdiff_t j = 0; j < width; j++) y[(begin + j) * yn] += (real)(sum[j] / divisor);
  }
}

/* w may be NULL. */
void RN(sum_fwd)(ptrdiff_t r, ptrdiff_t n, double divisor, const real *x, ptrdiff_t xr,
                 ptrdiff_t xn, const real *w, ptrdiff_t wr, ptrdiff_t wn, real *y, ptrdiff_t yn) {
  if (xn == 1 && n > 1) {
    strips(r, n, divisor, x, xr, w, wr, wn, y, yn);
    return;
  }
  for (ptrdiff_t j = 0; j < n; j++) {
    acc sum = one(r, x + j * xn, xr, w == NULL ? NULL : w + j * wn, wr);
    y[j * yn] += (real)(sum / divisor);
  }
}

/* One piece of a sum over everything; the pieces are added in their order by the caller. */
void RN(sum_part)(ptrdiff_t n, const real *x, double *part) { *part = line_sum(n, x, 1); }
