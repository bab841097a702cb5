/* recall_plot.c: figures of the recall runs over steps. */
#include <stdio.h>

#include "lab/plot.h"
#include "lab/recall_report.h"

static const char *const scale_titles[TH__RECALL_SCALES] = {"no scale", "1/sqrt(d_k)", "1/d_k"};

/* Medians over seeds of one figure, and its least and largest seed, per point and scale. */
typedef struct curves {
  double step[TH__RECALL_POINTS];
  double median[TH__RECALL_SCALES][TH__RECALL_POINTS];
  double low[TH__RECALL_SCALES][TH__RECALL_POINTS], high[TH__RECALL_SCALES][TH__RECALL_POINTS];
  th__series series[TH__RECALL_SCALES];
} curves;

static void fill_curves(const th__recall_grid *grid, int optim, int dk, th__recall_figure figure,
                        curves *c) {
  for (int scale = 0; scale < TH__RECALL_SCALES; scale++) {
    const th__recall_run *runs = th__recall_cell(grid, optim, dk, scale);
    int points = runs[0].point_count;
    for (int j = 0; j < points; j++) {
      double low = th__recall_figure_of(&runs[0].points[j], figure), high = low;
      for (int i = 1; i < grid->seeds; i++) {
        double value = th__recall_figure_of(&runs[i].points[j], figure);
        low = value < low ? value : low;
        high = value > high ? value : high;
      }
      c->step[j] = runs[0].points[j].step;
      c->median[scale][j] = th__recall_median(runs, grid->seeds, j, figure);
      c->low[scale][j] = low;
      c->high[scale][j] = high;
    }
    c->series[scale] = (th__series){scale_titles[scale], points,        c->step,
                                    c->median[scale],    c->low[scale], c->high[scale]};
  }
}

static th__plot plot_of(const char *title, bool log_y, const curves *c) {
  return (th__plot){.title = title,
                    .x_label = "step",
                    .y_label = "",
                    .log_y = log_y,
                    .series = c->series,
                    .series_count = TH__RECALL_SCALES};
}

char *th__recall_svg(const th__recall_grid *grid, int optim, int dk, size_t *size, th_error *error) {
  static const struct {
    th__recall_figure figure;
    const char *title;
    bool log_y;
  } panels[] = {
      {TH__RECALL_LOSS, "loss", false},
      {TH__RECALL_ACCURACY, "held-out accuracy", false},
      {TH__RECALL_ENTROPY_RATIO, "entropy of the weights / ln 32", false},
      {TH__RECALL_STUCK_WRONG, "rows frozen on a wrong key", false},
      {TH__RECALL_JACOBIAN, "softmax Jacobian norm, median row", true},
      {TH__RECALL_DQ_MEDIAN, "|dL/dq|, median row", true},
      {TH__RECALL_DQ_MEAN, "|dL/dq|, mean over rows", true},
      {TH__RECALL_DWQ, "|dL/dWq|", true},
      {TH__RECALL_DWV, "|dL/dWv|", true},
  };
  enum { PANELS = sizeof panels / sizeof *panels };
  static curves all[PANELS];
  th__plot plots[PANELS];
  for (int i = 0; i < PANELS; i++) {
    fill_curves(grid, optim, dk, panels[i].figure, &all[i]);
    plots[i] = plot_of(panels[i].title, panels[i].log_y, &all[i]);
  }
  return th__plots_svg(plots, PANELS, 3, 1260, 1080, size, error);
}

char *th__recall_text_plot(const th__recall_grid *grid, int optim, int dk, int columns, int rows,
                           size_t *size, th_error *error) {
  static curves c;
  char title[96];
  fill_curves(grid, optim, dk, TH__RECALL_ACCURACY, &c);
  snprintf(title, sizeof title, "held-out accuracy, %s, d_k = %td, median of %d seeds",
           th__recall_optim_names[optim], th__recall_dks[dk], grid->seeds);
  th__plot plot = plot_of(title, false, &c);
  plot.y_most = 1;
  return th__plot_text(&plot, columns, rows, size, error);
}
