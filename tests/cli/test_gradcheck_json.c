/* tapehead gradcheck --json -: every operation and module passes, smooth ones to 1e-7, and the document
 * has the fields that users rely on.
 * ctest: full */
#include <jansson.h>
#include <stdio.h>

#include "support.h"

static json_t *run(const char *arguments, int *status) {
  char command[512];
  const char *tapehead = getenv("TAPEHEAD");
  cr_assert_not_null(tapehead, "TAPEHEAD names the command");
  snprintf(command, sizeof command, "'%s' gradcheck %s --json -", tapehead, arguments);
  FILE *pipe = popen(command, "r");
  cr_assert_not_null(pipe);
  json_error_t error;
  json_t *document = json_loadf(pipe, 0, &error);
  cr_assert_not_null(document, "%s: %s", command, error.text);
  *status = pclose(pipe);
  return document;
}

static const char *text(const json_t *row, const char *key) {
  const char *value = json_string_value(json_object_get(row, key));
  cr_assert_not_null(value, "%s is not a text", key);
  return value;
}

Test(gradcheck_json, everything_passes) {
  int status;
  json_t *document = run("", &status), *checks = json_object_get(document, "checks"), *row;
  cr_assert_eq(status, 0);
  cr_assert_eq(json_integer_value(json_object_get(document, "failed")), 0);
  cr_assert_eq(json_integer_value(json_object_get(document, "passed")),
               (json_int_t)json_array_size(checks));
  cr_assert_gt(json_array_size(checks), 100);
  cr_assert_str_eq(text(document, "verdict"),
                   "below-floor"); /* the key's bias, whose gradient is 0 */
  size_t i;
  json_array_foreach(checks, i, row) {
    static const char *const numbers[] = {"elements",      "compared",      "kinks", "below_floor",
                                          "max_abs_error", "max_rel_error", "index", "analytic",
                                          "numeric",       "error_bar"};
    for (size_t n = 0; n < sizeof numbers / sizeof *numbers; n++)
      cr_assert(json_is_number(json_object_get(row, numbers[n])), "%s/%s: %s", text(row, "op"),
                text(row, "variant"), numbers[n]);
    cr_assert(json_is_true(json_object_get(row, "pass")));
    cr_assert(json_is_null(json_object_get(row, "diagnosis")));
    cr_assert_gt(strlen(text(row, "input")), 0);
    cr_assert_gt(strlen(text(row, "verdict")), 0);
    cr_assert_gt(strlen(text(row, "mode")), 0);
    cr_assert_gt(json_integer_value(json_object_get(row, "compared")), 0);
    if (strcmp(text(row, "dtype"), "f64") == 0)
      cr_assert_leq(json_number_value(json_object_get(row, "max_rel_error")), 1e-7, "%s/%s %s",
                    text(row, "op"), text(row, "variant"), text(row, "input"));
  }
  json_decref(document);
}

Test(gradcheck_json, power) {
  int status;
  json_t *document = run("--power", &status), *entries = json_object_get(document, "entries"),
         *entry;
  cr_assert_eq(status, 0);
  cr_assert_geq(json_array_size(entries), 25);
  size_t i, named = 0;
  json_array_foreach(entries, i, entry) {
    json_t *caught = json_object_get(entry, "caught");
    cr_assert(json_is_true(json_object_get(caught, "every")), "%s", text(entry, "fault"));
    named += json_is_true(json_object_get(entry, "named"));
  }
  cr_assert_geq(100 * named, 85 * json_array_size(entries));
  json_decref(document);
}
