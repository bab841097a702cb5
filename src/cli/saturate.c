/* tapehead saturate: the sweep over d_k, keys and scale. */
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "lab/saturate.h"

enum { KEY_DK = 1, KEY_KEYS, KEY_SCALE, KEY_SAMPLES, KEY_DTYPE, KEY_CSV, KEY_PLOT, MOST = 64 };

typedef struct saturate_options {
  cli_common common;
  th__saturate_options sweep;
  long dk[MOST], keys[MOST];
  th__saturate_scale scales[MOST];
  const char *csv, *plot;
} saturate_options;

static const struct argp_option own_options[] = {
    {"dk", KEY_DK, "LIST", 0, "Widths of query and key (default 4,16,64,256,1024)", 0},
    {"keys", KEY_KEYS, "LIST", 0, "Keys per query (default 8,32,128)", 0},
    {"scale", KEY_SCALE, "LIST", 0,
     "What multiplies q.k: none, sqrt (1/sqrt(d_k)), dk (1/d_k) or a number (default "
     "none,sqrt,dk)",
     0},
    {"samples", KEY_SAMPLES, "N", 0, "Rows per point (default 256)", 0},
    {"dtype", KEY_DTYPE, "f32|f64", 0, "Precision of what is measured (default f32)", 0},
    {"csv", KEY_CSV, "FILE", 0, "Write all figures as CSV, a line per point", 0},
    {"plot", KEY_PLOT, "FILE", 0, "Write a picture (SVG, by gnuplot)", 0},
    {0}};

static void parse_scales(const struct argp_state *state, saturate_options *options,
                         const char *text) {
  options->sweep.scale_count = 0;
  for (const char *at = text;; at++) {
    size_t length = strcspn(at, ",");
    char item[sizeof options->scales[0].name];
    if (length == 0 || length >= sizeof item)
      argp_error(state, "--scale: '%s' is not a list such as none,sqrt,dk,0.05", text);
    if (options->sweep.scale_count == MOST) argp_error(state, "--scale: more than %d values", MOST);
    snprintf(item, sizeof item, "%.*s", (int)length, at);
    cli_scale scale = cli_parse_scale(state, "--scale", item);
    th__saturate_scale *to = &options->scales[options->sweep.scale_count++];
    *to = (th__saturate_scale){.kind = scale.kind, .factor = scale.factor};
    memcpy(to->name, item, sizeof item);
    at += length;
    if (*at == '\0') return;
  }
}

static const char *file_name(const struct argp_state *state, const char *option, const char *text) {
  if (text[0] == '\0' || strcmp(text, "-") == 0)
    argp_error(state, "%s: '%s' is no file name; only --json can go to standard output", option,
               text);
  return text;
}

static error_t parse(int key, char *argument, struct argp_state *state) {
  saturate_options *options = state->input;
  th__saturate_options *sweep = &options->sweep;
  static const char *const dtypes[] = {"f32", "f64", NULL};
  switch (key) {
  case KEY_DK:
    sweep->dk_count =
        cli_integers(state, "--dk", argument, 1, TH__SATURATE_MOST_DK, options->dk, MOST);
    sweep->dk = options->dk;
    return 0;
  case KEY_KEYS:
    sweep->keys_count =
        cli_integers(state, "--keys", argument, 1, TH__SATURATE_MOST_KEYS, options->keys, MOST);
    sweep->keys = options->keys;
    return 0;
  case KEY_SCALE:
    parse_scales(state, options, argument);
    sweep->scales = options->scales;
    return 0;
  case KEY_SAMPLES:
    sweep->samples = cli_integer(state, "--samples", argument, 1, TH__SATURATE_MOST_SAMPLES);
    return 0;
  case KEY_DTYPE:
    sweep->dtype = cli_choice(state, "--dtype", argument, dtypes) == 0 ? TH_F32 : TH_F64;
    return 0;
  case KEY_CSV: options->csv = file_name(state, "--csv", argument); return 0;
  case KEY_PLOT: options->plot = file_name(state, "--plot", argument); return 0;
  case ARGP_KEY_END: {
    const char *files[] = {options->common.json, options->csv, options->plot};
    for (int i = 0; i < 3; i++)
      for (int j = 0; j < i; j++)
        if (files[i] != NULL && files[j] != NULL && strcmp(files[i], files[j]) == 0)
          argp_error(state, "'%s' is given for two outputs", files[i]);
    return 0;
  }
  default: return ARGP_ERR_UNKNOWN;
  }
}

/* ---- output ---- */

static void show_progress(void *context, double done) {
  int *shown = context, percent = (int)(100 * done);
  if (percent == *shown) return;
  *shown = percent;
  fprintf(stderr, "\rsaturate: %3d %%", percent);
}

static bool write_csv(const th__saturate_result *result, const char *command, const char *path) {
  char *text = NULL;
  size_t size = 0;
  FILE *stream = open_memstream(&text, &size);
  if (stream != NULL) th__saturate_csv(result, command, stream);
  return cli_write_csv("saturate", path, stream, &text, &size);
}

static bool write_plot(const th__saturate_result *result, const char *path) {
  th_error error;
  size_t size = 0;
  char *svg = th__saturate_svg(result, &size, &error);
  return cli_write_svg("saturate", path, svg, size, &error);
}

static int report(const saturate_options *options, const th__saturate_result *result) {
  const char *json = options->common.json;
  char *command = cli_command_line(&options->common);
  bool good = true;
  if (json == NULL || strcmp(json, "-") != 0) th__saturate_table(result, stdout);
  if (json != NULL) good = cli_write_json("saturate", json, th__saturate_json(result, command));
  if (options->csv != NULL) good = write_csv(result, command, options->csv) && good;
  if (options->plot != NULL) good = write_plot(result, options->plot) && good;
  free(command);
  return good ? EXIT_OK : EXIT_USAGE;
}

int command_saturate(int argc, char **argv) {
  saturate_options options = {0};
  int shown = -1;
  cli_parse(argc, argv, own_options, parse, NULL,
            "Measure how sharp the softmax of attention is at random queries and keys, over d_k, "
            "the number of keys and the scale, and what is left of the gradient behind it. "
            "docs/saturation.md explains each figure."
            "\vExit status: 0 success, 2 usage or bad input.",
            &options);
  if (!cli_check_writable("saturate", options.common.json) ||
      !cli_check_writable("saturate", options.csv) || !cli_check_writable("saturate", options.plot))
    return EXIT_USAGE;
  options.sweep.seed = options.common.seed;
  if (cli_progress()) {
    options.sweep.progress = show_progress;
    options.sweep.progress_context = &shown;
  }
  th_error error;
  th__saturate_result *result = th__saturate(&options.sweep, &error);
  if (shown >= 0) fprintf(stderr, "\r%16s\r", "");
  if (result == NULL) return cli_error("saturate", "%s", error.message);
  int status = report(&options, result);
  th__saturate_free(result);
  return status;
}
