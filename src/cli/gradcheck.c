/* tapehead gradcheck: every operation's and every module's gradient, against finite differences. */
#include <math.h>
#include <string.h>

#include "autograd/power/power.h"
#include "autograd/tape.h"
#include "cli/cli.h"
#include "nn/modules.h"

enum { KEY_LIST = 1, KEY_MODE, KEY_SAMPLES, KEY_PROJECTIONS, KEY_POWER, MOST_NAMES = 64 };

typedef struct gradcheck_options {
  cli_common common;
  bool list, power;
  th_gradcheck_options how;
  const char *names[MOST_NAMES];
  int name_count;
} gradcheck_options;

static const struct argp_option own_options[] = {
    {"list", KEY_LIST, 0, 0, "Print the names and their cases, check nothing", 0},
    {"mode", KEY_MODE, "MODE", 0,
     "every: each coordinate. projection: random directions. sample: a random part of the "
     "coordinates, from every row and head. hessian: symmetry of the second derivative. precision: "
     "only f32 against f64. auto (the default): every for small cases, projection for large ones",
     0},
    {"samples", KEY_SAMPLES, "N", 0, "Coordinates per input in mode sample (default 256)", 0},
    {"projections", KEY_PROJECTIONS, "N", 0,
     "Directions per input, in mode hessian pairs of them (default 4)", 0},
    {"power", KEY_POWER, 0, 0,
     "Plant a catalogue of faults and show which are caught and named, in each mode", 0},
    {0}};

static const char *const mode_names[] = {
#define X(code, text) text,
    TH_CHECK_MODE_LIST(X)
#undef X
        NULL};

static const char text[] =
    "Check the gradients of operations and modules (all, or those named; attention/causal names one "
    "case): in f64 against finite differences, each coordinate of small cases and random projections "
    "of large ones, and in f32 against f64."
    "\v"
    "Verdicts, best first; the worst wins:\n"
    "  pass         every entry right to the tolerance (exit 0)\n"
    "  below-floor  entries too small to be seen beside round-off (exit 0)\n"
    "  kink         entries without a derivative, the claimed one between the\n"
    "               one-sided slopes (exit 0)\n"
    "  noisy        the function is not deterministic, or too rough (exit 1)\n"
    "  vacuous      the check could not have failed: the loss is constant in the\n"
    "               input, nothing was compared, or the gradient never arrived\n"
    "               (exit 1)\n"
    "  wrong        a gradient outside tolerance plus error bar, or not finite\n"
    "               (exit 1)\n"
    "Exit status: 0 no case failed, 1 one did, 2 usage or bad input. With --power: 0 "
    "if the default mode catches every fault and names at least 85 % right, else 1.\n"
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
  case KEY_POWER: options->power = true; return 0;
  case KEY_MODE:
    options->how.mode = (th_check_mode)cli_choice(state, "--mode", argument, mode_names);
    return 0;
  case KEY_SAMPLES:
    options->how.samples = cli_integer(state, "--samples", argument, 1, 1000000000);
    return 0;
  case KEY_PROJECTIONS:
    options->how.projections = (int)cli_integer(state, "--projections", argument, 1, 1000);
    return 0;
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
  th_verdict verdict; /* the worst */
} report;

/* NaN and infinity have no JSON. */
static json_t *number(double value) { return isfinite(value) ? json_real(value) : json_null(); }

static json_t *diagnosis_json(const th_gradcheck_row *row) {
  if (row->diagnosis[0] == '\0') return json_null();
  return json_pack("{s:s, s:s, s:o}", "kind", row->diagnosis, "text", row->cause, "factor",
                   number(row->factor));
}

static json_t *row_json(const th_op *op, const th_check *check, const th_gradcheck_row *row) {
  json_t *json = json_pack(
      "{s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:o, s:o, s:I, s:o, s:o, s:o}", "op", op->name,
      "variant", check->variant, "input", row->input, "dtype", th_dtype_name(row->dtype), "mode",
      th_check_mode_name(row->mode), "elements", (json_int_t)row->elements, "compared",
      (json_int_t)row->compared, "kinks", (json_int_t)row->kinks, "below_floor",
      (json_int_t)row->below_floor, "max_abs_error", number(row->max_abs_error), "max_rel_error",
      number(row->max_rel_error), "index", (json_int_t)row->index, "analytic",
      number(row->analytic), "numeric", number(row->numeric), "error_bar", number(row->error_bar));
  if (row->mode == TH_CHECK_SAMPLE) json_object_set_new(json, "miss", number(row->miss));
  json_object_set_new(json, "pass", json_boolean(th_verdict_ok(row->verdict)));
  json_object_set_new(json, "verdict", json_string(th_verdict_name(row->verdict)));
  json_object_set_new(json, "detail", json_string(row->detail));
  json_object_set_new(json, "diagnosis", diagnosis_json(row));
  return json;
}

