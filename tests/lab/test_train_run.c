/* ctest: full
 * train, run: a run that is interrupted and resumed is the run that was not, bit for bit; several parts of
 * a batch are the batch; schedules, early stop, samples; a folder is never overwritten unasked. */
#include <criterion/criterion.h>
#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/file.h"
#include "lab/run.h"
#include "tensor/alloc.h"

enum { MOST = 256 };

/* ---- a run in a folder ---- */

static char place[64];
static char *path(const char *folder, const char *name) {
  static char text[4][256];
  static int turn;
  char *out = text[turn++ % 4];
  snprintf(out, sizeof text[0], "%s/%s%s%s", place, folder, name[0] ? "/" : "", name);
  return out;
}
static void make_place(void) {
  snprintf(place, sizeof place, "/tmp/train_run_XXXXXX");
  cr_assert_not_null(mkdtemp(place));
}
static void remove_place(void) {
  char command[128];
  snprintf(command, sizeof command, "rm -rf '%s'", place);
  cr_assert_eq(system(command), 0);
}
TestSuite(train_run, .init = make_place, .fini = remove_place);

/* Dropout, several parts per batch, a schedule, a recording of every loss. */
#define SMALL                                                                                           \
  "\"layers\": 2, \"heads\": 2, \"d_model\": 16, \"seq\": 9, \"batch\": 6, \"accumulate\": 2, "         \
  "\"dropout\": 0.1, \"schedule\": \"cosine\", \"schedule_steps\": 40, \"warmup\": 4, \"save_every\": " \
  "10, \"eval_batches\": 2, \"lr\": 0.003"

typedef struct recording {
  double losses[MOST];
  long count, stop_at; /* the step after which to stop; 0: never */
} recording;

static bool record(void *context, const th__train_step *step) {
  recording *r = context;
  r->losses[step->step % MOST] = step->loss;
  r->count++;
  return step->step != r->stop_at;
}

static th_error error;

static void option(th__train *config, const char *name, const char *text) {
  int field = th__train_field_find(name);
  cr_assert_eq(th__train_set_text(config, field, text, &error), TH_OK, "%s", error.message);
}

/* Trains with the JSON on top of SMALL, in a folder (NULL: none), from its beginning or resumed. */
static th_status try_run(const char *json, const char *folder, bool resume,
                         const th__train_data *data, recording *r, th__train_run *result) {
  char text[1024];
  snprintf(text, sizeof text, "{%s%s%s}", resume ? "" : SMALL,
           resume || json[0] == '\0' ? "" : ", ", json);
  th__train config = {0}, asked = {0};
  json_t *object = json_loads(text, 0, NULL);
  cr_assert_not_null(object, "%s", text);
  error = (th_error){0};
  cr_assert_eq(th__train_from_json(&asked, object, "", TH__FROM_FILE, &error), TH_OK, "%s",
               error.message);
  json_decref(object);
  th__run run = {.lock = -1, .log.file = -1};
  const char *where = folder == NULL ? NULL : path(folder, "");
  th_status status = where == NULL ? TH_OK : th__run_open(&run, where, resume, false, &error);
  if (status == TH_OK && resume) status = th__run_stored_config(&run, &config, &error);
  if (status == TH_OK && resume) status = th__train_merge_resume(&config, &asked, where, &error);
  for (int i = 0; !resume && i < TH__TRAIN_FIELDS; i++) th__train_field_copy(&config, &asked, i);
  th__train_complete(&config);
  if (status == TH_OK) status = th__train_check(&config, &error);
  const th__train_job job = {.config = &config,
                             .data = data,
                             .run = where == NULL ? NULL : &run,
                             .watch = {.context = r, .step = r != NULL ? record : NULL}};
  if (status == TH_OK) status = th__train_run_one(&job, result, &error);
  th__run_close(&run);
  th__train_free(&config);
  th__train_free(&asked);
  return status;
}

static th__train_run run(const char *json, const char *folder, bool resume, recording *r) {
  th__train_run result;
  cr_assert_eq(try_run(json, folder, resume, NULL, r, &result), TH_OK, "%s", error.message);
  return result;
}

