/* tapehead train: a small model on a toy task or on a text. */
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/train_watch.h"
#include "lab/run.h"
#include "lab/train_report.h"
#include "tensor/alloc.h"

enum { KEY_FIELD = 0x2000, KEY_CONFIG = 0x3000, KEY_RESUME, KEY_FORCE, MOST_SEEDS = 1000 };

typedef struct train_options {
  cli_common common;
  th__train asked; /* what the command line says, then also the configuration file and the preset */
  const char *file;
  bool resume, force;
} train_options;

/* ---- options ---- */

/* From the list of fields: a title per group, then its options. */
static struct argp_option own_options[TH__TRAIN_FIELDS + 16];

static void make_options(void) {
  static const struct argp_option more[] = {
      {"config", KEY_CONFIG, "FILE", 0,
       "Read options from FILE (JSON); those on the command line win", 0},
      {"resume", KEY_RESUME, 0, 0, "Go on with the run in --out, bit for bit", 0},
      {"force", KEY_FORCE, 0, 0, "Replace the run in --out", 0}};
  struct argp_option *at = own_options;
  for (int group = 1; th__train_groups[group - 1] != NULL; group++) {
    *at++ = (struct argp_option){.doc = th__train_groups[group - 1], .group = group};
    for (int i = 0; i < TH__TRAIN_FIELDS; i++) {
      const th__train_field *f = &th__train_fields[i];
      if (f->group != group) continue;
      *at++ = (struct argp_option){f->option, KEY_FIELD + i, f->argument, 0, f->help, group};
    }
  }
  for (int i = 0; i < 3; i++) *at++ = more[i];
}

static const char *help_text(void) {
  static char text[2048];
  int used = snprintf(
      text, sizeof text,
      "Train a small model on a toy task made from the seed, or to predict the next symbol of a "
      "text. docs/training.md tells more.\vPresets:\n");
  for (int preset = 1; preset <= TH__PRESET_GPT2_124M; preset++) {
    const th__train named = {.preset = preset};
    char values[384];
    th__train_preset_text(preset, values, sizeof values);
    used += snprintf(text + used, sizeof text - (size_t)used, "  %s: %s\n",
                     th__train_word(&named, TH__TRAIN_preset), values);
  }
  snprintf(
      text + used, sizeof text - (size_t)used,
      "\nExit status: 0 success, 1 a run was lost (a value not finite, a loss that runs away), 2 "
      "usage or bad input, 128 + the signal if interrupted.");
  return text;
}

static error_t parse(int key, char *argument, struct argp_state *state) {
  train_options *o = state->input;
  th_error error;
  if (key >= KEY_FIELD && key < KEY_FIELD + TH__TRAIN_FIELDS) {
    if (th__train_set_text(&o->asked, key - KEY_FIELD, argument, &error) != TH_OK)
      argp_error(state, "%s", error.message);
    return 0;
  }
  switch (key) {
  case KEY_CONFIG: o->file = argument; return 0;
  case KEY_RESUME: o->resume = true; return 0;
  case KEY_FORCE: o->force = true; return 0;
  default: return ARGP_ERR_UNKNOWN;
  }
}

/* `--text a b c` as the shell makes it of `--text *.txt`: names that follow become options of their own.
 * The strings live as long as the process. */
static char **spread_files(int argc, char **argv) {
  char **out = th__alloc((size_t)(argc + 1) * sizeof *out);
  const char *option = NULL;
  bool value = false; /* the next word is the option's own value */
  for (int i = 0; out != NULL && i < argc; i++) {
    char *word = argv[i];
    out[i] = word;
    if (value || word[0] != '-' || i == 0) {
      size_t size = option == NULL ? 0 : strlen(option) + strlen(word) + 2;
      if (!value && option != NULL && (out[i] = th__alloc(size)) != NULL)
        snprintf(out[i], size, "%s=%s", option, word);
      if (out[i] == NULL) out[i] = word;
      value = false;
      continue;
    }
    bool text = strncmp(word, "--text", 6) == 0 && (word[6] == '\0' || word[6] == '=');
    bool validation =
        strncmp(word, "--validation", 12) == 0 && (word[12] == '\0' || word[12] == '=');
    option = text ? "--text" : validation ? "--validation" : NULL;
    value = option != NULL && strchr(word, '=') == NULL;
  }
  if (out != NULL) out[argc] = NULL;
  return out != NULL ? out : argv;
}

/* ---- the configuration ---- */

static bool refuse(const th_error *error) {
  cli_error("train", "%s", error->message);
  return false;
}

static void add_common(train_options *o) {
  th_error error;
  th__train *c = &o->asked;
  c->threads = o->common.threads;
  c->from[TH__TRAIN_threads] = c->threads > 0 ? TH__FROM_OPTION : TH__FROM_DEFAULT;
  if (o->common.json != NULL) th__train_set_text(c, TH__TRAIN_json, o->common.json, &error);
  if (o->common.seed_given) {
    c->seed = o->common.seed;
    c->from[TH__TRAIN_seed] = TH__FROM_OPTION;
  }
}

