/* plot: gnuplot draws what it is given, whatever the titles, and its absence is an error, no crash. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lab/plot.h"
#include "tensor/alloc.h"

static const double xs[] = {4, 16, 64}, ys[] = {1, 1e-4, 1e-8}, lows[] = {0.5, 1e-6, 1e-12},
                    highs[] = {2, 1e-2, 1e-5};

static th__series series(const char *title, const double *y) {
  return (th__series){.title = title, .count = 3, .x = xs, .y = y};
}

static th__plot plot_of(const th__series *s, int count) {
  return (th__plot){.title = "gradients",
                    .x_label = "width",
                    .y_label = "size",
                    .log_x = true,
                    .log_y = true,
                    .series = s,
                    .series_count = count};
}

static size_t occurrences(const char *text, const char *part) {
  size_t count = 0;
  for (; (text = strstr(text, part)) != NULL; text++) count++;
  return count;
}

static char *svg_of(const th__plot *plot) {
  size_t size;
  th_error error;
  char *svg = th__plot_svg(plot, 800, 400, &size, &error);
  cr_assert_not_null(svg, "%s", error.message);
  cr_assert_eq(strlen(svg), size);
  cr_assert_not_null(strstr(svg, "<svg"));
  cr_assert_not_null(strstr(svg, "</svg>"), "the picture is not complete");
  return svg;
}

static void expect_text(const char *svg, const char *text) {
  cr_assert_not_null(strstr(svg, text), "no '%s' in the picture", text);
}

/* gnuplot warns of an empty range, as a constant learning rate has. */
Test(plot, a_constant_is_drawn_without_a_warning_in_the_picture) {
  const double same[] = {0.003, 0.003, 0.003};
  const th__series line = series("rate", same);
  const th__plot plot = {
      .title = "t", .x_label = "x", .y_label = "y", .series = &line, .series_count = 1};
  char *svg = svg_of(&plot);
  cr_assert_eq(strncmp(svg, "<?xml", 5), 0, "%.80s", svg);
  cr_assert_null(strstr(svg, "arning"));
  size_t size;
  th_error error;
  char *text = th__plot_text(&plot, 80, 20, &size, &error);
  cr_assert_not_null(text, "%s", error.message);
  cr_assert_null(strstr(text, "arning"), "%s", text);
  th__free(svg);
  th__free(text);
}

Test(plot, svg_has_titles_axes_and_a_band) {
  th__series lines[] = {series("first", ys), series("second", highs)};
  th__plot plot = plot_of(lines, 2);
  char *without = svg_of(&plot);
  lines[0].low = lows;
  lines[0].high = highs;
  char *with = svg_of(&plot);
  const char *texts[] = {"gradients", "width", "size", "first", "second", "1e-12"};
  for (int i = 0; i < 6; i++) expect_text(with, texts[i]);
  cr_assert_null(strstr(without, "fill-opacity = '0.15"));
  expect_text(with, "fill-opacity = '0.15");
  th__free(without);
  th__free(with);
}

/* Titles are data: quotes, backslashes, markup and command substitution stand there as they are. */
Test(plot, titles_are_taken_literally) {
  th__series line = series("d_k^2 `touch made` {/Bold x} \"q\" 's' \\n 50 %", ys);
  th__plot plot = plot_of(&line, 1);
  unlink("made");
  plot.title = "Größe\n$(touch made) @PATH";
  char *svg = svg_of(&plot);
  expect_text(svg, "d_k^2 `touch made` {/Bold x} \"q\" 's' \\n 50 %");
  expect_text(svg, "Größe $(touch made) @PATH");
  cr_assert(access("made", F_OK) != 0, "a title was run");
  th__free(svg);
}

/* Zero (a dead gradient) has no place on a logarithmic axis: the other points are still drawn. */
Test(plot, points_without_a_place_are_left_out) {
  const double some[] = {1, 0, 1e-8}, none[] = {0, (double)NAN, (double)INFINITY};
  th__series lines[] = {series("some", some), series("none", none)};
  th__plot plot = plot_of(lines, 2);
  char *svg = svg_of(&plot);
  expect_text(svg, "some");
  th__free(svg);

  plot = plot_of(&lines[1], 1);
  svg = svg_of(&plot);
  expect_text(svg, "no finite values");
  th__free(svg);
}

Test(plot, panels_share_one_picture) {
  th__series first = series("alpha", ys), second = series("beta", highs);
  th__plot plots[] = {plot_of(&first, 1), plot_of(&second, 1), plot_of(&second, 1)};
  plots[1].title = "linear";
  plots[1].log_x = plots[1].log_y = false;
  size_t size;
  th_error error;
  char *svg = th__plots_svg(plots, 3, 2, 800, 600, &size, &error);
  cr_assert_not_null(svg, "%s", error.message);
  cr_assert_eq(occurrences(svg, "<svg"), 1);
  cr_assert_eq(occurrences(svg, ">gradients<"), 2);
  cr_assert_eq(occurrences(svg, ">linear<"), 1);
  cr_assert_eq(occurrences(svg, ">alpha<"), 1);
  cr_assert_eq(occurrences(svg, ">beta<"), 2);
  cr_assert_not_null(strstr(svg, "> 1.8<"),
                     "the second panel's axis is logarithmic like the first's");
  th__free(svg);
}

Test(plot, text_fits_the_terminal) {
  th__series line = series("first", ys);
  th__plot plot = plot_of(&line, 1);
  size_t size;
  th_error error;
  char *text = th__plot_text(&plot, 60, 15, &size, &error);
  cr_assert_not_null(text, "%s", error.message);
  expect_text(text, "gradients");
  expect_text(text, "first ***");
  for (const char *at = text; *at != '\0'; at += strcspn(at, "\n"), at += *at == '\n')
    cr_assert(strcspn(at, "\n") <= 60, "a line is too long");
  th__free(text);
}

Test(plot, no_gnuplot_is_an_error_that_says_what_to_install) {
  th__series line = series("first", ys);
  th__plot plot = plot_of(&line, 1);
  size_t size;
  th_error error = {0};
  setenv("PATH", "/nonexistent", 1);
  cr_assert_null(th__plot_svg(&plot, 400, 300, &size, &error));
  cr_assert_eq(error.status, TH_ERR_IO);
  cr_assert_not_null(strstr(error.message, "gnuplot-nox"), "%s", error.message);
}

Test(plot, a_temporary_folder_that_is_not_there) {
  th__series line = series("first", ys);
  th__plot plot = plot_of(&line, 1);
  size_t size;
  th_error error = {0};
  setenv("TMPDIR", "/nonexistent", 1);
  cr_assert_null(th__plot_svg(&plot, 400, 300, &size, &error));
  cr_assert_eq(error.status, TH_ERR_IO);
  cr_assert_not_null(strstr(error.message, "/nonexistent"), "%s", error.message);
}
