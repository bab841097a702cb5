#include "lab/gnuplot.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tensor/alloc.h"
#include "tensor/error.h"

/* In single quotes gnuplot takes text as it is (in double quotes it would run what stands between
 * backquotes); a single quote is doubled. */
void th__gnuplot_quote(FILE *script, const char *text) {
  fputc('\'', script);
  for (; text != NULL && *text != '\0'; text++) {
    if (*text == '\'') fputc('\'', script);
    fputc(*text == '\n' ? ' ' : *text, script);
  }
  fputc('\'', script);
}

void th__gnuplot_svg(FILE *script, int width, int height) {
  fprintf(script, "set terminal svg size %d,%d dynamic background rgb 'white' font 'sans,13'\n",
          width, height);
}

static char *read_stream(FILE *stream, size_t *size) {
  size_t room = 1 << 14, used = 0;
  char *bytes = th__alloc(room);
  while (bytes != NULL) {
    used += fread(bytes + used, 1, room - 1 - used, stream);
    if (used < room - 1) break;
    char *larger = th__alloc(2 * room);
    if (larger != NULL) memcpy(larger, bytes, used);
    th__free(bytes);
    bytes = larger;
    room *= 2;
  }
  if (bytes != NULL) bytes[used] = '\0';
  *size = used;
  return bytes;
}

/* What it writes, and how it ended. */
static char *output_of(const char *script_path, const char *redirection, size_t *size, int *status,
                       th_error *error) {
  char command[256];
  snprintf(command, sizeof command, "gnuplot '%s' %s", script_path, redirection);
  FILE *pipe = popen(command, "re");
  if (pipe == NULL) {
    th__error(error, TH_ERR_IO, "plot: cannot start a shell to run gnuplot");
    return NULL;
  }
  char *bytes = read_stream(pipe, size);
  *status = pclose(pipe);
  if (bytes == NULL) th__error_memory(error, "plot", *size);
  return bytes;
}

/* Its warnings (of a range that is empty, say) must not get into the picture; why it failed, if it did,
 * is asked for in a second run. */
static char *run_gnuplot(const char *script_path, size_t *size, th_error *error) {
  int status;
  char *bytes = output_of(script_path, "2>/dev/null", size, &status, error);
  if (bytes == NULL || status == 0) return bytes;
  th__free(bytes);
  bytes = output_of(script_path, "2>&1 >/dev/null", size, &status, error);
  if (bytes == NULL) return NULL;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
    th__error(error, TH_ERR_IO,
              "plot: gnuplot is not installed (Debian: apt-get install gnuplot-nox)");
  else
    th__error(error, TH_ERR_IO, "plot: gnuplot failed: %.150s", bytes);
  th__free(bytes);
  return NULL;
}

char *th__gnuplot(th__gnuplot_script *put_script, const void *context, size_t *size,
                  th_error *error) {
  const char *folder = getenv("TMPDIR");
  char path[128];
  if (folder == NULL || strlen(folder) > 80 || strchr(folder, '\'') != NULL) folder = "/tmp";
  snprintf(path, sizeof path, "%s/tapehead-plot-XXXXXX", folder);
  int descriptor = mkstemp(path);
  FILE *script = descriptor < 0 ? NULL : fdopen(descriptor, "w");
  if (script == NULL) {
    if (descriptor >= 0) close(descriptor);
    th__error(error, TH_ERR_IO, "plot: cannot make a temporary file in %s", folder);
    return NULL;
  }
  put_script(script, context);
  bool written = !ferror(script);
  if (fclose(script) != 0) written = false;
  char *bytes = NULL;
  if (written)
    bytes = run_gnuplot(path, size, error);
  else
    th__error(error, TH_ERR_IO, "plot: cannot write %s; is the disk full?", path);
  unlink(path);
  return bytes;
}
