/* tapehead generate: text from a checkpoint. */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <string.h>

#include "cli/cli.h"
#include "io/checkpoint.h"
#include "io/file.h"
#include "lab/generate.h"
#include "tensor/alloc.h"

enum {
  KEY_CHECKPOINT = 1,
  KEY_PROMPT,
  KEY_PROMPT_FILE,
  KEY_TOKENS,
  KEY_TEMPERATURE,
  KEY_TOP_K,
  KEY_TOP_P,
  KEY_SAMPLES,
  KEY_SLIDE
};

#define MOST_TOKENS (1L << 30)
#define MOST_PROMPT ((size_t)1 << 26) /* bytes */

typedef struct generate_options {
  cli_common common;
  th__generate settings;
  const char *checkpoint, *prompt, *prompt_file;
  long samples;
} generate_options;

/* ---- options ---- */

static const struct argp_option own_options[] = {
    {"checkpoint", KEY_CHECKPOINT, "FILE", 0,
     "What `tapehead train --out` wrote: DIR/best.safetensors", 0},
    {"prompt", KEY_PROMPT, "TEXT", 0, "What the text begins with (default: nothing)", 0},
    {"prompt-file", KEY_PROMPT_FILE, "FILE", 0, "The same from a file, or from - (standard input)",
     0},
    {"tokens", KEY_TOKENS, "N", 0, "New tokens, at most (default 200)", 0},
    {"temperature", KEY_TEMPERATURE, "T", 0,
     "0: always the likeliest token; 1: as the model has it (default 0.8)", 0},
    {"top-k", KEY_TOP_K, "K", 0, "Draw from the K likeliest tokens only", 0},
    {"top-p", KEY_TOP_P, "P", 0, "Draw from the fewest tokens that have probability P together", 0},
    {"slide", KEY_SLIDE, NULL, 0,
     "When the context of the model is full, begin again with the last half of it, and go on", 0},
    {"samples", KEY_SAMPLES, "N", 0, "So many texts (default 1)", 0},
    {0}};

static void check_together(const struct argp_state *state, const generate_options *options) {
  if (options->checkpoint == NULL)
    argp_error(state, "give --checkpoint FILE, say best.safetensors of a run's folder");
  if (options->prompt != NULL && options->prompt_file != NULL)
    argp_error(state, "give either --prompt or --prompt-file");
}

static error_t parse(int key, char *argument, struct argp_state *state) {
  generate_options *options = state->input;
  th__generate *s = &options->settings;
  switch (key) {
  case KEY_CHECKPOINT: options->checkpoint = argument; return 0;
  case KEY_PROMPT: options->prompt = argument; return 0;
  case KEY_PROMPT_FILE: options->prompt_file = argument; return 0;
  case KEY_TOKENS: s->tokens = cli_integer(state, "--tokens", argument, 0, MOST_TOKENS); return 0;
  case KEY_TEMPERATURE:
    s->sampling.temperature = cli_number(state, "--temperature", argument, 0, 1e6);
    return 0;
  case KEY_TOP_K:
    s->sampling.top_k = cli_integer(state, "--top-k", argument, 1, MOST_TOKENS);
    return 0;
  case KEY_TOP_P: s->sampling.top_p = cli_number(state, "--top-p", argument, 1e-9, 1); return 0;
  case KEY_SAMPLES:
    options->samples = cli_integer(state, "--samples", argument, 1, 1000000);
    return 0;
  case KEY_SLIDE: s->slide = true; return 0;
  case ARGP_KEY_END: check_together(state, options); return 0;
  default: return ARGP_ERR_UNKNOWN;
  }
}

/* ---- one run ---- */

typedef struct run {
  const generate_options *options;
  th_model *model;
  th__vocab *vocab;
  th__generator *generator;
  th__source prompt;
  char *prompt_bytes; /* of a file */
  int32_t *ids;       /* of the prompt, or where a text without one begins */
  ptrdiff_t count;
  bool print;   /* stdout is not taken by JSON */
  bool between; /* something stands before the next symbol: the vocabulary's separator is due */
  json_t *new_ids, *logs; /* of this sample, if JSON is wanted */
  json_t *samples;
} run;

