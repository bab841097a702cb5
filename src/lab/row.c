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

  /* The largest weight counts as what the others leave of 1, because f32 weights add up to 1 only to
   * 1e-7. The norm is summed in units of the rest: squares of weights may underflow, shares do not.
   *   norm^2 = sum_i (p_i (1 - p_i))^2 + 2 sum_{i < j} p_i^2 p_j^2, the terms of `top` taken apart */
  double rest = row.one_minus_max, top = 1 - rest, squares = 0, shares = top * top;
  for (ptrdiff_t j = 0; j < n; j++) {
    row.zeros += p[j] == 0;
    if (p[j] == 0 || j == row.top) continue;
    double share = p[j] / rest, others = 1 - p[j];
    row.entropy -= p[j] * log(p[j]);
    row.jacobian_trace += p[j] * others;
    shares += share * share * (others * others + 2 * (top * top + squares));
    squares += p[j] * p[j];
  }
  row.entropy -= top * log1p(-rest); /* ln top would be 0 once top rounds to 1 */
  row.jacobian_trace += top * rest;
  row.jacobian_norm = rest * sqrt(shares);
  /* |J| <= trace J <= 1 - 1/n; where they are equal, rounding must not say otherwise. */
  double most = n > 0 ? 1 - 1 / (double)n : 0;
  if (row.jacobian_trace > most) row.jacobian_trace = most;
  if (row.jacobian_norm > row.jacobian_trace) row.jacobian_norm = row.jacobian_trace;
  return row;
}
