#include "lab/heatmap.h"

#include <math.h>
#include <string.h>

#include "lab/gnuplot.h"
#include "tensor/alloc.h"
#include "tensor/error.h"

/* ---- SVG ---- */

/* Pixels of a cell, within what a panel may take, and around the cells. */
enum { CELL = 14, LEAST_PANEL = 140, MOST_PANEL = 480, MARGIN = 90 };
/* Where more rows or columns than this share a panel, names would overlap: numbers stand there. */
#define MOST_NAMES 40

typedef struct sheet {
  const th__heatmap *maps;
  int count, across;
} sheet;

static void put_names(FILE *script, char axis, const char *const *names, ptrdiff_t count) {
  if (names == NULL || count > MOST_NAMES) return;
  fprintf(script, "set %ctics (", axis);
  for (ptrdiff_t i = 0; i < count; i++) {
    if (i > 0) fputs(", ", script);
    th__gnuplot_quote(script, names[i]);
    fprintf(script, " %td", i);
  }
  fprintf(script, ") scale 0\n");
}

/* gnuplot draws no image of one row or column: it gets a second one, outside what is shown. */
static void put_values(FILE *script, const th__heatmap *map) {
  ptrdiff_t rows = map->rows > 1 ? map->rows : 2, columns = map->columns > 1 ? map->columns : 2;
  fprintf(script, "$map << EOD\n");
  for (ptrdiff_t i = 0; i < rows; i++)
    for (ptrdiff_t j = 0; j < columns; j++) {
      bool there = i < map->rows && j < map->columns;
      fprintf(script, "%.4g%c", there ? map->values[i * map->columns + j] : 0,
              j + 1 == columns ? '\n' : ' ');
    }
  fprintf(script, "EOD\n");
}

static void put_map(FILE *script, const th__heatmap *map) {
  fprintf(script, "reset\nset encoding utf8\nset termoption noenhanced\nset title ");
  th__gnuplot_quote(script, map->title);
  fprintf(script,
          "\nset xrange [-0.5:%g]\nset yrange [%g:-0.5]\nset cbrange [0:1]\nunset colorbox\n"
          "set palette defined (0 'white', 0.5 '#6baed6', 1 '#08306b')\nset size ratio -1\n",
          (double)map->columns - 0.5, (double)map->rows - 0.5);
  put_names(script, 'x', map->column_names, map->columns);
  put_names(script, 'y', map->row_names, map->rows);
  put_values(script, map);
  fprintf(script, "plot $map matrix with image notitle\n");
}

static int panel_size(ptrdiff_t cells) {
  ptrdiff_t pixels = cells * CELL;
  return MARGIN + (int)(pixels < LEAST_PANEL  ? LEAST_PANEL
                        : pixels > MOST_PANEL ? MOST_PANEL
                                              : pixels);
}

static void put_sheet(FILE *script, const void *context) {
  const sheet *s = context;
  int down = (s->count - 1) / s->across + 1;
  th__gnuplot_svg(script, s->across * panel_size(s->maps[0].columns),
                  down * panel_size(s->maps[0].rows));
  fprintf(script, "set multiplot layout %d,%d\n", down, s->across);
  for (int i = 0; i < s->count; i++) put_map(script, &s->maps[i]);
  fprintf(script, "unset multiplot\n");
}

char *th__heatmaps_svg(const th__heatmap *maps, int count, int across, size_t *size,
                       th_error *error) {
  return th__gnuplot(put_sheet, &(sheet){maps, count, across}, size, error);
}

/* ---- text ---- */

static const char shades[] = " .:-=+*#%@";

static char shade(double value) {
  int steps = (int)sizeof shades - 2;
  if (!(value > 0)) return value == 0 ? ' ' : '?';
  /* What is not 0 is not blank. */
  int step = (int)ceil(value * steps);
  return shades[step > steps ? steps : step];
}

/* Characters of UTF-8: bytes that begin one. */
static size_t characters(const char *text) {
  size_t count = 0;
  for (; *text != '\0'; text++) count += ((unsigned char)*text & 0xC0) != 0x80;
  return count;
}

static size_t widest(const char *const *names, ptrdiff_t count) {
  size_t most = 0;
  for (ptrdiff_t i = 0; names != NULL && i < count; i++) {
    size_t width = characters(names[i]);
    if (width > most) most = width;
  }
  return most;
}

char *th__heatmap_text(const th__heatmap *map, th_error *error) {
  size_t margin = widest(map->row_names, map->rows), names = 0;
  for (ptrdiff_t i = 0; map->row_names != NULL && i < map->rows; i++)
    names += strlen(map->row_names[i]);
  size_t rows = (size_t)map->rows, columns = (size_t)map->columns;
  size_t room = strlen(map->title) + 2 + names + rows * (margin + columns + 4) + 1;
  char *text = th__alloc(room), *end = text;
  if (text == NULL) {
    th__error_memory(error, "heatmap", room);
    return NULL;
  }
  end += sprintf(end, "%s\n", map->title);
  for (ptrdiff_t i = 0; i < map->rows; i++) {
    const char *name = map->row_names != NULL ? map->row_names[i] : "";
    for (size_t pad = characters(name); pad < margin; pad++) *end++ = ' ';
    end += sprintf(end, "%s |", name);
    for (ptrdiff_t j = 0; j < map->columns; j++) *end++ = shade(map->values[i * map->columns + j]);
    *end++ = '|';
    *end++ = '\n';
  }
  *end = '\0';
  return text;
}
