/* tapehead inspect: what a checkpoint holds, and what its attention does with a text. */
#include <string.h>

#include "cli/cli.h"
#include "lab/inspect_report.h"
#include "tensor/alloc.h"

enum { KEY_CHECKPOINT = 1, KEY_TEXT, KEY_MAP, KEY_SVG };

typedef struct inspect_options {
  cli_common common;
  const char *checkpoint, *text, *svg;
  bool maps;        /* of all heads, or of this one: */
  long layer, head; /* -1: all */
} inspect_options;

static const struct argp_option own_options[] = {
    {"checkpoint", KEY_CHECKPOINT, "FILE", 0,
     "A file of 'tapehead train --out', or any safetensors file", 0},
    {"text", KEY_TEXT, "TEXT", 0, "Run the model on TEXT and show its attention", 0},
    {"map", KEY_MAP, "L,H|all", 0, "With --text: show the map of layer L, head H (from 0), or all",
     0},
    {"svg", KEY_SVG, "FILE", 0, "With --text: draw the maps of all layers and heads", 0},
    {0}};

static error_t parse(int key, char *argument, struct argp_state *state) {
  inspect_options *options = state->input;
  switch (key) {
  case KEY_CHECKPOINT: options->checkpoint = argument; return 0;
  case KEY_TEXT: options->text = argument; return 0;
  case KEY_SVG: options->svg = argument; return 0;
  case KEY_MAP: {
    long place[2] = {-1, -1};
    if (strcmp(argument, "all") != 0 &&
        cli_integers(state, "--map", argument, 0, 1000000, place, 2) != 2)
      argp_error(state, "--map: '%s' is neither 'all' nor LAYER,HEAD", argument);
    options->maps = true;
    options->layer = place[0];
    options->head = place[1];
    return 0;
  }
  case ARGP_KEY_END:
    if (options->checkpoint == NULL)
      argp_error(state, "give --checkpoint FILE, say best.safetensors of a run's folder");
    if (options->text == NULL && (options->maps || options->svg != NULL))
      argp_error(state, "--map and --svg need a --text");
    return 0;
  default: return ARGP_ERR_UNKNOWN;
  }
}

static bool to_stdout(const inspect_options *options) {
  return options->common.json != NULL && strcmp(options->common.json, "-") == 0;
}

static int show_maps(const inspect_options *options, const th__inspection *in, char *const *names) {
  th_error error;
  for (ptrdiff_t l = 0; l < in->layers; l++)
    for (ptrdiff_t h = 0; h < in->heads; h++) {
      if (options->layer >= 0 && (l != options->layer || h != options->head)) continue;
      char *map = th__inspect_map(in, l, h, (const char *const *)names, &error);
      if (map == NULL) return cli_error("inspect", "%s", error.message);
      printf("\n%s", map);
      th__free(map);
    }
  return EXIT_OK;
}

static int write_svg(const char *path, const th__inspection *in, char *const *names) {
  th_error error;
  size_t size = 0;
  char *svg = th__inspect_svg(in, (const char *const *)names, &size, &error);
  return cli_write_svg("inspect", path, svg, size, &error) ? EXIT_OK : EXIT_USAGE;
}

static bool map_exists(const inspect_options *options, const th__inspection *in) {
  if (options->layer < in->layers && options->head < in->heads) return true;
  cli_error("inspect", "--map %ld,%ld: the model has layers 0 to %td, heads 0 to %td",
            options->layer, options->head, in->layers - 1, in->heads - 1);
  return false;
}

static int report_file(const inspect_options *options, const th__inspect_file *file) {
  th_error error;
  if (to_stdout(options) || th__inspect_file_table(file, stdout, &error) == TH_OK) return EXIT_OK;
  return cli_error("inspect", "%s", error.message);
}

/* What was asked for about a text that has been run. */
static int report_text(const inspect_options *options, const th__inspection *in, char *const *names,
                       json_t *document) {
  int status = EXIT_OK;
  if (!to_stdout(options)) {
    printf("\n");
    th__inspect_text_table(in, names, stdout);
    if (options->maps) status = show_maps(options, in, names);
  }
  if (status == EXIT_OK && options->svg != NULL) status = write_svg(options->svg, in, names);
  if (document != NULL) json_object_set_new(document, "text", th__inspect_text_json(in, names));
  return status;
}

/* Nothing is shown, not even of the file, if the text cannot be run. */
static int look_at_text(const inspect_options *options, const th__inspect_file *file,
                        json_t *document) {
  if (file->model == NULL)
    return cli_error("inspect", "%s holds no model that could run a text", file->path);
  if (file->vocab == NULL)
    return cli_error("inspect", "%s holds no vocabulary to read the text with", file->path);
  const th__source source = {"the text", options->text, strlen(options->text)};
  th_error error;
  ptrdiff_t count;
  int32_t *tokens = th__vocab_encode(file->vocab, &source, &count, &error);
  th__inspection in = {0};
  char **names = NULL;
  int status = EXIT_USAGE;
  if (tokens == NULL || th__inspect(file->model, tokens, count, &in, &error) != TH_OK ||
      (names = th__inspect_names(file->vocab, tokens, count, &error)) == NULL)
    cli_error("inspect", "%s", error.message);
  else if (map_exists(options, &in) && report_file(options, file) == EXIT_OK)
    status = report_text(options, &in, names, document);
  th__free(names);
  th__inspection_free(&in);
  th__free(tokens);
  return status;
}

static int report(const inspect_options *options, const th__inspect_file *file) {
  json_t *document = options->common.json != NULL ? th__inspect_file_json(file) : NULL;
  int status =
      options->text != NULL ? look_at_text(options, file, document) : report_file(options, file);
  if (status != EXIT_OK)
    json_decref(document);
  else if (document != NULL && !cli_write_json("inspect", options->common.json, document))
    status = EXIT_USAGE;
  return status;
}

int command_inspect(int argc, char **argv) {
  inspect_options options = {.layer = -1, .head = -1};
  cli_parse(argc, argv, own_options, parse, NULL,
            "Show what a checkpoint holds: configuration, vocabulary, state, tensors; and for a text "
            "the attention of every layer and head: entropy, effective number of keys, the most "
            "attended tokens, maps."
            "\vExit status: 0 success, 2 usage or bad input.",
            &options);
  if (!cli_check_checkpoint("inspect", options.checkpoint) ||
      !cli_check_writable("inspect", options.common.json) ||
      !cli_check_writable("inspect", options.svg))
    return EXIT_USAGE;
  th__inspect_file file;
  th_error error;
  int status;
  if (th__inspect_open(&file, options.checkpoint, &error) == TH_OK)
    status = report(&options, &file);
  else
    status = cli_error("inspect", "%s", error.message);
  th__inspect_close(&file);
  return status;
}
