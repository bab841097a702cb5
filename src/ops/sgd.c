/* sgd: one step of gradient descent on one array. Update kernels: nothing is recorded.
 * Shapes    w m g : (n), contiguous, different arrays
 * Computes  sgd            w <- w - lr g;                              g <- 0
 *           sgd_momentum   m <- momentum m + g;  w <- w - lr m;        g <- 0
 * Writes    w, m, g: in place.
 * Edges     n = 0: nothing. m below RMIN becomes 0 (see adamw.c).
 * Checks    goldens, tests/optim/test_sgd.c */
#include "ops/real.h"

void RN(sgd)(ptrdiff_t n, double lr, real *restrict w, real *restrict g) {
  const real rate = (real)lr;
#pragma omp simd
  for (ptrdiff_t i = 0; i < n; i++) {
    w[i] -= rate * g[i];
    g[i] = 0;
  }
}

void RN(sgd_momentum)(ptrdiff_t n, double lr, double momentum, real *restrict w, real *restrict m,
                      real *restrict g) {
  const real rate = (real)lr, keep = (real)momentum;
#pragma omp simd
  for (ptrdiff_t i = 0; i < n; i++) {
    real mi = keep * m[i] + g[i];
    mi = RF(fabs)(mi) < RMIN ? 0 : mi;
    w[i] -= rate * mi;
    m[i] = mi;
    g[i] = 0;
  }
}
