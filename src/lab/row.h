/* row.h: what one row of attention weights looks like: how sharp it is, how alive its softmax. */
#ifndef TH_LAB_ROW_H
#define TH_LAB_ROW_H

#include <stddef.h>

typedef struct th__row {
  ptrdiff_t top;         /* the first largest weight */
  double largest;        /* its weight */
  double one_minus_max;  /* the sum of the others: exact where 1 - largest would round to 0 */
  double entropy;        /* -sum p ln p, in nats */
  double jacobian_trace; /* of J = diag(p) - p p^T: sum p (1 - p) = 1 - sum p^2 */
  double jacobian_norm;  /* Frobenius: sqrt(S2 - 2 S3 + S2^2) with S_k = sum p^k */
  ptrdiff_t zeros;       /* weights that are exactly 0: underflow, or masked */
} th__row;

/* Weights p_j >= 0 that add up to 1 (to rounding), or all 0. Every sum has terms of one sign, so the
 * figures keep their relative accuracy however sharp the row is. */
th__row th__row_figures(const double *p, ptrdiff_t n);

#endif
