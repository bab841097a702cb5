/* norm.h: the length of a vector, however small. */
#ifndef TH_LAB_NORM_H
#define TH_LAB_NORM_H

#include <math.h>

#include "ops/kernels.h"

/* sqrt(sum x_i^2) of n contiguous f32 or f64 values, in double, without overflow or underflow on the
 * way: a dead gradient of 1e-200 has a length too. NaN and infinity come through. */
static inline double th__norm(th_dtype dtype, ptrdiff_t n, const void *x) {
  double squares, unit;
  TH__CALL(dtype, sum_squares, n, 1.0, x, &squares);
  if (squares > 1e-200 && squares < 1e200) return sqrt(squares);
  TH__CALL(dtype, largest, n, x, &unit);
  if (unit == 0 || !isfinite(unit)) return unit;
  TH__CALL(dtype, sum_squares, n, unit, x, &squares);
  return unit * sqrt(squares);
}

#endif
