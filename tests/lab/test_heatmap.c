/* heatmap: maps of numbers as text and as SVG. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lab/heatmap.h"
#include "support.h"
#include "tensor/alloc.h"

static const char *const names[] = {"a", "\u2423", "th"};
static const double values[] = {1, 0, 0, 0.5, 0.5, 0, 1e-9, 0.2, 0.8};

Test(heatmap, text) {
  th_error error;
  char *text =
      th__heatmap_text(&(th__heatmap){"layer 0 head 1", 3, 3, values, names, names}, &error);
  cr_assert_not_null(text);
  cr_expect_str_eq(text, "layer 0 head 1\n"
                         " a |@  |\n"
                         " \u2423 |++ |\n"
                         "th |.:%|\n");
  th__free(text);
}

/* What is there at all is not blank, and what is no number is marked. */
Test(heatmap, text_of_odd_values) {
  const double odd[] = {0, 1e-300, 1, 1.5, (double)NAN, -0.5};
  char *text = th__heatmap_text(&(th__heatmap){"", 1, 6, odd, NULL, NULL}, NULL);
  cr_expect_str_eq(text, "\n | .@@??|\n");
  th__free(text);
}

Test(heatmap, svg) {
  th_error error = {0};
  size_t size;
  const char *const quoted[] = {"it's", "`date`", "<&>"};
  const th__heatmap map = {"head 0", 3, 3, values, quoted, quoted};
  char *svg = th__heatmaps_svg((th__heatmap[]){map, map}, 2, 2, &size, &error);
  cr_assert_not_null(svg, "%s", error.message);
  cr_expect_eq(strlen(svg), size);
  cr_expect_not_null(strstr(svg, "<svg"));
  cr_expect_not_null(strstr(svg, "</svg>"));
  cr_expect_not_null(strstr(svg, "head 0"));
  cr_expect_not_null(strstr(svg, "it's"), "a quote in a name survives");
  cr_expect_not_null(strstr(svg, "`date`"), "backquotes run nothing");
  cr_expect_not_null(strstr(svg, "&lt;&amp;>"));
  th__free(svg);
}

/* One token, one row, one column: gnuplot draws no such image by itself. */
Test(heatmap, small_ones) {
  const ptrdiff_t sizes[][2] = {{1, 1}, {1, 3}, {3, 1}};
  for (int i = 0; i < 3; i++) {
    th_error error = {0};
    size_t size;
    const th__heatmap map = {"small", sizes[i][0], sizes[i][1], values, NULL, NULL};
    char *svg = th__heatmaps_svg(&map, 1, 1, &size, &error);
    cr_assert_not_null(svg, "%s", error.message);
    cr_expect_eq(strncmp(svg, "<?xml", 5), 0);
    cr_expect_null(strstr(svg, "warning"));
    th__free(svg);
  }
}
