/* swiglu: y = silu(a) b, a the gate, b what it lets through (Shazeer 2020, arXiv:2002.05202, equation 6).
 * Shapes    a b y dy da db : n elements, contiguous; da or db may be NULL: not wanted
 * Forward   y = a s(a) b with s = sigmoid
 * Saves     nothing beside its inputs
 * Backward  with g = dL/dy and silu' of silu.c:
 *           dL/da = g b silu'(a) = g b s(a) (1 + a s(-a))
 *           dL/db = g silu(a)
 *           In one loop if both are wanted: a and g are read once, and both need the same e^-|a|.
 * Writes    y: overwrites.  da, db: accumulate (+=), always. In one loop they may not overlap; in two
 *           calls they may.
 * Edges     a = -inf: silu and its slope are 0 (times b: NaN if b is infinite).  NaN stays NaN.
 * Checks    swiglu(a, 1) = silu(a); linear in b.   tests/ops/test_swiglu.c */
#include "ops/real.h"
#include "ops/vecmath.h"

void RN(swiglu_fwd)(ptrdiff_t n, const real *a, const real *b, real *restrict y) {
#pragma omp simd
  for (ptrdiff_t i = 0; i < n; i++) y[i] = th__silu(a[i]) * b[i];
}

static void both(ptrdiff_t n, const real *a, const real *b, const real *dy, real *restrict da,
                 real *restrict db) {
#pragma omp simd
  for (ptrdiff_t i = 0; i < n; i++) {
    real before_a = da[i], before_b = db[i];
    da[i] = before_a + dy[i] * b[i] * th__silu_slope(a[i]);
    db[i] = before_b + dy[i] * th__silu(a[i]);
  }
}

void RN(swiglu_bwd)(ptrdiff_t n, const real *a, const real *b, const real *dy, real *da, real *db) {
  if (da != NULL && db != NULL) {
    both(n, a, b, dy, da, db);
  } else if (da != NULL) {
#pragma omp simd
    for (ptrdiff_t i = 0; i < n; i++) da[i] += dy[i] * b[i] * th__silu_slope(a[i]);
  } else if (db != NULL) {
#pragma omp simd
    for (ptrdiff_t i = 0; i < n; i++) db[i] += dy[i] * th__silu(a[i]);
  }
}
