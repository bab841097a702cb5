/* bias: goldens, C12, agreement with add, accumulation, views, threads, rejection. */
#include "broadcast.h"

#include "golden/bias.inc"

#define CASE(name)                                                                                 \
  TEST_BOTH(bias, golden_##name) {                                                                 \
    th_tape *tape = th_tape_new();                                                                 \
    th_tensor *x = make(tape, dtype, LENGTH(golden_bias_##name##_x_shape),                         \
                        golden_bias_##name##_x_shape, golden_bias_##name##_x);                     \
    th_tensor *b =                                                                                 \
        make(tape, dtype, 1, golden_bias_##name##_bias_shape, golden_bias_##name##_bias);          \
    th_tensor *y = th_bias(tape, x, b);                                                            \
    expect_values("y", y, golden_bias_##name##_y, tolerances[dtype].value);                        \
    backward_from(tape, y, golden_bias_##name##_dy);                                               \
    expect_values("dx", th_tensor_grad(x), golden_bias_##name##_dx, tolerances[dtype].gradient);   \
    expect_values("dbias", th_tensor_grad(b), golden_bias_##name##_dbias,                          \
                  tolerances[dtype].gradient);                                                     \
    th_tape_free(tape);                                                                            \
  }
CASE(rank1)
CASE(rank2)
CASE(rank3)

/* C12: upstream of ones on 3 rows: the gradient of the bias is 3 everywhere, in the bias's shape. */
TEST_BOTH(bias, gradient_is_summed_over_rows) {
  th_tape *tape = th_tape_new();
  th_tensor *x = th_input_grad(tape, dtype, TH_SHAPE(3, 4), NULL);
  th_tensor *b = th_input_grad(tape, dtype, TH_SHAPE(4), NULL);
  backward_from(tape, th_bias(tape, x, b), (double[]){1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1});
  cr_assert_eq(th_tensor_ndim(th_tensor_grad(b)), 1);
  expect_values("dbias", th_tensor_grad(b), (double[]){3, 3, 3, 3}, 0);
  th_tape_free(tape);
}

/* A strided x and a strided bias give what add gives. */
TEST_BOTH(bias, equals_add) {
  enum { rows = 37, n = 53 };
  static double values[rows * n], dy[rows * n], db[2][2 * n], dx[2][rows * n], y[2][rows * n];
  fill(values, rows * n, 3), fill(dy, rows * n, 900);
  for (int run = 0; run < 2; run++) {
    th_tape *tape = th_tape_new();
    th_tensor *x = make(tape, dtype, TH_SHAPE(n, rows), values);
    th_tensor *two = make(tape, dtype, TH_SHAPE(n, 2), values + 100);
    th_tensor *view = th_transpose(tape, x, 0, 1);
    th_tensor *column = th_reshape(tape, th_slice(tape, two, 1, 1, 2), TH_SHAPE(n));
    cr_assert(!th_tensor_is_contiguous(view) && !th_tensor_is_contiguous(column));
    th_tensor *out = run == 0 ? th_bias(tape, view, column) : th_add(tape, view, column);
    th_tensor_read(out, y[run]);
    backward_from(tape, out, dy);
    th_tensor_read(th_tensor_grad(x), dx[run]);
    th_tensor_read(th_tensor_grad(two), db[run]);
    th_tape_free(tape);
  }
  cr_assert(memcmp(y[0], y[1], sizeof y[0]) == 0, "y differs");
  cr_assert(memcmp(dx[0], dx[1], sizeof dx[0]) == 0, "dx differs");
  cr_assert(memcmp(db[0], db[1], sizeof db[0]) == 0, "dbias differs");
  cr_assert_neq(db[0][1], 0);
  cr_assert_eq(db[0][0], 0, "the other column has no part in it");
}

TEST_BOTH(bias, gradients_accumulate) {
  th_error error;
  th_tensor *b = th_tensor_new(dtype, TH_SHAPE(2), &error);
  cr_assert_eq(th_tensor_require_grad(b, &error), TH_OK);
  th_tensor_write(th_tensor_grad(b), (double[]){100, 200});
  th_tape *tape = th_tape_new();
  th_tensor *x = make(tape, dtype, TH_SHAPE(2, 2), (double[]){1, 2, 3, 4});
  backward_from(tape, th_bias(tape, th_bias(tape, x, b), b), (double[]){1, 2, 10, 20});
  expect_values("dbias", th_tensor_grad(b), (double[]){122, 244}, 0);
  expect_values("dx", th_tensor_grad(x), (double[]){1, 2, 10, 20}, 0);
  th_tape_free(tape);
  th_tensor_free(b);
}

TEST_BOTH(bias, no_elements) {
  th_tape *tape = th_tape_new();
  th_tensor *b = make(tape, dtype, TH_SHAPE(3), (double[]){1, 2, 3});
  backward_from(tape, th_bias(tape, th_input_grad(tape, dtype, TH_SHAPE(0, 3), NULL), b), NULL);
  expect_values("dbias", th_tensor_grad(b), (double[]){0, 0, 0}, 0);
  th_tape_reset(tape);
  b = th_input_grad(tape, dtype, TH_SHAPE(0), NULL);
  backward_from(tape, th_bias(tape, th_input_grad(tape, dtype, TH_SHAPE(2, 0), NULL), b), NULL);
  th_tape_free(tape);
}

Test(bias, threads_do_not_matter) {
  const operand x = {3, {20, 40, 300}, false}, row = {1, {300}, false};
  expect_same_bits(th_bias, &x, &row);
}

Test(bias, rejects) {
  th_tape *tape = th_tape_new();
  th_tensor *x = th_input(tape, TH_F32, TH_SHAPE(3, 4), NULL);
  cr_assert_null(th_bias(tape, x, th_input(tape, TH_F32, TH_SHAPE(3), NULL)));
  expect_error(tape, TH_ERR_SHAPE, "bias: x is [3, 4] and the bias is [3]");
  cr_assert_null(th_bias(tape, x, th_input(tape, TH_F32, TH_SHAPE(1), NULL)));
  expect_error(tape, TH_ERR_SHAPE, "[1]");
  cr_assert_null(th_bias(tape, x, th_input(tape, TH_F32, TH_SHAPE(1, 4), NULL)));
  expect_error(tape, TH_ERR_SHAPE, "[1, 4]");
  cr_assert_null(th_bias(tape, th_input(tape, TH_F32, TH_SCALAR, NULL), x));
  expect_error(tape, TH_ERR_SHAPE, "x is []");
  cr_assert_null(th_bias(tape, x, th_input(tape, TH_F64, TH_SHAPE(4), NULL)));
  expect_error(tape, TH_ERR_DTYPE, "f64");
  cr_assert_null(th_bias(tape, x, NULL));
  expect_error(tape, TH_ERR_VALUE, "NULL");
  th_tape_free(tape);
}
