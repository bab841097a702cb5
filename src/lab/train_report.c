/* train_report.c: steps and runs as lines, as a table and as JSON. */
#include "lab/train_report.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "lab/stats.h"
#include "tensor/alloc.h"

/* ---- lines ---- */

int th__train_log_line(char line[TH__TRAIN_LINE], uint64_t seed, const th__train_step *s) {
  return snprintf(line, TH__TRAIN_LINE,
                  "{\"seed\": %" PRIu64 ", \"step\": %ld, \"loss\": %.9g, \"accuracy\": %.6g, "
                  "\"grad_norm\": %.9g, \"entropy\": %.6g, \"tokens_per_second\": %.6g, "
                  "\"seconds_left\": %.3f}\n",
                  seed, s->step, s->loss, s->accuracy, s->grad_norm, s->entropy,
                  s->tokens_per_second, s->seconds_left);
}

/* "0:42", "1:02:03" */
static void time_text(char *text, size_t room, double seconds) {
  double hours = floor(seconds / 3600), minutes = floor(fmod(seconds, 3600) / 60);
  if (hours > 0)
    snprintf(text, room, "%.0f:%02.0f:%02.0f", hours, minutes, floor(fmod(seconds, 60)));
  else
    snprintf(text, room, "%.0f:%02.0f", minutes, floor(fmod(seconds, 60)));
}

int th__train_progress(char line[TH__TRAIN_LINE], int columns, const char *which,
                       const th__train_step *s, long steps) {
  char left[48];
  time_text(left, sizeof left, s->seconds_left);
  const char *format = columns >= 116
                           ? "%sstep %ld/%ld  loss %.4f  accuracy %.3f  gradient norm %.3g"
                             "  attention entropy %.3f  %.0f tokens/s  %s left"
                           : "%s%ld/%ld loss %.4f acc %.3f grad %.2g"
                             " entropy %.2f %.0f tok/s %s";
  char full[TH__TRAIN_LINE];
  snprintf(full, sizeof full, format, which, s->step, steps, s->loss, s->accuracy, s->grad_norm,
           s->entropy, s->tokens_per_second, left);
  if (columns > TH__TRAIN_LINE) columns = TH__TRAIN_LINE;
  if (columns < 2) columns = 2;
  return snprintf(line, (size_t)columns, "%s", full) < columns ? (int)strlen(line) : columns - 1;
}

/* ---- JSON ---- */

static json_t *run_json(const th__train_run *run) {
  /* JSON as jansson has it knows signed 64-bit integers: larger seeds are written as text. */
  json_t *seed = run->seed <= INT64_MAX ? json_integer((json_int_t)run->seed)
                                        : json_sprintf("%" PRIu64, run->seed);
  json_t *reached = run->steps_to_95 < 0 ? json_null() : json_integer(run->steps_to_95);
  return json_pack("{s:o, s:I, s:f, s:f, s:f, s:o, s:f}", "seed", seed, "steps",
                   (json_int_t)run->steps, "final_loss", run->final_loss, "train_accuracy",
                   run->train_accuracy, "heldout_accuracy", run->heldout_accuracy, "steps_to_95",
                   reached, "tokens_per_second", run->tokens_per_second);
}

json_t *th__train_json(const th__train *t, const char *task, const char *scale,
                       const th__train_run *runs, int count) {
  json_t *list = json_array();
  bool good = list != NULL;
  for (int i = 0; i < count && good; i++)
    good = json_array_append_new(list, run_json(&runs[i])) == 0;
  if (!good) {
    json_decref(list);
    return NULL;
  }
  return json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:s, s:f, s:i, s:s, s:o}", "task", task,
                   "scale", scale, "dk", (json_int_t)t->dk, "heads", (json_int_t)t->heads, "layers",
                   (json_int_t)t->layers, "d_model", (json_int_t)t->d_model, "seq",
                   (json_int_t)t->seq, "optim", t->sgd ? "sgd" : "adamw", "lr", t->lr, "threads",
                   th_threads(), "version", th_version(), "runs", list);
}

/* ---- table ---- */

void th__train_head(const th__train *t, const char *task, const char *scale, FILE *out) {
  fprintf(out,
          "%s: %td layers, %td heads, d_model %td, d_k %td, scale %s, seq %td, batch %td, %s, lr %g, "
          "%d threads\n\n%6s %8s %11s %9s %9s %11s %10s\n",
          task, t->layers, t->heads, t->d_model, t->dk, scale, t->seq, t->batch,
          t->sgd ? "sgd" : "adamw", t->lr, th_threads(), "seed", "steps", "final loss", "train",
          "held-out", "to 95 %", "tokens/s");
}

void th__train_row(const th__train_run *run, FILE *out) {
  char reached[32] = "not reached";
  if (run->steps_to_95 >= 0) snprintf(reached, sizeof reached, "%ld", run->steps_to_95);
  fprintf(out, "%6" PRIu64 " %8ld %11.4f %8.1f%% %8.1f%% %11s %10.0f%s\n", run->seed, run->steps,
          run->final_loss, 100 * run->train_accuracy, 100 * run->heldout_accuracy, reached,
          run->tokens_per_second, run->stopped ? "  (stopped)" : "");
}

static void put_steps(double steps, FILE *out) {
  if (isfinite(steps))
    fprintf(out, "%.0f", steps);
  else
    fprintf(out, "not reached");
}

/* Sorts the values. A run that did not reach 95 % counts as later than all others. */
static void put_reached(double *values, int count, FILE *out) {
  double median = th__summarise(values, count).median;
  int reached = 0;
  for (int i = 0; i < count; i++) reached += isfinite(values[i]) != 0;
  fprintf(out, "steps to 95 %%:      median ");
  put_steps(median, out);
  fprintf(out, ", range ");
  put_steps(values[0], out);
  fprintf(out, " to ");
  put_steps(values[count - 1], out);
  fprintf(out, " (%d of %d runs)\n", reached, count);
}

void th__train_summary(const th__train_run *runs, int count, FILE *out) {
  double *values = th__alloc((size_t)count * sizeof *values);
  if (values == NULL) return;
  for (int i = 0; i < count; i++) values[i] = runs[i].final_loss;
  double median = th__summarise(values, count).median; /* sorts */
  fprintf(out, "\nfinal loss:         median %.4f, range %.4f to %.4f\n", median, values[0],
          values[count - 1]);
  for (int i = 0; i < count; i++) values[i] = 100 * runs[i].heldout_accuracy;
  median = th__summarise(values, count).median;
  fprintf(out, "held-out accuracy:  median %.1f%%, range %.1f%% to %.1f%%\n", median, values[0],
          values[count - 1]);
  for (int i = 0; i < count; i++)
    values[i] = runs[i].steps_to_95 < 0 ? (double)INFINITY : (double)runs[i].steps_to_95;
  put_reached(values, count, out);
  th__free(values);
}
