/* derive.h: checks a derivation, line by line.
 *
 *   th__derive_options options = {.seed = 1};
 *   th__report *report = th__derive_check(text, length, &options);
 *   for (int i = 0; i < report->count; i++)
 *     ... report->findings[i].verdict ...
 *   th__report_free(report);
 *
 * docs/derivations.md describes the language; the method is this. The forward pass is run at several
 * random points and, where sizes are named, at several sizes. The true gradient of every value comes
 * from reverse differentiation of the forward pass, and is itself compared with finite differences.
 * Each claim is computed twice: with true gradients on its right side (is this line right?) and with
 * the claims above it (is the result right?). Both are compared with the truth entry by entry, within
 * the rounding error that both sides have, and no more. */
#ifndef TH_DERIVE_DERIVE_H
#define TH_DERIVE_DERIVE_H

#include "autograd/diagnose.h"
#include "derive/draw.h"

/* Verdict, its name in JSON. The worst one of its claims is a file's. */
#define TH__VERDICT_LIST(X)                                                                        \
  X(TH__PASS, "pass") /* equal to the truth in every draw */                                       \
  X(TH__KINK, "kink") /* every point was one without a derivative: not judged */                   \
  X(TH__WRONG, "wrong")                                                                            \
  X(TH__VACUOUS, "vacuous") /* nothing was compared */                                             \
  X(TH__ERROR, "error")     /* does not parse, does not fit, cannot be read */

typedef enum th__verdict {
#define X(code, name) code,
  TH__VERDICT_LIST(X)
#undef X
} th__verdict;

const char *th__verdict_name(th__verdict verdict);

#define TH__NOTE_TEXT 256

typedef struct th__finding {
  const char *name; /* "dX" */
  th__place place;
  th__verdict verdict;                 /* of the line, given true gradients */
  th__verdict chained;                 /* of its result, as it follows from the claims above */
  double max_abs_error, max_rel_error; /* of the line; relative to the largest true entry */
  bool diagnosed;                      /* the line is wrong, and this is how */
  th__diagnosis diagnosis;
  char remedy[TH__NOTE_TEXT]; /* "" or a small change that makes the line right */
  char where[TH__NOTE_TEXT];  /* wrong: how many entries, the worst, both values */
  const char *culprit;        /* chained wrong, line right: the claim that is to blame */
  int culprit_line;
  char note[TH__NOTE_TEXT]; /* "" or what else should be known */
  th__fault fault;          /* of an error; empty if another line's error is the reason */
} th__finding;

typedef struct th__report {
  th__verdict verdict;
  th__fault fault; /* why the file could not be checked at all; empty if it could */
  int count;
  th__finding *findings;
  int draws;                 /* that were made */
  int sizes_varied;          /* of them with other sizes */
  int values, cross_checked; /* true gradients, and how many were compared with finite differences */
  char note[TH__NOTE_TEXT];
  th__arena arena; /* holds all of it */
} th__report;

typedef struct th__derive_options {
  uint64_t seed;
  int draws;          /* 0: 6 */
  bool fixed_sizes;   /* only the sizes that are given */
  const char *folder; /* of file names in input("x.npy"); NULL: the working folder */
  th__load *load;     /* NULL: input("x.npy") is refused */
  th__limits limits;  /* fields left 0: what is reasonable */
} th__derive_options;

enum { TH__MAX_DRAWS = 1000 };

/* NULL only when memory ends. */
th__report *th__derive_check(const char *text, size_t length, const th__derive_options *options);
void th__report_free(th__report *report);

#endif
