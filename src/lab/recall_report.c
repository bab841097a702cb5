/* recall_report.c: the grid of runs, its summaries, JSON, CSV and tables. */
#include "lab/recall_report.h"

#include <math.h>

#include "tensor/alloc.h"
#include "tensor/error.h"

const ptrdiff_t th__recall_dks[TH__RECALL_DKS] = {16, 64, 256};
const char *const th__recall_scale_names[TH__RECALL_SCALES] = {"none", "sqrt", "dk"};
const char *const th__recall_optim_names[TH__RECALL_OPTIMS] = {"adamw", "sgd"};

/* ---- the grid ---- */

static ptrdiff_t cell_of(int optim, int dk, int scale) {
  return ((ptrdiff_t)optim * TH__RECALL_DKS + dk) * TH__RECALL_SCALES + scale;
}

bool th__recall_grid_new(th__recall_grid *grid, int steps, int seeds, uint64_t first_seed,
                         th_error *error) {
  static const th_scale_kind kinds[] = {TH_SCALE_NONE, TH_SCALE_SQRT, TH_SCALE_DK};
  *grid = (th__recall_grid){.steps = steps, .seeds = seeds, .first_seed = first_seed};
  grid->count = (ptrdiff_t)TH__RECALL_CELLS * seeds;
  size_t bytes = (size_t)grid->count * sizeof *grid->runs;
  grid->runs = th__alloc_zero(bytes);
  if (grid->runs == NULL) {
    th__error_memory(error, "recall", bytes);
    return false;
  }
  for (ptrdiff_t i = 0; i < grid->count; i++) {
    ptrdiff_t cell = i / seeds;
    grid->runs[i].settings =
        (th__recall){.scale = kinds[cell % TH__RECALL_SCALES],
                     .dk = th__recall_dks[cell / TH__RECALL_SCALES % TH__RECALL_DKS],
                     .sgd = cell / (TH__RECALL_SCALES * TH__RECALL_DKS) == 1,
                     .steps = steps,
                     .seed = first_seed + (uint64_t)(i % seeds)};
  }
  return true;
}

void th__recall_grid_free(th__recall_grid *grid) { th__free(grid->runs); }

const th__recall_run *th__recall_cell(const th__recall_grid *grid, int optim, int dk, int scale) {
  return &grid->runs[cell_of(optim, dk, scale) * grid->seeds];
}

/* ---- summaries ---- */

double th__recall_figure_of(const th__recall_point *p, th__recall_figure figure) {
  switch (figure) {
#define X(code, field, name)                                                                       \
  case TH__RECALL_##code: return p->field;
    TH__RECALL_FIGURE_LIST(X)
#undef X
  case TH__RECALL_FIGURES: break;
  }
  return (double)NAN;
}

enum { MOST_SEEDS = 1000 }; /* the command allows no more */

double th__recall_median(const th__recall_run *runs, int seeds, int point,
                         th__recall_figure figure) {
  double values[MOST_SEEDS];
  for (int i = 0; i < seeds; i++) values[i] = th__recall_figure_of(&runs[i].points[point], figure);
  return th__summarise(values, seeds).median;
}

th__recall_cell_summary th__recall_summarise(const th__recall_run *runs, int seeds) {
  double steps[MOST_SEEDS], heldout[MOST_SEEDS];
  th__recall_cell_summary s = {.steps_most = (double)NAN};
  for (int i = 0; i < seeds; i++) {
    heldout[i] = runs[i].heldout_accuracy;
    if (runs[i].steps_to_95 >= 0) steps[s.reached++] = runs[i].steps_to_95;
  }
  s.steps_median = th__summarise(steps, s.reached).median;
  if (s.reached > 0) s.steps_most = steps[s.reached - 1]; /* sorted by now */
  s.heldout_median = th__summarise(heldout, seeds).median;
  s.heldout_least = heldout[0];
  s.heldout_most = heldout[seeds - 1];
  return s;
}

/* ---- JSON ---- */

static json_t *number(double value) { return isfinite(value) ? json_real(value) : json_null(); }

static json_t *point_json(const th__recall_point *p) {
  json_t *dq = json_pack("{s:o, s:o, s:o, s:o}", "mean", number(p->dq_norm.mean), "median",
                         number(p->dq_norm.median), "q10", number(p->dq_norm.q10), "q90",
                         number(p->dq_norm.q90));
  json_t *point = json_pack(
      "{s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "step", p->step, "loss",
      number(p->loss), "accuracy", number(p->accuracy), "logit_sd", number(p->logit_sd),
      "entropy_ratio", number(p->entropy_ratio), "saturated_share", number(p->saturated_share),
      "stuck_wrong_share", number(p->stuck_wrong_share), "stuck_right_share",
      number(p->stuck_right_share), "jacobian_norm_median", number(p->jacobian_norm_median),
      "dq_norm", dq, "dwq_norm", number(p->dwq_norm), "dwv_norm", number(p->dwv_norm));
  if (isfinite(p->fd_rel_error))
    json_object_set_new(point, "fd_rel_error", json_real(p->fd_rel_error));
  return point;
}