static void print_row(const th_op *op, const th_check *check, const th_gradcheck_row *row) {
  char name[64];
  snprintf(name, sizeof name, "%s%s%s", op->name, check->variant[0] ? "/" : "", check->variant);
  printf("%-38.38s %-8.8s %s %-10s %-11s %8.1e %8.1e %7td %16.9g %16.9g\n", name, row->input,
         th_dtype_name(row->dtype), th_check_mode_name(row->mode), th_verdict_name(row->verdict),
         row->max_abs_error, row->max_rel_error, row->index, row->analytic, row->numeric);
  if (row->detail[0] != '\0') printf("    %s\n", row->detail);
  if (row->cause[0] != '\0') printf("    %s: %s\n", row->diagnosis, row->cause);
  if (row->mode == TH_CHECK_SAMPLE && row->miss > 0)
    printf("    %td of %td entries; a single wrong one is missed with probability %.2g\n",
           row->compared, row->elements, row->miss);
}

static void take_row(report *r, const th_op *op, const th_check *check,
                     const th_gradcheck_row *row) {
  if (row->verdict > r->verdict) r->verdict = row->verdict;
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
  th_gradcheck_options how = r->options->how;
  how.seed = r->options->common.seed;
  how.f32 = true;
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

/* ---- --power ---- */

static const th_check_mode power_modes[] = {TH_CHECK_EVERY, TH_CHECK_PROJECTION, TH_CHECK_SAMPLE,
                                            TH_CHECK_HESSIAN, TH_CHECK_PRECISION};
enum { POWER_MODES = sizeof power_modes / sizeof *power_modes };

typedef struct power_report {
  bool table;
  int faults, caught[POWER_MODES], named[POWER_MODES];
  json_t *entries;
} power_report;

static bool run_fault(power_report *r, const th__fault *fault, uint64_t seed) {
  th__power_result results[POWER_MODES];
  th_error error;
  json_t *caught = json_object();
  r->faults++;
  if (r->table) printf("%-14s %-33s", fault->op, fault->title);
  for (int m = 0; m < POWER_MODES; m++) {
    if (th__power_run(fault, power_modes[m], seed, &results[m], &error) != TH_OK) {
      json_decref(caught);
      cli_error("gradcheck", "%s", error.message);
      return false;
    }
    r->caught[m] += results[m].caught;
    r->named[m] += results[m].named;
    json_object_set_new(caught, th_check_mode_name(power_modes[m]), json_boolean(results[m].caught));
    if (r->table)
      printf(" %-10s", !results[m].caught ? "-" : results[m].named ? "named" : "caught");
  }
  if (r->table) printf(" %s%s\n", results[0].diagnosis, results[0].named ? "" : " (not right)");
  json_array_append_new(r->entries,
                        json_pack("{s:s, s:s, s:s, s:o, s:s, s:s, s:b}", "op", fault->op, "fault",
                                  fault->title, "kind", th__bug_name(fault->kind), "caught", caught,
                                  "diagnosis", results[0].diagnosis, "cause", results[0].cause,
                                  "named", results[0].named));
  return true;
}

static json_t *power_json(power_report *r, uint64_t seed) {
  json_t *modes = json_array();
  for (int m = 0; m < POWER_MODES; m++)
    json_array_append_new(modes,
                          json_pack("{s:s, s:i, s:i}", "mode", th_check_mode_name(power_modes[m]),
                                    "caught", r->caught[m], "named", r->named[m]));
  return json_pack("{s:i, s:o, s:o, s:I, s:s}", "faults", r->faults, "modes", modes, "entries",
                   r->entries, "seed", (json_int_t)seed, "version", th_version());
}

static int run_power(const gradcheck_options *options) {
  const char *json = options->common.json;
  power_report r = {.table = json == NULL || strcmp(json, "-") != 0, .entries = json_array()};
  if (r.table) {
    printf("%-14s %-33s", "operation", "fault");
    for (int m = 0; m < POWER_MODES; m++) printf(" %-10s", th_check_mode_name(power_modes[m]));
    printf(" %s\n", "named by mode every");
  }
  for (const th__fault *fault = th__faults; fault->title != NULL; fault++)
    if (!run_fault(&r, fault, options->common.seed)) {
      json_decref(r.entries);
      return EXIT_USAGE;
    }
  if (r.table) {
    printf("\n%-48s", "caught");
    for (int m = 0; m < POWER_MODES; m++) printf(" %2d of %-4d", r.caught[m], r.faults);
    printf("\n%-48s", "named right");
    for (int m = 0; m < POWER_MODES; m++) printf(" %2d of %-4d", r.named[m], r.faults);
    printf("\n");
  }
  bool good = r.caught[0] == r.faults && 100 * r.named[0] >= 85 * r.faults;
  int status = good ? EXIT_OK : EXIT_CHECK_FAILED;
  json_t *document = power_json(&r, options->common.seed);
  if (json == NULL) {
    json_decref(document);
    return status;
  }
  return cli_write_json("gradcheck", json, document) ? status : EXIT_USAGE;
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
  if (options.power) return run_power(&options);
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
  json_t *document = json_pack("{s:o, s:i, s:i, s:s, s:I, s:s}", "checks", r.checks, "passed",
                               r.passed, "failed", r.failed, "verdict", th_verdict_name(r.verdict),
                               "seed", (json_int_t)options.common.seed, "version", th_version());
  return cli_write_json("gradcheck", json, document) ? status : EXIT_USAGE;
}
