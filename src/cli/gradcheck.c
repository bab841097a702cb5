/* tapehead gradcheck: every operation's and every module's gradient, against finite differences. */
#include <math.h>
#include <string.h>

#include "autograd/tape.h"
#include "cli/cli.h"
#include "nn/modules.h"

enum { KEY_LIST = 1, MOST_NAMES = 64 };

typedef struct gradcheck_options {
  cli_common common;
  bool list;
  const char *names[MOST_NAMES];
  int name_count;
} gradcheck_options;

static const struct argp_option own_options[] = {
    {"list", KEY_LIST, 0, 0, "Print the names and their cases, check nothing", 0}, {0}};

static const char text[] =
    "Check the gradients of operations and modules (all, or those named; softmax/causal names one "
    "case): in f64 against finite differences, each coordinate of small cases and random projections "
    "of large ones, and in f32 against f64."
    "\v"
    "Verdicts, best first; the worst wins:\n"
    "  pass         every entry right to the tolerance           (exit 0)\n"
    "  below-floor  entries too small to be seen beside round-off (exit 0)\n"
    "  kink         entries without a derivative, the claimed one between the one-sided slopes "
    "(exit 0)\n"
    "  noisy        the function is not deterministic, or too rough (exit 1)\n"
    "  vacuous      the check could not have failed: the loss is constant in the input, nothing was "
    "compared, the gradient never arrived (exit 1)\n"
    "  wrong        a gradient outside tolerance plus error bar, or not finite (exit 1)\n"
    "Errors are relative to the largest of |claimed|, |measured| and a thousandth of the input's "
    "largest gradient (projections: a tenth of the typical projection).";

/* ---- which ---- */

static bool names_case(const char *wanted, const th_op *op, const th_check *check) {
  size_t length = strlen(op->name);
  if (strncmp(wanted, op->name, length) != 0) return false;
  if (wanted[length] == '\0') return true;
  return wanted[length] == '/' && check != NULL && strcmp(wanted + length + 1, check->variant) == 0;
}

static bool selected(const gradcheck_options *options, const th_op *op, const th_check *check) {
  for (int i = 0; i < options->name_count; i++)
    if (names_case(options->names[i], op, check)) return true;
  return options->name_count == 0;
}

typedef void visit(const th_op *op, const th_check *check, void *state);

static void visit_list(const th_op *const *list, visit *call, void *state) {
  for (; *list != NULL; list++)
    for (const th_check *check = (*list)->checks; check != NULL && check->forward != NULL; check++)
      call(*list, check, state);
}

static void visit_all(visit *call, void *state) {
  visit_list(th__ops, call, state);
  visit_list(th__modules, call, state);
}

typedef struct search {
  const char *name;
  bool found;
} search;

static void look_for(const th_op *op, const th_check *check, void *state) {
  search *s = state;
  s->found = s->found || names_case(s->name, op, check);
}

static error_t parse(int key, char *argument, struct argp_state *state) {
  gradcheck_options *options = state->input;
  search s = {argument, false};
  switch (key) {
  case KEY_LIST: options->list = true; return 0;
  case ARGP_KEY_ARG:
    visit_all(look_for, &s);
    if (!s.found)
      argp_error(state, "there is no operation or module '%s'; --list prints the names", argument);
    if (options->name_count == MOST_NAMES) argp_error(state, "more than %d names", MOST_NAMES);
    options->names[options->name_count++] = argument;
    return 0;
  default: return ARGP_ERR_UNKNOWN;
  }
}

/* ---- results ---- */

typedef struct report {
  const gradcheck_options *options;
  bool table;
  json_t *checks;
  int passed, failed;
} report;

/* NaN and infinity have no JSON. */
static json_t *number(double value) { return isfinite(value) ? json_real(value) : json_null(); }

