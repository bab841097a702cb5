/* pair.h: what the forwards of add, sub and mul share: y_i = f(a_i, b_i) over operands with strides. */
#ifndef TH_OPS_PAIR_H
#define TH_OPS_PAIR_H

#include "ops/real.h"

typedef real th__pair(real a, real b);

static inline void th__pair_loop(ptrdiff_t n, th__pair *f, const real *a, ptrdiff_t sa,
                                 const real *b, ptrdiff_t sb, real *restrict y) {
#pragma omp simd
  for (ptrdiff_t i = 0; i < n; i++) y[i] = f(a[i * sa], b[i * sb]);
}

/* The loop is called with constant strides where they are common, and f is a constant wherever this is
 * called, so that each call becomes a loop of its own. */
static inline void th__each_pair(ptrdiff_t n, th__pair *f, const real *a, ptrdiff_t sa,
                                 const real *b, ptrdiff_t sb, real *y) {
  if (sa == 1 && sb == 1)
    th__pair_loop(n, f, a, 1, b, 1, y);
  else if (sa == 1 && sb == 0)
    th__pair_loop(n, f, a, 1, b, 0, y);
  else if (sa == 0 && sb == 1)
    th__pair_loop(n, f, a, 0, b, 1, y);
  else
    th__pair_loop(n, f, a, sa, b, sb, y);
}

#endif
