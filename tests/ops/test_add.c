/* add: goldens, the naive loop over every way to stretch, C09, C12, NaN, threads, rejection. */
#include "broadcast.h"

#include "golden/add.inc"

TEST_BOTH(add, golden) {
  GOLDEN(add, same);
  GOLDEN(add, row);
  GOLDEN(add, column_row);
  GOLDEN(add, leading);
  GOLDEN(add, inner);
  GOLDEN(add, scalar);
}

/* C12: a row that served three rows gets three upstream rows. */
TEST_BOTH(add, stretched_operand_gets_the_sum) { GOLDEN(add, bias_of_ones); }

static double sum(double a, double b) { return a + b; }
static double one(double a, double b) { return (void)a, (void)b, 1; }

TEST_BOTH(add, equals_the_naive_loop) { expect_naive_everywhere(dtype, th_add, sum, one, one); }

/* C09 (b): a = 1, b = a + a, c = b + b. */
TEST_BOTH(add, same_operand_twice) {
  th_tape *tape = th_tape_new();
  th_tensor *a = make(tape, dtype, TH_SCALAR, (double[]){1});
  th_tensor *b = th_add(tape, a, a);
  th_tensor *c = th_add(tape, b, b);
  cr_assert_eq(th_tensor_item(c), 4);
  cr_assert_eq(th_backward(tape, c), TH_OK);
  cr_assert_eq(th_tensor_item(th_tensor_grad(a)), 4);
  th_tape_free(tape);
}

/* A stretched operand used twice, and a gradient that is there already: all of it adds up. */
TEST_BOTH(add, gradients_accumulate) {
  th_error error;
  th_tensor *row = th_tensor_new(dtype, TH_SHAPE(3), &error);
  cr_assert_eq(th_tensor_require_grad(row, &error), TH_OK);
  th_tensor_write(th_tensor_grad(row), (double[]){100, 200, 300});
  th_tape *tape = th_tape_new();
  th_tensor *x = make(tape, dtype, TH_SHAPE(2, 3), (double[]){1, 2, 3, 4, 5, 6});
  th_tensor *y = th_add(tape, th_add(tape, x, row), row);
  backward_from(tape, y, (double[]){1, 2, 3, 10, 20, 30});
  expect_values("drow", th_tensor_grad(row), (double[]){122, 244, 366}, 0);
  expect_values("dx", th_tensor_grad(x), (double[]){1, 2, 3, 10, 20, 30}, 0);
  th_tape_free(tape);
  th_tensor_free(row);
}

/* An operand whose gradient nobody wants gets none, and costs the other nothing. */
TEST_BOTH(add, unwanted_operand) {
  th_tape *tape = th_tape_new();
  th_tensor *x = make(tape, dtype, TH_SHAPE(2), (double[]){1, 2});
  th_tensor *constant = th_input(tape, dtype, TH_SHAPE(2), NULL);
  backward_from(tape, th_add(tape, constant, x), (double[]){5, 6});
  expect_values("dx", th_tensor_grad(x), (double[]){5, 6}, 0);
  cr_assert_null(th_tensor_grad(constant));
  size_t nodes = th_tape_node_count(tape);
  cr_assert_not_null(th_add(tape, constant, constant));
  cr_assert_eq(th_tape_node_count(tape), nodes);
  th_tape_free(tape);
}

/* A long stretched sum of f32 is as good as its last rounding. */
Test(add, long_column_sum_is_accurate) {
  enum { rows = 20000 };
  th_tape *tape = th_tape_new();
  th_tensor *x = th_input(tape, TH_F32, TH_SHAPE(rows, 2), NULL);
  th_tensor *row = make(tape, TH_F32, TH_SHAPE(2), (double[]){0, 0});
  th_tensor *dy = th_input(tape, TH_F32, TH_SHAPE(rows, 2), NULL);
  th_init_uniform(dy, 0, 1, (th_random){1, 1, 1});
  double want[2] = {0, 0};
  const float *values = th_tensor_data(dy);
  for (int i = 0; i < 2 * rows; i++) want[i % 2] += (double)values[i];
  cr_assert_eq(th_backward_from(tape, th_add(tape, x, row), dy), TH_OK);
  expect_relative("drow", th_tensor_grad(row), want, 6e-8);
  th_tape_free(tape);
}

TEST_BOTH(add, nan_and_inf_come_through) {
  th_tape *tape = th_tape_new();
  th_tensor *a = make(tape, dtype, TH_SHAPE(4), (double[]){1, NAN, INFINITY, INFINITY});
  th_tensor *b = make(tape, dtype, TH_SHAPE(4), (double[]){NAN, 1, 1, -INFINITY});
  double y[4];
  th_tensor_read(th_add(tape, a, b), y);
  cr_assert(isnan(y[0]) && isnan(y[1]) && isinf(y[2]) && isnan(y[3]));
  th_tape_free(tape);
}

Test(add, threads_do_not_matter) { expect_same_bits_everywhere(th_add); }

Test(add, rejects) { expect_rejects(th_add, "add: "); }
