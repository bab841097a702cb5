/* sub: goldens, the naive loop over every way to stretch, properties, NaN, threads, rejection. */
#include "broadcast.h"

#include "golden/sub.inc"

TEST_BOTH(sub, golden) {
  GOLDEN(sub, same);
  GOLDEN(sub, row);
  GOLDEN(sub, column_row);
  GOLDEN(sub, leading);
  GOLDEN(sub, inner);
  GOLDEN(sub, scalar);
}

static double difference(double a, double b) { return a - b; }
static double plus(double a, double b) { return (void)a, (void)b, 1; }
static double minus(double a, double b) { return (void)a, (void)b, -1; }

TEST_BOTH(sub, equals_the_naive_loop) {
  expect_naive_everywhere(dtype, th_sub, difference, plus, minus);
}

/* x - x: exactly 0, and the two gradients cancel exactly. */
TEST_BOTH(sub, same_operand_twice) {
  th_tape *tape = th_tape_new();
  th_tensor *x = make(tape, dtype, TH_SHAPE(3), (double[]){1.5, -2.25, 1e30});
  th_tensor *y = th_sub(tape, x, x);
  expect_values("y", y, (double[]){0, 0, 0}, 0);
  backward_from(tape, y, (double[]){3, 4, 5});
  expect_values("dx", th_tensor_grad(x), (double[]){0, 0, 0}, 0);
  th_tape_free(tape);
}

/* (a - b) twice, and a gradient that is there already. */
TEST_BOTH(sub, gradients_accumulate) {
  th_error error;
  th_tensor *row = th_tensor_new(dtype, TH_SHAPE(2), &error);
  cr_assert_eq(th_tensor_require_grad(row, &error), TH_OK);
  th_tensor_write(th_tensor_grad(row), (double[]){100, 200});
  th_tape *tape = th_tape_new();
  th_tensor *x = make(tape, dtype, TH_SHAPE(2, 2), (double[]){1, 2, 3, 4});
  backward_from(tape, th_sub(tape, th_sub(tape, x, row), row), (double[]){1, 2, 10, 20});
  expect_values("drow", th_tensor_grad(row), (double[]){78, 156}, 0);
  expect_values("dx", th_tensor_grad(x), (double[]){1, 2, 10, 20}, 0);
  th_tape_free(tape);
  th_tensor_free(row);
}

TEST_BOTH(sub, nan_and_inf_come_through) {
  th_tape *tape = th_tape_new();
  th_tensor *a = make(tape, dtype, TH_SHAPE(4), (double[]){1, NAN, INFINITY, INFINITY});
  th_tensor *b = make(tape, dtype, TH_SHAPE(4), (double[]){NAN, 1, 1, INFINITY});
  double y[4];
  th_tensor_read(th_sub(tape, a, b), y);
  cr_assert(isnan(y[0]) && isnan(y[1]) && isinf(y[2]) && isnan(y[3]));
  th_tape_free(tape);
}

Test(sub, threads_do_not_matter) { expect_same_bits_everywhere(th_sub); }

Test(sub, rejects) { expect_rejects(th_sub, "sub: "); }
