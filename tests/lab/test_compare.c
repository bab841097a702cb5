/* compare: parameter counts, the measured gradient against finite differences, a small comparison from
 * end to end, the same at several numbers of threads, ending early, reports, what is refused. */
/* ctest: full */
#include "lab/compare.h"

#include <stdlib.h>
#include <unistd.h>

#include "../support.h"
#include "tensor/alloc.h"
#include "tensor/purpose.h"

/* ---- parts ---- */

/* Within 3 % of the transformer's, and no neighbouring width is closer. */
Test(compare, parameters_are_about_the_same) {
  const ptrdiff_t widths[] = {8, 32, 128};
  th__distance task = th__compare_task(8);
  for (int i = 0; i < 3; i++) {
    ptrdiff_t counts[TH__COMPARED][3];
    for (int m = 0; m < TH__COMPARED; m++)
      for (int off = -1; off <= 1; off++) {
        ptrdiff_t width =
            th__compare_width((th__compared)m, &task, widths[i]) + (m == TH__TRANSFORMER ? 0 : off);
        th_model *model = th__compare_model((th__compared)m, &task, width, TH_F32, 1, NULL);
        counts[m][off + 1] = th_params_elements(th_model_params(model));
        th_model_free(model);
      }
    double wanted = (double)counts[TH__TRANSFORMER][1];
    for (int m = 0; m < TH__TRANSFORMER; m++) {
      double off = fabs((double)counts[m][1] - wanted);
      cr_assert_leq(off, 0.05 * wanted, "%s: %td of %g", th__compared_names[m], counts[m][1],
                    wanted);
      cr_assert_leq(off, fabs((double)counts[m][0] - wanted));
      cr_assert_leq(off, fabs((double)counts[m][2] - wanted));
    }
  }
}

static double loss_of(th_model *model, const th__distance *task, const int32_t *tokens,
                      const int32_t *answer) {
  th_tape *tape = th_tape_new();
  double loss = th_tensor_item(th__compare_loss(tape, model, task, 1, tokens, answer, NULL));
  th_tape_free(tape);
  return loss;
}

