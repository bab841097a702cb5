/* compare_text.c: a comparison's results as a table, and the paragraph about them. */
#include <inttypes.h>
#include <math.h>

#include "lab/compare.h"

static const char *const titles[TH__COMPARED] = {"RNN", "LSTM", "transformer"};

/* ---- table ---- */

static void put_cell(const th__compare_cell *c, long seeds, FILE *out) {
  fprintf(out, "%8td %-12s %6td", c->distance, titles[c->model], c->parameters);
  if (c->finished == 0)
    fprintf(out, " %18s %7s %9s %9s %9s", "not finished", "", "", "", "");
  else
    fprintf(out, " %5.1f %% %4.1f..%-5.1f %7.0f %9.1e %9.1e %9.1e", 100 * c->accuracy,
            100 * c->accuracy_least, 100 * c->accuracy_most, c->steps, c->start.first, c->end.first,
            c->end.first / c->end.last);
  if (isfinite(c->step_ms))
    fprintf(out, " %8.2f", c->step_ms);
  else
    fprintf(out, " %8s", "");
  if (c->finished > 0 && c->finished < seeds) fprintf(out, "  %d of %ld runs", c->finished, seeds);
  fputc('\n', out);
}

void th__compare_table(const th__compare_result *result, FILE *out) {
  const th__compare_options *o = &result->options;
  const th__distance *t = &result->task;
  fprintf(
      out,
      "Recall: %td pairs of %td keys and %td values, `distance` fillers, one question; chance is "
      "%.1f %%. One layer each,\n"
      "at most %ld steps of %ld sequences, medians of %ld seed%s from %" PRIu64 ", %d thread%s\n\n",
      t->pairs, t->keys, t->values, 100 / (double)t->values, o->steps, o->batch, o->seeds,
      o->seeds == 1 ? "" : "s", o->seed, result->threads, result->threads == 1 ? "" : "s");
  fprintf(out,
          "%8s %-12s %6s %18s %7s %29s %8s\n"
          "%8s %-12s %6s %18s %7s %9s %9s %9s %8s\n",
          "", "", "param-", "right answers", "steps", "gradient at the first step", "ms per",
          "distance", "model", "eters", "median least..most", "taken", "before", "after", "of last",
          "step");
  for (int i = 0; i < result->count; i++) {
    if (i > 0 && i % TH__COMPARED == 0) fputc('\n', out);
    put_cell(&result->cells[i], o->seeds, out);
  }
  fprintf(
      out,
      "\n"
      "Steps taken: training ends early at 99 %%. Gradient at the first step: norm of dL/dx there, "
      "from the loss at the\n"
      "last step, before and after training, and after it as a share of the same at the last step; "
      "sequences that ask\n"
      "for the first pair, in f64.\n");
}

/* ---- the paragraph ---- */

static const th__compare_cell *cell_at(const th__compare_result *r, int distance, int model) {
  return &r->cells[distance * TH__COMPARED + model];
}

/* Where the median is at least 90 % right: " at distances 8 and 32", " at every distance". */
static void put_reach(const th__compare_result *r, int model, FILE *out) {
  int count = r->options.distance_count, reached = 0;
  for (int d = 0; d < count; d++) reached += cell_at(r, d, model)->accuracy >= 0.9;
  fprintf(out, " reaches 90 %%%s",
          reached == 0       ? " at no distance"
          : reached == count ? " at every distance"
                             : " at ");
  if (reached == 0 || reached == count) return;
  for (int d = 0, left = reached; d < count; d++) {
    if (!(cell_at(r, d, model)->accuracy >= 0.9)) continue;
    fprintf(out, "%s%td",
            left == reached ? (reached == 1 ? "distance " : "distances ")
            : left == 1     ? " and "
                            : ", ",
            cell_at(r, d, model)->distance);
    left--;
  }
}

