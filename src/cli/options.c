/* options.c: argp with our conventions, and strict parsing of values. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

enum { KEY_SEED = 0x1001, KEY_THREADS, KEY_JSON };

/* With the subcommand's default; argp, which prints them, wants them to stay. */
static char seed_text[64];
static const struct argp_option common_options[] = {
    {0, 0, 0, 0, "Common options:", -1},
    {"seed", KEY_SEED, "N", 0, seed_text, -1},
    {"threads", KEY_THREADS, "N", 0,
     "Threads to use (default: OpenMP's); results do not depend on it", -1},
    {"json", KEY_JSON, "FILE|-", 0, "Write results as JSON; - is standard output", -1},
    {0}};

static error_t parse_common(int key, char *argument, struct argp_state *state) {
  cli_common *common = state->input;
  switch (key) {
  case KEY_SEED:
    common->seed = cli_seed(state, argument);
    common->seed_given = true;
    return 0;
  case KEY_THREADS:
    common->threads = (int)cli_integer(state, "--threads", argument, 1, 1024);
    return 0;
  case KEY_JSON:
    if (argument[0] == '\0') argp_error(state, "--json: an empty file name; give a path or -");
    common->json = argument;
    return 0;
  case ARGP_KEY_INIT: return 0;
  default: return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp common_argp = {common_options, parse_common, 0, 0, 0, 0, 0};

/* The subcommand's own parser stands behind this one, which gives both parsers the struct and refuses
 * stray arguments. */
typedef struct parsing {
  argp_parser_t own;
  void *options;
  bool arguments;
} parsing;

static error_t parse_own(int key, char *argument, struct argp_state *state) {
  parsing *p = state->input;
  if (key == ARGP_KEY_INIT) state->child_inputs[0] = p->options;
  if (key == ARGP_KEY_ARG && !p->arguments)
    argp_error(state, "unexpected argument '%s'; options begin with --", argument);
  state->input = p->options;
  error_t result = p->own == NULL ? ARGP_ERR_UNKNOWN : p->own(key, argument, state);
  state->input = p;
  return result;
}

void cli_parse(int argc, char **argv, const struct argp_option *own, argp_parser_t parser,
               const char *arguments, const char *text, void *options) {
  const struct argp_child children[] = {{&common_argp, 0, 0, -1}, {0}};
  const struct argp argp = {own, parse_own, arguments, text, children, 0, 0};
  cli_common *common = options;
  common->argc = argc;
  common->argv = argv;
  parsing p = {parser, options, arguments != NULL};
  snprintf(seed_text, sizeof seed_text, "Seed of everything random (default %llu)",
           (unsigned long long)common->seed);
  argp_err_exit_status = EXIT_USAGE;
  argp_parse(&argp, argc, argv, 0, 0, &p);
  if (common->threads > 0) th_set_threads(common->threads);
}

/* ---- values ---- */

long cli_integer(const struct argp_state *state, const char *option, const char *text, long least,
                 long most) {
  char *end;
  errno = 0;
  long value = strtol(text, &end, 10);
  if (end == text || *end != '\0')
    argp_error(state, "%s: '%s' is not a whole number", option, text);
  if (errno == ERANGE || value < least || value > most)
    argp_error(state, "%s: %s is out of range; %ld to %ld is possible", option, text, least, most);
  return value;
}

double cli_number(const struct argp_state *state, const char *option, const char *text,
                  double least, double most) {
  char *end;
  double value = strtod(text, &end);
  if (end == text || *end != '\0') argp_error(state, "%s: '%s' is not a number", option, text);
  if (!(value >= least && value <= most) || !isfinite(value))
    argp_error(state, "%s: %s is out of range; %g to %g is possible", option, text, least, most);
  return value;
}

uint64_t cli_seed(const struct argp_state *state, const char *text) {
  char *end;
  errno = 0;
  unsigned long long value = strtoull(text, &end, 10);
  if (end == text || *end != '\0' || text[0] == '-' || errno == ERANGE)
    argp_error(state, "--seed: '%s' is not a whole number from 0 to 18446744073709551615", text);
  return value;
}

int cli_integers(const struct argp_state *state, const char *option, const char *text, long least,
                 long most, long *values, int room) {
  int count = 0;
  char item[32];
  for (const char *at = text;; at++) {
    size_t length = strcspn(at, ",");
    if (count == room) argp_error(state, "%s: more than %d values", option, room);
    if (length == 0 || length >= sizeof item)
      argp_error(state, "%s: '%s' is not a list of whole numbers such as 4,16,64", option, text);
    memcpy(item, at, length);
    item[length] = '\0';
    values[count++] = cli_integer(state, option, item, least, most);
    at += length;
    if (*at == '\0') return count;
  }
}

int cli_choice(const struct argp_state *state, const char *option, const char *text,
               const char *const *names) {
  char list[256] = "";
  for (int i = 0; names[i] != NULL; i++) {
    if (strcmp(names[i], text) == 0) return i;
    size_t used = strlen(list);
    snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", names[i]);
  }
  argp_error(state, "%s: '%s' is not one of %s", option, text, list);
  return 0;
}

cli_scale cli_parse_scale(const struct argp_state *state, const char *option, const char *text) {
  cli_scale scale = {TH_SCALE_FACTOR, 0, ""};
  snprintf(scale.text, sizeof scale.text, "%s", text);
  if (strcmp(text, "none") == 0)
    scale.kind = TH_SCALE_NONE;
  else if (strcmp(text, "sqrt") == 0)
    scale.kind = TH_SCALE_SQRT;
  else if (strcmp(text, "dk") == 0)
    scale.kind = TH_SCALE_DK;
  else {
    char *end;
    scale.factor = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(scale.factor))
      argp_error(state, "%s: '%s' is not none, sqrt, dk or a number", option, text);
  }
  return scale;
}
