/* plot.h: pictures by gnuplot, as SVG or as text for a terminal. */
#ifndef TH_LAB_PLOT_H
#define TH_LAB_PLOT_H

#include "tapehead.h"

/* One line of a plot; points whose x or y is not finite are left out. Low and high, if not NULL, draw
 * a shaded band (SVG only). */
typedef struct th__series {
  const char *title;
  ptrdiff_t count;
  const double *x, *y, *low, *high;
} th__series;

typedef struct th__plot {
  const char *title, *x_label, *y_label;
  bool log_x, log_y;      /* points that are not positive are left out there */
  double y_least, y_most; /* both 0: from the data */
  const th__series *series;
  int series_count;
} th__plot;

/* The picture as bytes; *size is their number, a 0 byte follows. Free with th__free. NULL with an
 * error: gnuplot is missing (says which package), it failed (its message), memory. */
char *th__plot_svg(const th__plot *plot, int width, int height, size_t *size, th_error *error);
/* Several in one picture, row by row; width and height are those of the whole. */
char *th__plots_svg(const th__plot *plots, int count, int columns, int width, int height,
                    size_t *size, th_error *error);
char *th__plot_text(const th__plot *plot, int columns, int rows, size_t *size, th_error *error);

#endif