static json_t *run_json(const th__recall_grid *grid, ptrdiff_t i) {
  const th__recall_run *run = &grid->runs[i];
  ptrdiff_t cell = i / grid->seeds;
  json_t *trajectory = json_array();
  for (int j = 0; j < run->point_count; j++)
    json_array_append_new(trajectory, point_json(&run->points[j]));
  json_t *steps = run->steps_to_95 >= 0 ? json_integer(run->steps_to_95) : json_null();
  return json_pack(
      "{s:s, s:s, s:I, s:I, s:o, s:o, s:o}", "optim", th__recall_optim_names[run->settings.sgd],
      "scale", th__recall_scale_names[cell % TH__RECALL_SCALES], "dk", (json_int_t)run->settings.dk,
      "seed", (json_int_t)run->settings.seed, "steps_to_95", steps, "heldout_accuracy",
      number(run->heldout_accuracy), "trajectory", trajectory);
}

json_t *th__recall_json(const th__recall_grid *grid) {
  json_t *runs = json_array();
  for (ptrdiff_t i = 0; i < grid->count; i++) json_array_append_new(runs, run_json(grid, i));
  return json_pack("{s:o, s:s, s:i, s:f}", "runs", runs, "version", th_version(), "threads",
                   th_threads(), "seconds", grid->seconds);
}

/* ---- CSV and tables ---- */

void th__recall_csv(const th__recall_grid *grid, FILE *out) {
  fprintf(out, "optim,scale,dk,seed,step");
#define X(code, field, name) fprintf(out, ",%s", name);
  TH__RECALL_FIGURE_LIST(X)
#undef X
  fputc('\n', out);
  for (ptrdiff_t i = 0; i < grid->count; i++) {
    const th__recall_run *run = &grid->runs[i];
    for (int j = 0; j < run->point_count; j++) {
      fprintf(out, "%s,%s,%td,%llu,%d", th__recall_optim_names[run->settings.sgd],
              th__recall_scale_names[i / grid->seeds % TH__RECALL_SCALES], run->settings.dk,
              (unsigned long long)run->settings.seed, run->points[j].step);
      for (int f = 0; f < TH__RECALL_FIGURES; f++) {
        double value = th__recall_figure_of(&run->points[j], (th__recall_figure)f);
        if (isfinite(value))
          fprintf(out, ",%.9g", value);
        else
          fputc(',', out);
      }
      fputc('\n', out);
    }
  }
}

void th__recall_table(const th__recall_grid *grid, FILE *out) {
  fprintf(out, "%-6s %5s %-5s  %14s %22s   %s\n", "optim", "d_k", "scale", "seeds at 95 %",
          "steps to 95 %", "held-out accuracy, median (range)");
  for (int optim = 0; optim < TH__RECALL_OPTIMS; optim++)
    for (int dk = 0; dk < TH__RECALL_DKS; dk++)
      for (int scale = 0; scale < TH__RECALL_SCALES; scale++) {
        th__recall_cell_summary s =
            th__recall_summarise(th__recall_cell(grid, optim, dk, scale), grid->seeds);
        char steps[48] = "not reached";
        if (s.reached > 0)
          snprintf(steps, sizeof steps, "median %.0f, last %.0f", s.steps_median, s.steps_most);
        fprintf(out, "%-6s %5td %-5s  %8d of %2d %22s   %.3f (%.3f to %.3f)\n",
                th__recall_optim_names[optim], th__recall_dks[dk], th__recall_scale_names[scale],
                s.reached, grid->seeds, steps, s.heldout_median, s.heldout_least, s.heldout_most);
      }
}

/* The points a terminal has room for. */
static bool is_shown(int step, int steps) {
  return step == 0 || step == steps / 10 || step == steps / 4 / 50 * 50 || step == steps / 2 ||
         step == steps;
}

void th__recall_development(const th__recall_grid *grid, int optim, int dk, FILE *out) {
  fprintf(out, "%-5s %5s %7s %6s %7s %8s %6s %6s %6s %8s %8s %8s %8s %8s %8s\n", "scale", "step",
          "loss", "accur.", "logitSD", "H/ln n", "satur.", "wrong", "right", "|J| med", "|dq|mean",
          "|dq| med", "|dWq|", "|dWv|", "FD error");
  for (int scale = 0; scale < TH__RECALL_SCALES; scale++) {
    const th__recall_run *runs = th__recall_cell(grid, optim, dk, scale);
    for (int j = 0; j < runs[0].point_count; j++) {
      if (!is_shown(runs[0].points[j].step, grid->steps)) continue;
      double v[TH__RECALL_FIGURES];
      for (int f = 0; f < TH__RECALL_FIGURES; f++)
        v[f] = th__recall_median(runs, grid->seeds, j, (th__recall_figure)f);
      fprintf(out,
              "%-5s %5d %7.4f %6.3f %7.2f %8.4f %6.2f %6.2f %6.2f %8.1e %8.1e %8.1e %8.1e %8.1e ",
              th__recall_scale_names[scale], runs[0].points[j].step, v[TH__RECALL_LOSS],
              v[TH__RECALL_ACCURACY], v[TH__RECALL_LOGIT_SD], v[TH__RECALL_ENTROPY_RATIO],
              v[TH__RECALL_SATURATED], v[TH__RECALL_STUCK_WRONG], v[TH__RECALL_STUCK_RIGHT],
              v[TH__RECALL_JACOBIAN], v[TH__RECALL_DQ_MEAN], v[TH__RECALL_DQ_MEDIAN],
              v[TH__RECALL_DWQ], v[TH__RECALL_DWV]);
      if (isfinite(v[TH__RECALL_FD_ERROR]))
        fprintf(out, "%8.1e\n", v[TH__RECALL_FD_ERROR]);
      else
        fprintf(out, "%8s\n", "-");
    }
  }
}
