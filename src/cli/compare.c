/* tapehead compare: RNN, LSTM and transformer on recall at growing distances. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "lab/compare.h"

enum { KEY_DISTANCE = 1, KEY_STEPS, KEY_SEEDS, KEY_BATCH, KEY_WIDTH, KEY_LR, KEY_CSV, KEY_PLOT };

typedef struct compare_options {
  cli_common common;
  th__compare_options compare;
  long distances[TH__COMPARE_MOST_DISTANCES];
  const char *csv, *plot;
} compare_options;

static const struct argp_option own_options[] = {
    {"distance", KEY_DISTANCE, "LIST", 0,
     "Tokens between the pairs and the question, rising (default 8,32,128,512)", 0},
    {"steps", KEY_STEPS, "N", 0, "Training steps per run, at most (default 500)", 0},
    {"seeds", KEY_SEEDS, "N", 0, "Runs per distance and model, from --seed on (default 3)", 0},
    {"batch", KEY_BATCH, "N", 0, "Sequences per step (default 16)", 0},
    {"width", KEY_WIDTH, "N", 0,
     "Width of the transformer; the others get as many parameters (default 32)", 0},
    {"lr", KEY_LR, "RATE", 0, "Learning rate of all three (default 0.003)", 0},
    {"csv", KEY_CSV, "FILE", 0, "Write all figures as CSV, a line per distance and model", 0},
    {"plot", KEY_PLOT, "FILE", 0, "Write a picture (SVG, by gnuplot)", 0},
    {0}};

static const char *file_name(const struct argp_state *state, const char *option, const char *text) {
  if (text[0] == '\0' || strcmp(text, "-") == 0)
    argp_error(state, "%s: '%s' is no file name; only --json can go to standard output", option,
               text);
  return text;
}

static void check_all(const struct argp_state *state, const compare_options *options) {
  const th__compare_options *c = &options->compare;
  const char *files[] = {options->common.json, options->csv, options->plot};
  for (int i = 0; i < 3; i++)
    for (int j = 0; j < i; j++)
      if (files[i] != NULL && files[j] != NULL && strcmp(files[i], files[j]) == 0)
        argp_error(state, "'%s' is given for two outputs", files[i]);
  for (int i = 1; i < c->distance_count; i++)
    if (c->distances[i] <= c->distances[i - 1])
      argp_error(state, "--distance: %ld does not exceed %ld; give them rising", c->distances[i],
                 c->distances[i - 1]);
  if (c->width % 2 != 0) argp_error(state, "--width: %ld is odd; positions need pairs", c->width);
}

static error_t parse(int key, char *argument, struct argp_state *state) {
  compare_options *options = state->input;
  th__compare_options *c = &options->compare;
  switch (key) {
  case KEY_DISTANCE:
    c->distance_count = cli_integers(state, "--distance", argument, 1, TH__COMPARE_MOST_DISTANCE,
                                     options->distances, TH__COMPARE_MOST_DISTANCES);
    c->distances = options->distances;
    return 0;
  case KEY_STEPS: c->steps = cli_integer(state, "--steps", argument, 1, 1000000); return 0;
  case KEY_SEEDS:
    c->seeds = cli_integer(state, "--seeds", argument, 1, TH__COMPARE_MOST_SEEDS);
    return 0;
  case KEY_BATCH: c->batch = cli_integer(state, "--batch", argument, 1, 65536); return 0;
  case KEY_WIDTH:
    c->width = cli_integer(state, "--width", argument, 2, TH__COMPARE_MOST_WIDTH);
    return 0;
  case KEY_LR:
    for (int i = 0; i < TH__COMPARED; i++) c->lr[i] = cli_number(state, "--lr", argument, 1e-8, 10);
    return 0;
  case KEY_CSV: options->csv = file_name(state, "--csv", argument); return 0;
  case KEY_PLOT: options->plot = file_name(state, "--plot", argument); return 0;
  case ARGP_KEY_END: check_all(state, options); return 0;
  default: return ARGP_ERR_UNKNOWN;
  }
}

/* ---- while it runs ---- */