static json_t *row_json(const th_op *op, const th_check *check, const th_gradcheck_row *row) {
  return json_pack(
      "{s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:o, s:o, s:I, s:o, s:o, s:o, s:b, s:s, s:s}",
      "op", op->name, "variant", check->variant, "input", row->input, "dtype",
      th_dtype_name(row->dtype), "mode", th_check_mode_name(row->mode), "elements",
      (json_int_t)row->elements, "compared", (json_int_t)row->compared, "kinks",
      (json_int_t)row->kinks, "below_floor", (json_int_t)row->below_floor, "max_abs_error",
      number(row->max_abs_error), "max_rel_error", number(row->max_rel_error), "index",
      (json_int_t)row->index, "analytic", number(row->analytic), "numeric", number(row->numeric),
      "error_bar", number(row->error_bar), "pass", th_verdict_ok(row->verdict), "verdict",
      th_verdict_name(row->verdict), "detail", row->detail);
}

static void print_row(const th_op *op, const th_check *check, const th_gradcheck_row *row) {
  char name[64];
  snprintf(name, sizeof name, "%s%s%s", op->name, check->variant[0] ? "/" : "", check->variant);
  printf("%-38.38s %-8.8s %s %-10s %-11s %8.1e %8.1e %7td %16.9g %16.9g\n", name, row->input,
         th_dtype_name(row->dtype), th_check_mode_name(row->mode), th_verdict_name(row->verdict),
         row->max_abs_error, row->max_rel_error, row->index, row->analytic, row->numeric);
  if (row->detail[0] != '\0') printf("    %s\n", row->detail);
}

static void take_row(report *r, const th_op *op, const th_check *check,
                     const th_gradcheck_row *row) {
  if (th_verdict_ok(row->verdict))
    r->passed++;
  else
    r->failed++;
  if (r->table) print_row(op, check, row);
  json_array_append_new(r->checks, row_json(op, check, row));
}

static void run_case(const th_op *op, const th_check *check, void *state) {
  report *r = state;
  if (!selected(r->options, op, check)) return;
  th_gradcheck_result result;
  th_error error = {TH_OK, ""};
  const th_gradcheck_options how = {.seed = r->options->common.seed, .f32 = true};
  if (th_gradcheck_case(check, &how, &result, &error) == TH_OK) {
    for (int i = 0; i < result.row_count; i++) take_row(r, op, check, &result.rows[i]);
  } else {
    th_gradcheck_row row = {.verdict = TH_WRONG, .dtype = TH_F64};
    snprintf(row.detail, sizeof row.detail, "%.191s", error.message);
    take_row(r, op, check, &row);
  }
  if (r->table) fflush(stdout);
}

static void list_case(const th_op *op, const th_check *check, void *state) {
  if (!selected(state, op, check)) return;
  printf("%s%s%s%s\n", op->name, check->variant[0] ? "/" : "", check->variant,
         check->large ? "  (projections)" : "");
}

int command_gradcheck(int argc, char **argv) {
  gradcheck_options options = {0};
  cli_parse(argc, argv, own_options, parse, "[NAME...]", text, &options);
  if (options.list) {
    visit_all(list_case, &options);
    return EXIT_OK;
  }
  const char *json = options.common.json;
  if (!cli_check_writable("gradcheck", json)) return EXIT_USAGE;
  report r = {.options = &options, .checks = json_array()};
  r.table = json == NULL || strcmp(json, "-") != 0;
  if (r.table)
    printf("%-38s %-8s %s %-10s %-11s %8s %8s %7s %16s %16s\n", "case", "input", "in ", "mode",
           "verdict", "abs err", "rel err", "index", "claimed", "measured");
  visit_all(run_case, &r);
  if (r.table) printf("\n%d passed, %d failed\n", r.passed, r.failed);
  int status = r.failed == 0 && r.passed > 0 ? EXIT_OK : EXIT_CHECK_FAILED;
  if (json == NULL) {
    json_decref(r.checks);
    return status;
  }
  json_t *document =
      json_pack("{s:o, s:i, s:i, s:I, s:s}", "checks", r.checks, "passed", r.passed, "failed",
                r.failed, "seed", (json_int_t)options.common.seed, "version", th_version());
  return cli_write_json("gradcheck", json, document) ? status : EXIT_USAGE;
}
