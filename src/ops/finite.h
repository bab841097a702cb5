/* finite.h: does a row hold Inf or NaN? */
#ifndef TH_OPS_FINITE_H
#define TH_OPS_FINITE_H

#include "ops/real.h"

/* x * 0 is 0 for every finite x and NaN for the others, and a sum keeps a NaN: one test serves a row. */
static inline bool th__finite_row(ptrdiff_t n, const real *x) {
  real sum = 0;
#pragma omp simd reduction(+ : sum)
  for (ptrdiff_t j = 0; j < n; j++) sum += x[j] * 0;
  return sum == 0;
}

#endif