/* Distances where all three models have results: the first and the last; false if there is none. */
static bool compared(const th__compare_result *r, int *first, int *last) {
  *first = *last = -1;
  for (int d = 0; d < r->options.distance_count; d++) {
    bool all = true;
    for (int m = 0; m < TH__COMPARED; m++) all = all && cell_at(r, d, m)->finished > 0;
    if (all && *first < 0) *first = d;
    if (all) *last = d;
  }
  return *first >= 0;
}

static void put_accuracy(const th__compare_result *r, int last, FILE *out) {
  fprintf(out, "At distance %td", cell_at(r, last, 0)->distance);
  for (int m = 0; m < TH__COMPARED; m++)
    fprintf(out, "%s the %s is right in %.1f %%",
            m == 0                  ? ""
            : m == TH__COMPARED - 1 ? " and"
                                    : ",",
            titles[m], 100 * cell_at(r, last, m)->accuracy);
  fprintf(out, " of its answers (chance: %.1f %%). ", 100 / (double)r->task.values);
  for (int m = 0; m < TH__COMPARED; m++) {
    fprintf(out, "%s %s", m == 0 ? "The" : m == TH__COMPARED - 1 ? " and the" : ", the", titles[m]);
    put_reach(r, m, out);
  }
  fprintf(out, ". ");
}

/* By what factor a figure falls or grows from one distance to another. */
static void put_change(double from, double to, FILE *out) {
  if (from == 0 && to == 0)
    fprintf(out, "is 0 at both");
  else if (to == 0)
    fprintf(out, "falls from %.1e to 0", from);
  else if (from > to)
    fprintf(out, "falls %.3g-fold", from / to);
  else
    fprintf(out, "grows %.3g-fold", to / from);
}

static void put_gradients(const th__compare_result *r, int first, int last, FILE *out) {
  fprintf(out,
          "From distance %td to %td, the gradient that arrives at the first step before training",
          cell_at(r, first, 0)->distance, cell_at(r, last, 0)->distance);
  for (int m = 0; m < TH__COMPARED; m++) {
    fprintf(out, "%s ", m == 0 ? "" : m == TH__COMPARED - 1 ? ", and" : ",");
    put_change(cell_at(r, first, m)->start.first, cell_at(r, last, m)->start.first, out);
    fprintf(out, " in the %s", titles[m]);
  }
  fprintf(out, "; after training, at distance %td, it is", cell_at(r, last, 0)->distance);
  for (int m = 0; m < TH__COMPARED; m++) {
    const th__compare_cell *c = cell_at(r, last, m);
    fprintf(out, "%s %.1e in the %s",
            m == 0                  ? ""
            : m == TH__COMPARED - 1 ? " and"
                                    : ",",
            c->end.first / c->end.last, titles[m]);
  }
  fprintf(out, ", as a share of what arrives at the last step. ");
}

static void put_times(const th__compare_result *r, int first, int last, FILE *out) {
  double tokens = (double)(cell_at(r, last, 0)->distance + r->task.pairs + 1) /
                  (double)(cell_at(r, first, 0)->distance + r->task.pairs + 1);
  fprintf(out, "For sequences %.3g times as long a training step takes", tokens);
  for (int m = 0; m < TH__COMPARED; m++)
    fprintf(out, "%s %.3g times as long in the %s",
            m == 0                  ? ""
            : m == TH__COMPARED - 1 ? " and"
                                    : ",",
            cell_at(r, last, m)->step_ms / cell_at(r, first, m)->step_ms, titles[m]);
  fprintf(out, "; at distance %td a step takes the transformer %.3g times what it takes the LSTM.",
          cell_at(r, last, 0)->distance,
          cell_at(r, last, TH__TRANSFORMER)->step_ms / cell_at(r, last, TH__LSTM)->step_ms);
}

void th__compare_summary(const th__compare_result *result, FILE *out) {
  int first, last;
  if (!compared(result, &first, &last)) {
    fprintf(out, "No distance was finished by all three models: there is nothing to compare.\n");
    return;
  }
  put_accuracy(result, last, out);
  if (first < last) {
    put_gradients(result, first, last, out);
    put_times(result, first, last, out);
  }
  fputc('\n', out);
}
