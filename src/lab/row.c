#include "lab/row.h"

#include <math.h>

th__row th__row_figures(const double *p, ptrdiff_t n) {
  th__row row = {0};
  for (ptrdiff_t j = 0; j < n; j++)
    if (p[j] > row.largest) {
      row.largest = p[j];
      row.top = j;
    }
  for (ptrdiff_t j = 0; j < n; j++)
    if (j != row.top) row.one_minus_max += p[j];

  double squares = 0, diagonal = 0, off_diagonal = 0;
  for (ptrdiff_t j = 0; j < n; j++) {
    double rest = j == row.top ? row.one_minus_max : 1 - p[j];
    if (p[j] == 0) {
      row.zeros++;
      continue;
    }
    /* ln p of the largest as ln(1 - rest): p itself is rounded to 1 when the row is sharp. */
    row.entropy -= p[j] * (j == row.top ? log1p(-rest) : log(p[j]));
    row.jacobian_trace += p[j] * rest;
    diagonal += p[j] * rest * p[j] * rest;
    off_diagonal += 2 * p[j] * p[j] * squares; /* pairs (i, j) and (j, i) with i < j */
    squares += p[j] * p[j];
  }
  row.jacobian_norm = sqrt(diagonal + off_diagonal);
  return row;
}
