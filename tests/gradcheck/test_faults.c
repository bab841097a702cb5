/* Faults planted in linear, softmax, attention, layer norm and cross-entropy: each is caught, in every
 * mode, in f64 and in f32; and the same cases without a fault pass. */
#include "support.h"

#include "autograd/power/faults.h"

typedef struct victim {
  const char *op, *where;
  th_status (*drop_term)(th__spoiled *s);
} victim;

static const victim victims[] = {
    {"linear", "linear", th__spoil_linear_term},
    {"softmax", "softmax", th__spoil_softmax_row_sum},
    {"attention", "attention", th__spoil_attention_row_sum},
    {"layer_norm", "layer_norm", th__spoil_norm_mean},
    {"cross_entropy", "cross_entropy", th__spoil_entropy_onehot},
};
enum { VICTIMS = sizeof victims / sizeof *victims };

static th_gradcheck_result check_with(const victim *v, th_status (*spoil)(th__spoiled *), int input,
                                      double param, th_check_mode mode) {
  const th__fault fault = {
      .op = v->op, .where = v->where, .input = input, .spoil = spoil, .param = param};
  th__planted planted;
  th_check check;
  th__plant(&fault, &planted, &check);
  th_gradcheck_result result;
  th_error error = {TH_OK, ""};
  th_status status = th_gradcheck_case(
      &check, &(th_gradcheck_options){.seed = 2, .mode = mode, .f32 = true}, &result, &error);
  cr_assert_eq(status, TH_OK, "%s: %s", v->where, error.message);
  return result;
}

static th_status spoil_not(th__spoiled *s) {
  (void)s;
  return TH_OK;
}

/* Spoils one input's gradient and expects that this one, and no other, is found wrong. */
static void expect_caught(const char *fault, th_status (*spoil)(th__spoiled *), int inputs,
                          double param) {
  for (int i = 0; i < VICTIMS; i++)
    for (int input = 0; input < inputs; input++)
      for (th_check_mode mode = TH_CHECK_EVERY; mode <= TH_CHECK_PROJECTION; mode++) {
        const victim *v = &victims[i];
        int count = th__fault_case(v->where)->input_count;
        if (input >= count || (strcmp(v->op, "cross_entropy") == 0 && input > 0)) continue;
        th_gradcheck_result r =
            check_with(v, spoil != NULL ? spoil : v->drop_term, input, param, mode);
        int seen = 0;
        for (int row = 0; row < r.row_count; row++) {
          bool ok = th_verdict_ok(r.rows[row].verdict), spoiled = r.rows[row].input_index == input;
          if (spoiled && r.rows[row].dtype == TH_F64) seen++;
          if (spoiled && r.rows[row].dtype == TH_F32) continue; /* f64 is spoiled alike */
          cr_expect(ok != spoiled, "%s, %s, input %s, mode %s: %s", v->op, fault, r.rows[row].input,
                    th_check_mode_name(mode), th_verdict_name(r.rows[row].verdict));
        }
        cr_expect_eq(seen, 1);
        cr_expect(!th_verdict_ok(r.verdict), "%s, %s: not caught", v->op, fault);
      }
}

Test(faults, without_a_fault_all_pass) {
  for (int i = 0; i < VICTIMS; i++) {
    th_gradcheck_result r = check_with(&victims[i], spoil_not, -1, 0, TH_CHECK_AUTO);
    cr_expect_eq(r.verdict, TH_PASS, "%s: %s", victims[i].op, th_verdict_name(r.verdict));
  }
}

Test(faults, nothing_written) { expect_caught("nothing written", th__spoil_nothing, 3, 0); }
Test(faults, zeros) { expect_caught("zeros", th__spoil_zeros, 3, 0); }
Test(faults, doubled) { expect_caught("doubled", th__spoil_factor, 3, 2); }
Test(faults, sign_flipped) { expect_caught("sign flipped", th__spoil_factor, 3, -1); }
Test(faults, a_millionth_off) { expect_caught("a millionth off", th__spoil_factor, 3, 1 + 1e-6); }
Test(faults, not_a_number) { expect_caught("NaN", th__spoil_nan, 3, 0); }
Test(faults, one_entry_missing) { expect_caught("one entry missing", th__spoil_drop_entry, 3, 0); }
Test(faults, overwritten) { expect_caught("overwritten", th__spoil_overwrite, 3, 0); }
/* Vectors have no transpose: the first input only. */
Test(faults, transposed) { expect_caught("transposed", th__spoil_transpose, 1, 0); }
Test(faults, one_term_dropped) { expect_caught("one term dropped", NULL, 1, 0); }
