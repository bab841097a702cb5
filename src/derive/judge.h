/* judge.h: verdicts, from all draws together. */
#ifndef TH_DERIVE_JUDGE_H
#define TH_DERIVE_JUDGE_H

#include "derive/compare.h"
#include "derive/derive.h"
#include "derive/sizes.h"

enum { TH__KEPT_DRAWS = TH__DIAGNOSIS_RUNS };

/* One claim in one draw. */
typedef enum th__result { TH__EQUAL_TO_TRUTH, TH__KINKED, TH__OFF, TH__UNJUDGED } th__result;

typedef struct th__trial_record {
  bool varied, unequal, related; /* as in th__jitter; varied: not the given sizes */
  bool chain_unsure;             /* a kink was let pass in this draw */
  const ptrdiff_t *sizes;
} th__trial_record;

/* All draws made so far: results[draw * claims + claim]. */
typedef struct th__court {
  th__calc *calc; /* of the report */
  const th__derivation *derivation;
  th__report *report;
  int draw_count;
  th__trial_record *records;
  unsigned char *given, *chained; /* th__result */
  th__draw *kept[TH__KEPT_DRAWS]; /* the first draws, for the diagnosis */
  int kept_count;
} th__court;

/* Compares every claim of a draw with the truth and enters the results. */
void th__court_hear(th__court *court, th__draw *draw, const th__trial_record *record);

/* After the last draw: verdicts, notes, diagnoses. */
void th__court_close(th__court *court);

/* explain.c: names the mistake of a claim that is wrong. */
void th__explain(th__court *court, int claim, th__finding *finding);

#endif
