/* compare_report.c: a comparison's results as JSON and as CSV. */
#include <inttypes.h>
#include <math.h>

#include "lab/compare.h"

/* ---- JSON ---- */

/* JSON has no NaN: what was not measured is null. */
static json_t *number(double value) { return isfinite(value) ? json_real(value) : json_null(); }

static json_t *gradient_json(th__compare_gradient g) {
  return json_pack("{s:o, s:o}", "first_step", number(g.first), "last_step", number(g.last));
}

static json_t *runs_json(const th__compare_cell *cell, const th__compare_options *o) {
  json_t *runs = json_array();
  bool good = runs != NULL;
  for (long i = 0; i < o->seeds && good; i++) {
    const th__compare_run *run = &cell->runs[i];
    if (!run->finished) continue;
    good = json_array_append_new(runs, json_pack("{s:I, s:I, s:b, s:f, s:o, s:o}", "seed",
                                                 (json_int_t)(o->seed + (uint64_t)i), "steps",
                                                 (json_int_t)run->steps, "learnt", run->learnt,
                                                 "accuracy", run->accuracy, "gradient_before",
                                                 gradient_json(run->start), "gradient_after",
                                                 gradient_json(run->end))) == 0;
  }
  if (good) return runs;
  json_decref(runs);
  return NULL;
}

static json_t *cell_json(const th__compare_cell *c, const th__compare_options *o) {
  json_t *runs = runs_json(c, o);
  if (runs == NULL) return NULL;
  return json_pack("{s:I, s:s, s:I, s:I, s:i, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
                   "distance", (json_int_t)c->distance, "model", th__compared_names[c->model],
                   "width", (json_int_t)c->width, "parameters", (json_int_t)c->parameters,
                   "finished", c->finished, "learnt", c->learnt, "accuracy", number(c->accuracy),
                   "accuracy_least", number(c->accuracy_least), "accuracy_most",
                   number(c->accuracy_most), "steps", number(c->steps), "gradient_before",
                   gradient_json(c->start), "gradient_after", gradient_json(c->end), "step_ms",
                   number(c->step_ms), "runs", runs);
}

json_t *th__compare_json(const th__compare_result *result, const char *command) {
  const th__compare_options *o = &result->options;
  json_t *cells = json_array(), *rates = json_object();
  bool good = cells != NULL && rates != NULL;
  for (int i = 0; i < result->count && good; i++)
    good = json_array_append_new(cells, cell_json(&result->cells[i], o)) == 0;
  for (int i = 0; i < TH__COMPARED && good; i++)
    good = json_object_set_new(rates, th__compared_names[i], json_real(o->lr[i])) == 0;
  json_t *seed =
      o->seed <= INT64_MAX ? json_integer((json_int_t)o->seed) : json_sprintf("%" PRIu64, o->seed);
  json_t *document = json_pack(
      "{s:O*, s:o, s:I, s:I, s:I, s:O*, s:I, s:I, s:b, s:i, s:s, s:s*}", "cells",
      good ? cells : NULL, "seed", seed, "seeds", (json_int_t)o->seeds, "steps",
      (json_int_t)o->steps, "batch", (json_int_t)o->batch, "lr", good ? rates : NULL, "pairs",
      (json_int_t)result->task.pairs, "answers", (json_int_t)result->task.values, "complete",
      result->complete, "threads", result->threads, "version", th_version(), "command", command);
  json_decref(cells);
  json_decref(rates);
  if (good) return document;
  json_decref(document);
  return NULL;
}

/* ---- CSV ---- */

static void put_number(FILE *out, double value) {
  if (isfinite(value)) /* an empty field: not measured */
    fprintf(out, ",%.17g", value);
  else
    fputc(',', out);
}

static void put_quoted(FILE *out, const char *text) {
  fputc('"', out);
  for (; text != NULL && *text != '\0'; text++) {
    if (*text == '"') fputc('"', out);
    fputc(*text, out);
  }
  fputc('"', out);
}

void th__compare_csv(const th__compare_result *result, const char *command, FILE *out) {
  const th__compare_options *o = &result->options;
  fprintf(out, "distance,model,width,parameters,finished,learnt,accuracy,accuracy_least,"
               "accuracy_most,steps,gradient_before_first,gradient_before_last,"
               "gradient_after_first,gradient_after_last,step_ms,lr,max_steps,seeds,batch,seed,"
               "threads,version,command\n");
  for (int i = 0; i < result->count; i++) {
    const th__compare_cell *c = &result->cells[i];
    fprintf(out, "%td,%s,%td,%td,%d,%d", c->distance, th__compared_names[c->model], c->width,
            c->parameters, c->finished, c->learnt);
    const double numbers[] = {c->accuracy,    c->accuracy_least, c->accuracy_most, c->steps,
                              c->start.first, c->start.last,     c->end.first,     c->end.last,
                              c->step_ms,     o->lr[c->model]};
    for (size_t n = 0; n < sizeof numbers / sizeof *numbers; n++) put_number(out, numbers[n]);
    fprintf(out, ",%ld,%ld,%ld,%" PRIu64 ",%d,%s,", o->steps, o->seeds, o->batch, o->seed,
            result->threads, th_version());
    put_quoted(out, command);
    fputc('\n', out);
  }
}
