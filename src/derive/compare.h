/* compare.h: whether a claim equals the truth. */
#ifndef TH_DERIVE_COMPARE_H
#define TH_DERIVE_COMPARE_H

#include "derive/array.h"

typedef enum th__shape_match {
  TH__SHAPE_EQUAL,
  TH__SHAPE_STRETCHED, /* the claim broadcasts to the value's shape, or has axes of length 1 too many */
  TH__SHAPE_OTHER
} th__shape_match;

typedef struct th__comparison {
  th__shape_match shape;
  const th__array *got; /* the claim in the truth's shape; NULL if the shapes do not fit */
  ptrdiff_t wrong;  /* entries further apart than both errors allow; 1 if the shapes do not fit */
  ptrdiff_t worst;  /* the entry that is furthest off */
  double max_abs;   /* largest distance; NaN if a claimed entry is not a number */
  double max_rel;   /* the same relative to the largest entry of the truth */
  ptrdiff_t judged; /* entries whose error is bounded at all */
} th__comparison;

th__comparison th__compare(th__calc *c, const th__array *truth, const th__array *claim);

/* How far a claim may be from this entry of the truth. */
double th__compare_limit(const th__array *truth, const th__array *got, ptrdiff_t i);

#endif
