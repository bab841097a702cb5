/* main.c: finds the subcommand and hands over. */
#include <string.h>

#include "cli/cli.h"

typedef struct command {
  const char *name, *summary;
  int (*run)(int argc, char **argv);
} command;

static const command commands[] = {
#define COMMAND(name, summary) {#name, summary, command_##name},
#include "cli/commands.def"
#undef COMMAND
};
enum { COMMANDS = sizeof commands / sizeof *commands };

static void print_usage(FILE *stream) {
  fprintf(stream, "Usage: tapehead COMMAND [OPTION...]\n\n");
  for (int i = 0; i < COMMANDS; i++)
    fprintf(stream, "  %-10s %s\n", commands[i].name, commands[i].summary);
  fprintf(stream, "\n'tapehead COMMAND --help' explains a command and its options.\n"
                  "Exit status: 0 success, 1 a check failed, 2 usage or bad input.\n");
}

/* Output that does not arrive (a full disk, a closed pipe) must not look like success. */
static int flushed(int status) {
  if (fflush(stdout) == 0 && !ferror(stdout)) return status;
  fprintf(stderr, "tapehead: cannot write to standard output; is the disk full?\n");
  return EXIT_USAGE;
}

int main(int argc, char **argv) {
  if (argc < 2) {
    print_usage(stderr);
    return EXIT_USAGE;
  }
  const char *name = argv[1];
  if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
    print_usage(stdout);
    return flushed(EXIT_OK);
  }
  if (strcmp(name, "--version") == 0) name = "version";
  for (int i = 0; i < COMMANDS; i++)
    if (strcmp(name, commands[i].name) == 0) {
      char title[64];
      snprintf(title, sizeof title, "tapehead %s", name);
      argv[1] = title; /* argp's usage messages begin with it */
      return flushed(commands[i].run(argc - 1, argv + 1));
    }
  fprintf(stderr, "tapehead: there is no command '%s'; 'tapehead --help' lists them\n", name);
  return EXIT_USAGE;
}
