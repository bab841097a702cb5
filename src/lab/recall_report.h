/* recall_report.h: the runs of slot-coded recall as JSON, CSV, tables and pictures. */
#ifndef TH_LAB_RECALL_REPORT_H
#define TH_LAB_RECALL_REPORT_H

#include <jansson.h>
#include <stdio.h>

#include "lab/recall.h"

/* A grid of runs: for each optimiser, each d_k, each scale, `seeds` runs with seeds first_seed, + 1, ... */
typedef struct th__recall_grid {
  int steps, seeds;
  uint64_t first_seed;
  ptrdiff_t count; /* runs: TH__RECALL_CELLS * seeds */
  th__recall_run *runs;
  double seconds; /* that all took */
} th__recall_grid;

enum { TH__RECALL_OPTIMS = 2, TH__RECALL_DKS = 3, TH__RECALL_SCALES = 3 };
enum { TH__RECALL_CELLS = TH__RECALL_OPTIMS * TH__RECALL_DKS * TH__RECALL_SCALES };
extern const ptrdiff_t th__recall_dks[TH__RECALL_DKS];              /* 16, 64, 256 */
extern const char *const th__recall_scale_names[TH__RECALL_SCALES]; /* none, sqrt, dk */
extern const char *const th__recall_optim_names[TH__RECALL_OPTIMS]; /* adamw, sgd */

/* Settings filled in, nothing run yet. False: memory. */
bool th__recall_grid_new(th__recall_grid *grid, int steps, int seeds, uint64_t first_seed,
                         th_error *error);
void th__recall_grid_free(th__recall_grid *grid);
/* The `seeds` runs of one cell. */
const th__recall_run *th__recall_cell(const th__recall_grid *grid, int optim, int dk, int scale);

/* What is known of a cell. */
typedef struct th__recall_cell_summary {
  int reached;         /* seeds that came to 95 % */
  double steps_median; /* to 95 %, among those; NaN if none */
  double steps_most;
  double heldout_median, heldout_least, heldout_most;
} th__recall_cell_summary;
th__recall_cell_summary th__recall_summarise(const th__recall_run *runs, int seeds);

/* Median over a cell's seeds of a figure at point `point` (all runs have the same points); NaN where
 * it was not measured. */
#define TH__RECALL_FIGURE_LIST(X)                                                                  \
  X(LOSS, loss, "loss")                                                                            \
  X(ACCURACY, accuracy, "accuracy")                                                                \
  X(LOGIT_SD, logit_sd, "logit_sd")                                                                \
  X(ENTROPY_RATIO, entropy_ratio, "entropy_ratio")                                                 \
  X(SATURATED, saturated_share, "saturated_share")                                                 \
  X(STUCK_WRONG, stuck_wrong_share, "stuck_wrong_share")                                           \
  X(STUCK_RIGHT, stuck_right_share, "stuck_right_share")                                           \
  X(JACOBIAN, jacobian_norm_median, "jacobian_norm_median")                                        \
  X(DQ_MEAN, dq_norm.mean, "dq_norm_mean")                                                         \
  X(DQ_MEDIAN, dq_norm.median, "dq_norm_median")                                                   \
  X(DQ_Q10, dq_norm.q10, "dq_norm_q10")                                                            \
  X(DQ_Q90, dq_norm.q90, "dq_norm_q90")                                                            \
  X(DWQ, dwq_norm, "dwq_norm")                                                                     \
  X(DWV, dwv_norm, "dwv_norm")                                                                     \
  X(FD_ERROR, fd_rel_error, "fd_rel_error")

typedef enum th__recall_figure {
#define X(code, field, name) TH__RECALL_##code,
  TH__RECALL_FIGURE_LIST(X)
#undef X
      TH__RECALL_FIGURES
} th__recall_figure;

double th__recall_figure_of(const th__recall_point *point, th__recall_figure figure);
double th__recall_median(const th__recall_run *runs, int seeds, int point, th__recall_figure figure);

json_t *th__recall_json(const th__recall_grid *grid); /* NULL: memory */
void th__recall_csv(const th__recall_grid *grid, FILE *out);
/* One line per cell: who reached 95 %, when, and the held-out accuracy. */
void th__recall_table(const th__recall_grid *grid, FILE *out);
/* How the cells of one optimiser and d_k develop, medians over seeds. */
void th__recall_development(const th__recall_grid *grid, int optim, int dk, FILE *out);

/* Figures over steps, a line per scale with a band over the seeds: as th__plots_svg. */
char *th__recall_svg(const th__recall_grid *grid, int optim, int dk, size_t *size, th_error *error);
/* Accuracy over steps, for a terminal. */
char *th__recall_text_plot(const th__recall_grid *grid, int optim, int dk, int columns, int rows,
                           size_t *size, th_error *error);

#endif
