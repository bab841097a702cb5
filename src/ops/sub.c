/* sub: y = a - b, element by element.
 * Shapes    a b y dy : n elements, a and b with strides sa and sb (0 repeats one element: a
 *           stretched axis), y and dy contiguous
 * Forward   y_i = a_i - b_i
 * Saves     nothing
 * Backward  with g = dL/dy: dL/da_i = g_i and dL/db_i = -g_i: add_bwd (add.c) with factors 1 and -1,
 *           sum_fwd (sum.c) with the same where an operand was stretched
 * Writes    y: overwrites.
 * Checks    a - b = -(b - a); x - x = 0, gradient 0.   tests/ops/test_sub.c */
#include "ops/pair.h"

static inline real difference(real a, real b) { return a - b; }

void RN(sub_fwd)(ptrdiff_t n, const real *a, ptrdiff_t sa, const real *b, ptrdiff_t sb, real *y) {
  th__each_pair(n, difference, a, sa, b, sb, y);
}
