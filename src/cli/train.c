/* tapehead train: a small GPT on a toy task or on a text. */
#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "io/file.h"
#include "io/lines.h"
#include "lab/machine.h"
#include "lab/train.h"
#include "lab/train_report.h"
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
  MOST_SEEDS = 1000,
  MOST_LAYERS = 1000
};

#define MOST_SIZE (1L << 24)
#define MOST_STEPS (1L << 40)
#define MOST_TEXT 0x1p30 /* bytes */

/* In the order of th_task_kind. */
static const char *const task_names[] = {"copy", "reverse", "sort", "recall", "induction", NULL};
static const char *const optim_names[] = {"sgd", "adamw", NULL};

typedef struct train_options {
  cli_common common;
  th__train train;
  const char *task, *text, *log;
  cli_scale scale;
  int seeds;
} train_options;

/* ---- options ---- */

static const struct argp_option own_options[] = {
    {"task", KEY_TASK, "TASK", 0, "copy, reverse, sort, recall or induction", 0},
    {"text", KEY_TEXT, "FILE", 0, "Instead of a task: predict the next character of this file", 0},
    {"scale", KEY_SCALE, "S", 0, "What multiplies q.k: none, sqrt (default), dk or a number", 0},
    {"dk", KEY_DK, "N", 0, "Width of queries and keys per head (default: d-model / heads)", 0},
    {"heads", KEY_HEADS, "N", 0, "Heads (default 4)", 0},
    {"layers", KEY_LAYERS, "N", 0, "Layers (default 2)", 0},
    {"d-model", KEY_D_MODEL, "N", 0, "Width of the model (default 64)", 0},
    {"seq", KEY_SEQ, "N", 0, "Tokens per sequence (default 32; 24 for induction, 64 for a text)", 0},
    {"batch", KEY_BATCH, "N", 0, "Sequences per step (default 32)", 0},
    {"steps", KEY_STEPS, "N", 0, "Training steps (default: enough for the task, 300 to 2000)", 0},
    {"optim", KEY_OPTIM, "sgd|adamw", 0, "Optimiser (default adamw)", 0},
    {"lr", KEY_LR, "X", 0, "Learning rate (default: by task, 0.001 or 0.003; 0.3 for sgd)", 0},
    {"seeds", KEY_SEEDS, "N", 0, "Repeat with N seeds, from --seed on; gives median and range", 0},
    {"log", KEY_LOG, "FILE", 0, "Write every step as a line of JSON, as it is done", 0},
    {0}};

static long size_of(const struct argp_state *state, const char *option, const char *text) {
  return cli_integer(state, option, text, 1, MOST_SIZE);
}

static const char *file_name(const struct argp_state *state, const char *option, const char *text) {
  if (text[0] == '\0' || strcmp(text, "-") == 0)
    argp_error(state, "%s: '%s' is no file name; give a path, /dev/stdin and the like included",
               option, text);
  return text;
}

