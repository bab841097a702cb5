/* add: y = a + b, element by element.
 * Shapes    a b y dy : n elements, a and b with strides sa and sb (0 repeats one element: a
 *           stretched axis), y and dy contiguous
 * Forward   y_i = a_i + b_i
 * Saves     nothing
 * Backward  dL/da_i = sum_j dL/dy_j dy_j/da_i = g_i  with g = dL/dy (the argument dy), and the same
 *           for b. An operand that was stretched, so that one element of it served many y_j, gets
 *           the sum of their g_j: sum_fwd (sum.c). Subtraction, scale and bias use this backward as
 *           well, with another factor.
 * Writes    y: overwrites.  dx: accumulates (+=), always.
 * Checks    a + b = b + a; gradients of stretched operands sum.   tests/ops/test_add.c */
#include "ops/pair.h"

static inline real sum(real a, real b) { return a + b; }

void RN(add_fwd)(ptrdiff_t n, const real *a, ptrdiff_t sa, const real *b, ptrdiff_t sb, real *y) {
  th__each_pair(n, sum, a, sa, b, sb, y);
}

static inline void accumulate(ptrdiff_t n, real factor, const real *restrict dy, ptrdiff_t sdy,
                              real *restrict dx) {
#pragma omp simd
  for (ptrdiff_t i = 0; i < n; i++) dx[i] += factor * dy[i * sdy];
}

/* dx_i += factor * dy_i; dx contiguous, dy with stride sdy: 1, or 0 where one upstream element serves
 * many inputs (a sum). */
void RN(add_bwd)(ptrdiff_t n, double factor, const real *dy, ptrdiff_t sdy, real *dx) {
  if (sdy == 1)
    accumulate(n, (real)factor, dy, 1, dx);
  else
    accumulate(n, (real)factor, dy, sdy, dx);
}
