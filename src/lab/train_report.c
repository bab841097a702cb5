/* train_report.c: steps and runs as lines, as a table and as JSON. */
#include "lab/train_report.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "lab/stats.h"
#include "tensor/alloc.h"

/* ---- lines ---- */

int th__train_log_line(char line[TH__TRAIN_LINE], uint64_t seed, const th__train_step *s) {
  char entropy[32] = "null";
  if (!isnan(s->entropy)) snprintf(entropy, sizeof entropy, "%.6g", s->entropy);
  return snprintf(line, TH__TRAIN_LINE,
                  "{\"seed\": %" PRIu64 ", \"step\": %ld, \"loss\": %.9g, \"accuracy\": %.6g, "
                  "\"lr\": %.9g, \"grad_norm\": %.9g, \"entropy\": %s, "
                  "\"tokens_per_second\": %.6g, \"seconds_left\": %.3f}\n",
                  seed, s->step, s->loss, s->accuracy, s->lr, s->grad_norm, entropy,
                  s->tokens_per_second, s->seconds_left);
}

int th__train_validation_line(char line[TH__TRAIN_LINE], uint64_t seed,
                              const th__train_validation *v) {
  return snprintf(line, TH__TRAIN_LINE,
                  "{\"seed\": %" PRIu64 ", \"step\": %ld, \"validation_loss\": %.9g, "
                  "\"validation_accuracy\": %.6g, \"best\": %s%s}\n",
                  seed, v->step, v->loss, v->accuracy, v->best ? "true" : "false",
                  v->final ? ", \"final\": true" : "");
}

char *th__train_sample_line(uint64_t seed, long step, const char *text) {
  json_t *sample = json_string(text);
  char *quoted = sample == NULL ? NULL : json_dumps(sample, JSON_ENCODE_ANY);
  json_decref(sample);
  size_t room = quoted == NULL ? 0 : strlen(quoted) + 96;
  char *line = quoted == NULL ? NULL : th__alloc(room);
  if (line != NULL)
    snprintf(line, room, "{\"seed\": %" PRIu64 ", \"step\": %ld, \"sample\": %s}\n", seed, step,
             quoted);
  th__free(quoted);
  return line;
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
  char left[48], entropy[48] = ""; /* a recurrent model has none */
  bool wide = columns >= 116;
  time_text(left, sizeof left, s->seconds_left);
  if (!isnan(s->entropy))
    snprintf(entropy, sizeof entropy, wide ? "  attention entropy %.3f" : " entropy %.2f",
             s->entropy);
  const char *format = wide ? "%sstep %ld/%ld  loss %.4f  accuracy %.3f  gradient norm %.3g"
                              "%s  %.0f tokens/s  %s left"
                            : "%s%ld/%ld loss %.4f acc %.3f grad %.2g%s %.0f tok/s %s";
  char full[TH__TRAIN_LINE];
  snprintf(full, sizeof full, format, which, s->step, steps, s->loss, s->accuracy, s->grad_norm,
           entropy, s->tokens_per_second, left);
  if (columns > TH__TRAIN_LINE) columns = TH__TRAIN_LINE;
  if (columns < 2) columns = 2;
  return snprintf(line, (size_t)columns, "%s", full) < columns ? (int)strlen(line) : columns - 1;
}

/* ---- JSON ---- */

/* null: never validated */
static json_t *loss_json(double loss) { return isnan(loss) ? json_null() : json_real(loss); }

static json_t *run_json(const th__train_run *run) {
  /* JSON as jansson has it knows signed 64-bit integers: larger seeds are written as text. */
  json_t *seed = run->seed <= INT64_MAX ? json_integer((json_int_t)run->seed)
                                        : json_sprintf("%" PRIu64, run->seed);
  json_t *reached = run->steps_to_95 < 0 ? json_null() : json_integer(run->steps_to_95);
  return json_pack("{s:o, s:I, s:f, s:f, s:f, s:o, s:o, s:o, s:o, s:f}", "seed", seed, "steps",
                   (json_int_t)run->steps, "final_loss", run->final_loss, "train_accuracy",
                   run->train_accuracy, "heldout_accuracy", run->heldout_accuracy, "steps_to_95",
                   reached, "validation_loss", loss_json(run->validation_loss), "best_loss",
                   loss_json(run->best_loss), "best_step",
                   isnan(run->best_loss) ? json_null() : json_integer(run->best_step),
                   "tokens_per_second", run->tokens_per_second);
}

json_t *th__train_json(const th__train *c, const th__train_run *runs, int count) {
  json_t *list = json_array();
  bool good = list != NULL;
  for (int i = 0; i < count && good; i++)
    good = json_array_append_new(list, run_json(&runs[i])) == 0;
  if (!good) {
    json_decref(list);
    return NULL;
  }
  char scale[32];
  th__train_get_text(c, TH__TRAIN_scale, scale, sizeof scale);
  return json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:f, s:i, s:s, s:o}", "task",
                   th__train_task_name(c), "model", th__train_word(c, TH__TRAIN_model), "scale",
                   scale, "dk", (json_int_t)c->dk, "heads", (json_int_t)c->heads, "layers",
                   (json_int_t)c->layers, "d_model", (json_int_t)c->d_model, "seq",
                   (json_int_t)c->seq, "batch", (json_int_t)c->batch, "optim",
                   th__train_word(c, TH__TRAIN_optim), "lr", c->lr, "threads", th_threads(),
                   "version", th_version(), "runs", list);
}

/* ---- table ---- */

void th__train_head(const th__train *c, FILE *out) {
  fprintf(out, "%s: ", c->text.count > 0 ? c->text.at[0] : th__train_task_name(c));
  if (c->text.count > 1) fprintf(out, "(and %d more) ", c->text.count - 1);
  if (c->model != TH__MODEL_GPT) fprintf(out, "%s, ", th__train_word(c, TH__TRAIN_model));
  fprintf(out, "%ld layers, ", c->layers);
  if (!th__train_is_recurrent(c)) fprintf(out, "%ld heads, ", c->heads);
  fprintf(out, "d_model %ld, ", c->d_model);
  if (!th__train_is_recurrent(c)) {
    char scale[32];
    th__train_get_text(c, TH__TRAIN_scale, scale, sizeof scale);
    fprintf(out, "d_k %ld, scale %s, ", c->dk, scale);
  }
  fprintf(out, "seq %ld, batch %ld, %s, lr %g, %d thread%s\n\n%6s %8s %11s %9s %9s %11s %10s\n",
          c->seq, c->batch, th__train_word(c, TH__TRAIN_optim), c->lr, th_threads(),
          th_threads() == 1 ? "" : "s", "seed", "steps", "final loss", "train", "held-out",
          "to 95 %", "tokens/s");
}

void th__train_row(const th__train_run *run, FILE *out) {
  char reached[32] = "not reached";
  if (run->steps_to_95 >= 0) snprintf(reached, sizeof reached, "%ld", run->steps_to_95);
  char speed[32] = "-"; /* a finished run that was resumed has done no step */
  if (run->tokens_per_second > 0) snprintf(speed, sizeof speed, "%.0f", run->tokens_per_second);
  static const char *const ends[] = {
      [TH__END_STEPS] = "", [TH__END_STOPPED] = "  (stopped)", [TH__END_PATIENCE] = "  (no better)"};
  fprintf(out, "%6" PRIu64 " %8ld %11.4f %8.1f%% %8.1f%% %11s %10s%s\n", run->seed, run->steps,
          run->final_loss, 100 * run->train_accuracy, 100 * run->heldout_accuracy, reached, speed,
          ends[run->end]);
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
