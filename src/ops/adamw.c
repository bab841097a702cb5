/* adamw: one step of AdamW on one array. An update kernel: nothing is recorded, nothing flows back.
 * Shapes    w m v g : (n), contiguous, four different arrays
 * Computes  m <- beta1 m + (1 - beta1) g            first moment of the gradient g
 *           v <- beta2 v + (1 - beta2) g^2          second moment
 *           w <- w - lr (decay w + (m / correct1) / (sqrt(v / correct2) + eps))    w on the right: old
 *           g <- 0
 *           correct1 = 1 - beta1^t and correct2 = 1 - beta2^t at the t-th step undo the start from 0.
 *           With step = lr / correct1 and root = 1 / sqrt(correct2), once per call:
 *           w <- w - (lr decay w + step m / (sqrt(v) root + eps)).
 *           Memory-bound on large models: every array is read once and written once.
 * Writes    w, m, v, g: in place.
 * Edges     n = 0: nothing. m and v below RMIN become 0: where gradients are 0 for long (the rows of
 *           unused tokens) they fade, and subnormals would slow every later step (C27).
 * Checks    goldens, tests/optim/test_adamw.c */
#include "ops/real.h"

void RN(adamw)(ptrdiff_t n, double lr, double beta1, double beta2, double eps, double decay,
               double correct1, double correct2, real *restrict w, real *restrict m,
               real *restrict v, real *restrict g) {
  const real b1 = (real)beta1, a1 = (real)(1 - beta1), b2 = (real)beta2, a2 = (real)(1 - beta2);
  const real step = (real)(lr / correct1), root = (real)(1 / sqrt(correct2));
  const real fade = (real)(lr * decay), floor = (real)eps;
#pragma omp simd
  for (ptrdiff_t i = 0; i < n; i++) {
    real mi = b1 * m[i] + a1 * g[i];
    real vi = b2 * v[i] + a2 * (g[i] * g[i]);
    mi = RF(fabs)(mi) < RMIN ? 0 : mi;
    vi = vi < RMIN ? 0 : vi;
    w[i] -= fade * w[i] + step * mi / (RF(sqrt)(vi) * root + floor);
    m[i] = mi;
    v[i] = vi;
    g[i] = 0;
  }
}
