/* tapehead demo: the headline, in the terminal and as a report. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "cli/cli.h"
#include "lab/demo.h"
#include "tensor/alloc.h"

enum { KEY_OUT = 1, KEY_SEEDS, KEY_STEPS };

typedef struct demo_options {
  cli_common common;
  const char *out;
  int seeds, steps;
} demo_options;

static const struct argp_option own_options[] = {
    {"out", KEY_OUT, "DIR", 0, "Folder of the report (default report); files in it are replaced", 0},
    {"seeds", KEY_SEEDS, "N", 0, "Seeds per setting of the toy task (default 5)", 0},
    {"steps", KEY_STEPS, "N", 0, "Training steps of the toy task (default 1000)", 0},
    {0}};

static error_t parse(int key, char *argument, struct argp_state *state) {
  demo_options *options = state->input;
  switch (key) {
  case KEY_OUT:
    if (argument[0] == '\0') argp_error(state, "--out: an empty name; give a folder");
    options->out = argument;
    return 0;
  case KEY_SEEDS: options->seeds = (int)cli_integer(state, "--seeds", argument, 1, 100); return 0;
  case KEY_STEPS:
    options->steps = (int)cli_integer(state, "--steps", argument, 10, 100000);
    return 0;
  default: return ARGP_ERR_UNKNOWN;
  }
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* ---- (a) ---- */

static int show_checks(th__demo *demo, FILE *out) {
  th_error error;
  fprintf(out, "(a) Gradients: f64 against finite differences, f32 against f64\n\n");
  if (th__demo_run_checks(demo, &error) != TH_OK) return cli_error("demo", "%s", error.message);
  for (int i = 0, j; i < demo->check_count; i = j) {
    const th__demo_check *first = &demo->checks[i];
    double f64 = 0, f32 = 0;
    ptrdiff_t compared = 0;
    int failed = 0;
    for (j = i; j < demo->check_count && strcmp(demo->checks[j].op, first->op) == 0; j++) {
      const th__demo_check *c = &demo->checks[j];
      f64 = c->f64_rel_error <= f64 ? f64 : c->f64_rel_error;
      f32 = c->f32_abs_error <= f32 ? f32 : c->f32_abs_error;
      compared += c->compared;
      failed += !th_verdict_ok(c->verdict);
    }
    fprintf(out,
            "    %-21s %2d cases, %6td entries: %s; f64 to %.1e relative, f32 to %.1e absolute\n",
            first->op, j - i, compared, failed == 0 ? "all right" : "WRONG", f64, f32);
  }
  fprintf(out, "\n");
  return EXIT_OK;
}

/* ---- (b) ---- */

static int show_sweep(th__demo *demo, FILE *out) {
  th_error error;
  size_t size;
  demo->sweep = th__saturate(&(th__saturate_options){.seed = demo->seed}, &error);
  if (demo->sweep == NULL) return cli_error("demo", "%s", error.message);
  fprintf(out, "(b) Softmax saturation at random queries and keys\n\n");
  th__saturate_table(demo->sweep, out);
  char *plot = th__saturate_text_plot(demo->sweep, TH__DQ_NORM, demo->sweep->keys_count / 2, 78, 22,
                                      &size, &error);
  if (plot == NULL) return cli_error("demo", "%s", error.message);
  fprintf(out, "%s\n", plot);
  th__free(plot);
  return EXIT_OK;
}

/* ---- (c) ---- */

typedef struct progress {
  ptrdiff_t done, count;
  double start;
} progress;

static void count_run(void *context) {
  progress *p = context;
  p->done++;
  double elapsed = now() - p->start;
  fprintf(stderr, "\rtoy task: %td of %td runs, %.0f s left \033[K", p->done, p->count,
          elapsed / (double)p->done * (double)(p->count - p->done));
}