static void check_together(const struct argp_state *state, const train_options *options) {
  const th__train *t = &options->train;
  ptrdiff_t heads = t->heads == 0 ? 4 : t->heads, d_model = t->d_model == 0 ? 64 : t->d_model;
  if ((options->task == NULL) == (options->text == NULL))
    argp_error(state, "give either --task (copy, reverse, sort, recall, induction) or --text FILE");
  if (d_model % heads != 0)
    argp_error(state,
               "--d-model %td does not divide into --heads %td; choose a number of heads that "
               "divides it",
               d_model, heads);
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
  case KEY_TEXT: options->text = file_name(state, "--text", argument); return 0;
  case KEY_SCALE: options->scale = cli_parse_scale(state, "--scale", argument); return 0;
  case KEY_DK: t->dk = size_of(state, "--dk", argument); return 0;
  case KEY_HEADS: t->heads = size_of(state, "--heads", argument); return 0;
  case KEY_LAYERS: t->layers = cli_integer(state, "--layers", argument, 1, MOST_LAYERS); return 0;
  case KEY_D_MODEL: t->d_model = size_of(state, "--d-model", argument); return 0;
  case KEY_SEQ: t->seq = size_of(state, "--seq", argument); return 0;
  case KEY_BATCH: t->batch = size_of(state, "--batch", argument); return 0;
  case KEY_STEPS: t->steps = cli_integer(state, "--steps", argument, 1, MOST_STEPS); return 0;
  case KEY_OPTIM: t->sgd = cli_choice(state, "--optim", argument, optim_names) == 0; return 0;
  case KEY_LR: t->lr = cli_number(state, "--lr", argument, 1e-12, 1e6); return 0;
  case KEY_SEEDS:
    options->seeds = (int)cli_integer(state, "--seeds", argument, 1, MOST_SEEDS);
    return 0;
  case KEY_LOG: options->log = file_name(state, "--log", argument); return 0;
  case ARGP_KEY_END: check_together(state, options); return 0;
  default: return ARGP_ERR_UNKNOWN;
  }
}

/* ---- while it runs ---- */

/* The first Ctrl-C asks for an end after the step, the second is the system's own and ends at once. */
static volatile sig_atomic_t interrupted; /* the signal, or 0 */
static void on_interrupt(int number) { interrupted = number; }

static void watch_signals(void) {
  struct sigaction action = {.sa_handler = on_interrupt,
                             .sa_flags = (int)(SA_RESETHAND | SA_RESTART)};
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
  signal(SIGPIPE, SIG_IGN); /* a reader that went away is a failed write, with a message */
}

typedef struct reporter {
  const train_options *options;
  bool table; /* stdout is not taken by JSON */
  bool head_printed;
  th__lines log;
  th_error log_error;
  uint64_t seed;
  double next_line; /* progress: seconds of the run, about, and its width on the screen */
  int width;
} reporter;

