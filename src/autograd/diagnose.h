/* diagnose.h: names the mistake in a hand-written gradient, from what was got and what it should be.
 *
 * The caller collects evidence: the same check at one or several random points ("runs"), each with the
 * wrong gradient, the right one, and whatever the mistake may have to do with. It gets a kind, and a
 * sentence for people that says what and where. A guess must explain every run; where none does, the
 * kind is TH__BUG_UNKNOWN and the sentence says which entries are wrong.
 *
 *   double dx[] = ..., truth[] = ..., y[] = ..., dy[] = ...;
 *   th__clue clues[] = {{"y", TH__CLUE_VALUE, {2, {4, 8}, y}}, {"dy", TH__CLUE_GRADIENT, {2, {4, 8}, dy}}};
 *   th__constant constants[] = {{"d", 8}};
 *   th__evidence run = {{2, {4, 8}, dx}, {2, {4, 8}, truth}, 2, clues, 1, constants};
 *   th__diagnosis found;
 *   th__diagnose("dx", 1, &run, 1e-8, &found);
 *   // found.kind == TH__BUG_MISSING_ROW_SUM: "misses the term -y * sum(y * dy, axis=-1) (fit 1.000)"
 *
 * Several runs are worth much more than one: a factor of 2.83 is sqrt(d) only if it follows d where
 * sizes differ from run to run; and in one run with few entries almost anything fits (then the
 * diagnosis stays silent rather than guess). */
#ifndef TH_AUTOGRAD_DIAGNOSE_H
#define TH_AUTOGRAD_DIAGNOSE_H

#include "tapehead.h"

/* Kind, its name in JSON. */
#define TH__BUG_LIST(X)                                                                            \
  X(TH__BUG_FACTOR, "factor")                     /* a constant, or one named array, too much */   \
  X(TH__BUG_SIGN, "sign")                         /* the whole, or one term of it, negated */      \
  X(TH__BUG_TRANSPOSE, "transpose")               /* two axes exchanged */                         \
  X(TH__BUG_MISSING_ROW_SUM, "missing-row-sum")   /* as softmax's - P * sum(P * dP) */             \
  X(TH__BUG_MISSING_MEAN, "missing-mean")         /* as a norm's - mean(dY) */                     \
  X(TH__BUG_MISSING_TERM, "missing-term")         /* some other term, or everything */             \
  X(TH__BUG_OVERWRITTEN, "overwritten")           /* one use's part only, instead of their sum */  \
  X(TH__BUG_MASK_SHIFTED, "mask-shifted")         /* zeros one row or column off */                \
  X(TH__BUG_MASK_NOT_APPLIED, "mask-not-applied") /* right where the mask is 1, not 0 elsewhere */ \
  X(TH__BUG_HEADS_PERMUTED, "heads-permuted")     /* right numbers in another order of blocks */   \
  X(TH__BUG_NOT_SUMMED, "not-summed")             /* a broadcast axis kept, or one slice of it */  \
  X(TH__BUG_ROTATED, "rotated-wrong-way")         /* pairs turned by +angle instead of -angle */   \
  X(TH__BUG_UNKNOWN, "unknown")

typedef enum th__bug {
#define X(code, name) code,
  TH__BUG_LIST(X)
#undef X
} th__bug;

const char *th__bug_name(th__bug kind);

/* A row-major array. ndim 0 is a scalar. */
typedef struct th__grid {
  int ndim;
  ptrdiff_t shape[TH_MAX_DIMS];
  const double *data;
} th__grid;

/* A named array that the mistake may have to do with. Any shape; one that does not broadcast to the
 * gradient's is used where it can be (summed over, or as a scalar). */
typedef enum th__clue_kind {
  TH__CLUE_VALUE,    /* of the forward pass: inputs, inner values, outputs, masks (0 and 1 only) */
  TH__CLUE_GRADIENT, /* a true gradient the backward pass starts from, such as dy */
  TH__CLUE_PART      /* a share of `want`, of its shape: what one use of the value contributes. All
                        parts together give `want`; leave them out if they are not known. The name
                        says which use: "K (line 7)" */
} th__clue_kind;

typedef struct th__clue {
  const char *name;
  th__clue_kind kind;
  th__grid grid;
} th__clue;

/* A number that a factor may be made of: a size ("d", "n", "heads"), eps, a dropout rate. */
typedef struct th__constant {
  const char *name;
  double value;
} th__constant;

/* One run. Clues and constants: the same names in the same order in every run; shapes may differ. */
typedef struct th__evidence {
  th__grid got, want; /* got may have another shape: then a transpose or a sum is looked for */
  int clue_count;
  const th__clue *clues;
  int constant_count;
  const th__constant *constants;
  bool reassigned; /* the gradient was assigned more than once: suspect TH__BUG_OVERWRITTEN first */
} th__evidence;

#define TH__DIAGNOSIS_RUNS 8 /* more runs are not looked at */
#define TH__DIAGNOSIS_TEXT 320

typedef struct th__diagnosis {
  th__bug kind;
  double factor; /* got = factor * want (or the named part of it) in run 0; NaN where it says nothing */
  char text[TH__DIAGNOSIS_TEXT]; /* follows "NAME: "; no full stop */
} th__diagnosis;

/* `name` is what the gradient is called ("dx"). `slack` is the relative accuracy of both sides: 1e-8
 * when `want` is exact to rounding in f64, 1e-5 when it is a finite difference or f32. TH_ERR_MEMORY
 * leaves "unknown". Call it only when got is known to be wrong. */
th_status th__diagnose(const char *name, int runs, const th__evidence *evidence, double slack,
                       th__diagnosis *found);

#endif
