/* saturate: a sweep's results as JSON, CSV, table and pictures. */
#include "lab/saturate.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/alloc.h"

static th__saturate_result *small_result(void) {
  const long dk[] = {4, 16};
  th_error error;
  th__saturate_result *result = th__saturate(
      &(th__saturate_options){.dk = dk, .dk_count = 2, .samples = 12, .seed = UINT64_MAX}, &error);
  cr_assert_not_null(result, "%s", error.message);
  return result;
}

Test(saturate_report, json) {
  th__saturate_result *result = small_result();
  json_t *document = th__saturate_json(result, "tapehead saturate --x 'é'");
  cr_assert_not_null(document);
  cr_assert_str_eq(json_string_value(json_object_get(document, "seed")), "18446744073709551615");
  cr_assert_eq(json_integer_value(json_object_get(document, "samples")), 12);
  cr_assert_eq(json_integer_value(json_object_get(document, "threads")), result->threads);
  cr_assert_str_eq(json_string_value(json_object_get(document, "version")), th_version());
  json_t *points = json_object_get(document, "points");
  cr_assert_eq(json_array_size(points), 18);
  const json_t *point = json_array_get(points, 17);
  cr_assert_eq(json_integer_value(json_object_get(point, "dk")), 16);
  cr_assert_eq(json_integer_value(json_object_get(point, "keys")), 128);
  cr_assert_str_eq(json_string_value(json_object_get(point, "scale")), "dk");
  const char *numbers[] = {"logit_variance", "saturated_share", "fd_rel_error_median"};
  for (int i = 0; i < 3; i++) cr_assert(json_is_real(json_object_get(point, numbers[i])));
  const char *summaries[] = {"entropy",       "one_minus_max", "jacobian_trace",
                             "jacobian_norm", "dq_norm",       "dk_norm"};
  const char *parts[] = {"mean", "stderr", "median", "q10", "q90"};
  for (int i = 0; i < 6; i++)
    for (int j = 0; j < 5; j++)
      cr_assert(json_is_real(json_object_get(json_object_get(point, summaries[i]), parts[j])));
  cr_assert_eq(json_real_value(json_object_get(json_object_get(point, "dq_norm"), "q90")),
               result->points[17].figures[TH__DQ_NORM].q90);
  json_decref(document);
  result->seed = 7;
  document = th__saturate_json(result, NULL);
  cr_assert_eq(json_integer_value(json_object_get(document, "seed")), 7);
  cr_assert_null(json_object_get(document, "command"));
  json_decref(document);
  th__saturate_free(result);
}

/* Cells of a line up to the last, which is quoted and may hold commas. */
static int cells(const char *line) {
  int count = 1;
  for (; *line != '\n' && *line != '"'; line++) count += *line == ',';
  return count;
}

Test(saturate_report, csv) {
  th__saturate_result *result = small_result();
  char *text;
  size_t size;
  FILE *stream = open_memstream(&text, &size);
  th__saturate_csv(result, "tapehead saturate --dk 4,16 --csv '\"'", stream);
  fclose(stream);
  int lines = 0, columns = cells(text);
  cr_assert_eq(columns, 5 + 6 * 5 + 6 + 6);
  for (const char *at = text; *at != '\0'; at = strchr(at, '\n') + 1, lines++)
    cr_assert_eq(cells(at), columns, "line %d has %d cells", lines, cells(at));
  cr_assert_eq(lines, 19);
  cr_assert_not_null(strstr(text, ",\"tapehead saturate --dk 4,16 --csv '\"\"'\"\n"));
  cr_assert_not_null(strstr(text, "\n16,128,dk,"));
  cr_assert_not_null(strstr(text, ",12,f32,18446744073709551615,"));
  double variance = strtod(strstr(text, "\n4,8,none,") + 10, NULL);
  cr_assert_eq(variance, result->points[0].logit_variance, "not all digits are written");
  free(text);
  th__saturate_free(result);
}

Test(saturate_report, table) {
  th__saturate_result *result = small_result();
  snprintf(result->points[4].scale.name, sizeof result->points[4].scale.name, "0.12345678901234");
  char *text;
  size_t size;
  FILE *stream = open_memstream(&text, &size);
  th__saturate_table(result, stream);
  fclose(stream);
  const char *line = strstr(text, "\n    d_k    keys scale");
  cr_assert_not_null(line);
  size_t width = strcspn(line + 1, "\n");
  int rows = 0;
  for (const char *at = line + 1; *at != '\0'; at = strchr(at, '\n') + 1)
    if (strncmp(at, "      4 ", 8) == 0 || strncmp(at, "     16 ", 8) == 0) {
      rows++;
      cr_assert_eq(strcspn(at, "\n"), width, "row %d does not stand under its heading", rows);
    }
  cr_assert_eq(rows, 18);
  free(text);
  th__saturate_free(result);
}

Test(saturate_report, pictures) {
  th__saturate_result *result = small_result();
  th_error error;
  size_t size;
  char *svg = th__saturate_svg(result, &size, &error);
  cr_assert_not_null(svg, "%s", error.message);
  cr_assert_not_null(strstr(svg, "|dL/dq|, 8 keys"));
  cr_assert_not_null(strstr(svg, "one minus the largest weight, 128 keys"));
  cr_assert_not_null(strstr(svg, "scale sqrt"));
  th__free(svg);
  char *text = th__saturate_text_plot(result, TH__JACOBIAN_NORM, 1, 80, 20, &size, &error);
  cr_assert_not_null(text, "%s", error.message);
  cr_assert_not_null(strstr(text, "norm of the softmax Jacobian, 32 keys"));
  th__free(text);
  th__saturate_free(result);
}
