/* mul: goldens, the naive loop over every way to stretch, C09, C12, NaN, threads, rejection. */
#include "broadcast.h"

#include "golden/mul.inc"

TEST_BOTH(mul, golden) {
  GOLDEN(mul, same);
  GOLDEN(mul, row);
  GOLDEN(mul, column_row);
  GOLDEN(mul, leading);
  GOLDEN(mul, inner);
  GOLDEN(mul, scalar);
}

/* C12: a column times a row, summed: da = 1111 each, db = 10 each, in the operands' shapes. */
TEST_BOTH(mul, stretched_operands_get_the_sum) { GOLDEN(mul, outer); }

static double product(double a, double b) { return a * b; }
static double first(double a, double b) { return (void)b, a; }
static double second(double a, double b) { return (void)a, b; }

TEST_BOTH(mul, equals_the_naive_loop) {
  expect_naive_everywhere(dtype, th_mul, product, second, first);
}

/* C09 (c): x = 1: x (x 1) + (x x) 1 + x (x 1), gradient 6; and x x at 3, gradient 6. */
TEST_BOTH(mul, value_used_more_than_once) {
  th_tape *tape = th_tape_new();
  th_tensor *one = make(tape, dtype, TH_SCALAR, (double[]){1});
  th_tensor *x = make(tape, dtype, TH_SCALAR, (double[]){1});
  th_tensor *y = th_mul(tape, x, th_mul(tape, x, one));
  y = th_add(tape, y, th_mul(tape, th_mul(tape, x, x), one));
  y = th_add(tape, y, th_mul(tape, x, th_mul(tape, x, one)));
  cr_assert_eq(th_backward(tape, y), TH_OK);
  cr_assert_eq(th_tensor_item(th_tensor_grad(x)), 6);
  th_tape_reset(tape);
  x = make(tape, dtype, TH_SHAPE(2), (double[]){3, -4});
  backward_from(tape, th_mul(tape, x, x), (double[]){1, 10});
  expect_values("dx", th_tensor_grad(x), (double[]){6, -80}, 0);
  th_tape_free(tape);
}

/* C09 (a): x = 2, y = 3 x, c = 2 y + 5 y: gradient 21. */
TEST_BOTH(mul, inner_value_used_twice) {
  th_tape *tape = th_tape_new();
  th_tensor *x = make(tape, dtype, TH_SCALAR, (double[]){2});
  th_tensor *y = th_mul(tape, make(tape, dtype, TH_SCALAR, (double[]){3}), x);
  th_tensor *c = th_add(tape, th_mul(tape, make(tape, dtype, TH_SCALAR, (double[]){2}), y),
                        th_mul(tape, make(tape, dtype, TH_SCALAR, (double[]){5}), y));
  cr_assert_eq(th_backward(tape, c), TH_OK);
  cr_assert_eq(th_tensor_item(th_tensor_grad(x)), 21);
  th_tape_free(tape);
}

TEST_BOTH(mul, gradients_accumulate) {
  th_error error;
  th_tensor *row = th_tensor_new(dtype, TH_SHAPE(2), &error);
  cr_assert_eq(th_tensor_require_grad(row, &error), TH_OK);
  th_tensor_write(row, (double[]){2, 3});
  th_tensor_write(th_tensor_grad(row), (double[]){100, 200});
  th_tape *tape = th_tape_new();
  th_tensor *x = make(tape, dtype, TH_SHAPE(2, 2), (double[]){1, 2, 3, 4});
  backward_from(tape, th_mul(tape, x, row), (double[]){1, 10, 100, 1000});
  expect_values("drow", th_tensor_grad(row), (double[]){401, 4220}, 0);
  expect_values("dx", th_tensor_grad(x), (double[]){2, 30, 200, 3000}, 0);
  th_tape_free(tape);
  th_tensor_free(row);
}

TEST_BOTH(mul, nan_and_inf_come_through) {
  th_tape *tape = th_tape_new();
  th_tensor *a = make(tape, dtype, TH_SHAPE(4), (double[]){0, NAN, INFINITY, INFINITY});
  th_tensor *b = make(tape, dtype, TH_SHAPE(4), (double[]){NAN, 0, 2, 0});
  double y[4];
  th_tensor_read(th_mul(tape, a, b), y);
  cr_assert(isnan(y[0]) && isnan(y[1]) && isinf(y[2]) && isnan(y[3]));
  th_tape_free(tape);
}

Test(mul, threads_do_not_matter) { expect_same_bits_everywhere(th_mul); }

Test(mul, rejects) { expect_rejects(th_mul, "mul: "); }
