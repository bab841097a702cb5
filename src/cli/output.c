/* output.c: messages, and files that are written whole or not at all. */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "io/file.h"
#include "tensor/alloc.h"

int cli_error(const char *command, const char *format, ...) {
  va_list args;
  va_start(args, format);
  fprintf(stderr, "tapehead %s: ", command);
  vfprintf(stderr, format, args);
  fputc('\n', stderr);
  va_end(args);
  return EXIT_USAGE;
}

bool cli_progress(void) { return isatty(STDERR_FILENO); }

bool cli_colour(FILE *stream) {
  const char *no = getenv("NO_COLOR");
  return (no == NULL || no[0] == '\0') && isatty(fileno(stream));
}

/* A word as a shell takes it: quoted where it must be, bytes beyond plain text by their number, so that
 * any report may hold it. */
static void put_word(FILE *stream, const char *word) {
  static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                             "_-+=.,:/@%";
  if (word[0] != '\0' && word[strspn(word, safe)] == '\0') {
    fputs(word, stream);
    return;
  }
  fputs("$'", stream);
  for (; *word != '\0'; word++) {
    if (*word == '\'' || *word == '\\')
      fprintf(stream, "\\%c", *word);
    else if (*word >= ' ' && *word <= '~')
      fputc(*word, stream);
    else
      fprintf(stream, "\\x%02x", (unsigned char)*word);
  }
  fputc('\'', stream);
}

char *cli_word(const char *word) {
  char *text = NULL;
  size_t size = 0;
  FILE *stream = open_memstream(&text, &size);
  if (stream == NULL) return NULL;
  put_word(stream, word);
  bool good = !ferror(stream);
  if (fclose(stream) == 0 && good) return text;
  free(text);
  return NULL;
}

char *cli_command_line(const cli_common *common) {
  char *text = NULL;
  size_t size = 0;
  FILE *stream = open_memstream(&text, &size);
  if (stream == NULL) return NULL;
  fputs(common->argv[0], stream); /* "tapehead NAME" */
  for (int i = 1; i < common->argc; i++) {
    fputc(' ', stream);
    put_word(stream, common->argv[i]);
  }
  bool good = !ferror(stream);
  if (fclose(stream) == 0 && good) return text;
  free(text);
  return NULL;
}

bool cli_write_file(const char *command, const char *path, const char *bytes, size_t count) {
  th_error error;
  if (th__write_file(path, bytes, count, &error) == TH_OK) return true;
  cli_error(command, "%s", error.message);
  return false;
}

bool cli_write_svg(const char *command, const char *path, char *svg, size_t size,
                   const th_error *error) {
  if (svg == NULL) {
    cli_error(command, "%s", error->message);
    return false;
  }
  bool good = cli_write_file(command, path, svg, size);
  th__free(svg);
  return good;
}

bool cli_write_csv(const char *command, const char *path, FILE *stream, char **text,
                   const size_t *size) {
  bool good = stream != NULL && !ferror(stream);
  if (stream != NULL && fclose(stream) != 0) good = false;
  if (!good) cli_error(command, "out of memory while writing CSV");
  good = good && cli_write_file(command, path, *text, *size);
  free(*text);
  return good;
}

/* The document as text that ends with a newline, of *size bytes; NULL when memory ends. */
static char *json_text(json_t *document, size_t *size) {
  char *text = NULL;
  FILE *stream = document == NULL ? NULL : open_memstream(&text, size);
  if (stream == NULL) return NULL;
  bool good = json_dumpf(document, stream, JSON_INDENT(2) | JSON_REAL_PRECISION(17)) == 0;
  fputc('\n', stream);
  if (ferror(stream)) good = false;
  if (fclose(stream) == 0 && good) return text;
  free(text);
  return NULL;
}

bool cli_write_json(const char *command, const char *path, json_t *document) {
  size_t size = 0;
  char *text = json_text(document, &size);
  json_decref(document);
  if (text == NULL) {
    cli_error(command, "out of memory while writing JSON");
    return false;
  }
  bool written = true;
  if (strcmp(path, "-") == 0)
    fputs(text, stdout); /* main() checks that it arrived */
  else
    written = cli_write_file(command, path, text, size);
  free(text);
  return written;
}

bool cli_check_checkpoint(const char *command, const char *path) {
  struct stat file;
  if (stat(path, &file) != 0 || !S_ISDIR(file.st_mode)) return true;
  const char *slash = path[strlen(path) - 1] == '/' ? "" : "/"; /* stat() knows no empty name */
  cli_error(command, "%s is a folder; name a file in it, say %s%sbest.safetensors", path, path,
            slash);
  return false;
}

bool cli_check_writable(const char *command, const char *path) {
  th_error error;
  if (path == NULL || strcmp(path, "-") == 0 || th__check_writable(path, &error) == TH_OK)
    return true;
  cli_error(command, "%s", error.message);
  return false;
}
