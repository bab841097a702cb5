/* facts.h: what can be known of a program before it runs. */
#ifndef TH_DERIVE_FACTS_H
#define TH_DERIVE_FACTS_H

#include "derive/syntax.h"

/* A name that is assigned a plain integer, once, and used where a shape or an index is written. */
typedef struct th__size {
  const char *name;
  int statement, target; /* where it is assigned */
  ptrdiff_t given;
} th__size;

typedef struct th__facts {
  int loss; /* index of the statement loss(...) */
  int size_count;
  th__size *sizes;
  int mention_count;
  const char **mentions; /* names that begin with d, as used or assigned anywhere */
} th__facts;

/* False with a fault: no loss, or two, or too many statements. */
bool th__facts_find(th__calc *c, const th__program *program, th__facts *facts);

/* Whether d<name> stands anywhere in the program. */
bool th__facts_mention(const th__facts *facts, const char *name);

/* Whether this name occurs in the expression. */
bool th__expression_uses(const th__expression *e, const char *name);

#endif
