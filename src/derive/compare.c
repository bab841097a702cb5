#include "derive/compare.h"

#include <math.h>

/* The bounds are of first order, and of both sides; a claim is besides allowed the small liberties
 * that a derivation takes in good faith (an added 1e-12 against division by zero, a constant with ten
 * digits), which nothing that is a mistake stays within. */
#define SAFETY 4
#define LIBERTY 1e-9

double th__compare_limit(const th__array *truth, const th__array *got, ptrdiff_t i) {
  double limit = SAFETY * (truth->e[i] + got->e[i]) + LIBERTY * (double)fabsl(truth->v[i]);
  return isnan(limit) ? (double)INFINITY : limit; /* an unknown bound accuses nobody */
}

/* The claim in the truth's shape: broadcast, or with axes of length 1 left out. */
static const th__array *fitted(th__calc *c, const th__array *truth, const th__array *claim,
                               th__shape_match *match) {
  *match = TH__SHAPE_EQUAL;
  if (th__array_same_shape(truth, claim)) return claim;
  *match = TH__SHAPE_STRETCHED;
  int ndim;
  ptrdiff_t shape[TH_MAX_DIMS];
  th__array without = *claim;
  while (without.ndim > truth->ndim && without.shape[0] == 1) {
    without.ndim--;
    for (int axis = 0; axis < without.ndim; axis++) without.shape[axis] = without.shape[axis + 1];
  }
  if (th__array_broadcast(truth, &without, &ndim, shape) && ndim == truth->ndim) {
    bool same = true;
    for (int axis = 0; axis < ndim; axis++) same = same && shape[axis] == truth->shape[axis];
    if (same) return th__array_stretch(c, &without, ndim, shape);
  }
  if (claim->count == truth->count && claim->ndim > truth->ndim) {
    int at = 0; /* (n, 1) for (n) */
    for (int axis = 0; axis < claim->ndim; axis++) {
      if (at < truth->ndim && claim->shape[axis] == truth->shape[at])
        at++;
      else if (claim->shape[axis] != 1)
        at = TH_MAX_DIMS + 1;
    }
    if (at == truth->ndim) return th__array_reshape(c, claim, truth->ndim, truth->shape);
  }
  *match = TH__SHAPE_OTHER;
  return NULL;
}

static double largest(const th__array *x) {
  double most = 0;
  for (ptrdiff_t i = 0; i < x->count; i++) most = fmax(most, (double)fabsl(x->v[i]));
  return most;
}

th__comparison th__compare(th__calc *c, const th__array *truth, const th__array *claim) {
  th__comparison r = {0};
  r.got = fitted(c, truth, claim, &r.shape);
  if (r.got == NULL) {
    r.wrong = 1;
    r.max_abs = r.max_rel = (double)NAN;
    return r;
  }
  for (ptrdiff_t i = 0; i < truth->count; i++) {
    double away = (double)fabsl(r.got->v[i] - truth->v[i]),
           limit = th__compare_limit(truth, r.got, i);
    if (isfinite(limit) || isnan(away)) r.judged++;
    if (!(away <= limit)) r.wrong++;
    if (!(away <= r.max_abs) && !isnan(r.max_abs)) {
      r.max_abs = away;
      r.worst = i;
    }
  }
  double scale = largest(truth);
  r.max_rel = r.max_abs == 0 ? 0 : scale > 0 ? r.max_abs / scale : isnan(r.max_abs) ? r.max_abs : 1;
  return r;
}
