/* linear: y = x W^T + b.
 * Shapes    x dx: (rows, in), W dW: (out, in), b db: (out), y dy: (rows, out), row-major; rows of x, W
 *           and their gradients may lie apart (ld)
 * Forward   y_io = b_o + sum_j x_ij W_oj
 * Saves     nothing: x and W are on the tape
 * Backward  with g = dL/dy (the argument dy), from dy_io/dx_ij = W_oj, dy_io/dW_oj = x_ij, dy_io/db_o = 1:
 *           dL/dx_ij = sum_o g_io W_oj     dx += g W
 *           dL/dW_oj = sum_i g_io x_ij     dW += g^T x
 *           dL/db_o  = sum_i g_io          db += sums of g's columns
 * Writes    y: overwrites.  dx, dW, db: accumulate (+=), always.
 * Edges     in = 0: y = b.  rows = 0 or out = 0: nothing.
 * Checks    against the plain loop for sizes 1..33.   tests/ops/test_linear.c
 *
 * The products are gemm.c's, cut and run by autograd/gemm.c; here are the two kernels beside them. The
 * forward writes b into every row and lets BLAS add the product: BLAS would write zeros there first,
 * so the bias costs no pass of its own. */
#include <string.h>

#include "ops/real.h"

void RN(linear_bias)(ptrdiff_t rows, ptrdiff_t n, const real *bias, ptrdiff_t ldy, real *y) {
  for (ptrdiff_t i = 0; i < rows; i++) memcpy(y + i * ldy, bias, (size_t)n * sizeof *bias);
}

#define STRIP 64 /* columns at a time: their sums stay in registers or the nearest cache */
#define RUN 32   /* rows whose sum is kept in `real` before it goes to the long sum */

static void sum_strip(ptrdiff_t rows, ptrdiff_t n, const real *dy, ptrdiff_t ldy, real *dbias) {
  acc total[STRIP] = {0};
  for (ptrdiff_t begin = 0; begin < rows; begin += RUN) {
    ptrdiff_t end = rows - begin > RUN ? begin + RUN : rows;
    real part[STRIP] = {0};
    for (ptrdiff_t i = begin; i < end; i++) {
      const real *row = dy + i * ldy;
#pragma omp simd
      for (ptrdiff_t j = 0; j < n; j++) part[j] += row[j];
    }
#pragma omp simd
    for (ptrdiff_t j = 0; j < n; j++) total[j] += (acc)part[j];
  }
  for (ptrdiff_t j = 0; j < n; j++) dbias[j] += (real)total[j];
}

void RN(linear_dbias)(ptrdiff_t rows, ptrdiff_t n, const real *dy, ptrdiff_t ldy, real *dbias) {
  for (ptrdiff_t j = 0; j < n; j += STRIP)
    sum_strip(rows, n - j > STRIP ? STRIP : n - j, dy + j, ldy, dbias + j);
}