/* Norm of dL/d(row of the token table), by central differences. */
static double row_norm(th_model *model, const th__distance *task, const int32_t *tokens,
                       const int32_t *answer, int32_t row) {
  th_tensor *table = th_params_find(th_model_params(model), "wte.weight");
  double squares = 0, step = 1e-4;
  for (ptrdiff_t j = 0; j < table->shape[1]; j++) {
    ptrdiff_t at = row * table->shape[1] + j;
    double value = th__get(table, at);
    th__set(table, at, value + step);
    double above = loss_of(model, task, tokens, answer);
    th__set(table, at, value - step);
    double slope = (above - loss_of(model, task, tokens, answer)) / (2 * step);
    th__set(table, at, value);
    squares += slope * slope;
  }
  return sqrt(squares);
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median_of_even(double *values, int count) {
  qsort(values, (size_t)count, sizeof *values, ascending);
  return (values[count / 2 - 1] + values[count / 2]) / 2;
}

static void expect_true_gradient(th__compared kind) {
  const th__distance task = th__compare_task(5);
  ptrdiff_t length = th__distance_length(&task);
  th_model *model = th__compare_model(kind, &task, 6, TH_F64, 4, NULL);
  th_params *params = th_model_params(model);
  for (ptrdiff_t i = 0; i < th_params_count(params); i++) /* larger than at the start of training */
    th_init_normal(th_params_at(params, i), 0, 0.5, (th_random){4, (uint32_t)i, 0});
  int32_t tokens[TH__COMPARE_SEQUENCES * 16], answers[TH__COMPARE_SEQUENCES];
  th__distance_fill(&task, (th_random){9, TH__PURPOSE_COMPARE_GRADIENT, 0}, true,
                    TH__COMPARE_SEQUENCES, tokens, answers);
  double first[TH__COMPARE_SEQUENCES], last[TH__COMPARE_SEQUENCES];
  for (int i = 0; i < TH__COMPARE_SEQUENCES; i++) {
    const int32_t *one = tokens + i * length;
    first[i] = row_norm(model, &task, one, answers + i, one[0]);
    last[i] = row_norm(model, &task, one, answers + i, one[length - 1]);
  }
  th__compare_gradient got;
  th_error error = {0};
  cr_assert_eq(th__compare_gradients(kind, model, &task, 6, 9, &got, &error), TH_OK, "%s",
               error.message);
  double want = median_of_even(first, TH__COMPARE_SEQUENCES);
  cr_assert(want > 1e-6 && fabs(got.first - want) <= 1e-5 * want, "%s: %g, by differences %g",
            th__compared_names[kind], got.first, want);
  want = median_of_even(last, TH__COMPARE_SEQUENCES);
  cr_assert(want > 1e-6 && fabs(got.last - want) <= 1e-5 * want, "%s: %g, by differences %g",
            th__compared_names[kind], got.last, want);
  th_model_free(model);
}

Test(compare, gradient_equals_differences) {
  for (int m = 0; m < TH__COMPARED; m++) expect_true_gradient((th__compared)m);
}

/* What f32 could not tell from 0: 102 steps through tanh cells, each by a factor of 0.1 at most. */
Test(compare, small_gradients_do_not_underflow) {
  const th__distance task = th__compare_task(100);
  th_model *model = th__compare_model(TH__RNN, &task, 8, TH_F32, 4, NULL);
  th_tensor *w = th_params_find(th_model_params(model), "h.0.w_h");
  for (ptrdiff_t i = 0; i < w->count; i++) th__set(w, i, i % 9 == 0 ? 0.1 : 0);
  th__compare_gradient got;
  cr_assert_eq(th__compare_gradients(TH__RNN, model, &task, 8, 9, &got, NULL), TH_OK);
  double decay = log10(got.first / got.last);
  cr_assert(decay < -102 && decay > -125, "10^%g", decay);
  th_model_free(model);
}

/* ---- a comparison ---- */

static const long small_distances[] = {2, 5};
static const th__compare_options small = {.distances = small_distances,
                                          .distance_count = 2,
                                          .steps = 30,
                                          .seeds = 2,
                                          .batch = 8,
                                          .width = 8,
                                          .seed = 5};

static th__compare_result *run(const th__compare_options *options) {
  th_error error = {0};
  th__compare_result *result = th__comparison(options, &error);
  cr_assert_not_null(result, "%s", error.message);
  return result;
}

Test(compare, cells) {
  th__compare_result *r = run(&small);
  cr_assert(r->complete && r->count == 6);
  for (int i = 0; i < 6; i++) {
    const th__compare_cell *c = &r->cells[i];
    cr_assert_eq(c->distance, small_distances[i / 3]);
    cr_assert_eq((int)c->model, i % 3);
    cr_assert_eq(c->finished, 2);
    cr_assert(c->accuracy >= 0 && c->accuracy <= 1 && c->accuracy_least <= c->accuracy &&
              c->accuracy <= c->accuracy_most);
    cr_assert(c->step_ms > 0 && c->step_ms < 1e4);
    cr_assert(c->start.first > 0 && c->end.first > 0 && c->end.last > 0);
    cr_assert(c->runs[0].start.first != c->runs[1].start.first, "seeds differ");
    cr_assert(c->runs[0].start.first != c->runs[0].end.first, "training changes the gradient");
  }
  th__compare_free(r);
}

Test(compare, same_figures_at_any_number_of_threads) {
  th__compare_result *results[3];
  for (int t = 0; t < 3; t++) {
    th_set_threads(t + 1);
    results[t] = run(&small);
  }
  th_set_threads(0);
  for (int t = 1; t < 3; t++)
    for (int i = 0; i < 12; i++) {
      const th__compare_run *one = &results[0]->runs[i], *other = &results[t]->runs[i];
      cr_assert_eq(one->accuracy, other->accuracy);
      cr_assert_eq(one->end.first, other->end.first, "run %d at %d threads", i, t + 1);
      cr_assert_eq(one->start.last, other->start.last);
    }
  for (int t = 0; t < 3; t++) th__compare_free(results[t]);
}

/* The transformer learns to recall in a few hundred steps; a run ends there. */
Test(compare, the_transformer_learns) {
  const long distance[] = {8};
  th__compare_options o = {.distances = distance, .distance_count = 1, .seeds = 1, .seed = 1};
  th__compare_result *r = run(&o);
  const th__compare_cell *c = &r->cells[TH__TRANSFORMER];
  cr_assert_geq(c->accuracy, 0.97, "%g", c->accuracy);
  cr_assert(c->learnt == 1 && c->steps < 500, "after %g steps", c->steps);
  th__compare_free(r);
}

static bool stop_at(void *context, double done) {
  double *limit = context;
  cr_assert(done >= 0 && done <= 1.0001, "%g", done);
  return done < *limit;
}

Test(compare, ends_early_when_asked) {
  double limits[] = {0, 0.5};
  for (int i = 0; i < 2; i++) {
    th__compare_options o = small;
    o.progress = stop_at;
    o.progress_context = &limits[i];
    th__compare_result *r = run(&o);
    cr_assert_not(r->complete);
    int finished = 0;
    for (int k = 0; k < r->count; k++) finished += r->cells[k].finished;
    cr_assert(i == 0 ? finished == 0 : finished > 0 && finished < 12, "%d finished", finished);
    if (i == 0) cr_assert(isnan(r->cells[0].accuracy) && isnan(r->cells[0].step_ms));
    th__compare_free(r);
  }
}

/* ---- reports ---- */

typedef void writer(const th__compare_result *result, FILE *out);

static char *text_of(writer *write, const th__compare_result *result) {
  char *text;
  size_t size;
  FILE *out = open_memstream(&text, &size);
  write(result, out);
  fclose(out);
  return text;
}

static void csv(const th__compare_result *result, FILE *out) {
  th__compare_csv(result, "tapehead compare --seeds \"2\"", out);
}

static void expect_text(const char *text, const char *part) {
  cr_assert_not_null(strstr(text, part), "\"%s\" is not in:\n%s", part, text);
}

/* A result with known figures: the paragraph must follow them, whichever way they point. */
static th__compare_result *made_up(const double accuracy[6], const double start[6],
                                   const double ms[6]) {
  th__compare_options o = small;
  double at_once = 0;
  o.progress = stop_at;
  o.progress_context = &at_once;
  th__compare_result *r = run(&o);
  for (int i = 0; i < 6; i++) {
    th__compare_cell *c = &r->cells[i];
    c->finished = 2;
    c->accuracy = c->accuracy_least = c->accuracy_most = accuracy[i];
    c->steps = 30;
    c->start = (th__compare_gradient){start[i], 1};
    c->end = (th__compare_gradient){0.25, 0.5};
    c->step_ms = ms[i];
  }
  return r;
}

Test(compare, the_paragraph_follows_the_figures) {
  const double good[6] = {0.95, 0.95, 1, 0.125, 0.5, 1}, start[6] = {1e-3, 1, 1, 1e-9, 0.1, 2};
  const double ms[6] = {1, 2, 3, 10, 20, 60};
  th__compare_result *r = made_up(good, start, ms);
  char *text = text_of(th__compare_summary, r);
  expect_text(text, "At distance 5 the RNN is right in 12.5 %, the LSTM is right in 50.0 % and the "
                    "transformer is right in 100.0 %");
  expect_text(text, "The RNN reaches 90 % at distance 2, the LSTM reaches 90 % at distance 2 "
                    "and the transformer reaches 90 % at every distance");
  expect_text(text, "before training falls 1e+06-fold in the RNN, falls 10-fold in the LSTM, and "
                    "grows 2-fold in the transformer");
  expect_text(text, "5.0e-01 in the RNN");
  expect_text(text, "10 times as long in the RNN, 10 times as long in the LSTM and 20 times");
  expect_text(text, "transformer 3 times what it takes the LSTM");
  free(text);
  th__compare_free(r);

  const double turned[6] = {0.2, 1, 0.2, 1, 1, 0.1}; /* right at the farther one only */
  r = made_up(turned, start, ms);
  text = text_of(th__compare_summary, r);
  expect_text(text, "the transformer reaches 90 % at no distance");
  expect_text(text, "The RNN reaches 90 % at distance 5, the LSTM reaches 90 % at every distance");
  free(text);
  th__compare_free(r);
}

Test(compare, the_paragraph_of_nothing) {
  th__compare_options o = small;
  double at_once = 0;
  o.progress = stop_at;
  o.progress_context = &at_once;
  th__compare_result *r = run(&o);
  char *text = text_of(th__compare_summary, r), *table = text_of(th__compare_table, r);
  expect_text(text, "nothing to compare");
  expect_text(table, "not finished");
  cr_assert_null(strstr(table, "nan"), "%s", table);
  free(text);
  free(table);
  th__compare_free(r);
}

Test(compare, csv_and_json) {
  th__compare_result *r = run(&small);
  char *text = text_of(csv, r);
  int lines = 0, commas = 0, header = 0;
  for (const char *at = text; *at != '\0'; at++) {
    if (lines == 0) header += *at == ',';
    commas += *at == ',';
    lines += *at == '\n';
  }
  cr_assert_eq(lines, 7);
  cr_assert_eq(commas, 7 * header);
  expect_text(text, "\"tapehead compare --seeds \"\"2\"\"\"");
  free(text);

  json_t *json = th__compare_json(r, "tapehead compare");
  cr_assert_not_null(json);
  json_t *cells = json_object_get(json, "cells");
  cr_assert_eq(json_array_size(cells), 6);
  const json_t *last = json_array_get(cells, 5);
  cr_assert_str_eq(json_string_value(json_object_get(last, "model")), "transformer");
  cr_assert_eq(json_real_value(json_object_get(last, "accuracy")), r->cells[5].accuracy);
  cr_assert_eq(json_array_size(json_object_get(last, "runs")), 2);
  json_decref(json);
  th__compare_free(r);
}

Test(compare, picture) {
  if (access("/usr/bin/gnuplot", X_OK) != 0) cr_skip_test("gnuplot is not installed");
  th__compare_result *r = run(&small);
  size_t size;
  th_error error = {0};
  char *svg = th__compare_svg(r, &size, &error);
  cr_assert_not_null(svg, "%s", error.message);
  expect_text(svg, "transformer");
  expect_text(svg, "gradient at the first step");
  th__free(svg);
  th__compare_free(r);
}

/* ---- refusals ---- */

static void expect_refused(th__compare_options o, const char *text) {
  th_error error = {0};
  cr_assert_null(th__comparison(&o, &error));
  cr_assert_eq(error.status, TH_ERR_VALUE);
  expect_text(error.message, text);
}

Test(compare, refuses) {
  static const long falling[] = {8, 8}, none[] = {0};
  th__compare_options o = small;
  o.steps = -1;
  expect_refused(o, "steps is -1");
  o = small;
  o.width = 7;
  expect_refused(o, "the width is 7");
  o = small;
  o.distances = falling;
  expect_refused(o, "distance 2 is 8");
  o.distances = none;
  expect_refused(o, "distance 1 is 0");
  o = small;
  o.lr[TH__LSTM] = (double)NAN;
  expect_refused(o, "the learning rate of the lstm");
}
