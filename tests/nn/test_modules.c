/* modules: every case of every module passes the gradient checker, in f64 and in f32. */
#include "../support.h"

#include "nn/modules.h"

static void run_checks(const th_op *module) {
  cr_assert_null(module->backward);
  int cases = 0;
  for (const th_check *check = module->checks; check->forward != NULL; check++, cases++) {
    th_gradcheck_result result;
    th_error error = {0};
    cr_assert_eq(
        th_gradcheck_case(check, &(th_gradcheck_options){.seed = 1, .f32 = true}, &result, &error),
        TH_OK, "%s %s: %s", module->name, check->variant, error.message);
    for (int i = 0; i < result.row_count; i++) {
      const th_gradcheck_row *row = &result.rows[i];
      cr_assert(th_verdict_ok(row->verdict), "%s %s, %s in %s: %s, error %g: %s", module->name,
                check->variant, row->input, th_dtype_name(row->dtype),
                th_verdict_name(row->verdict), row->max_rel_error, row->detail);
    }
    cr_assert(th_verdict_ok(result.verdict));
  }
  cr_assert_gt(cases, 0);
}

Test(modules, gradients) {
  int modules = 0;
  for (; th__modules[modules] != NULL; modules++) run_checks(th__modules[modules]);
  cr_assert_eq(modules, 6);
}