static void expect_same_file(const char *a, const char *b) {
  size_t x, y;
  char *first = th__read_file(a, &x, NULL), *second = th__read_file(b, &y, NULL);
  cr_assert(first != NULL && second != NULL, "%s or %s is missing", a, b);
  cr_assert(x == y && memcmp(first, second, x) == 0, "%s and %s differ", a, b);
  th__free(first);
  th__free(second);
}

static void expect_same_losses(const recording *a, const recording *b, long from, long to) {
  for (long i = from; i <= to; i++)
    cr_assert_eq(a->losses[i], b->losses[i], "step %ld: %.17g and %.17g", i, a->losses[i],
                 b->losses[i]);
}

/* ---- resuming (C19) ---- */

static void resumes(const char *json, long cut) {
  static recording whole, half, rest;
  whole = half = rest = (recording){0};
  char more[256];
  snprintf(more, sizeof more, "%s, \"steps\": 40", json);
  run(more, "whole", false, &whole);
  snprintf(more, sizeof more, "%s, \"steps\": %ld", json, cut);
  run(more, "parts", false, &half);
  th__train_run last = run("\"steps\": 40", "parts", true, &rest);
  cr_assert(last.resumed && last.steps == 40 && rest.count == 40 - cut);
  expect_same_losses(&whole, &half, 1, cut);
  expect_same_losses(&whole, &rest, cut + 1, 40);
  expect_same_file(path("whole", "last.safetensors"), path("parts", "last.safetensors"));
  remove_place();
  cr_assert_eq(mkdir(place, 0700), 0);
}

Test(train_run, resumed_is_unbroken) {
  resumes("\"task\": \"copy\"", 20);
  resumes("\"task\": \"copy\", \"eval_every\": 3", 10);
  resumes("\"task\": \"recall\", \"optim\": \"sgd\"", 33);
  resumes("\"task\": \"copy\", \"model\": \"seq2seq\"", 1);
}

/* A run that is stopped between two checkpoints saves where it is. */
Test(train_run, stopped_and_resumed) {
  static recording whole, part = {.stop_at = 17}, rest;
  run("\"task\": \"copy\", \"steps\": 40, \"eval_every\": 5", "whole", false, &whole);
  th__train_run first =
      run("\"task\": \"copy\", \"steps\": 40, \"eval_every\": 5", "parts", false, &part);
  cr_assert(first.end == TH__END_STOPPED && first.steps == 17);
  run("\"task\": \"copy\"", "parts", true, &rest);
  expect_same_losses(&whole, &part, 1, 17);
  expect_same_losses(&whole, &rest, 18, 40);
  expect_same_file(path("whole", "last.safetensors"), path("parts", "last.safetensors"));
  expect_same_file(path("whole", "best.safetensors"), path("parts", "best.safetensors"));
  expect_same_file(path("whole", "config.json"), path("parts", "config.json"));
}

Test(train_run, evaluation_and_samples_change_nothing) {
  static recording never, each, fifth;
  run("\"task\": \"copy\", \"steps\": 20", NULL, false, &never);
  run("\"task\": \"copy\", \"steps\": 20, \"eval_every\": 1, \"sample_every\": 1", NULL, false,
      &each);
  run("\"task\": \"copy\", \"steps\": 20, \"eval_every\": 5", NULL, false, &fifth);
  expect_same_losses(&never, &each, 1, 20);
  expect_same_losses(&never, &fifth, 1, 20);
}

Test(train_run, finished_runs_say_so) {
  run("\"task\": \"copy\", \"steps\": 10", "a", false, NULL);
  static recording r;
  th__train_run again = run("\"task\": \"copy\"", "a", true, &r);
  cr_assert(again.finished_before && r.count == 0 && again.steps == 10);
  th__train_run result;
  cr_assert_eq(try_run("\"steps\": 5", "a", true, NULL, NULL, &result), TH_ERR_VALUE);
  cr_assert_not_null(strstr(error.message, "has done 10 steps already"), "%s", error.message);
}

Test(train_run, a_damaged_checkpoint_is_refused) {
  run("\"task\": \"copy\", \"steps\": 10", "a", false, NULL);
  cr_assert_eq(truncate(path("a", "last.safetensors"), 5000), 0);
  th__train_run result;
  cr_assert_neq(try_run("", "a", true, NULL, NULL, &result), TH_OK);
  cr_assert_not_null(strstr(error.message, "last.safetensors"), "%s", error.message);
}

