/* heatmap.h: matrices of numbers between 0 and 1 as pictures: attention maps. */
#ifndef TH_LAB_HEATMAP_H
#define TH_LAB_HEATMAP_H

#include "tapehead.h"

/* Row i, column j is values[i * columns + j]; NaN is left white. The names (NULL: numbers) are texts of
 * the rows and columns. */
typedef struct th__heatmap {
  const char *title;
  ptrdiff_t rows, columns;
  const double *values;
  const char *const *row_names, *const *column_names;
} th__heatmap;

/* Panels row by row, `across` side by side, as one SVG. Free with th__free. Errors as th__plot_svg. */
char *th__heatmaps_svg(const th__heatmap *maps, int count, int across, size_t *size,
                       th_error *error);

/* The map as text for a terminal: a character per cell, from ' ' for 0 to '@' for 1. Free with
 * th__free. NULL with an error when memory ends. */
char *th__heatmap_text(const th__heatmap *map, th_error *error);

#endif
