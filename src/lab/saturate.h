/* saturate.h: the sweep over d_k, keys and scale: how sharp the softmax of attention is at random
 * queries and keys, and what is left of the gradient behind it.
 *
 * A point is (d_k, keys, scale). Its rows are independent draws of q [d_k], k [keys, d_k],
 * v [keys, d_k] and an upstream gradient [d_k], all N(0, 1); one row is one query over its keys. What
 * is measured is the library's own th_attention in the chosen precision, and its backward. A row's draw
 * depends on (seed, d_k, keys, row) only: the scales of a point see the same rows, and a point's
 * figures do not depend on what else is swept, nor on the number of threads.
 * docs/saturation.md says what each figure means and how it keeps its relative accuracy. */
#ifndef TH_LAB_SATURATE_H
#define TH_LAB_SATURATE_H

#include <jansson.h>
#include <stdio.h>

#include "lab/stats.h"
#include "tapehead.h"

/* Limits of a sweep's settings; each number has its place in the random stream. */
enum { TH__SATURATE_MOST_DK = 1 << 20, TH__SATURATE_MOST_KEYS = 1 << 20 };
enum { TH__SATURATE_MOST_SAMPLES = 1 << 22, TH__SATURATE_SAMPLES = 256 /* the default */ };

typedef struct th__saturate_scale {
  th_scale_kind kind;
  double factor;
  char name[32]; /* "none", "sqrt", "dk", "0.125" */
} th__saturate_scale;

/* Fields left 0 or NULL take the value in brackets. */
typedef struct th__saturate_options {
  const long *dk, *keys; /* each 1 .. TH__SATURATE_MOST_... [4,16,64,256,1024 and 8,32,128] */
  const th__saturate_scale *scales; /* [none, sqrt, dk] */
  int dk_count, keys_count, scale_count;
  long samples;   /* rows per point [TH__SATURATE_SAMPLES] */
  th_dtype dtype; /* TH_F64 or [TH_F32] */
  uint64_t seed;
  /* Called now and then with the share that is done, from any thread but one at a time. */
  void (*progress)(void *context, double done);
  void *progress_context;
} th__saturate_options;

/* What is measured of each row: name in reports, meaning. */
#define TH__SATURATE_FIGURE_LIST(X)                                                                \
  X(TH__ENTROPY, "entropy")               /* -sum p ln p, nats */                                  \
  X(TH__ONE_MINUS_MAX, "one_minus_max")   /* the sum of all weights but the largest */             \
  X(TH__JACOBIAN_TRACE, "jacobian_trace") /* of J = diag(p) - p p^T */                             \
  X(TH__JACOBIAN_NORM, "jacobian_norm")   /* Frobenius norm of J */                                \
  X(TH__DQ_NORM, "dq_norm")               /* |dL/dq| */                                            \
  X(TH__DK_NORM, "dk_norm")               /* |dL/dK| over all keys */

typedef enum th__saturate_figure {
#define X(code, name) code,
  TH__SATURATE_FIGURE_LIST(X)
#undef X
      TH__SATURATE_FIGURES
} th__saturate_figure;

typedef struct th__saturate_point {
  ptrdiff_t dk, keys;
  th__saturate_scale scale;
  double logit_variance,
      logit_variance_error; /* of scale q.k over all rows and keys; its std. error */
  th__summary figures[TH__SATURATE_FIGURES];
  double saturated_share; /* rows whose largest weight exceeds 0.99 */
  /* Both gradients against finite differences (attention_fd.h) on fd_rows of the rows: the larger of
   * the two relative errors, rows whose gradient underflowed included (error 1). */
  double fd_rel_error_median, fd_rel_error_max;
  ptrdiff_t fd_rows;
  ptrdiff_t zero_weights;       /* of samples * keys: underflowed to exactly 0 */
  ptrdiff_t zero_gradient_rows; /* of samples: dL/dq and dL/dK are exactly 0 */
} th__saturate_point;

typedef struct th__saturate_result {
  int dk_count, keys_count, scale_count;
  int count; /* of points: for each d_k, for each number of keys, for each scale */
  th__saturate_point *points;
  long samples;
  th_dtype dtype;
  uint64_t seed;
  int threads; /* what the sweep ran on */
} th__saturate_result;

/* Runs the sweep. NULL with `error`: a setting out of range, more memory needed than there is (says
 * how much), weights that are not finite (a scale too large for the precision), out of memory. */
th__saturate_result *th__saturate(const th__saturate_options *options, th_error *error);
void th__saturate_free(th__saturate_result *result);

/* ---- reports (saturate_report.c, saturate_plot.c); `command` is the command line, or NULL ---- */

json_t *th__saturate_json(const th__saturate_result *result, const char *command); /* NULL: memory */
void th__saturate_csv(const th__saturate_result *result, const char *command, FILE *out);
void th__saturate_table(const th__saturate_result *result, FILE *out);

/* All panels: a row per number of keys; |dL/dq| and one minus the largest weight over d_k, medians with
 * a band from the 10 % to the 90 % quantile, a line per scale. As th__plot_svg. */
char *th__saturate_svg(const th__saturate_result *result, size_t *size, th_error *error);
/* One figure's medians over d_k at the result's keys number `which` (0 ..), for a terminal. */
char *th__saturate_text_plot(const th__saturate_result *result, th__saturate_figure figure,
                             int which, int columns, int rows, size_t *size, th_error *error);

#endif