static bool load(run *r) {
  th_error error;
  const char *path = r->options->checkpoint;
  th__checkpoint *file = th__checkpoint_open(path, &error);
  json_t *table = file != NULL ? th__checkpoint_json(file, "tapehead.vocab", &error) : NULL;
  if (table != NULL) r->vocab = th__vocab_from_json(table, &error);
  if (r->vocab != NULL) r->model = th__checkpoint_model(file, &error);
  if (r->model != NULL) r->generator = th__generator_new(r->model, &error);
  json_decref(table);
  th__checkpoint_close(file);
  if (r->generator != NULL) return true;
  bool named = strncmp(error.message, path, strlen(path)) == 0;
  cli_error("generate", "%s%s%s", named ? "" : path, named ? "" : ": ", error.message);
  return false;
}

static bool read_prompt(run *r) {
  const generate_options *o = r->options;
  th_error error;
  r->prompt = (th__source){"the prompt", o->prompt, o->prompt != NULL ? strlen(o->prompt) : 0};
  if (o->prompt_file != NULL) {
    bool input = strcmp(o->prompt_file, "-") == 0;
    r->prompt.name = input ? "standard input" : o->prompt_file;
    r->prompt.bytes = r->prompt_bytes = th__read_file_upto(input ? "/dev/stdin" : o->prompt_file,
                                                           MOST_PROMPT, &r->prompt.count, &error);
    if (r->prompt_bytes == NULL) {
      cli_error("generate", "%s", error.message);
      return false;
    }
  }
  r->ids = th__vocab_encode(r->vocab, &r->prompt, &r->count, &error);
  if (r->ids == NULL) {
    cli_error("generate", "%s", error.message);
    return false;
  }
  if (r->count == 0) r->ids[r->count++] = th__generate_start(r->vocab); /* there is always room */
  return true;
}

/* ---- printing ---- */

static bool put(run *r, const char *bytes, size_t count) {
  if (r->print) fwrite(bytes, 1, count, stdout);
  return !r->print || (fflush(stdout) == 0 && !ferror(stdout));
}

static bool put_token(void *context, int32_t id, double log_probability) {
  run *r = context;
  if (r->new_ids != NULL) {
    json_array_append_new(r->new_ids, json_integer(id));
    json_array_append_new(r->logs, json_real(log_probability));
  }
  char text[1 + TH__VOCAB_SYMBOL];
  size_t length = 0;
  if (r->between && th__vocab_separator(r->vocab)[0] != '\0') text[length++] = ' ';
  r->between = true;
  length += (size_t)th__vocab_decode(r->vocab, id, text + length);
  return put(r, text, length);
}

static json_t *sample_json(const run *r, long number, const th__generated *result) {
  return json_pack("{s:I, s:o, s:s, s:O, s:O}", "sample", (json_int_t)number, "text",
                   th__generate_text_json(r->vocab, r->new_ids), "end",
                   result->end == TH__GENERATE_CONTEXT ? "context" : "tokens", "ids", r->new_ids,
                   "log_probabilities", r->logs);
}

/* "stopped after 64 tokens: ..." once per sample, after its line. */
static void say_why(const run *r, long number, const th__generated *result) {
  if (result->end != TH__GENERATE_CONTEXT) return;
  char which[32] = "";
  if (r->options->samples > 1) snprintf(which, sizeof which, "sample %ld: ", number + 1);
  cli_error("generate",
            "%sstopped after %td token%s: the context of the model is full (%td); --slide goes on",
            which, result->tokens, result->tokens == 1 ? "" : "s", th_model_gpt(r->model)->context);
}

