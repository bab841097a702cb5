/* mean: goldens, the naive loop, exactness, accumulation, threads, empty tensors, NaN. */
#include "reduce.h"

#include "golden/mean.inc"

TEST_BOTH(mean, golden) { GOLDENS(mean); }
TEST_BOTH(mean, equals_the_naive_loop) { expect_naive_everywhere(dtype, th_mean, true); }
TEST_BOTH(mean, gradients_accumulate) { expect_accumulates(dtype, th_mean, 0.5); }
Test(mean, threads_do_not_matter) { expect_same_bits(th_mean); }
Test(mean, rejects) { expect_rejects(th_mean, "mean: "); }

/* The mean of equal numbers is that number, whatever their count: divided, not times 1/n. */
TEST_BOTH(mean, of_equal_numbers_is_exact) {
  th_tape *tape = th_tape_new();
  for (ptrdiff_t n = 1; n < 200; n++) {
    th_tensor *x = th_input(tape, dtype, TH_SHAPE(n, 2), NULL);
    for (ptrdiff_t i = 0; i < 2 * n; i++) th__set(x, i, 1);
    cr_assert_eq(th_tensor_item(th_mean(tape, x, TH_ALL_AXES)), 1);
    expect_values("columns", th_mean(tape, x, 0), (double[]){1, 1}, 0);
    expect_values("one column", th_mean(tape, th_slice(tape, x, 1, 0, 1), 0), (double[]){1}, 0);
    th_tape_reset(tape);
  }
  th_tape_free(tape);
}

/* mean = sum / n, forward and backward. */
TEST_BOTH(mean, is_the_sum_divided) {
  const double values[] = {1, 2, 3, 4, 5, 6, 7, 8}, dy[] = {1, -2};
  th_tape *tape = th_tape_new();
  th_tensor *x = make(tape, dtype, TH_SHAPE(2, 4), values);
  th_tensor *z = make(tape, dtype, TH_SHAPE(2, 4), values);
  th_tensor *y = th_add(tape, th_mean(tape, x, 1), th_scale(tape, th_sum(tape, z, 1), 0.25));
  expect_values("y", y, (double[]){5, 13}, 0);
  backward_from(tape, y, dy);
  double dz[8];
  th_tensor_read(th_tensor_grad(z), dz);
  expect_values("dx", th_tensor_grad(x), dz, 0);
  th_tape_free(tape);
}

Test(mean, of_nothing_is_refused) {
  th_tape *tape = th_tape_new();
  th_tensor *x = th_input(tape, TH_F32, TH_SHAPE(2, 0, 3), NULL);
  cr_assert_null(th_mean(tape, x, TH_ALL_AXES));
  expect_error(tape, TH_ERR_SHAPE, "no element to take the mean of in shape [2, 0, 3]");
  cr_assert_null(th_mean(tape, x, 1));
  expect_error(tape, TH_ERR_SHAPE, "no element");
  cr_assert_eq(th_tensor_count(th_mean(tape, x, 2)), 0, "two times nothing: no mean is taken");
  th_tape_free(tape);
}

TEST_BOTH(mean, nan_comes_through) {
  th_tape *tape = th_tape_new();
  th_tensor *x = make(tape, dtype, TH_SHAPE(2, 2), (double[]){1, NAN, 2, 3});
  cr_assert(isnan(th_tensor_item(th_mean(tape, x, TH_ALL_AXES))));
  double y[2];
  th_tensor_read(th_mean(tape, x, 0), y);
  cr_assert(y[0] == 1.5 && isnan(y[1]));
  th_tape_free(tape);
}
