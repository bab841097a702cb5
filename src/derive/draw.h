/* draw.h: one run of a derivation at random numbers: the forward pass, the true gradients, and every
 * claim, computed twice. */
#ifndef TH_DERIVE_DRAW_H
#define TH_DERIVE_DRAW_H

#include "derive/claims.h"
#include "derive/eval.h"

/* What all draws have in common. */
typedef struct th__derivation {
  th__program program;
  th__facts facts;
  th__claims claims;
  th__limits limits;
  uint64_t seed;
  const char *folder;
  th__load *load;
} th__derivation;

/* One claim in one draw. */
typedef struct th__outcome {
  const th__array *truth;
  const th__array *given; /* the claim, from the TRUE gradients on its right side; NULL: a fault */
  const th__array *chained; /* the claim, from the claims above it where there are some */
  th__fault fault;
  bool inherited;           /* the fault is an earlier line's */
  const th__vertex *vertex; /* of the value that the claim is about */
} th__outcome;

typedef struct th__draw {
  const th__derivation *derivation;
  th__arena arena;
  th__calc calc;
  th__graph graph;
  th__scope values;
  th__scope helpers; /* of the lines after loss, given true gradients */
  th__inputs inputs;
  const ptrdiff_t *sizes; /* of facts.sizes, in this draw */
  th__vertex *end;        /* the argument of loss */
  const th__array *upstream;
  bool unit_upstream;         /* a scalar loss whose own gradient nobody uses: taken as 1 */
  ptrdiff_t forward_elements; /* what the forward pass used */
  double forward_work;
  th__outcome *outcomes;
  th__fault helper_fault; /* the first one in a line after loss that is no claim */
} th__draw;

/* Prepares a draw; `number` selects its random numbers, `scale` multiplies normal inputs. */
void th__draw_start(th__draw *draw, const th__derivation *derivation, int number, double scale,
                    const ptrdiff_t *sizes);
void th__draw_free(th__draw *draw);

/* The statements up to loss, and the upstream gradient. False with a fault in draw->calc. */
bool th__draw_forward(th__draw *draw);
/* The true gradient of every value that the program mentions. */
bool th__draw_reverse(th__draw *draw);
/* The claims (claiming.c). What is wrong inside one is a fault of its outcome. False if memory ends. */
bool th__draw_claims(th__draw *draw);

/* A claim, given true gradients, as it would be with one expression of it, or of a helper it uses,
 * replaced by another. Computed in its own arena. NULL if that does not fit. */
const th__array *th__draw_retry(th__draw *draw, th__arena *arena, const th__claim *claim,
                                const th__expression *replaced, const th__expression *replacement);

/* ---- shared by draw.c and claiming.c ---- */

th__evaluator th__draw_evaluator(th__draw *draw, int statement);
/* x[i] of a right side that is one array for several names, as in n, d = X.shape. */
th__vertex *th__unpack(th__graph *g, th__vertex *x, int i, int count);

#endif