static void drop(th__train *c, int field) {
  const th__train nothing = {0};
  th__train_field_copy(c, &nothing, field);
}

static bool layer(train_options *o) {
  th_error error;
  th__train *c = &o->asked;
  add_common(o);
  if (o->file != NULL && th__train_read(c, o->file, &error) != TH_OK) return refuse(&error);
  /* What is learnt on the command line takes the place of the file's, whichever of the two it is. */
  if (c->from[TH__TRAIN_task] > c->from[TH__TRAIN_text]) {
    drop(c, TH__TRAIN_text);
    drop(c, TH__TRAIN_validation);
  } else if (c->from[TH__TRAIN_text] > c->from[TH__TRAIN_task])
    drop(c, TH__TRAIN_task);
  if ((o->resume || o->force) && c->out.count == 0) {
    cli_error("train", "--%s needs the run's folder; give --out DIR",
              o->resume ? "resume" : "force");
    return false;
  }
  if (o->resume && o->force) {
    cli_error("train", "--resume goes on with the run, --force replaces it; give one of the two");
    return false;
  }
  return true;
}

/* The configuration to train with, in `config`. */
static bool configure(train_options *o, th__run *run, th__train *config) {
  th_error error;
  if (!layer(o)) return false;
  const th__train *asked = &o->asked;
  const char *folder = asked->out.count > 0 ? asked->out.at[0] : NULL;
  if (folder != NULL && th__run_open(run, folder, o->resume, o->force, &error) != TH_OK)
    return refuse(&error);
  if (o->resume) {
    if (th__run_stored_config(run, config, &error) != TH_OK ||
        th__train_merge_resume(config, asked, folder, &error) != TH_OK)
      return refuse(&error);
  } else {
    if (asked->from[TH__TRAIN_seed] == TH__FROM_DEFAULT) o->asked.seed = o->common.seed;
    if (th__train_apply_preset(&o->asked, &error) != TH_OK) return refuse(&error);
    for (int i = 0; i < TH__TRAIN_FIELDS; i++)
      if (!th__train_field_copy(config, asked, i)) {
        cli_error("train", "out of memory");
        return false;
      }
  }
  th__train_complete(config);
  if (th__train_check(config, &error) != TH_OK) return refuse(&error);
  if (config->threads > 0) th_set_threads((int)config->threads);
  return true;
}

/* ---- files ---- */

