/* mutate.h: the one small change to a wrong line that makes it right. */
#ifndef TH_DERIVE_MUTATE_H
#define TH_DERIVE_MUTATE_H

#include "derive/judge.h"

typedef struct th__remedy {
  bool found;
  th__bug kind;   /* that such a change usually mends; unknown if it says nothing */
  char text[160]; /* "right with dS.T in place of dS (column 6)" */
} th__remedy;

/* Tries changes of the claim's own expression and of the helpers it uses, until one is right in every
 * kept draw. */
th__remedy th__remedy_find(th__court *court, int claim);

#endif
