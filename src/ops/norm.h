/* norm.h: what layer_norm and rms_norm share: r = 1 / sqrt(mean square + eps) of rows whose squares
 * overflow or vanish. r itself may then be too large or too small for a number, so it is kept as a
 * product r = u s, u a power of 2. Found in units of the largest entry, such rows take a loop of their
 * own; all others have u = 1. */
#ifndef TH_OPS_NORM_H
#define TH_OPS_NORM_H

#include "ops/real.h"

/* Squares smaller than RMIN vanish. Beside a mean above this, nobody misses them. */
#define TH__ENOUGH ((acc)RMIN * 0x1p60)

/* True if the squares tell the mean square: not where they are infinite, NaN or too small. */
static inline bool th__squares_suffice(real squares, acc mean) {
  return squares < RINF && mean >= TH__ENOUGH;
}

/* The least unit: the root of eps, or what keeps u and s numbers. */
static inline acc th__least_unit(acc eps) {
  return fmax(sqrt(eps), (acc)RMIN * (acc)RMIN + DBL_MIN);
}

/* u and s of a row, from its mean square in squares of `unit`, which is its largest entry, or `least` if
 * that is larger. NaN if the mean is. */
static inline void th__split_inverse(acc unit, acc least, acc mean, real *u, real *s) {
  acc eps = least / unit;
  int exponent, more;
  acc root = frexp(unit, &exponent) * sqrt(mean + eps * eps);
  root = frexp(root, &more);
  exponent += more; /* the root of mean square + eps is root 2^exponent */
  *u = (real)ldexp(1, -(exponent / 2));
  *s = (real)ldexp(1 / root, -(exponent - exponent / 2));
}

#endif
