/* gradients.h: check_gradients("softmax") runs every case that an op registered for the gradient
 * checker: f64 against finite differences, f32 against f64, gradients added onto a non-zero start. */
#ifndef TESTS_GRADIENTS_H
#define TESTS_GRADIENTS_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "autograd/tape.h"
#include "tapehead.h"

static inline void print_row(const char *op, const char *variant, const th_gradcheck_row *row) {
  fprintf(stderr,
          "%s/%s %s %s %s: %s, %td of %td compared, worst [%td] claimed %.9g measured %.9g "
          "(error %.2g, relative %.2g)%s%s%s%s\n",
          op, variant, row->input, th_dtype_name(row->dtype), th_check_mode_name(row->mode),
          th_verdict_name(row->verdict), row->compared, row->elements, row->index, row->analytic,
          row->numeric, row->max_abs_error, row->max_rel_error, row->detail[0] ? ": " : "",
          row->detail, row->cause[0] ? "; " : "", row->cause);
}

/* Every case of one op. A case that may have kinks or entries below round-off passes with them. */
static inline void check_op_gradients(const th_op *op, uint64_t seed) {
  int cases = 0;
  cr_assert_not_null(op->checks, "%s has no cases for the gradient checker", op->name);
  for (const th_check *check = op->checks; check->forward != NULL; check++, cases++) {
    th_gradcheck_result result;
    th_error error = {TH_OK, ""};
    th_status status = th_gradcheck_case(check, &(th_gradcheck_options){.seed = seed, .f32 = true},
                                         &result, &error);
    cr_assert_eq(status, TH_OK, "%s/%s: %s", op->name, check->variant, error.message);
    cr_assert_gt(result.row_count, 0, "%s/%s: nothing was checked", op->name, check->variant);
    for (int r = 0; r < result.row_count; r++)
      if (!th_verdict_ok(result.rows[r].verdict))
        print_row(op->name, check->variant, &result.rows[r]);
    cr_expect(th_verdict_ok(result.verdict), "%s/%s: %s", op->name, check->variant,
              th_verdict_name(result.verdict));
    for (int r = 0; r < result.row_count; r++) {
      const th_gradcheck_row *row = &result.rows[r];
      cr_expect(row->dtype == TH_F32 || check->kinks || row->max_rel_error <= 1e-7,
                "%s/%s %s: relative error %.3g", op->name, check->variant, row->input,
                row->max_rel_error);
    }
  }
  cr_assert_gt(cases, 0, "%s has no cases for the gradient checker", op->name);
}

static inline void check_gradients(const char *name) {
  for (const th_op *const *op = th__ops; *op != NULL; op++)
    if (strcmp((*op)->name, name) == 0) {
      check_op_gradients(*op, 1);
      return;
    }
  cr_assert_fail("there is no op \"%s\" in ops.def", name);
}

#endif