static int show_recall(th__demo *demo, const demo_options *options, FILE *out) {
  th_error error;
  size_t size;
  if (!th__recall_grid_new(&demo->grid, options->steps, options->seeds, demo->seed, &error))
    return cli_error("demo", "%s", error.message);
  progress p = {0, demo->grid.count, now()};
  th_status status = th__recall_runs(demo->grid.runs, demo->grid.count,
                                     cli_progress() ? count_run : NULL, &p, &error);
  demo->grid.seconds = now() - p.start;
  if (cli_progress()) fprintf(stderr, "\r\033[K");
  if (status != TH_OK) return cli_error("demo", "%s", error.message);
  fprintf(out, "(c) Associative recall with and without the scale: %td runs of %d steps, %.0f s\n\n",
          demo->grid.count, options->steps, demo->grid.seconds);
  th__recall_table(&demo->grid, out);
  for (int optim = 0; optim < TH__RECALL_OPTIMS; optim++) {
    fprintf(out, "\nHow it goes with %s at d_k = %td (medians over seeds):\n\n",
            th__recall_optim_names[optim], th__recall_dks[TH__RECALL_DKS - 1]);
    th__recall_development(&demo->grid, optim, TH__RECALL_DKS - 1, out);
  }
  char *plot = th__recall_text_plot(&demo->grid, 0, TH__RECALL_DKS - 1, 78, 20, &size, &error);
  if (plot == NULL) return cli_error("demo", "%s", error.message);
  fprintf(out, "%s\n", plot);
  th__free(plot);
  return EXIT_OK;
}

/* ---- (d) ---- */

/* Prints text broken at spaces into lines of at most `width` columns. */
static void print_wrapped(const char *text, int width, FILE *out) {
  int column = 0;
  while (*text != '\0') {
    int length = (int)strcspn(text, " \n");
    if (column > 0 && column + 1 + length > width) {
      fputc('\n', out);
      column = 0;
    }
    column += fprintf(out, "%s%.*s", column > 0 ? " " : "", length, text);
    text += length;
    text += strspn(text, " \n");
  }
  fputc('\n', out);
}

static int conclude(th__demo *demo, const demo_options *options, FILE *out) {
  th_error error;
  char *text = NULL;
  size_t size = 0;
  FILE *stream = open_memstream(&text, &size);
  if (stream == NULL) return cli_error("demo", "out of memory");
  th__demo_conclusion(demo, stream);
  fclose(stream);
  fprintf(out, "(d) ");
  print_wrapped(text, 96, out);
  free(text);
  if (th__demo_write(demo, options->out, &error) != TH_OK)
    return cli_error("demo", "%s", error.message);
  fprintf(out, "\nThe report is in %s/: open %s/index.html\n", options->out, options->out);
  if (options->common.json != NULL &&
      !cli_write_json("demo", options->common.json, th__recall_json(&demo->grid)))
    return EXIT_USAGE;
  return demo->checks_failed == 0 ? EXIT_OK : EXIT_CHECK_FAILED;
}

/* The folder of the report must take files, or the minutes before are lost. */
static bool check_folder(const char *folder) {
  char probe[4096];
  struct stat status;
  if (stat(folder, &status) != 0) return cli_check_writable("demo", folder);
  if (snprintf(probe, sizeof probe, "%s/index.html", folder) >= (int)sizeof probe) {
    cli_error("demo", "--out: the path is too long");
    return false;
  }
  return cli_check_writable("demo", probe);
}

int command_demo(int argc, char **argv) {
  demo_options options = {.common.seed = 1, .out = "report", .seeds = 5, .steps = 1000};
  cli_parse(
      argc, argv, own_options, parse, NULL,
      "What 1/sqrt(d_k) is for: gradient checks, softmax saturation, and a toy task trained with and "
      "without the scale. About two minutes on two cores.",
      &options);
  if (!check_folder(options.out) || !cli_check_writable("demo", options.common.json))
    return EXIT_USAGE;
  bool quiet = options.common.json != NULL && strcmp(options.common.json, "-") == 0;
  FILE *out = quiet ? fopen("/dev/null", "we") : stdout;
  if (out == NULL) return cli_error("demo", "cannot open /dev/null");
  char *command = cli_command_line(&options.common);
  if (command == NULL) return cli_error("demo", "out of memory");
  static th__demo demo;
  demo.seed = options.common.seed;
  demo.command = command;
  double start = now();
  int status = show_checks(&demo, out);
  if (status == EXIT_OK) status = show_sweep(&demo, out);
  if (status == EXIT_OK) status = show_recall(&demo, &options, out);
  demo.seconds = now() - start;
  if (status == EXIT_OK) status = conclude(&demo, &options, out);
  th__saturate_free(demo.sweep);
  th__recall_grid_free(&demo.grid);
  free(command);
  if (quiet) fclose(out);
  return status;
}
