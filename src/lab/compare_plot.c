/* compare_plot.c: a comparison's figures over the distance, a line per model. */
#include "lab/compare.h"
#include "lab/plot.h"

static double accuracy(const th__compare_cell *c) { return 100 * c->accuracy; }
static double before(const th__compare_cell *c) { return c->start.first; }
static double after(const th__compare_cell *c) { return c->end.first / c->end.last; }
static double time_of(const th__compare_cell *c) { return c->step_ms; }
static double least(const th__compare_cell *c) { return 100 * c->accuracy_least; }
static double most(const th__compare_cell *c) { return 100 * c->accuracy_most; }

static const struct {
  const char *title, *unit;
  double (*figure)(const th__compare_cell *);
  double (*low)(const th__compare_cell *), (*high)(const th__compare_cell *);
  bool log_y;
} panels[] = {{"right answers, median and range of the seeds", "%", accuracy, least, most, false},
              {"gradient at the first step, before training", "|dL/dx|", before, NULL, NULL, true},
              {"the same after training, share of the last step's", "", after, NULL, NULL, true},
              {"time of a training step", "ms", time_of, NULL, NULL, true}};
enum { PANELS = sizeof panels / sizeof *panels };

typedef struct curves {
  double x[TH__COMPARE_MOST_DISTANCES];
  double y[TH__COMPARED][TH__COMPARE_MOST_DISTANCES];
  double low[TH__COMPARED][TH__COMPARE_MOST_DISTANCES];
  double high[TH__COMPARED][TH__COMPARE_MOST_DISTANCES];
  th__series series[TH__COMPARED];
} curves;

static void fill_curves(const th__compare_result *r, int panel, curves *c) {
  static const char *const titles[TH__COMPARED] = {"RNN", "LSTM", "transformer"};
  int count = r->options.distance_count;
  bool band = panels[panel].low != NULL && r->options.seeds > 1;
  for (int i = 0; i < r->count; i++) {
    const th__compare_cell *cell = &r->cells[i];
    int at = i / TH__COMPARED;
    c->x[at] = (double)cell->distance;
    c->y[cell->model][at] = panels[panel].figure(cell);
    if (!band) continue;
    c->low[cell->model][at] = panels[panel].low(cell);
    c->high[cell->model][at] = panels[panel].high(cell);
  }
  for (int m = 0; m < TH__COMPARED; m++)
    c->series[m] = (th__series){
        titles[m], count, c->x, c->y[m], band ? c->low[m] : NULL, band ? c->high[m] : NULL};
}

char *th__compare_svg(const th__compare_result *result, size_t *size, th_error *error) {
  curves all[PANELS];
  th__plot plots[PANELS];
  for (int i = 0; i < PANELS; i++) {
    fill_curves(result, i, &all[i]);
    plots[i] = (th__plot){.title = panels[i].title,
                          .x_label = "distance",
                          .y_label = panels[i].unit,
                          .log_x = true,
                          .log_y = panels[i].log_y,
                          .y_most = i == 0 ? 100 : 0,
                          .series = all[i].series,
                          .series_count = TH__COMPARED};
  }
  return th__plots_svg(plots, PANELS, 2, 1100, 760, size, error);
}
