/* The catalogue of faults: all caught by the default mode, nearly all named right; generic faults are
 * caught in every registered case, too. The command prints the same: tapehead gradcheck --power.
 * ctest: full */
#include <stdio.h>

#include "support.h"

#include "autograd/gradcheck/gradcheck.h"
#include "autograd/power/power.h"

static int count_faults(void) {
  int count = 0;
  while (th__faults[count].title != NULL) count++;
  return count;
}

Test(power, catalogue_is_large_enough) { cr_assert_geq(count_faults(), 25); }

Test(power, cases_without_a_fault_pass) {
  for (const th__fault *fault = th__faults; fault->title != NULL; fault++) {
    th_gradcheck_result r;
    const th_check *check = th__fault_case(fault->where);
    cr_assert_not_null(check, "%s", fault->where);
    cr_assert_eq(th_gradcheck_case(check, NULL, &r, NULL), TH_OK);
    cr_assert_eq(r.verdict, TH_PASS, "%s: %s", fault->where, th_verdict_name(r.verdict));
  }
}

Test(power, all_caught_and_85_percent_named) {
  for (uint64_t seed = 0; seed < 2; seed++) {
    int named = 0;
    for (const th__fault *fault = th__faults; fault->title != NULL; fault++) {
      th__power_result r;
      th_error error = {TH_OK, ""};
      cr_assert_eq(th__power_run(fault, TH_CHECK_AUTO, seed, &r, &error), TH_OK, "%s",
                   error.message);
      cr_expect(r.caught, "%s, %s: not caught", fault->op, fault->title);
      if (!r.named)
        fprintf(stderr, "%s, %s: named %s (%s)\n", fault->op, fault->title, r.diagnosis, r.cause);
      named += r.named;
    }
    cr_assert_geq(100 * named, 85 * count_faults(), "%d of %d named", named, count_faults());
  }
}

Test(power, projections_and_samples_catch_all) {
  const th_check_mode modes[] = {TH_CHECK_PROJECTION, TH_CHECK_SAMPLE};
  for (int m = 0; m < 2; m++)
    for (const th__fault *fault = th__faults; fault->title != NULL; fault++) {
      th__power_result r;
      cr_assert_eq(th__power_run(fault, modes[m], 0, &r, NULL), TH_OK);
      cr_expect(r.caught, "%s, %s: not caught in mode %s", fault->op, fault->title,
                th_check_mode_name(modes[m]));
    }
}

/* ---- every registered case ---- */

typedef struct generic {
  const char *title;
  th_status (*spoil)(th__spoiled *s);
  double param;
} generic;

static const generic generics[] = {{"nothing written", th__spoil_nothing, 0},
                                   {"zeros", th__spoil_zeros, 0},
                                   {"negated", th__spoil_factor, -1},
                                   {"a millionth off", th__spoil_factor, 1 + 1e-6},
                                   {"one entry missing", th__spoil_drop_entry, 0},
                                   {"NaN", th__spoil_nan, 0}};
enum { GENERICS = sizeof generics / sizeof *generics };

/* Does the case run the operation itself? Views record nothing, composites only their parts. */
static bool runs_op(const th_op *op, const th_check *check) {
  th_tensor *inputs[TH_MAX_INPUTS] = {0};
  th_tape *tape = th_tape_new();
  bool found = false;
  cr_assert_eq(th__fill(check, 1, inputs, NULL), TH_OK);
  for (int i = 0; i < check->input_count; i++)
    if (th__is_float(inputs[i])) th_tensor_require_grad(inputs[i], NULL);
  cr_assert_not_null(check->forward(tape, inputs, check->context), "%s", th_tape_message(tape));
  for (const th_node *node = tape->last; node != NULL; node = node->previous)
    found = found || node->op == op;
  th_tape_free(tape);
  for (int i = 0; i < check->input_count; i++) th_tensor_free(inputs[i]);
  return found;
}

Test(power, generic_faults_are_caught_in_every_case) {
  int tried = 0;
  for (const th_op *const *op = th__ops; *op != NULL; op++)
    for (const th_check *check = (*op)->checks; check->forward != NULL; check++) {
      if (check->large || !runs_op(*op, check)) continue;
      for (int g = 0; g < GENERICS; g++, tried++) {
        const th__fault fault = {
            .op = (*op)->name, .input = -1, .spoil = generics[g].spoil, .param = generics[g].param};
        th__planted planted;
        th_check spoiled;
        th__plant_in(&fault, check, &planted, &spoiled);
        th_gradcheck_result r;
        th_error error = {TH_OK, ""};
        cr_assert_eq(th_gradcheck_case(&spoiled, &(th_gradcheck_options){.seed = 1}, &r, &error),
                     TH_OK, "%s", error.message);
        cr_expect(!th_verdict_ok(r.verdict), "%s/%s, %s: not caught", (*op)->name, check->variant,
                  generics[g].title);
      }
    }
  cr_assert_gt(tried, 200, "%d", tried);
}
