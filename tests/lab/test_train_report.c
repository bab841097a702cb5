/* train_report: lines of the log and of progress, the JSON document, the table. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lab/train_report.h"
#include "tensor/alloc.h"

static const th__train_step a_step = {.step = 1234,
                                      .loss = (double)1.2345678f,
                                      .accuracy = 0.953125,
                                      .lr = 0.003,
                                      .grad_norm = 0.53125,
                                      .entropy = 1.25,
                                      .tokens_per_second = 14427.4,
                                      .seconds_left = 3723.5};

Test(train_report, log_line_is_json) {
  char line[TH__TRAIN_LINE];
  int length = th__train_log_line(line, 7, &a_step);
  cr_assert(length == (int)strlen(line) && line[length - 1] == '\n');
  json_t *json = json_loads(line, 0, NULL);
  cr_assert(json_is_object(json) && json_object_size(json) == 9);
  static const char *const names[] = {"seed",        "step",      "loss",    "accuracy",
                                      "lr",          "grad_norm", "entropy", "tokens_per_second",
                                      "seconds_left"};
  const double values[] = {7, 1234, a_step.loss, 0.953125, 0.003, 0.53125, 1.25, 14427.4, 3723.5};
  for (int i = 0; i < 9; i++) {
    double got = json_number_value(json_object_get(json, names[i]));
    cr_assert(fabs(got - values[i]) <= 1e-6 * values[i], "%s: %g", names[i], got);
  }
  /* Enough digits for the f32 loss to be read back. */
  cr_assert_eq((float)json_real_value(json_object_get(json, "loss")), 1.2345678f);
  json_decref(json);
}

/* A recurrent model has no attention weights. */
Test(train_report, no_entropy) {
  char line[TH__TRAIN_LINE];
  th__train_step s = a_step;
  s.entropy = (double)NAN;
  th__train_log_line(line, 7, &s);
  json_t *json = json_loads(line, 0, NULL);
  cr_assert(json_is_null(json_object_get(json, "entropy")), "%s", line);
  json_decref(json);
  th__train_progress(line, 80, "", &s, 5000);
  cr_assert_str_eq(line, "1234/5000 loss 1.2346 acc 0.953 grad 0.53 14427 tok/s 1:02:03");
}

Test(train_report, validation_and_sample_lines) {
  char line[TH__TRAIN_LINE];
  const th__train_validation v = {.step = 20, .loss = 1.25, .accuracy = 0.5, .best = true};
  int length = th__train_validation_line(line, 3, &v);
  cr_assert_eq(length, (int)strlen(line));
  cr_assert_str_eq(line, "{\"seed\": 3, \"step\": 20, \"validation_loss\": 1.25, "
                         "\"validation_accuracy\": 0.5, \"best\": true}\n");
  char *sample = th__train_sample_line(3, 20, "a \"b\"\n");
  cr_assert_str_eq(sample, "{\"seed\": 3, \"step\": 20, \"sample\": \"a \\\"b\\\"\\n\"}\n");
  th__free(sample);
}

/* Extreme values still fit: a huge seed, a loss just finite. */
Test(train_report, longest_lines) {
  char line[TH__TRAIN_LINE];
  const th__train_step s = {.step = 1L << 40,
                            .loss = 3.4e38,
                            .accuracy = 1 / 3.0,
                            .grad_norm = 1.7976931348623157e308,
                            .entropy = 1e-7,
                            .tokens_per_second = 1e-300,
                            .seconds_left = 1e15};
  cr_assert_lt(th__train_log_line(line, UINT64_MAX, &s), TH__TRAIN_LINE);
  cr_assert_eq(line[strlen(line) - 1], '\n');
  cr_assert_not_null(strstr(line, "18446744073709551615"));
  for (int columns = 0; columns < 2 * TH__TRAIN_LINE; columns += 7) {
    int length = th__train_progress(line, columns, "seed 18446744073709551615  ", &s, 1L << 40);
    cr_assert_eq(length, (int)strlen(line));
    cr_assert(length < columns || length <= 1, "%d of %d columns", length, columns);
  }
}

Test(train_report, progress) {
  char line[TH__TRAIN_LINE];
  int length = th__train_progress(line, 200, "seed 3  ", &a_step, 5000);
  cr_assert_str_eq(line, "seed 3  step 1234/5000  loss 1.2346  accuracy 0.953  gradient norm 0.531  "
                         "attention entropy 1.250  14427 tokens/s  1:02:03 left");
  cr_assert_eq(length, (int)strlen(line));
  /* All figures, the time left included, on a usual terminal. */
  length = th__train_progress(line, 80, "", &a_step, 5000);
  cr_assert_str_eq(line, "1234/5000 loss 1.2346 acc 0.953 grad 0.53 entropy 1.25 14427 tok/s "
                         "1:02:03");
  cr_assert_lt(length, 80);
}

static const th__train a_setting = {.layers = 2,
                                    .heads = 4,
                                    .d_model = 64,
                                    .dk = 16,
                                    .seq = 32,
                                    .batch = 8,
                                    .steps = 100,
                                    .lr = 0.003};

