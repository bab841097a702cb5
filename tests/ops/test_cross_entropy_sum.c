/* cross_entropy_sum, th_counted_targets: goldens, n times the mean, the sum taken in double, ignored and
 * invalid targets, rejection. What it shares with the mean is tested there. */
#include "cross_entropy.h"

#include "golden/cross_entropy_sum.inc"

#define G(name, part) golden_cross_entropy_sum_##name##_##part
#define GOLDENS                                                                                    \
  {                                                                                                \
    CASE(plain, false), CASE(ignored, false), CASE(all_ignored, true), CASE(huge, true),           \
        CASE(saturated, true)                                                                      \
  }

TEST_BOTH(cross_entropy_sum, golden) {
  const golden goldens[] = GOLDENS;
  for (size_t i = 0; i < sizeof goldens / sizeof *goldens; i++)
    expect_golden(dtype, th_cross_entropy_sum, &goldens[i]);
}

Test(cross_entropy_sum, gradients) { check_gradients("cross_entropy_sum"); }

/* Of the same rows, the sum is the mean times how many count; and so are the gradients. */
TEST_BOTH(cross_entropy_sum, is_the_mean_times_the_count) {
  enum { rows = 50, n = 33 };
  double loss[2], gradient[2][rows * n];
  int32_t labels[rows];
  for (int i = 0; i < rows; i++) labels[i] = i % 3 == 1 ? TH_IGNORE : i * 7 % n;
  for (int sum = 0; sum < 2; sum++) {
    th_tape *tape = th_tape_new();
    th_tensor *x = th_input_grad(tape, dtype, TH_SHAPE(rows, n), NULL);
    th_init_normal(x, 0, 3, (th_random){9, 0, 0});
    th_tensor *t = th_input(tape, TH_I32, TH_SHAPE(rows), labels);
    cr_assert_eq(th_counted_targets(t), 33);
    th_tensor *y = sum ? th_cross_entropy_sum(tape, x, t) : th_cross_entropy(tape, x, t);
    backward_from(tape, y, (double[]){sum ? 1.0 / 33 : 1});
    loss[sum] = th_tensor_item(y);
    th_tensor_read(th_tensor_grad(x), gradient[sum]);
    th_tape_free(tape);
  }
  cr_assert(fabs(loss[1] / 33 - loss[0]) <= tolerances[dtype].value * loss[0], "%g", loss[1]);
  for (int i = 0; i < rows * n; i++)
    cr_assert(fabs(gradient[0][i] - gradient[1][i]) <= tolerances[dtype].gradient, "%d", i);
}

/* 2^24 + many small losses: added up in f32 they would vanish one by one. */
Test(cross_entropy_sum, is_taken_in_double) {
  enum { rows = 4097 };
  static float x[rows][2];
  static int32_t labels[rows];
  x[0][1] = 0x1p24f; /* loss 2^24, then log 2 each */
  th_tape *tape = th_tape_new();
  th_tensor *logits = th_input(tape, TH_F32, TH_SHAPE(rows, 2), x);
  th_tensor *y = th_cross_entropy_sum(tape, logits, th_input(tape, TH_I32, TH_SHAPE(rows), labels));
  cr_assert(fabs(th_tensor_item(y) - (0x1p24 + 4096 * log(2))) <= 1, "%.17g", th_tensor_item(y));
  th_tape_free(tape);
}

TEST_BOTH(cross_entropy_sum, two_uses_and_the_upstream_count) {
  th_tape *tape = th_tape_new();
  th_tensor *x = make(tape, dtype, TH_SHAPE(2, 2), (double[]){0, 0, 0, 0});
  th_tensor *t = th_input(tape, TH_I32, TH_SHAPE(2), (int32_t[]){0, 1});
  th_tensor *y = th_add(tape, th_cross_entropy_sum(tape, x, t), th_cross_entropy_sum(tape, x, t));
  backward_from(tape, y, (double[]){-3});
  expect_values("dx", th_tensor_grad(x), (double[]){3, -3, -3, 3}, 0);
  th_tape_free(tape);
}

/* Rows that do not count change nothing, whatever they hold; a NaN that counts is seen. */
TEST_BOTH(cross_entropy_sum, nan_counts_where_its_row_does) {
  const double values[] = {NAN, 1, 0, 0, INFINITY, -INFINITY};
  th_tape *tape = th_tape_new();
  th_tensor *x = make(tape, dtype, TH_SHAPE(3, 2), values);
  th_tensor *t = th_input(tape, TH_I32, TH_SHAPE(3), (int32_t[]){TH_IGNORE, 1, TH_IGNORE});
  th_tensor *y = th_cross_entropy_sum(tape, x, t);
  expect_values("y", y, (double[]){log(2)}, 1e-7);
  cr_assert_eq(th_backward(tape, y), TH_OK);
  expect_values("dx", th_tensor_grad(x), (double[]){0, 0, 0.5, -0.5, 0, 0}, 1e-7);
  t = th_input(tape, TH_I32, TH_SHAPE(3), (int32_t[]){1, 1, TH_IGNORE});
  cr_assert(isnan(
      th_tensor_item(th_cross_entropy_sum(tape, make(tape, dtype, TH_SHAPE(3, 2), values), t))));
  th_tape_free(tape);
}

TEST_BOTH(cross_entropy_sum, forms_of_input) {
  const golden goldens[] = GOLDENS;
  expect_forms(dtype, th_cross_entropy_sum, &goldens[0]);
}

/* Views of targets count what they show. */
Test(counted_targets, counts_all_but_ignored_ones) {
  const int32_t labels[] = {0, TH_IGNORE, 5, TH_IGNORE, TH_IGNORE, -7};
  th_tape *tape = th_tape_new();
  th_tensor *t = th_input(tape, TH_I32, TH_SHAPE(2, 3), labels);
  cr_assert_eq(th_counted_targets(t), 3);
  cr_assert_eq(th_counted_targets(th_transpose(tape, t, 0, 1)), 3);
  cr_assert_eq(th_counted_targets(th_slice(tape, t, 1, 0, 1)), 1);
  cr_assert_eq(th_counted_targets(th_slice(tape, t, 1, 1, 2)), 0);
  cr_assert_eq(th_counted_targets(th_slice(tape, t, 1, 2, 3)), 2);
  cr_assert_eq(th_counted_targets(th_input(tape, TH_I32, TH_SHAPE(0), NULL)), 0);
  cr_assert_eq(th_counted_targets(th_input(tape, TH_I32, TH_SCALAR, labels)), 1);
  cr_assert_eq(th_counted_targets(th_input(tape, TH_F32, TH_SHAPE(2), NULL)), -1);
  cr_assert_eq(th_counted_targets(NULL), -1);
  th_tape_free(tape);
}

Test(cross_entropy_sum, rejects) { expect_rejects(th_cross_entropy_sum, "cross_entropy_sum"); }
