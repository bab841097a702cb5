/* demo.c: the gradient checks of the headline, and what its results say in words. */
#include "lab/demo.h"

#include <math.h>
#include <string.h>

#include "autograd/tape.h"
#include "tensor/error.h"

/* ---- (a) gradient checks ---- */

static void take_rows(th__demo_check *check, const th_gradcheck_result *result) {
  check->verdict = result->verdict;
  for (int i = 0; i < result->row_count; i++) {
    const th_gradcheck_row *row = &result->rows[i];
    bool f32 = row->dtype == TH_F32;
    double *worst = f32 ? &check->f32_abs_error : &check->f64_rel_error;
    double error = f32 ? row->max_abs_error : row->max_rel_error;
    check->compared += row->compared;
    if (!(error <= *worst)) *worst = error; /* NaN stays */
  }
}

static th_status check_op(th__demo *demo, const th_op *op, th_error *error) {
  for (const th_check *c = op->checks; c->forward != NULL && demo->check_count < TH__DEMO_CHECKS;
       c++) {
    th_gradcheck_result result;
    const th_gradcheck_options how = {.seed = demo->seed, .f32 = true};
    th_status status = th_gradcheck_case(c, &how, &result, error);
    if (status != TH_OK) return status;
    th__demo_check *check = &demo->checks[demo->check_count++];
    *check = (th__demo_check){.op = op->name, .variant = c->variant};
    take_rows(check, &result);
    demo->checks_failed += !th_verdict_ok(check->verdict);
  }
  return TH_OK;
}

