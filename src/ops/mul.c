/* mul: y = a * b, element by element.
 * Shapes    a b y dy : n elements, a and b with strides sa and sb (0 repeats one element: a
 *           stretched axis), y and dy contiguous
 * Forward   y_i = a_i b_i
 * Saves     nothing beside its inputs
 * Backward  dy_i/da_i = b_i, so with g = dL/dy: dL/da_i = g_i b_i, dL/db_i = g_i a_i. An operand that
 *           was stretched gets the sum of these over the places it served: sum_fwd (sum.c) with the
 *           other operand as weights.
 * Writes    y: overwrites.  da: accumulates (+=), always.
 * Checks    a b = b a; x x has gradient 2 x g.   tests/ops/test_mul.c */
#include "ops/pair.h"

static inline real product(real a, real b) { return a * b; }

void RN(mul_fwd)(ptrdiff_t n, const real *a, ptrdiff_t sa, const real *b, ptrdiff_t sb, real *y) {
  th__each_pair(n, product, a, sa, b, sb, y);
}

/* For operands of y's own shape, all contiguous. */
void RN(mul_bwd)(ptrdiff_t n, const real *restrict dy, const real *restrict b, real *restrict da) {
#pragma omp simd
  for (ptrdiff_t i = 0; i < n; i++) da[i] += dy[i] * b[i];
}