/* The first of SIGINT and SIGTERM asks for an end after the step, the second ends at once. */
static volatile sig_atomic_t interrupted;
static void on_interrupt(int number) { interrupted = number; }

static void watch_signals(void) {
  struct sigaction action = {.sa_handler = on_interrupt,
                             .sa_flags = (int)(SA_RESETHAND | SA_RESTART)};
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
}

static bool on_progress(void *context, double done) {
  int *shown = context, percent = (int)(100 * done);
  if (cli_progress() && percent != *shown) {
    *shown = percent;
    fprintf(stderr, "\rcompare: %3d %%", percent);
  }
  return !interrupted;
}

/* ---- output ---- */

static bool write_csv(const th__compare_result *result, const char *command, const char *path) {
  char *text = NULL;
  size_t size = 0;
  FILE *stream = open_memstream(&text, &size);
  if (stream != NULL) th__compare_csv(result, command, stream);
  return cli_write_csv("compare", path, stream, &text, &size);
}

static bool write_plot(const th__compare_result *result, const char *path) {
  th_error error;
  size_t size = 0;
  char *svg = th__compare_svg(result, &size, &error);
  return cli_write_svg("compare", path, svg, size, &error);
}

/* The paragraph, in lines of at most 100 characters. */
static void print_summary(const th__compare_result *result) {
  char *text = NULL;
  size_t size = 0;
  FILE *stream = open_memstream(&text, &size);
  if (stream == NULL) return;
  th__compare_summary(result, stream);
  if (fclose(stream) != 0) return;
  int column = 0;
  for (char *word = strtok(text, " \n"); word != NULL; word = strtok(NULL, " \n")) {
    int length = (int)strlen(word);
    bool breaks = column + 1 + length > 100;
    if (column > 0) putchar(breaks ? '\n' : ' ');
    fputs(word, stdout);
    column = column > 0 && !breaks ? column + 1 + length : length;
  }
  printf("\n");
  free(text);
}

static int report(const compare_options *options, const th__compare_result *result) {
  const char *json = options->common.json;
  char *command = cli_command_line(&options->common);
  bool good = true;
  if (json == NULL || strcmp(json, "-") != 0) {
    th__compare_table(result, stdout);
    printf("\n");
    print_summary(result);
  }
  if (json != NULL) good = cli_write_json("compare", json, th__compare_json(result, command));
  if (options->csv != NULL) good = write_csv(result, command, options->csv) && good;
  if (options->plot != NULL) good = write_plot(result, options->plot) && good;
  free(command);
  return good ? EXIT_OK : EXIT_USAGE;
}

int command_compare(int argc, char **argv) {
  compare_options options = {.common.seed = 1};
  int shown = -1;
  cli_parse(argc, argv, own_options, parse, NULL,
            "Train an RNN, an LSTM and a one-layer transformer with about the same number of "
            "parameters to recall a pair over growing distances; show accuracy, the gradient that "
            "arrives at the first step, and the time of a step. docs/compare.md explains each "
            "figure."
            "\vInterrupted, it reports the runs that are finished. Exit status: 0 success, 2 usage "
            "or bad input, 128 + the signal if interrupted.",
            &options);
  if (!cli_check_writable("compare", options.common.json) ||
      !cli_check_writable("compare", options.csv) || !cli_check_writable("compare", options.plot))
    return EXIT_USAGE;
  options.compare.seed = options.common.seed;
  options.compare.progress = on_progress;
  options.compare.progress_context = &shown;
  watch_signals();
  th_error error;
  th__compare_result *result = th__comparison(&options.compare, &error);
  if (shown >= 0) fprintf(stderr, "\r%16s\r", "");
  if (result == NULL) return cli_error("compare", "%s", error.message);
  int status = report(&options, result);
  th__compare_free(result);
  if (!interrupted || status != EXIT_OK) return status;
  cli_error("compare", "interrupted; the results are those of the runs that were finished");
  return 128 + interrupted;
}
