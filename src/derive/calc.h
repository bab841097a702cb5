/* calc.h: where a derivation is computed: its memory, its limits, and its first fault. */
#ifndef TH_DERIVE_CALC_H
#define TH_DERIVE_CALC_H

#include <stdbool.h>
#include <stddef.h>

#include "tensor/arena.h"

/* A place in the text; both from 1. Columns count characters, not bytes. */
typedef struct th__place {
  int line, column;
} th__place;

#define TH__FAULT_TEXT 320

/* Why a file cannot be checked, and where. An empty message: no fault. */
typedef struct th__fault {
  th__place place;
  char message[TH__FAULT_TEXT];
} th__fault;

/* What one evaluation may use. A derivation is right or wrong at small sizes too, so there is no
 * reason to allow gigabytes or hours. */
typedef struct th__limits {
  ptrdiff_t elements; /* of all arrays together */
  double work;        /* multiplications and additions */
  int vertices;       /* operations */
} th__limits;

/* Functions that compute leave the first fault here, at `place`, and return NULL; given NULL they
 * return NULL. So a chain of them needs one check, at its end. */
typedef struct th__calc {
  th__arena *arena;
  th__limits limits;
  ptrdiff_t elements; /* used so far */
  double work;
  th__place place; /* of what is being computed */
  th__fault fault;
} th__calc;

/* Leaves a fault, unless there is one, and returns NULL. */
void *th__calc_fail(th__calc *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
static inline bool th__calc_failed(const th__calc *c) { return c->fault.message[0] != '\0'; }

/* Memory of the evaluation; NULL with a fault when it ends. */
void *th__calc_alloc(th__calc *c, size_t bytes);
/* Counts operations; false with a fault beyond the limit. */
bool th__calc_spend(th__calc *c, double operations);

#endif
