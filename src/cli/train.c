/* tapehead train: a small GPT on a toy task or on a text. */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "io/file.h"
#include "lab/stats.h"
#include "lab/train.h"
#include "tensor/alloc.h"

enum {
  KEY_TASK = 1,
  KEY_TEXT,
  KEY_SCALE,
  KEY_DK,
  KEY_HEADS,
  KEY_LAYERS,
  KEY_D_MODEL,
  KEY_SEQ,
  KEY_BATCH,
  KEY_STEPS,
  KEY_OPTIM,
  KEY_LR,
  KEY_SEEDS,
  KEY_LOG,
  MOST_SEEDS = 1000
};

static const char *const task_names[] = {"copy", "reverse", "sort", "recall", "induction", NULL};
static const char *const optim_names[] = {"sgd", "adamw", NULL};

typedef struct train_options {
  cli_common common;
  th__train train;
  const char *task, *text, *log;
  cli_scale scale;
  int seeds;
} train_options;

static const struct argp_option own_options[] = {
    {"task", KEY_TASK, "TASK", 0, "copy, reverse, sort, recall or induction", 0},
    {"text", KEY_TEXT, "FILE", 0, "Instead of a task: predict the next byte of this file", 0},
    {"scale", KEY_SCALE, "S", 0,
     "What multiplies q.k: none, sqrt (1/sqrt(d_k), the default), dk (1/d_k) or a number", 0},
    {"dk", KEY_DK, "N", 0, "Width of queries and keys per head (default d-model / heads)", 0},
    {"heads", KEY_HEADS, "N", 0, "Heads (default 4)", 0},
    {"layers", KEY_LAYERS, "N", 0, "Layers (default 2)", 0},
    {"d-model", KEY_D_MODEL, "N", 0, "Width of the model (default 64)", 0},
    {"seq", KEY_SEQ, "N", 0, "Tokens per sequence (default 32; 64 with --text)", 0},
    {"batch", KEY_BATCH, "N", 0, "Sequences per step (default 32)", 0},
    {"steps", KEY_STEPS, "N", 0, "Training steps (default 1000)", 0},
    {"optim", KEY_OPTIM, "sgd|adamw", 0, "Optimiser (default adamw)", 0},
    {"lr", KEY_LR, "X", 0, "Learning rate (default 0.003 for adamw, 0.3 for sgd)", 0},
    {"seeds", KEY_SEEDS, "N", 0, "Repeat with N seeds, from --seed on; gives median and range", 0},
    {"log", KEY_LOG, "FILE", 0, "Write every step as a line of JSON", 0},
    {0}};

static long size_of(const struct argp_state *state, const char *option, const char *text) {
  return cli_integer(state, option, text, 1, 1L << 24);
}

static void check_together(const struct argp_state *state, train_options *options) {
  th__train *t = &options->train;
  if ((options->task == NULL) == (options->text == NULL))
    argp_error(state, "give either --task (copy, reverse, sort, recall, induction) or --text FILE");
  if (t->d_model % t->heads != 0)
    argp_error(state,
               "--d-model %td does not divide into --heads %td; choose a number of heads that "
               "divides it",
               t->d_model, t->heads);
  if (t->dk == 0) t->dk = t->d_model / t->heads;
  if (t->seq == 0) t->seq = options->text != NULL ? 64 : 32;
  if (t->lr == 0) t->lr = t->sgd ? 0.3 : 3e-3;
  if (options->log != NULL && options->common.json != NULL &&
      strcmp(options->log, options->common.json) == 0)
    argp_error(state, "'%s' is given for two outputs", options->log);
}

static error_t parse(int key, char *argument, struct argp_state *state) {
  train_options *options = state->input;
  th__train *t = &options->train;
  switch (key) {
  case KEY_TASK:
    t->task = (th_task_kind)cli_choice(state, "--task", argument, task_names);
    options->task = task_names[t->task];
    return 0;
  case KEY_TEXT: options->text = argument; return 0;
  case KEY_SCALE: options->scale = cli_parse_scale(state, "--scale", argument); return 0;
  case KEY_DK: t->dk = size_of(state, "--dk", argument); return 0;
  case KEY_HEADS: t->heads = size_of(state, "--heads", argument); return 0;
  case KEY_LAYERS: t->layers = cli_integer(state, "--layers", argument, 1, 1000); return 0;
  case KEY_D_MODEL: t->d_model = size_of(state, "--d-model", argument); return 0;
  case KEY_SEQ: t->seq = size_of(state, "--seq", argument); return 0;
  case KEY_BATCH: t->batch = size_of(state, "--batch", argument); return 0;
  case KEY_STEPS: t->steps = cli_integer(state, "--steps", argument, 1, 1L << 40); return 0;
  case KEY_OPTIM: t->sgd = cli_choice(state, "--optim", argument, optim_names) == 0; return 0;
  case KEY_LR: t->lr = cli_number(state, "--lr", argument, 1e-12, 1e6); return 0;
  case KEY_SEEDS:
    options->seeds = (int)cli_integer(state, "--seeds", argument, 1, MOST_SEEDS);
    return 0;
  case KEY_LOG: options->log = argument; return 0;
  case ARGP_KEY_END: check_together(state, options); return 0;
  default: return ARGP_ERR_UNKNOWN;
  }
}