static const th__train_run runs[] = {{.seed = 1,
                                      .validation_loss = 0.75,
                                      .best_loss = 0.5,
                                      .best_step = 80,
                                      .steps = 100,
                                      .final_loss = 0.5,
                                      .train_accuracy = 0.96,
                                      .heldout_accuracy = 0.95,
                                      .steps_to_95 = 90,
                                      .tokens_per_second = 1000.5},
                                     {.seed = UINT64_MAX,
                                      .validation_loss = (double)NAN,
                                      .best_loss = (double)NAN,
                                      .steps = 100,
                                      .final_loss = 0.25,
                                      .train_accuracy = 1,
                                      .heldout_accuracy = 0.99,
                                      .steps_to_95 = 40,
                                      .tokens_per_second = 2000},
                                     {.seed = 3,
                                      .validation_loss = (double)NAN,
                                      .best_loss = (double)NAN,
                                      .steps = 7,
                                      .final_loss = 2,
                                      .train_accuracy = 0.25,
                                      .heldout_accuracy = 0.125,
                                      .steps_to_95 = -1,
                                      .tokens_per_second = 3000,
                                      .end = TH__END_STOPPED}};

/* Exactly these fields: programs read them. */
Test(train_report, json) {
  json_t *got = th__train_json(&a_setting, runs, 3);
  cr_assert_not_null(got);
  json_t *want = json_pack(
      "{s:s, s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:s, s:f, s:i, s:s, s:[{s:i, s:i, s:f, s:f, "
      "s:f, s:i, s:f, s:f, s:i, s:f}, {s:s, s:i, s:f, s:f, s:f, s:i, s:n, s:n, s:n, s:f}, {s:i, "
      "s:i, s:f, s:f, s:f, s:n, s:n, s:n, s:n, s:f}]}",
      "task", "copy", "model", "gpt", "scale", "sqrt", "dk", 16, "heads", 4, "layers", 2, "d_model",
      64, "seq", 32, "batch", 8, "optim", "adamw", "lr", 0.003, "threads", th_threads(), "version",
      th_version(), "runs", /**/ "seed", 1, "steps", 100, "final_loss", 0.5, "train_accuracy", 0.96,
      "heldout_accuracy", 0.95, "steps_to_95", 90, "validation_loss", 0.75, "best_loss", 0.5,
      "best_step", 80, "tokens_per_second", 1000.5, /**/ "seed", "18446744073709551615", "steps",
      100, "final_loss", 0.25, "train_accuracy", 1.0, "heldout_accuracy", 0.99, "steps_to_95", 40,
      "validation_loss", "best_loss", "best_step", "tokens_per_second", 2000.0, /**/ "seed", 3,
      "steps", 7, "final_loss", 2.0, "train_accuracy", 0.25, "heldout_accuracy", 0.125,
      "steps_to_95", "validation_loss", "best_loss", "best_step", "tokens_per_second", 3000.0);
  cr_assert_not_null(want);
  char *text = json_dumps(got, JSON_INDENT(1));
  cr_assert(json_equal(got, want), "%s", text);
  free(text);
  json_decref(got);
  json_decref(want);
  th__train text_run = a_setting;
  text_run.scale = (th__scale){TH_SCALE_FACTOR, 0.5};
  th__train_set_text(&text_run, TH__TRAIN_text, "book", NULL);
  got = th__train_json(&text_run, NULL, 0);
  cr_assert_eq(json_array_size(json_object_get(got, "runs")), 0);
  cr_assert_str_eq(json_string_value(json_object_get(got, "task")), "text");
  cr_assert_str_eq(json_string_value(json_object_get(got, "scale")), "0.5");
  json_decref(got);
  th__train_free(&text_run);
}

static char *printed(void (*print)(FILE *out)) {
  char *text = NULL;
  size_t size;
  FILE *out = open_memstream(&text, &size);
  print(out);
  fclose(out);
  return text;
}

static void expect_text(void (*print)(FILE *out), const char *const *parts) {
  char *text = printed(print);
  for (; *parts != NULL; parts++)
    cr_assert_not_null(strstr(text, *parts), "no \"%s\" in:\n%s", *parts, text);
  free(text);
}

static void print_table(FILE *out) {
  th__train_head(&a_setting, out);
  for (int i = 0; i < 3; i++) th__train_row(&runs[i], out);
}

Test(train_report, table) {
  expect_text(print_table,
              (const char *const[]){
                  "copy: 2 layers, 4 heads, d_model 64, d_k 16, scale sqrt, seq 32, "
                  "batch 8, adamw, lr 0.003",
                  "     1      100      0.5000     96.0%     95.0%          90       1000\n",
                  "not reached       3000  (stopped)\n", NULL});
}

static void print_three(FILE *out) { th__train_summary(runs, 3, out); }
static void print_two(FILE *out) { th__train_summary(runs, 2, out); }

Test(train_report, median_and_range) {
  expect_text(print_three,
              (const char *const[]){"final loss:         median 0.5000, range 0.2500 to 2.0000\n",
                                    "held-out accuracy:  median 95.0%, range 12.5% to 99.0%\n",
                                    "steps to 95 %:      median 90, range 40 to not reached (2 of 3",
                                    NULL});
  expect_text(print_two,
              (const char *const[]){"final loss:         median 0.3750, range 0.2500 to 0.5000\n",
                                    "steps to 95 %:      median 65, range 40 to 90 (2 of 2", NULL});
}
