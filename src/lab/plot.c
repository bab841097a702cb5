#include "lab/plot.h"

#include <math.h>
#include <string.h>

#include "lab/gnuplot.h"

/* ---- the script ---- */

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
  th__gnuplot_quote(script, plot->title);
  fprintf(script, "\nset xlabel ");
  th__gnuplot_quote(script, plot->x_label);
  fprintf(script, "\nset ylabel ");
  th__gnuplot_quote(script, plot->y_label);
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
  bool text;         /* for a terminal: no bands */
  int width, height; /* of the whole: pixels, or characters */
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
    th__gnuplot_quote(script, plot->series[i].title);
    comma = ", ";
  }
  fprintf(script, "\n");
}

static void put_script(FILE *script, const void *context) {
  const sheet *s = context;
  if (s->text)
    fprintf(script, "set terminal dumb noenhanced size %d,%d\n", s->width, s->height);
  else
    th__gnuplot_svg(script, s->width, s->height);
  if (s->count > 1)
    fprintf(script, "set multiplot layout %d,%d\n", (s->count - 1) / s->columns + 1, s->columns);
  for (int i = 0; i < s->count; i++) put_panel(script, &s->plots[i], !s->text);
  if (s->count > 1) fprintf(script, "unset multiplot\n");
}

char *th__plots_svg(const th__plot *plots, int count, int columns, int width, int height,
                    size_t *size, th_error *error) {
  return th__gnuplot(put_script, &(sheet){plots, count, columns, false, width, height}, size, error);
}

char *th__plot_svg(const th__plot *plot, int width, int height, size_t *size, th_error *error) {
  return th__plots_svg(plot, 1, 1, width, height, size, error);
}

char *th__plot_text(const th__plot *plot, int columns, int rows, size_t *size, th_error *error) {
  char *text = th__gnuplot(put_script, &(sheet){plot, 1, 1, true, columns, rows}, size, error);
  /* It begins with a form feed, which clears some terminals, whatever its option `nofeed` says. */
  if (text != NULL && text[0] == '\f') memmove(text, text + 1, (*size)--);
  return text;
}