/* One file under two names would be read while it is written, or written twice. */
static bool same_file(const char *a, const char *b) {
  struct stat x, y;
  return a != NULL && b != NULL && stat(a, &x) == 0 && stat(b, &y) == 0 && S_ISREG(x.st_mode) &&
         x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static const char *only(const th__names *names) { return names->count > 0 ? names->at[0] : NULL; }

static bool files_apart(const th__train *c) {
  const char *json = only(&c->json), *log = only(&c->log);
  if (same_file(log, json)) {
    cli_error("train", "%s and %s are one file", log, json);
    return false;
  }
  for (int i = 0; i < c->text.count + c->validation.count; i++) {
    const char *text = i < c->text.count ? c->text.at[i] : c->validation.at[i - c->text.count];
    bool is_log = same_file(text, log);
    if (!is_log && !same_file(text, json)) continue;
    cli_error("train", "the %s would overwrite the text %s", is_log ? "log" : "JSON", text);
    return false;
  }
  return true;
}

/* ---- runs ---- */

/* Why it ended so, and how it goes on. */
static void tell_end(const th__train *c, const th__run *run, const th__train_run *result) {
  const char *folder = only(&c->out);
  if (result->end == TH__END_PATIENCE)
    printf("%s after %ld validations without a better loss; a larger --patience goes on\n",
           result->finished_before ? "the run had ended" : "ended", c->patience);
  else if (result->finished_before)
    printf("the run in %s is finished: all %ld steps were done; a larger --steps goes on\n", folder,
           c->steps);
  if (result->best_step > 0) {
    printf("validation loss: ");
    if (result->validation_loss < result->best_loss)
      printf("%.4f after the last step, which is no multiple of --eval-every and is not kept as the "
             "best;\n  ",
             result->validation_loss);
    else if (result->validation_loss == result->validation_loss)
      printf("%.4f, ", result->validation_loss);
    printf("lowest %.4f at step %ld\n", result->best_loss, result->best_step);
  }
  if (folder != NULL)
    printf("kept in %s: config.json, log.jsonl, last.safetensors (step %ld)%s\n", folder,
           run->saved, result->best_step > 0 ? ", best.safetensors" : "");
}

/* "... `the command that goes on` goes on" */
static void tell_how_to_go_on(const char *what, const char *folder) {
  char *word = cli_word(folder);
  cli_error("train", "%s; `tapehead train --resume --out %s` goes on", what,
            word != NULL ? word : folder);
  free(word);
}

/* After a fault: what is left of the run. */
static void tell_fault(const th__train *c, const th__run *run) {
  const char *folder = only(&c->out);
  if (folder == NULL || !run->begun) return;
  if (run->saved < 0) {
    cli_error("train", "no checkpoint was written yet");
    return;
  }
  char what[64];
  snprintf(what, sizeof what, "the checkpoint of step %ld is whole", run->saved);
  tell_how_to_go_on(what, folder);
}

/* Finished runs stand in runs[0 .. *count-1]. A run that diverges does not keep the others from
 * running. */
static int run_seeds(th__train *c, const th__train_job *job, train_watch *w, th__train_run *runs,
                     int *count) {
  int status = EXIT_OK;
  uint64_t first = c->seed;
  for (long i = 0; i < c->seeds && !train_interrupted(); i++) {
    th_error error;
    c->seed = w->seed = first + (uint64_t)i;
    th__train_run *run = &runs[*count];
    th_status result = th__train_run_one(job, run, &error);
    train_clear_progress(w);
    if (result == TH_ERR_NONFINITE) {
      cli_error("train", "seed %llu: %s", (unsigned long long)w->seed, error.message);
      if (job->run != NULL && job->run->saved >= 0)
        cli_error(
            "train",
            "the checkpoint of step %ld is whole, but resuming would take the same steps again; "
            "begin another run",
            job->run->saved);
      status = EXIT_CHECK_FAILED;
      continue;
    }
    if (result != TH_OK) {
      cli_error("train", "%s", error.message);
      if (job->run != NULL) tell_fault(c, job->run);
      return EXIT_USAGE;
    }
    if (w->table) {
      train_print_head(w);
      th__train_row(run, stdout);
      if (w->detailed) tell_end(c, job->run, run);
    }
    ++*count;
    if (fflush(stdout) != 0) return EXIT_USAGE; /* main() says so */
  }
  c->seed = first;
  if (w->table && *count > 1) th__train_summary(runs, *count, stdout);
  return status;
}

/* Pictures are made last; without gnuplot there are none, which is no fault of the run. */
static void plot(const th__train *c, const th__run *run, bool table) {
  th_error error;
  if (th__run_plot(run, &error) != TH_OK) {
    cli_error("train", "no plots.svg: %s", error.message);
    return;
  }
  if (table) printf("plotted in %s/plots.svg\n", run->folder);
  if (!table || !(c->plot_terminal || isatty(STDOUT_FILENO))) return;
  struct winsize size;
  bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 40;
  if (th__run_plot_text(run, known && size.ws_col < 100 ? size.ws_col : 80, 20, stdout, &error) !=
      TH_OK)
    cli_error("train", "no plot: %s", error.message);
}

static int finish(const th__train *c, const th__run *run, const th__train_run *runs, int count,
                  int status) {
  const char *json = only(&c->json);
  if (json != NULL && count > 0 && !cli_write_json("train", json, th__train_json(c, runs, count)))
    status = EXIT_USAGE;
  if (!train_interrupted() || status == EXIT_USAGE) return status;
  const char *what = "interrupted; the results are those of the steps done";
  if (run->begun)
    tell_how_to_go_on(what, run->folder);
  else
    cli_error("train", "%s", what);
  return 128 + train_interrupted();
}

static int train(th__train *c, th__run *run, const th__train_data *data, th__train_run *runs) {
  const char *json = only(&c->json), *log = only(&c->log);
  bool kept = c->out.count > 0;
  train_watch watch = {.config = c,
                       .table = json == NULL || strcmp(json, "-") != 0,
                       .detailed = kept || c->eval_every > 0 || c->sample_every > 0};
  th__lines lines = {.file = -1};
  th_error error = {0};
  if (log != NULL && th__lines_open(&lines, log, &error) != TH_OK)
    return cli_error("train", "%s", error.message);
  const th__train_job job = {.config = c,
                             .data = data,
                             .log = log != NULL ? &lines : NULL,
                             .run = kept ? run : NULL,
                             .watch = train_watch_functions(&watch)};
  int count = 0, status = EXIT_USAGE;
  if (files_apart(c)) {
    train_watch_signals();
    status = run_seeds(c, &job, &watch, runs, &count);
  }
  if (th__lines_close(&lines, &error) != TH_OK) status = cli_error("train", "%s", error.message);
  if (run->begun || (c->plot_terminal && count > 0)) plot(c, run, watch.table);
  return finish(c, run, runs, count, status);
}

int command_train(int argc, char **argv) {
  static train_options options = {.common.seed = 1};
  static th__train_run runs[MOST_SEEDS];
  static th__train config;
  make_options();
  cli_parse(argc, spread_files(argc, argv), own_options, parse, NULL, help_text(), &options);
  th__run run = {.lock = -1, .log.file = -1};
  th__train_data data = {0};
  th_error error;
  int status = EXIT_USAGE;
  if (configure(&options, &run, &config) && cli_check_writable("train", only(&config.json))) {
    if (th__train_data_read(&config, &data, &error) != TH_OK)
      cli_error("train", "%s", error.message);
    else
      status = train(&config, &run, &data, runs);
  }
  th__train_data_free(&data);
  th__run_close(&run);
  th__train_free(&config);
  th__train_free(&options.asked);
  return status;
}
