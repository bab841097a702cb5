/* attention_fd.h: the gradients of attention against finite differences, for a single query. */
#ifndef TH_LAB_ATTENTION_FD_H
#define TH_LAB_ATTENTION_FD_H

#include "tapehead.h"

/* One query over `keys` keys: L = g . y with y = sum_j p_j v_j and p = softmax_j(scale q . k_j), and
 * the gradients that somebody claims for it. All contiguous. */
typedef struct th__attention_case {
  ptrdiff_t keys, d_k, d_v;
  double scale;
  const double *q, *k, *v, *g; /* [d_k], [keys, d_k], [keys, d_v], upstream [d_v] */
  const double *dq, *dk;       /* dL/dq [d_k] and dL/dK [keys, d_k], to be judged */
} th__attention_case;

/* Relative error of the claimed gradients along 4 random directions (entries -1 and 1) each, q's and
 * K's apart: |claimed - measured| / max(|claimed|, |measured|) of the 4 derivatives as vectors; 0 if
 * all are 0. Measured: central differences of the library's own f64 forward at two steps,
 * extrapolated (Richardson).
 *
 * Differences of L itself end at its rounding, 1e-16 of a number of order 1, and the gradient of a
 * saturated row lies far below. Because the weights sum to 1,
 *     L = g . v_top + sum_j p_j a_j     with a_j = g . (v_j - v_top) and top the largest logit,
 * and the first term does not depend on q or K. The second is attention again, with the numbers a_j as
 * values, of which the saturated one is exactly 0: a sum of small terms with small relative errors. So
 * its differences are good to some 1e-10 whether the gradient is 1 or 1e-28.
 *
 * Everything is allocated on `tape`, which is not reset, and holds the error if the status is one. */
th_status th__attention_fd(th_tape *tape, const th__attention_case *row, th_random directions,
                           double *dq_error, double *dk_error);

#endif
