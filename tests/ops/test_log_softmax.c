/* log_softmax: goldens, saturation (C04), large values (C06), -inf, properties, rejection. */
#include "log_sum.h"

#include "golden/log_softmax.inc"

#define G(name, part) golden_log_softmax_##name##_##part
static const golden goldens[] = {CASE(rank2, false), CASE(rank3, false), CASE(single, false),
                                 CASE(saturated, true), CASE(sharp, true)};

TEST_BOTH(log_softmax, golden) {
  for (size_t i = 0; i < sizeof goldens / sizeof *goldens; i++)
    expect_golden(dtype, th_log_softmax, &goldens[i], 0);
}

Test(log_softmax, gradients) { check_gradients("log_softmax"); }
TEST_BOTH(log_softmax, gradients_accumulate) {
  expect_accumulates(dtype, th_log_softmax, &goldens[0]);
}
TEST_BOTH(log_softmax, strided_input) { expect_strided(dtype, th_log_softmax, &goldens[0]); }
TEST_BOTH(log_softmax, same_bits_at_any_number_of_threads) {
  expect_same_bits(dtype, th_log_softmax);
}
Test(log_softmax, rejects) { expect_rejects(th_log_softmax, "log_softmax: a scalar"); }

/* C06: the maximum goes first. */
TEST_BOTH(log_softmax, large_logits) {
  th_tape *tape = th_tape_new();
  th_tensor *x = make(tape, dtype, TH_SHAPE(2, 2), (double[]){1e8, 1e8, 1e8, 1e8 - 8});
  const double want[] = {-log(2), -log(2), -log1p(exp(-8)), -8 - log1p(exp(-8))};
  expect_relative("y", th_log_softmax(tape, x), want, dtype == TH_F32 ? 2e-7 : 1e-13);
  th_tape_free(tape);
}

TEST_BOTH(log_softmax, minus_infinity) {
  th_tape *tape = th_tape_new();
  th_tensor *x = make(tape, dtype, TH_SHAPE(2, 3),
                      (double[]){-INFINITY, 1, 1, -INFINITY, -INFINITY, -INFINITY});
  th_tensor *y = th_log_softmax(tape, x);
  double got[6];
  th_tensor_read(y, got);
  for (int i = 0; i < 6; i++)
    cr_assert(i == 1 || i == 2 ? fabs(got[i] + log(2)) < 1e-6 : isinf(got[i]) && got[i] < 0,
              "%d: %g", i, got[i]);
  backward_from(tape, y, (double[]){1, 2, 3, 4, 5, 6});
  expect_values("dx", th_tensor_grad(x), (double[]){1, -1, 0, 0, 0, 0}, 1e-6);
  th_tape_free(tape);
}

TEST_BOTH(log_softmax, rows_of_the_gradient_sum_to_zero_and_shifts_change_nothing) {
  th_tape *tape = th_tape_new();
  double first[111], second[111];
  for (int shifted = 0; shifted < 2; shifted++) {
    th_tensor *x = th_input_grad(tape, dtype, TH_SHAPE(3, 37), NULL);
    for (ptrdiff_t i = 0; i < 111; i++) /* multiples of 1/8: the shift is exact */
      th__set(x, i, (double)((i * 53) % 97) / 8 - 6 + (shifted ? 256 : 0));
    th_tensor *dy = th_input(tape, dtype, TH_SHAPE(3, 37), NULL);
    th_init_normal(dy, 0, 1, (th_random){2, 0, 0});
    th_tensor *y = th_log_softmax(tape, x);
    th_tensor_read(y, shifted ? second : first);
    th_backward_from(tape, y, dy);
    for (ptrdiff_t i = 0; i < 3; i++) {
      double sum = 0;
      for (ptrdiff_t j = 0; j < 37; j++) sum += th__get(x->grad, i * 37 + j);
      cr_assert(fabs(sum) < (dtype == TH_F32 ? 1e-5 : 1e-14), "row %td: %g", i, sum);
    }
    th_tape_reset(tape);
  }
  cr_assert_arr_eq(first, second, sizeof first);
  th_tape_free(tape);
}

TEST_BOTH(log_softmax, zero_sizes) {
  th_tape *tape = th_tape_new();
  for (int i = 0; i < 2; i++) {
    th_tensor *x = th_input_grad(tape, dtype, TH_SHAPE(i ? 0 : 3, i ? 3 : 0), NULL);
    th_tensor *y = th_log_softmax(tape, x);
    cr_assert_eq(th_tensor_count(y), 0);
    backward_from(tape, y, (double[]){0});
    th_tape_reset(tape);
  }
  th_tape_free(tape);
}

/* NaN and +inf make their row NaN, and no other. */
TEST_BOTH(log_softmax, nan_stays_in_its_row) {
  th_tape *tape = th_tape_new();
  const double x[] = {1, NAN, 2, 1, 2, 3, INFINITY, 1, 2, NAN, NAN, NAN};
  double y[12];
  th_tensor_read(th_log_softmax(tape, make(tape, dtype, TH_SHAPE(4, 3), x)), y);
  for (int i = 0; i < 12; i++)
    cr_assert(i / 3 == 1 ? isfinite(y[i]) : isnan(y[i]), "%d: %g", i, y[i]);
  th_tape_free(tape);
}
