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

  /* The norm is summed in units of `one_minus_max`: squares of weights may underflow, shares do not.
   * norm^2 = sum_i (p_i (1 - p_i))^2 + 2 sum_{i < j} p_i^2 p_j^2, the terms of `top` taken apart. */
  double squares = 0, shares = row.largest * row.largest;
  for (ptrdiff_t j = 0; j < n; j++) {
    double rest = j == row.top ? row.one_minus_max : 1 - p[j];
    if (p[j] == 0) {
      row.zeros++;
      continue;
    }
    /* ln p of the largest as ln(1 - rest): p itself is rounded to 1 when the row is sharp. */
    row.entropy -= p[j] * (j == row.top ? log1p(-rest) : log(p[j]));
    row.jacobian_trace += p[j] * rest;
    if (j == row.top) continue;
    double share = p[j] / row.one_minus_max;
    shares += share * share * (rest * rest + 2 * (row.largest * row.largest + squares));
    squares += p[j] * p[j];
  }
  row.jacobian_norm = row.one_minus_max * sqrt(shares);
  return row;
}