/* ---- while it runs ---- */

static volatile sig_atomic_t interrupted;
static void on_interrupt(int number) {
  (void)number;
  interrupted = 1;
}

typedef struct reporter {
  const train_options *options;
  uint64_t seed;
  FILE *log;
  long long log_bytes; /* in whole lines */
  int log_error;       /* errno of a write that failed, or 0 */
  bool progress;
  double last_shown;
} reporter;

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void write_log(reporter *r, const th__train_step *s) {
  int written = fprintf(r->log,
                        "{\"seed\": %llu, \"step\": %ld, \"loss\": %.9g, \"accuracy\": %.6g, "
                        "\"grad_norm\": %.9g, \"entropy\": %.6g, \"tokens_per_second\": %.6g}\n",
                        (unsigned long long)r->seed, s->step, s->loss, s->accuracy, s->grad_norm,
                        s->entropy, s->tokens_per_second);
  if (written > 0 && fflush(r->log) == 0)
    r->log_bytes += written;
  else
    r->log_error = errno != 0 ? errno : EIO;
}

/* A line that replaces itself, ten times a second at most. */
static void show_progress(reporter *r, const th__train_step *s) {
  double time = now();
  if (time - r->last_shown < 0.1 && s->step + 1 < r->options->train.steps) return;
  r->last_shown = time;
  fprintf(stderr,
          "\rseed %llu  step %ld/%ld  loss %.4f  accuracy %.3f  |grad| %.3g  entropy %.3f  %.0f "
          "tokens/s  %.0f s left \033[K",
          (unsigned long long)r->seed, s->step + 1, r->options->train.steps, s->loss, s->accuracy,
          s->grad_norm, s->entropy, s->tokens_per_second, s->seconds_left);
}

static bool report(void *context, const th__train_step *step) {
  reporter *r = context;
  if (r->log != NULL) write_log(r, step);
  if (r->progress) show_progress(r, step);
  return !interrupted && r->log_error == 0;
}

/* ---- results ---- */

static json_t *run_json(const th__train_run *run) {
  json_t *reached = run->steps_to_95 < 0 ? json_null() : json_integer(run->steps_to_95);
  return json_pack("{s:I, s:I, s:f, s:f, s:f, s:o, s:f}", "seed", (json_int_t)run->seed, "steps",
                   (json_int_t)run->steps, "final_loss", run->final_loss, "train_accuracy",
                   run->train_accuracy, "heldout_accuracy", run->heldout_accuracy, "steps_to_95",
                   reached, "tokens_per_second", run->tokens_per_second);
}

static json_t *document_of(const train_options *options, const th__train_run *runs, int count) {
  const th__train *t = &options->train;
  json_t *list = json_array();
  for (int i = 0; i < count; i++) json_array_append_new(list, run_json(&runs[i]));
  return json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:s, s:f, s:i, s:s, s:o}", "task",
                   options->text != NULL ? "text" : options->task, "scale", options->scale.text,
                   "dk", (json_int_t)t->dk, "heads", (json_int_t)t->heads, "layers",
                   (json_int_t)t->layers, "d_model", (json_int_t)t->d_model, "seq",
                   (json_int_t)t->seq, "optim", t->sgd ? "sgd" : "adamw", "lr", t->lr, "threads",
                   th_threads(), "version", th_version(), "runs", list);
}

static void print_head(const train_options *options) {
  const th__train *t = &options->train;
  printf(
      "%s: layers %td, heads %td, d_model %td, d_k %td, scale %s, seq %td, batch %td, %s %g, %ld steps, "
      "%d threads\n\n%6s %8s %11s %10s %10s %9s %10s\n",
      options->text != NULL ? options->text : options->task, t->layers, t->heads, t->d_model, t->dk,
      options->scale.text, t->seq, t->batch, t->sgd ? "sgd" : "adamw", t->lr, t->steps,
      th_threads(), "seed", "steps", "final loss", "train acc", "held-out", "to 95 %", "tokens/s");
}