/* Killed before the first checkpoint: there is a configuration only, and the run begins again. */
Test(train_run, resumed_without_a_checkpoint) {
  static recording whole, again;
  run("\"task\": \"copy\", \"steps\": 20", "a", false, &whole);
  unlink(path("a", "last.safetensors"));
  th__train_run result = run("", "a", true, &again);
  cr_assert(!result.resumed && again.count == 20);
  expect_same_losses(&whole, &again, 1, 20);
}

/* ---- folders ---- */

Test(train_run, a_run_is_not_overwritten) {
  run("\"task\": \"copy\", \"steps\": 3", "a", false, NULL);
  th__train_run result;
  cr_assert_eq(try_run("\"task\": \"copy\", \"steps\": 3", "a", false, NULL, NULL, &result),
               TH_ERR_STATE);
  cr_assert(strstr(error.message, "--resume") != NULL && strstr(error.message, "--force") != NULL,
            "%s", error.message);
  cr_assert_eq(try_run("", "none", true, NULL, NULL, &result), TH_ERR_STATE);
  cr_assert_not_null(strstr(error.message, "holds no run that could be resumed"), "%s",
                     error.message);
}

Test(train_run, two_runs_do_not_share_a_folder) {
  run("\"task\": \"copy\", \"steps\": 3", "a", false, NULL);
  th__run one, two;
  cr_assert_eq(th__run_open(&one, path("a", ""), true, false, &error), TH_OK, "%s", error.message);
  cr_assert_eq(th__run_open(&two, path("a", ""), true, false, &error), TH_ERR_STATE);
  cr_assert_not_null(strstr(error.message, "another run is writing there"), "%s", error.message);
  th__run_close(&two);
  th__run_close(&one);
}

/* The log has each step once, whatever the killed run left behind it. */
Test(train_run, the_log_is_cut_back) {
  static recording part = {.stop_at = 20};
  run("\"task\": \"copy\", \"steps\": 40, \"eval_every\": 5", "a", false, &part);
  const char *more = "{\"seed\": 0, \"step\": 21, \"loss\": 9}\n{\"seed\": 0, \"step\": 22, \"lo";
  FILE *log = fopen(path("a", "log.jsonl"), "a");
  fputs(more, log);
  fclose(log);
  run("", "a", true, NULL);
  log = fopen(path("a", "log.jsonl"), "r");
  char line[512];
  long steps = 0, validations = 0;
  while (fgets(line, sizeof line, log) != NULL) {
    json_t *json = json_loads(line, 0, NULL);
    cr_assert_not_null(json, "%s", line);
    if (json_object_get(json, "loss") != NULL)
      cr_assert_eq(json_integer_value(json_object_get(json, "step")), ++steps);
    validations += json_object_get(json, "validation_loss") != NULL;
    json_decref(json);
  }
  fclose(log);
  cr_assert(steps == 40 && validations == 8, "%ld steps, %ld validations", steps, validations);
}

/* ---- texts ---- */

static th_status run_text(const char *bytes, bool resume, th__train_run *result) {
  th__source source = {"book.txt", bytes, strlen(bytes)};
  const th__train_data data = {&source, 1, 0};
  return try_run("\"text\": \"book.txt\", \"steps\": 5", "text", resume, &data, NULL, result);
}

Test(train_run, a_text_that_changed_is_refused) {
  char text[401], other[401];
  for (int i = 0; i < 400; i++) text[i] = other[i] = "abc"[i % 3];
  text[400] = other[400] = '\0';
  th__train_run result;
  cr_assert_eq(run_text(text, false, &result), TH_OK, "%s", error.message);
  cr_assert_eq(run_text(text, true, &result), TH_OK, "%s", error.message);
  other[200] = 'a';
  cr_assert_eq(run_text(other, true, &result), TH_ERR_VALUE);
  cr_assert_not_null(strstr(error.message, "book.txt"), "%s", error.message);
  other[200] = 'd'; /* C20: another vocabulary */
  cr_assert_eq(run_text(other, true, &result), TH_ERR_VALUE);
  cr_assert_not_null(strstr(error.message, "book.txt"), "%s", error.message);
}

/* ---- training ---- */

