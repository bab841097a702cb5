/* sum: goldens, the naive loop, accuracy of long sums, accumulation, threads, empty tensors, NaN. */
#include "reduce.h"

#include "golden/sum.inc"

TEST_BOTH(sum, golden) { GOLDENS(sum); }
TEST_BOTH(sum, equals_the_naive_loop) { expect_naive_everywhere(dtype, th_sum, false); }
TEST_BOTH(sum, gradients_accumulate) { expect_accumulates(dtype, th_sum, 1); }
Test(sum, threads_do_not_matter) { expect_same_bits(th_sum); }
Test(sum, rejects) { expect_rejects(th_sum, "sum: "); }

/* A million f32 numbers: right to the last rounding, over everything and along either axis. */
Test(sum, long_sums_are_accurate) {
  enum { rows = 1000000 };
  th_tape *tape = th_tape_new();
  th_tensor *x = th_input(tape, TH_F32, TH_SHAPE(rows, 1), NULL);
  th_init_uniform(x, 0, 1, (th_random){1, 1, 1});
  const float *values = th_tensor_data(x);
  double want = 0;
  for (int i = 0; i < rows; i++) want += (double)values[i];
  expect_relative("all", th_sum(tape, x, TH_ALL_AXES), &want, 6e-8);
  expect_relative("one axis", th_sum(tape, x, 0), &want, 6e-8);
  double pair[] = {0, 0};
  for (int i = 0; i < rows; i++) pair[i % 2] += (double)values[i];
  th_tensor *columns = th_reshape(tape, x, TH_SHAPE(rows / 2, 2));
  expect_relative("columns", th_sum(tape, columns, 0), pair, 6e-8);
  th_tape_free(tape);
}

/* The gradient of sum(x) is 1 everywhere, also through a view, whose rest gets 0. */
TEST_BOTH(sum, of_a_strided_view) {
  th_tape *tape = th_tape_new();
  th_tensor *x = make(tape, dtype, TH_SHAPE(3, 2), (double[]){1, 2, 3, 4, 5, 6});
  th_tensor *y = th_sum(tape, th_slice(tape, x, 1, 1, 2), TH_ALL_AXES);
  cr_assert_eq(th_tensor_item(y), 12);
  cr_assert_eq(th_backward(tape, y), TH_OK);
  expect_values("dx", th_tensor_grad(x), (double[]){0, 1, 0, 1, 0, 1}, 0);
  th_tape_free(tape);
}

TEST_BOTH(sum, of_nothing_is_zero) {
  th_tape *tape = th_tape_new();
  th_tensor *x = th_input_grad(tape, dtype, TH_SHAPE(2, 0, 3), NULL);
  cr_assert_eq(th_tensor_item(th_sum(tape, x, TH_ALL_AXES)), 0);
  th_tensor *y = th_sum(tape, x, 1);
  expect_values("y", y, (double[]){0, 0, 0, 0, 0, 0}, 0);
  backward_from(tape, y, (double[]){1, 2, 3, 4, 5, 6});
  cr_assert_eq(th_tensor_count(th_sum(tape, x, 0)), 0);
  cr_assert_eq(th_tape_status(tape), TH_OK);
  th_tape_free(tape);
}

TEST_BOTH(sum, of_a_scalar) {
  th_tape *tape = th_tape_new();
  th_tensor *x = make(tape, dtype, TH_SCALAR, (double[]){3});
  th_tensor *y = th_sum(tape, x, TH_ALL_AXES);
  cr_assert_eq(th_tensor_item(y), 3);
  cr_assert_eq(th_backward(tape, y), TH_OK);
  cr_assert_eq(th_tensor_item(th_tensor_grad(x)), 1);
  th_tape_free(tape);
}

TEST_BOTH(sum, nan_comes_through) {
  th_tape *tape = th_tape_new();
  th_tensor *x = make(tape, dtype, TH_SHAPE(2, 2), (double[]){1, NAN, 2, INFINITY});
  cr_assert(isnan(th_tensor_item(th_sum(tape, x, TH_ALL_AXES))));
  double y[2];
  th_tensor_read(th_sum(tape, x, 0), y);
  cr_assert(y[0] == 3 && isnan(y[1]));
  th_tensor_read(th_sum(tape, x, 1), y);
  cr_assert(isnan(y[0]) && isinf(y[1]));
  th_tape_free(tape);
}