static void print_run(const th__train_run *run) {
  char reached[32] = "not reached";
  if (run->steps_to_95 >= 0) snprintf(reached, sizeof reached, "%ld", run->steps_to_95);
  printf("%6llu %8ld %11.4f %10.3f %10.3f %11s %8.0f%s\n", (unsigned long long)run->seed,
         run->steps, run->final_loss, run->train_accuracy, run->heldout_accuracy, reached,
         run->tokens_per_second, run->stopped ? "  (stopped)" : "");
  fflush(stdout);
}

static void print_range(const char *name, double *values, int count) {
  th__summary summary = th__summarise(values, count); /* sorts */
  printf("%s: median %.4f, range %.4f to %.4f\n", name, summary.median, values[0],
         values[count - 1]);
}

static void print_summary(const th__train_run *runs, int count) {
  double values[MOST_SEEDS];
  printf("\n");
  for (int i = 0; i < count; i++) values[i] = runs[i].final_loss;
  print_range("final loss", values, count);
  for (int i = 0; i < count; i++) values[i] = runs[i].heldout_accuracy;
  print_range("held-out accuracy", values, count);
}

/* ---- the command ---- */

static bool open_log(const train_options *options, reporter *r) {
  if (options->log == NULL) return true;
  r->log = fopen(options->log, "we");
  if (r->log == NULL)
    cli_error("train", "%s: cannot open for writing: %s", options->log, strerror(errno));
  return r->log != NULL;
}

/* Closes the log; a line that did not arrive whole is cut off again. */
static bool close_log(const train_options *options, reporter *r) {
  if (r->log == NULL) return true;
  bool cut = r->log_error == 0 || ftruncate(fileno(r->log), (off_t)r->log_bytes) == 0;
  if (fclose(r->log) != 0 && r->log_error == 0) r->log_error = errno;
  if (r->log_error == 0) return true;
  cli_error("train", "%s: cannot write: %s%s", options->log, strerror(r->log_error),
            cut ? "; it ends with the last whole line" : "");
  return false;
}

static int run_seeds(train_options *options, reporter *r, th__train_run *runs, int *count) {
  bool table = options->common.json == NULL || strcmp(options->common.json, "-") != 0;
  if (table) print_head(options);
  for (int i = 0; i < options->seeds && !interrupted; i++) {
    th_error error;
    r->seed = options->train.seed = options->common.seed + (uint64_t)i;
    th_status status = th__train_run_one(&options->train, report, r, &runs[i], &error);
    if (r->progress) fprintf(stderr, "\r\033[K");
    if (status != TH_OK) {
      cli_error("train", "seed %llu: %s", (unsigned long long)r->seed, error.message);
      return status == TH_ERR_NONFINITE ? EXIT_CHECK_FAILED : EXIT_USAGE;
    }
    *count = i + 1;
    if (table) print_run(&runs[i]);
    if (r->log_error != 0) return EXIT_USAGE;
  }
  if (table && *count > 1) print_summary(runs, *count);
  if (interrupted) cli_error("train", "interrupted; the results are those of the steps done");
  return EXIT_OK;
}

int command_train(int argc, char **argv) {
  train_options options = {
      .common.seed = 1,
      .train = {.heads = 4, .layers = 2, .d_model = 64, .batch = 32, .steps = 1000},
      .scale = {TH_SCALE_SQRT, 0, "sqrt"},
      .seeds = 1};
  static th__train_run runs[MOST_SEEDS];
  int count = 0;
  cli_parse(
      argc, argv, own_options, parse, NULL,
      "Train a small GPT (learned positions, causal, feed-forward, tied output) on a toy task made "
      "from the seed, or to predict the next byte of a text. docs/training.md explains it."
      "\vExit status: 0 success, 1 a run diverged, 2 usage or bad input.",
      &options);
  options.train.scale = options.scale.kind;
  options.train.factor = options.scale.factor;
  if (!cli_check_writable("train", options.common.json) || !cli_check_writable("train", options.log))
    return EXIT_USAGE;
  char *text = NULL;
  if (options.text != NULL) {
    th_error error;
    text = th__read_file(options.text, &options.train.text_bytes, &error);
    if (text == NULL) return cli_error("train", "%s", error.message);
    options.train.text = text;
  }
  reporter r = {.options = &options, .progress = cli_progress()};
  int status = EXIT_USAGE;
  if (open_log(&options, &r)) {
    signal(SIGINT, on_interrupt);
    signal(SIGTERM, on_interrupt);
    status = run_seeds(&options, &r, runs, &count);
    if (!close_log(&options, &r)) status = EXIT_USAGE;
  }
  if (options.common.json != NULL && count > 0 &&
      !cli_write_json("train", options.common.json, document_of(&options, runs, count)))
    status = EXIT_USAGE;
  th__free(text);
  return status;
}