/* C18: cut in any way, a batch is the batch; answers are spread unevenly (recall). */
Test(train_run, parts_of_a_batch_are_the_batch) {
  static recording whole, parts[3];
  const char *counts[] = {"2", "4", "6"};
  run("\"task\": \"recall\", \"steps\": 10, \"dropout\": 0, \"accumulate\": 1", NULL, false, &whole);
  for (int p = 0; p < 3; p++) {
    char json[128];
    snprintf(json, sizeof json,
             "\"task\": \"recall\", \"steps\": 10, \"dropout\": 0, \"accumulate\": %s", counts[p]);
    run(json, NULL, false, &parts[p]);
    for (int i = 1; i <= 10; i++)
      cr_assert_lt(fabs(parts[p].losses[i] - whole.losses[i]), 2e-5 * whole.losses[i],
                   "%s parts, step %d", counts[p], i);
  }
}

/* Learning rates as they are logged: the warm-up, the peak once, the floor at the end and after it. */
Test(train_run, schedule) {
  run("\"task\": \"copy\", \"steps\": 45, \"min_lr\": 0.0003", "a", false, NULL);
  FILE *log = fopen(path("a", "log.jsonl"), "r");
  char line[512];
  double rates[46] = {0};
  while (fgets(line, sizeof line, log) != NULL) {
    json_t *json = json_loads(line, 0, NULL);
    if (json_object_get(json, "lr") != NULL)
      rates[json_integer_value(json_object_get(json, "step"))] =
          json_real_value(json_object_get(json, "lr"));
    json_decref(json);
  }
  fclose(log);
  cr_assert(rates[1] > 0 && rates[1] < rates[2] && rates[3] < rates[4]);
  cr_assert(fabs(rates[4] - 0.003) < 1e-9 && fabs(rates[40] - 0.0003) < 1e-9 &&
                rates[45] == rates[40],
            "%g %g %g", rates[4], rates[40], rates[45]);
  for (int i = 5; i <= 40; i++) cr_assert(rates[i] < rates[i - 1], "step %d", i);
}

Test(train_run, patience) {
  /* A rate so small that nothing improves by more than chance. */
  th__train_run result =
      run("\"task\": \"copy\", \"steps\": 200, \"schedule\": \"constant\", \"lr\": 0.3, "
          "\"eval_every\": 1, \"patience\": 3",
          "a", false, NULL);
  cr_assert(result.end == TH__END_PATIENCE && result.steps < 200 &&
                result.steps == result.best_step + 3,
            "%ld steps, best %ld", result.steps, result.best_step);
  th__train_run again = run("", "a", true, NULL);
  cr_assert(again.finished_before && again.end == TH__END_PATIENCE);
  th__train_run more = run("\"patience\": 5", "a", true, NULL);
  cr_assert_gt(more.steps, result.steps);
}

/* Memory in use after a step, with evaluation, samples and checkpoints on the way: the same after step
 * 1000 as after step 10,000. */
static size_t used_at[2];
static bool measure(void *context, const th__train_step *step) {
  (void)context;
  if (step->step == 1000) used_at[0] = mallinfo2().uordblks;
  if (step->step == 10000) used_at[1] = mallinfo2().uordblks;
  return true;
}

Test(train_run, memory_is_flat_over_10000_steps) {
  th__train config = {.layers = 1, .heads = 1, .d_model = 8, .seq = 5, .batch = 2, .steps = 10000};
  option(&config, "task", "copy");
  option(&config, "out", path("a", ""));
  option(&config, "eval-every", "100");
  option(&config, "eval-batches", "2");
  option(&config, "sample-every", "500");
  option(&config, "save-every", "500");
  th__train_complete(&config);
  th__run run;
  th__train_run result;
  cr_assert_eq(th__run_open(&run, config.out.at[0], false, false, &error), TH_OK, "%s",
               error.message);
  const th__train_job job = {.config = &config, .run = &run, .watch = {.step = measure}};
  cr_assert_eq(th__train_run_one(&job, &result, &error), TH_OK, "%s", error.message);
  th__run_close(&run);
  th__train_free(&config);
  /* What lies freed in the C library's caches counts as used. */
  cr_assert_leq(used_at[1], used_at[0] + (1 << 15), "%zu bytes, then %zu", used_at[0], used_at[1]);
}
