/* claims.h: which lines after loss(...) claim a gradient, and which only help. */
#ifndef TH_DERIVE_CLAIMS_H
#define TH_DERIVE_CLAIMS_H

#include "derive/facts.h"

/* dX = ... says that the gradient of L in X is this. */
typedef struct th__claim {
  const char *name; /* "dX" */
  const char *of;   /* "X" */
  th__place place;
  int statement, target;
  bool adds;      /* dX += ..., or dX = dX + ...: goes on from the claim before */
  bool continued; /* a later line goes on from this one, so only that is judged */
  bool again;     /* dX was claimed, and complete, on an earlier line */
} th__claim;

typedef struct th__claims {
  int count;
  th__claim *list;
} th__claims;

/* False with a fault: a claim about a value that does not exist, a name that is taken, no claims. */
bool th__claims_find(th__calc *c, const th__program *program, const th__facts *facts,
                     th__claims *claims);

/* The claim that a statement's target makes, or NULL if it is a helper. */
const th__claim *th__claims_at(const th__claims *claims, int statement, int target);

#endif