static void clear_progress(reporter *r) {
  if (r->width > 0) fprintf(stderr, "\r%*s\r", r->width, "");
  r->width = 0;
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* A line that replaces itself, ten times a second at most. */
static void show_progress(reporter *r, const th__train_step *step) {
  if (!cli_progress() || (now() < r->next_line && step->step < r->options->train.steps)) return;
  r->next_line = now() + 0.1;
  struct winsize size;
  int columns = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
  char line[TH__TRAIN_LINE], which[32] = "";
  if (r->options->seeds > 1)
    snprintf(which, sizeof which, "seed %llu  ", (unsigned long long)r->seed);
  int width = th__train_progress(line, columns, which, step, r->options->train.steps);
  fprintf(stderr, "\r%s%*s", line, r->width > width ? r->width - width : 0, "");
  r->width = width;
}

/* Once something has been done: a command that is refused prints no table. */
static void print_head(reporter *r) {
  if (!r->table || r->head_printed) return;
  r->head_printed = true;
  const train_options *o = r->options;
  th__train_head(&o->train, o->text != NULL ? o->text : o->task, o->scale.text, stdout);
  fflush(stdout);
}

static bool report(void *context, const th__train_step *step) {
  reporter *r = context;
  print_head(r);
  if (r->options->log != NULL) {
    char line[TH__TRAIN_LINE];
    int length = th__train_log_line(line, r->seed, step);
    if (th__lines_put(&r->log, line, (size_t)length, &r->log_error) != TH_OK) return false;
  }
  show_progress(r, step);
  return !interrupted && !ferror(stdout);
}

/* ---- files ---- */

/* One file under two names would be read while it is written, or written twice. */
static bool same_file(const char *a, const char *b) {
  struct stat x, y;
  return a != NULL && b != NULL && stat(a, &x) == 0 && stat(b, &y) == 0 && S_ISREG(x.st_mode) &&
         x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static bool files_apart(const train_options *o) {
  const char *json = o->common.json;
  if (same_file(o->log, json))
    cli_error("train", "%s and %s are one file", o->log, json);
  else if (same_file(o->text, o->log))
    cli_error("train", "the log would overwrite the text %s", o->text);
  else if (same_file(o->text, json))
    cli_error("train", "the JSON would overwrite the text %s", o->text);
  else
    return true;
  return false;
}

static bool read_text(train_options *options, char **text) {
  if (options->text == NULL) return true;
  th_error error;
  /* It is held twice, as bytes and as symbols, and once more while it is read. */
  double most = fmin(th__machine_memory() / 8, MOST_TEXT);
  *text = th__read_file_upto(options->text, (size_t)most, &options->train.text_bytes, &error);
  if (*text == NULL) cli_error("train", "%s", error.message);
  options->train.text = *text;
  options->train.text_name = options->text;
  return *text != NULL;
}

/* ---- the command ---- */

/* Finished runs stand in runs[0 .. *count-1]. A run that diverges does not keep the others from
 * running. */
static int run_seeds(train_options *options, reporter *r, th__train_run *runs, int *count) {
  int status = EXIT_OK;
  for (int i = 0; i < options->seeds && !interrupted && r->log_error.status == TH_OK; i++) {
    th_error error;
    r->seed = options->train.seed = options->common.seed + (uint64_t)i;
    th_status result = th__train_run_one(&options->train, report, r, &runs[*count], &error);
    clear_progress(r);
    if (result == TH_ERR_NONFINITE) {
      cli_error("train", "seed %llu: %s", (unsigned long long)r->seed, error.message);
      status = EXIT_CHECK_FAILED;
      continue;
    }
    if (result != TH_OK) return cli_error("train", "%s", error.message);
    if (r->table) th__train_row(&runs[*count], stdout);
    if (fflush(stdout) != 0) return EXIT_USAGE; /* main() says so */
    ++*count;
  }
  if (r->table && *count > 1) th__train_summary(runs, *count, stdout);
  return status;
}

static int train(train_options *options, th__train_run *runs) {
  const char *json = options->common.json;
  reporter r = {.options = options, .table = json == NULL || strcmp(json, "-") != 0, .log.file = -1};
  th_error error;
  if (options->log != NULL && th__lines_open(&r.log, options->log, &error) != TH_OK)
    return cli_error("train", "%s", error.message);
  int count = 0, status = EXIT_USAGE;
  if (files_apart(options)) {
    watch_signals();
    status = run_seeds(options, &r, runs, &count);
  }
  th__lines_close(&r.log, r.log_error.status == TH_OK ? &r.log_error : NULL);
  if (r.log_error.status != TH_OK) status = cli_error("train", "%s", r.log_error.message);
  const char *task = options->text != NULL ? "text" : options->task;
  if (json != NULL && count > 0 &&
      !cli_write_json("train", json,
                      th__train_json(&options->train, task, options->scale.text, runs, count)))
    status = EXIT_USAGE;
  if (!interrupted || status == EXIT_USAGE) return status;
  cli_error("train", "interrupted; the results are those of the steps done");
  return 128 + interrupted;
}

int command_train(int argc, char **argv) {
  train_options options = {
      .common.seed = 1, .scale = {TH_SCALE_SQRT, 0, "sqrt"}, .seeds = 1, .train.evaluate_every = 10};
  static th__train_run runs[MOST_SEEDS];
  cli_parse(
      argc, argv, own_options, parse, NULL,
      "Train a small GPT (learned positions, causal, feed-forward, tied output) on a toy task made "
      "from the seed, or to predict the next character of a text. docs/training.md tells more.",
      &options);
  options.train.scale = options.scale.kind;
  options.train.factor = options.scale.factor;
  char *text = NULL;
  int status = EXIT_USAGE;
  if (cli_check_writable("train", options.common.json) && read_text(&options, &text)) {
    th__train_complete(&options.train);
    status = train(&options, runs);
  }
  th__free(text);
  return status;
}
