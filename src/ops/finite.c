/* finite: looks for Inf and NaN in the rows of a strided matrix.
 * Shapes    x y: (rows, n), ld elements from one row to the next
 * all_finite        *finite = false if any element is Inf or NaN; otherwise *finite is left alone
 * copy_finite_rows  y = x, with zeros in place of each row that holds Inf or NaN
 * Checks    tests/ops/test_attention.c */
#include "ops/finite.h"

#include <string.h>

void RN(all_finite)(ptrdiff_t rows, ptrdiff_t n, ptrdiff_t ld, const real *x, bool *finite) {
  for (ptrdiff_t i = 0; i < rows; i++)
    if (!th__finite_row(n, x + i * ld)) *finite = false;
}

void RN(copy_finite_rows)(ptrdiff_t rows, ptrdiff_t n, ptrdiff_t ld, const real *x, real *y) {
  size_t bytes = (size_t)n * sizeof *x;
  for (ptrdiff_t i = 0; i < rows && n > 0; i++)
    if (th__finite_row(n, x + i * ld))
      memcpy(y + i * ld, x + i * ld, bytes);
    else
      memset(y + i * ld, 0, bytes);
}
