/* demo.h: the headline: what 1/sqrt(d_k) is for, measured, told and written down. */
#ifndef TH_LAB_DEMO_H
#define TH_LAB_DEMO_H

#include "lab/recall_report.h"
#include "lab/saturate.h"
#include "tapehead.h"

/* One case of part (a): the worst of its inputs. */
typedef struct th__demo_check {
  const char *op, *variant;
  th_verdict verdict;
  ptrdiff_t compared;   /* gradient entries and projections compared, f64 and f32 */
  double f64_rel_error; /* largest, against finite differences */
  double f32_abs_error; /* largest, against f64; judged by an error bound, which is relative to the
                           terms that are added, since a sum of them may be 0 */
} th__demo_check;

enum { TH__DEMO_CHECKS = 64 };

typedef struct th__demo {
  uint64_t seed;
  const char *command; /* the command line, for the report */
  th__demo_check checks[TH__DEMO_CHECKS];
  int check_count, checks_failed;
  th__saturate_result *sweep;
  th__recall_grid grid;
  double seconds;
} th__demo;

/* Part (a): gradient checks of linear, softmax, masked attention and multi-head attention. */
th_status th__demo_run_checks(th__demo *demo, th_error *error);

/* The closing paragraph, computed from the results. */
void th__demo_conclusion(const th__demo *demo, FILE *out);

/* Writes the report into a folder, which is made if it is missing: index.html (self-contained),
 * checks.json, saturation.json, saturation.csv, saturation.svg, recall.json, recall.csv and a
 * recall-OPTIM-dkN.svg for each optimiser and d_k. Each file whole or not at all. */
th_status th__demo_write(const th__demo *demo, const char *folder, th_error *error);

#endif