th_status th__demo_run_checks(th__demo *demo, th_error *error) {
  static const char *const names[] = {"linear", "softmax", "attention", "multi_head_attention"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    for (const th_op *const *op = th__ops; *op != NULL; op++)
      if (strcmp((*op)->name, names[i]) == 0) {
        th_status status = check_op(demo, *op, error);
        if (status != TH_OK) return status;
      }
  return TH_OK;
}

/* ---- (d) the closing paragraph ---- */

enum { ADAMW, SGD };
enum { NONE, SQRT, BY_DK };
enum { WIDEST = TH__RECALL_DKS - 1 };

/* The sweep's point with the largest d_k and the middle number of keys. */
static const th__saturate_point *sweep_point(const th__saturate_result *sweep, int dk, int scale) {
  int keys = sweep->keys_count / 2;
  return &sweep->points[(dk * sweep->keys_count + keys) * sweep->scale_count + scale];
}

static void tell_sweep(const th__saturate_result *sweep, FILE *out) {
  const th__saturate_point *first = sweep_point(sweep, 0, NONE);
  const th__saturate_point *last = sweep_point(sweep, sweep->dk_count - 1, NONE);
  const th__saturate_point *scaled = sweep_point(sweep, sweep->dk_count - 1, SQRT);
  fprintf(
      out,
      "At random queries and keys the variance of q.k is d_k: measured %.3g at d_k = %td and %.4g at "
      "d_k = %td. Without a scale the share of rows whose largest weight exceeds 0.99 therefore grows "
      "from %.0f %% to %.0f %% (%td keys), and the Jacobian of the softmax in the median row falls "
      "from %.1e to %.1e; with 1/sqrt(d_k) it is %.1e at d_k = %td and the gradient of the median "
      "query is %.1e instead of %.1e. Finite differences agree (median relative error %.0e): what is "
      "dead is dead, not rounded away. ",
      first->logit_variance, first->dk, last->logit_variance, last->dk,
      100 * first->saturated_share, 100 * last->saturated_share, last->keys,
      first->figures[TH__JACOBIAN_NORM].median, last->figures[TH__JACOBIAN_NORM].median,
      scaled->figures[TH__JACOBIAN_NORM].median, scaled->dk, scaled->figures[TH__DQ_NORM].median,
      last->figures[TH__DQ_NORM].median, last->fd_rel_error_median);
}

static void tell_learning(const th__recall_grid *grid, int optim, FILE *out) {
  const char *names[] = {"AdamW", "SGD"};
  int seeds = grid->seeds;
  th__recall_cell_summary none =
      th__recall_summarise(th__recall_cell(grid, optim, WIDEST, NONE), seeds);
  th__recall_cell_summary root =
      th__recall_summarise(th__recall_cell(grid, optim, WIDEST, SQRT), seeds);
  th__recall_cell_summary by_dk =
      th__recall_summarise(th__recall_cell(grid, optim, WIDEST, BY_DK), seeds);
  fprintf(out, "With %s at d_k = %td, ", names[optim], th__recall_dks[WIDEST]);
  if (root.reached > 0)
    fprintf(out, "%d of %d seeds scaled by 1/sqrt(d_k) reach 95 %% (median %.0f steps), ",
            root.reached, seeds, root.steps_median);
  else
    fprintf(out, "no seed scaled by 1/sqrt(d_k) reaches 95 %% in %d steps, ", grid->steps);
  fprintf(out,
          "%d of %d scaled by 1/d_k, and %d of %d without a scale (held-out accuracy %.2f against "
          "%.2f, medians). ",
          by_dk.reached, seeds, none.reached, seeds, none.heldout_median, root.heldout_median);
}

/* What happens to the unscaled rows under AdamW at the widest d_k, from the first step to the last. */
static void tell_rows(const th__recall_grid *grid, FILE *out) {
  const th__recall_run *none = th__recall_cell(grid, ADAMW, WIDEST, NONE);
  const th__recall_run *root = th__recall_cell(grid, ADAMW, WIDEST, SQRT);
  int seeds = grid->seeds, last = none[0].point_count - 1;
  fprintf(
      out,
      "Without the scale the mean |dL/dq| of a row is at first %s, %.2g against %.2g: a few rows near "
      "a tie carry it. The median row has %.1e against %.1e, and at the last step %.1e with a Jacobian "
      "of norm %.1e. By then %.0f %% of all rows are frozen on a wrong key (%.0f %% with the scale): "
      "sharpness by itself is no fault, the scaled model ends with %.0f %% of its rows sharp on the "
      "right key; being sharp before having learnt is. ",
      th__recall_median(none, seeds, 0, TH__RECALL_DQ_MEAN) >
              th__recall_median(root, seeds, 0, TH__RECALL_DQ_MEAN)
          ? "larger, not smaller"
          : "smaller",
      th__recall_median(none, seeds, 0, TH__RECALL_DQ_MEAN),
      th__recall_median(root, seeds, 0, TH__RECALL_DQ_MEAN),
      th__recall_median(none, seeds, 0, TH__RECALL_DQ_MEDIAN),
      th__recall_median(root, seeds, 0, TH__RECALL_DQ_MEDIAN),
      th__recall_median(none, seeds, last, TH__RECALL_DQ_MEDIAN),
      th__recall_median(none, seeds, last, TH__RECALL_JACOBIAN),
      100 * th__recall_median(none, seeds, last, TH__RECALL_STUCK_WRONG),
      100 * th__recall_median(root, seeds, last, TH__RECALL_STUCK_WRONG),
      100 * th__recall_median(root, seeds, last, TH__RECALL_STUCK_RIGHT));
}

static double worst_fd_error(const th__recall_grid *grid) {
  double worst = 0;
  for (ptrdiff_t i = 0; i < grid->count; i++)
    for (int j = 0; j < grid->runs[i].point_count; j++)
      worst =
          fmax(worst, grid->runs[i].points[j].fd_rel_error); /* fmax passes over NaN: not checked */
  return worst;
}

void th__demo_conclusion(const th__demo *demo, FILE *out) {
  tell_sweep(demo->sweep, out);
  tell_learning(&demo->grid, ADAMW, out);
  tell_learning(&demo->grid, SGD, out);
  tell_rows(&demo->grid, out);
  fprintf(
      out,
      "The gradient of the live attention layer was compared with finite differences at four steps of "
      "every run; the largest relative error is %.1e.\n",
      worst_fd_error(&demo->grid));
}
