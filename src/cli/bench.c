/* tapehead bench: our speed here. */
#include <string.h>

#include "cli/cli.h"
#include "lab/bench.h"
#include "lab/machine.h"

enum { KEY_SHAPE = 1, KEY_STEPS, MOST_SHAPES = 16 };

typedef struct bench_options {
  cli_common common;
  const th__bench_shape *shapes[MOST_SHAPES];
  int shape_count, steps;
} bench_options;

static const struct argp_option own_options[] = {
    {"shape", KEY_SHAPE, "NAME,...", 0,
     "micro, toy, chars, small, gpt2-124m, llama, lstm: one or several (default micro,toy,chars)",
     0},
    {"steps", KEY_STEPS, "N", 0,
     "Steps to time per shape, after three that are not counted (default 20)", 0},
    {0}};

static void parse_shapes(struct argp_state *state, bench_options *options, char *list) {
  options->shape_count = 0;
  for (char *rest, *name = strtok_r(list, ",", &rest); name != NULL;
       name = strtok_r(NULL, ",", &rest)) {
    const th__bench_shape *shape = th__bench_find(name);
    if (shape == NULL)
      argp_error(state,
                 "--shape: '%s' is not one of micro, toy, chars, small, gpt2-124m, llama, lstm",
                 name);
    if (options->shape_count == MOST_SHAPES) argp_error(state, "--shape: too many names");
    options->shapes[options->shape_count++] = shape;
  }
  if (options->shape_count == 0) argp_error(state, "--shape: give at least one name");
}

static error_t parse(int key, char *argument, struct argp_state *state) {
  bench_options *options = state->input;
  switch (key) {
  case KEY_SHAPE: parse_shapes(state, options, argument); return 0;
  case KEY_STEPS:
    options->steps = (int)cli_integer(state, "--steps", argument, 1, 1000000);
    return 0;
  default: return ARGP_ERR_UNKNOWN;
  }
}

static json_t *shape_json(const char *name, const th__bench_result *r, double peak) {
  return json_pack("{s:s, s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:f}", "name", name, "threads",
                   th_threads(), "steps", r->steps, "median_ms", r->median_ms, "min_ms", r->min_ms,
                   "tokens_per_second", r->tokens_per_second, "gflops", r->gflops, "peak_share",
                   r->gflops / peak, "peak_rss_mib", r->peak_rss_mib);
}

int command_bench(int argc, char **argv) {
  bench_options options = {.steps = 20, .shape_count = 3};
  for (int i = 0; i < options.shape_count; i++) options.shapes[i] = &th__bench_shapes[i];
  cli_parse(
      argc, argv, own_options, parse, NULL,
      "Time full training steps (forward, cross-entropy, backward, AdamW) of models in the GPT-2 "
      "layout (llama, lstm: in those), f32, beside the machine's own multiply-add rate."
      "\vExit status: 0 success, 2 usage or bad input.",
      &options);
  if (!cli_check_writable("bench", options.common.json)) return EXIT_USAGE;
  bool table = options.common.json == NULL || strcmp(options.common.json, "-") != 0;
  char cpu[128];
  th__machine_cpu(cpu, sizeof cpu);
  double peak = th__bench_peak();
  if (table) {
    printf("%s, %d threads, %s kernels; peak %.0f GFLOP/s f32\n\n", cpu, th_threads(), th_isa(),
           peak);
    printf("%-10s %6s %11s %11s %12s %9s %7s %9s\n", "shape", "steps", "median ms", "min ms",
           "tokens/s", "GFLOP/s", "peak %", "RSS MiB");
  }
  json_t *shapes = json_array();
  for (int i = 0; i < options.shape_count; i++) {
    const th__bench_shape *shape = options.shapes[i];
    th__bench_result r;
    th_error error;
    if (th__bench_run(shape, options.steps, options.common.seed, &r, &error) != TH_OK) {
      json_decref(shapes);
      return cli_error("bench", "%s", error.message);
    }
    json_array_append_new(shapes, shape_json(shape->name, &r, peak));
    if (table) {
      printf("%-10s %6d %11.3f %11.3f %12.0f %9.1f %7.1f %9.0f\n", shape->name, r.steps, r.median_ms,
             r.min_ms, r.tokens_per_second, r.gflops, 100 * r.gflops / peak, r.peak_rss_mib);
      fflush(stdout);
    }
  }
  json_t *document = json_pack("{s:o, s:f, s:s, s:s, s:s}", "shapes", shapes, "peak_gflops", peak,
                               "cpu", cpu, "blas", th_build_info(), "version", th_version());
  if (options.common.json == NULL) {
    json_decref(document);
    return EXIT_OK;
  }
  return cli_write_json("bench", options.common.json, document) ? EXIT_OK : EXIT_USAGE;
}