static int one_sample(run *r, long number) {
  th_error error;
  th__generated result;
  th__generate settings = r->options->settings;
  settings.seed = r->options->common.seed;
  settings.sample = (uint64_t)number;
  char title[64];
  int length =
      snprintf(title, sizeof title, "--- sample %ld of %ld ---\n", number + 1, r->options->samples);
  if (r->options->samples > 1 && !put(r, title, (size_t)length)) return EXIT_USAGE;
  if (!put(r, r->prompt.bytes, r->prompt.count)) return EXIT_USAGE;
  r->between = r->prompt.count > 0;
  if (r->samples != NULL) {
    r->new_ids = json_array();
    r->logs = json_array();
  }
  th_status status =
      th__generate_text(r->generator, r->ids, r->count, &settings, put_token, r, &result, &error);
  int code = EXIT_OK;
  if (status != TH_OK) {
    if (result.tokens > 0) put(r, "\n", 1);
    code = cli_error("generate", "%s", error.message);
    if (status == TH_ERR_NONFINITE) code = EXIT_CHECK_FAILED;
  } else if (result.end == TH__GENERATE_STOPPED || !put(r, "\n", 1))
    code = EXIT_USAGE;
  else {
    if (r->samples != NULL) json_array_append_new(r->samples, sample_json(r, number, &result));
    say_why(r, number, &result);
  }
  json_decref(r->new_ids);
  json_decref(r->logs);
  return code;
}

static json_t *document(const run *r) {
  const th__generate *s = &r->options->settings;
  json_t *prompt = json_array();
  for (ptrdiff_t i = 0; r->prompt.count > 0 && i < r->count; i++)
    json_array_append_new(prompt, json_integer(r->ids[i]));
  return json_pack("{s:s, s:o, s:o, s:I, s:f, s:I, s:f, s:I, s:O}", "checkpoint",
                   r->options->checkpoint, "prompt", th__generate_text_json(r->vocab, prompt),
                   "prompt_ids", prompt, "tokens", (json_int_t)s->tokens, "temperature",
                   s->sampling.temperature, "top_k", (json_int_t)s->sampling.top_k, "top_p",
                   s->sampling.top_p == 0 ? 1.0 : s->sampling.top_p, "seed",
                   (json_int_t)r->options->common.seed, "samples", r->samples);
}

static int generate(run *r) {
  const char *json = r->options->common.json;
  th_error error;
  /* No token asked for: only the checks, before anything is printed. */
  if (th__generate_text(r->generator, r->ids, r->count, &(th__generate){0}, put_token, r,
                        &(th__generated){0}, &error) != TH_OK)
    return cli_error("generate", "%s", error.message);
  r->print = json == NULL || strcmp(json, "-") != 0;
  if (json != NULL) r->samples = json_array();
  int code = EXIT_OK;
  for (long number = 0; number < r->options->samples && code == EXIT_OK; number++)
    code = one_sample(r, number);
  if (code == EXIT_OK && json != NULL && !cli_write_json("generate", json, document(r)))
    code = EXIT_USAGE;
  json_decref(r->samples);
  return code;
}

int command_generate(int argc, char **argv) {
  generate_options options = {
      .common.seed = 1, .settings = {.sampling.temperature = 0.8, .tokens = 200}, .samples = 1};
  cli_parse(argc, argv, own_options, parse, NULL,
            "Continue a prompt with a trained model, token by token. docs/generation.md tells more."
            "\vExit status: 0 success, 1 logits that are not finite, 2 usage or bad input.",
            &options);
  /* A reader that has seen enough (head) ends the command, quietly. */
  signal(SIGPIPE, SIG_DFL);
  run r = {.options = &options};
  int code = EXIT_USAGE;
  if (cli_check_checkpoint("generate", options.checkpoint) &&
      cli_check_writable("generate", options.common.json) && load(&r) && read_prompt(&r))
    code = generate(&r);
  th__free(r.prompt_bytes);
  th__free(r.ids);
  th__generator_free(r.generator);
  th_model_free(r.model);
  th__vocab_free(r.vocab);
  return code;
}
