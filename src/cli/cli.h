/* cli.h: what the subcommands share: options, errors, output files. A subcommand's file holds
 * nothing but argument handling and printing. */
#ifndef TH_CLI_CLI_H
#define TH_CLI_CLI_H

#include <argp.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "tapehead.h"

enum { EXIT_OK = 0, EXIT_CHECK_FAILED = 1, EXIT_USAGE = 2 };

/* Every subcommand: int command_NAME(int argc, char **argv), argv[0] being "tapehead NAME". */
#define COMMAND(name, summary) int command_##name(int argc, char **argv);
#include "cli/commands.def"
#undef COMMAND

/* ---- options that every subcommand has: --seed, --threads, --json ---- */

typedef struct cli_common {
  uint64_t seed;    /* set the default before parsing */
  bool seed_given;  /* by --seed */
  int threads;      /* 0: OpenMP's default */
  const char *json; /* NULL: none; "-": standard output, which then holds nothing else */
  int argc;         /* the command line as given, for reports */
  char **argv;
} cli_common;

/* Parses argv with argp. `options` is the subcommand's struct, passed to its parser as state->input;
 * it must begin with a cli_common. The parser handles its own keys only; a stray argument is refused
 * unless `arguments` is given (its text in the usage line; the parser then gets ARGP_KEY_ARG).
 * Sets the number of threads. On --help and on an error it prints and exits with 0 or 2. */
void cli_parse(int argc, char **argv, const struct argp_option *own, argp_parser_t parser,
               const char *arguments, const char *text, void *options);

/* Strict numbers: the whole text must be one, within the limits, or the command ends with exit code 2
 * and a message that names the option and the limits. */
long cli_integer(const struct argp_state *state, const char *option, const char *text, long least,
                 long most);
double cli_number(const struct argp_state *state, const char *option, const char *text,
                  double least, double most);
uint64_t cli_seed(const struct argp_state *state, const char *text);
/* A comma-separated list of integers; returns how many were stored (1 .. room). */
int cli_integers(const struct argp_state *state, const char *option, const char *text, long least,
                 long most, long *values, int room);
/* The index of `text` in a NULL-ended list of names, or exit 2 with the list in the message. */
int cli_choice(const struct argp_state *state, const char *option, const char *text,
               const char *const *names);

/* A word, and the command line, as a shell would take it. NULL when memory ends; free it. */
char *cli_word(const char *word);
char *cli_command_line(const cli_common *common);

/* ---- scale, as users write it: none, sqrt, dk or a number ---- */

typedef struct cli_scale {
  th_scale_kind kind;
  double factor;
  char text[32]; /* as written, for tables and reports */
} cli_scale;
cli_scale cli_parse_scale(const struct argp_state *state, const char *option, const char *text);

/* ---- messages and files ---- */

/* Prints "tapehead NAME: message" to stderr and returns EXIT_USAGE. */
int cli_error(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Where a progress line may be drawn: stderr is a terminal. And whether colours may be used there or
 * on stdout (a terminal, NO_COLOR not set). */
bool cli_progress(void);
bool cli_colour(FILE *stream);

/* Writes a JSON document to a file or, for "-", to stdout. Files are written whole (temporary file in
 * the same folder, then renamed) or not at all. Takes over the reference to `document`. False after
 * a message on stderr. */
bool cli_write_json(const char *command, const char *path, json_t *document);

/* A run's folder in place of one of its files: false after a message that names one. */
bool cli_check_checkpoint(const char *command, const char *path);

/* The same for bytes; and for a picture that was drawn (NULL: `error` says why not), which it takes over. */
bool cli_write_file(const char *command, const char *path, const char *bytes, size_t count);
bool cli_write_svg(const char *command, const char *path, char *svg, size_t size,
                   const th_error *error);
/* The same for CSV in a stream of open_memstream(text, size), which it closes and frees; NULL if that
 * could not be opened. */
bool cli_write_csv(const char *command, const char *path, FILE *stream, char **text,
                   const size_t *size);

/* Checks before a long run that `path` will be writable, so that nothing is lost at its end: its
 * folder exists and takes files. False after a message. NULL and "-" are fine. */
bool cli_check_writable(const char *command, const char *path);

#endif
