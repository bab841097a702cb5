#include "lab/plot.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tensor/alloc.h"
#include "tensor/error.h"

/* ---- the script ---- */

/* In single quotes gnuplot takes text as it is (in double quotes it would run what stands between
 * backquotes); a single quote is doubled. Its markup is switched off in put_axes. */
static void put_quoted(FILE *script, const char *text) {
  fputc('\'', script);
  for (; text != NULL && *text != '\0'; text++) {
    if (*text == '\'') fputc('\'', script);
    fputc(*text == '\n' ? ' ' : *text, script);
  }
  fputc('\'', script);
}

static bool drawable(const th__plot *plot, double x, double y) {
  return isfinite(x) && isfinite(y) && (!plot->log_x || x > 0) && (!plot->log_y || y > 0);
}

/* Writes a series' points as an inline block; returns how many there are. */
static ptrdiff_t put_points(FILE *script, const th__plot *plot, int number) {
  const th__series *series = &plot->series[number];
  ptrdiff_t points = 0;
  fprintf(script, "$s%d << EOD\n", number);
  for (ptrdiff_t i = 0; i < series->count; i++) {
    double x = series->x[i], y = series->y[i];
    if (!drawable(plot, x, y)) continue;
    double low = series->low != NULL ? series->low[i] : y;
    double high = series->high != NULL ? series->high[i] : y;
    bool band = drawable(plot, x, low) && drawable(plot, x, high);
    fprintf(script, "%.9g %.9g %.9g %.9g\n", x, y, band ? low : y, band ? high : y);
    points++;
  }
  fprintf(script, "EOD\n");
  return points;
}

static void put_axes(FILE *script, const th__plot *plot) {
  fprintf(script, "set encoding utf8\nset termoption noenhanced\nset title ");
  put_quoted(script, plot->title);
  fprintf(script, "\nset xlabel ");
  put_quoted(script, plot->x_label);
  fprintf(script, "\nset ylabel ");
  put_quoted(script, plot->y_label);
  fprintf(script, "\nset key outside bottom center horizontal\n");
  if (plot->log_x) fprintf(script, "set logscale x 2\n");
  if (plot->log_y) fprintf(script, "set logscale y\nset format y \"%%.0e\"\n");
  if (plot->y_least < plot->y_most)
    fprintf(script, "set yrange [%.9g:%.9g]\n", plot->y_least, plot->y_most);
}

/* What is drawn: panels, row by row. */
typedef struct sheet {
  const th__plot *plots;
  int count, columns;
  const char *terminal;
  bool bands;
} sheet;

static void put_panel(FILE *script, const th__plot *plot, bool bands) {
  ptrdiff_t points = 0;
  fprintf(script, "reset\n");
  put_axes(script, plot);
  for (int i = 0; i < plot->series_count; i++) points += put_points(script, plot, i);
  if (points == 0) {
    /* gnuplot refuses a plot without points; an empty frame says the same. */
    fprintf(script, "set xrange [1:2]\nset yrange [1:2]\nplot NaN title \"no finite values\"\n");
    return;
  }
  fprintf(script, "plot ");
  const char *comma = "";
  for (int i = 0; bands && i < plot->series_count; i++)
    if (plot->series[i].low != NULL) {
      fprintf(script, "%s$s%d using 1:3:4 with filledcurves fs transparent solid 0.15 lc %d notitle",
              comma, i, i + 1);
      comma = ", ";
    }
  for (int i = 0; i < plot->series_count; i++) {
    fprintf(script, "%s$s%d using 1:2 with %s lc %d title ", comma, i,
            bands ? "linespoints" : "lines", i + 1);
    put_quoted(script, plot->series[i].title);
    comma = ", ";
  }
  fprintf(script, "\n");
}

static void put_script(FILE *script, const sheet *s) {
  fprintf(script, "set terminal %s\n", s->terminal);
  if (s->count > 1)
    fprintf(script, "set multiplot layout %d,%d\n", (s->count - 1) / s->columns + 1, s->columns);
  for (int i = 0; i < s->count; i++) put_panel(script, &s->plots[i], s->bands);
  if (s->count > 1) fprintf(script, "unset multiplot\n");
}

/* ---- running gnuplot ---- */

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

static char *run_gnuplot(const char *script_path, size_t *size, th_error *error) {
  char command[256];
  snprintf(command, sizeof command, "gnuplot '%s' 2>&1", script_path);
  FILE *pipe = popen(command, "re");
  if (pipe == NULL) {
    th__error(error, TH_ERR_IO, "plot: cannot start a shell to run gnuplot");
    return NULL;
  }
  char *bytes = read_stream(pipe, size);
  int status = pclose(pipe);
  if (bytes == NULL) {
    th__error_memory(error, "plot", *size);
    return NULL;
  }
  if (status == 0) return bytes;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
    th__error(error, TH_ERR_IO,
              "plot: gnuplot is not installed (Debian: apt-get install gnuplot-nox)");
  else
    th__error(error, TH_ERR_IO, "plot: gnuplot failed: %.150s", bytes);
  th__free(bytes);
  return NULL;
}

static char *draw(const sheet *s, size_t *size, th_error *error) {
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
  put_script(script, s);
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

char *th__plots_svg(const th__plot *plots, int count, int columns, int width, int height,
                    size_t *size, th_error *error) {
  char terminal[96];
  snprintf(terminal, sizeof terminal,
           "svg size %d,%d dynamic background rgb 'white' font 'sans,13'", width, height);
  return draw(&(sheet){plots, count, columns, terminal, true}, size, error);
}

char *th__plot_svg(const th__plot *plot, int width, int height, size_t *size, th_error *error) {
  return th__plots_svg(plot, 1, 1, width, height, size, error);
}

char *th__plot_text(const th__plot *plot, int columns, int rows, size_t *size, th_error *error) {
  char terminal[64];
  snprintf(terminal, sizeof terminal, "dumb noenhanced size %d,%d", columns, rows);
  char *text = draw(&(sheet){plot, 1, 1, terminal, false}, size, error);
  /* It begins with a form feed, which clears some terminals, whatever its option `nofeed` says. */
  if (text != NULL && text[0] == '\f') memmove(text, text + 1, (*size)--);
  return text;
}
