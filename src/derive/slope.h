/* slope.h: derivatives by finite differences, which know nothing of the rules of differentiation. */
#ifndef TH_DERIVE_SLOPE_H
#define TH_DERIVE_SLOPE_H

#include "derive/draw.h"

/* Room in which the forward pass is run again and again. */
typedef struct th__trial {
  th__draw *draw;
  th__arena arena;
  const th__array **values; /* by vertex */
} th__trial;

/* NULL values when memory ends. */
th__trial th__trial_start(th__draw *draw);
void th__trial_free(th__trial *trial);

typedef enum th__side { TH__LEFT = -1, TH__BOTH = 0, TH__RIGHT = 1 } th__side;

/* The derivative of L at x along a direction (as many entries as x), by Ridders' extrapolation of
 * differences to step 0; *error estimates how far it is off. NaN if it cannot be had. */
th__number th__slope(th__trial *trial, const th__vertex *x, const th__number *direction,
                     th__side side, double *error);

/* Compares the true gradient of every wanted value, along a random direction, with finite
 * differences, as long as the budget lasts (operations; what is used is taken off). Returns the first
 * value for which they disagree, or NULL; *checked counts the values that were compared. A draw that met a kink is
 * not compared. */
const th__vertex *th__proof_find_fault(th__draw *draw, double *budget, int *checked);

#endif
