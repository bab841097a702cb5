/* saturate_plot.c: a sweep's results as pictures. */
#include "lab/plot.h"
#include "lab/saturate.h"
#include "tensor/alloc.h"
#include "tensor/error.h"

static const char *const titles[] = {
    [TH__ENTROPY] = "entropy of the weights (nats)",
    [TH__ONE_MINUS_MAX] = "one minus the largest weight",
    [TH__JACOBIAN_TRACE] = "trace of the softmax Jacobian",
    [TH__JACOBIAN_NORM] = "norm of the softmax Jacobian",
    [TH__DQ_NORM] = "|dL/dq|",
    [TH__DK_NORM] = "|dL/dK|",
};

/* One panel's memory: its series, their x, y, low, high [dk_count] each, names and title. */
typedef struct panel {
  th__series *series;
  double *numbers;
  char (*names)[48], *title;
} panel;

enum { TITLE = 96 };

static bool panel_new(panel *p, const th__saturate_result *r) {
  size_t scales = (size_t)r->scale_count;
  p->series = th__alloc(scales * sizeof *p->series);
  p->numbers = th__alloc(scales * (size_t)r->dk_count * 4 * sizeof(double));
  p->names = th__alloc(scales * sizeof *p->names);
  p->title = th__alloc(TITLE);
  return p->series != NULL && p->numbers != NULL && p->names != NULL && p->title != NULL;
}

static void panel_free(panel *p) {
  th__free(p->series);
  th__free(p->numbers);
  th__free(p->names);
  th__free(p->title);
}

static void fill_series(panel *p, const th__saturate_result *r, th__saturate_figure figure,
                        int keys, int scale) {
  ptrdiff_t n = r->dk_count;
  double *x = p->numbers + (ptrdiff_t)scale * 4 * n, *y = x + n, *low = y + n, *high = low + n;
  for (ptrdiff_t i = 0; i < n; i++) {
    const th__saturate_point *point =
        &r->points[(i * r->keys_count + keys) * r->scale_count + scale];
    x[i] = (double)point->dk;
    y[i] = point->figures[figure].median;
    low[i] = point->figures[figure].q10;
    high[i] = point->figures[figure].q90;
    snprintf(p->names[scale], sizeof p->names[scale], "scale %s", point->scale.name);
  }
  p->series[scale] = (th__series){p->names[scale], n, x, y, low, high};
}

static th__plot fill_panel(panel *p, const th__saturate_result *r, th__saturate_figure figure,
                           int keys) {
  for (int i = 0; i < r->scale_count; i++) fill_series(p, r, figure, keys, i);
  snprintf(p->title, TITLE, "%s, %td keys (median, 10 %% to 90 %%)", titles[figure],
           r->points[(ptrdiff_t)keys * r->scale_count].keys);
  return (th__plot){.title = p->title,
                    .x_label = "d_k",
                    .y_label = titles[figure],
                    .log_x = true,
                    .log_y = figure != TH__ENTROPY,
                    .series = p->series,
                    .series_count = r->scale_count};
}

char *th__saturate_svg(const th__saturate_result *result, size_t *size, th_error *error) {
  static const th__saturate_figure figures[] = {TH__DQ_NORM, TH__ONE_MINUS_MAX};
  enum { ACROSS = sizeof figures / sizeof *figures, WIDTH = 560, HEIGHT = 380 };
  int count = ACROSS * result->keys_count;
  panel *panels = th__alloc_zero((size_t)count * sizeof *panels);
  th__plot *plots = th__alloc((size_t)count * sizeof *plots);
  bool good = panels != NULL && plots != NULL;
  for (int i = 0; i < count && good; i++) {
    good = panel_new(&panels[i], result);
    if (good) plots[i] = fill_panel(&panels[i], result, figures[i % ACROSS], i / ACROSS);
  }
  char *svg = NULL;
  if (good)
    svg = th__plots_svg(plots, count, ACROSS, ACROSS * WIDTH, result->keys_count * HEIGHT, size,
                        error);
  else
    th__error_memory(error, "saturate", (size_t)count * sizeof *plots);
  for (int i = 0; i < count && panels != NULL; i++) panel_free(&panels[i]);
  th__free(panels);
  th__free(plots);
  return svg;
}

char *th__saturate_text_plot(const th__saturate_result *result, th__saturate_figure figure,
                             int which, int columns, int rows, size_t *size, th_error *error) {
  panel p = {0};
  char *text = NULL;
  if (panel_new(&p, result)) {
    th__plot plot = fill_panel(&p, result, figure, which);
    text = th__plot_text(&plot, columns, rows, size, error);
  } else {
    th__error_memory(error, "saturate", sizeof(th__series));
  }
  panel_free(&p);
  return text;
}
