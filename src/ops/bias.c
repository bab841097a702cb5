/* bias: y = x + b, the same row b on every row of x.
 * Shapes    x y dy dx : (rows, n), contiguous;  b db : n
 * Forward   y_ij = x_ij + b_j
 * Saves     nothing
 * Backward  dy_ij/dx_ij = 1 and dy_ij/db_j = 1 for every row i, so with g = dL/dy:
 *           dL/dx_ij = g_ij: add_bwd (add.c);  dL/db_j = sum_i g_ij: sum_fwd (sum.c), cut over columns
 * Writes    y: overwrites.
 * Checks    upstream of ones gives db = rows; bias(x, b) = add(x, b).   tests/ops/test_bias.c */
#include "ops/real.h"

void RN(bias_fwd)(ptrdiff_t rows, ptrdiff_t n, const real *restrict x, const real *restrict b,
                  real *restrict y) {
  for (ptrdiff_t i = 0; i < rows; i++) {
#pragma omp simd
    for (ptrdiff_t j = 0; j < n; j++) y[i * n + j] = x[i * n + j] + b[j];
  }
}
