/* layer_norm: goldens, exact edges (C08), large means, properties, strides, threads, rejection. */
#include "norm.h"

#include "golden/layer_norm.inc"

#define G(name, part) golden_layer_norm_##name##_##part
static const golden goldens[] = {PLAIN(plain),       GAIN(gain),     BOTH(gain_bias),
                                 BOTH(eps),          BOTH(wide),     PLAIN(offset),
                                 BOTH(constant_row), BOTH(zero_row), BOTH(length_one)};

TEST_BOTH(layer_norm, golden) {
  for (size_t i = 0; i < sizeof goldens / sizeof *goldens; i++)
    expect_golden(dtype, th_layer_norm, &goldens[i], 1);
}

Test(layer_norm, gradients) { check_gradients("layer_norm"); }
TEST_BOTH(layer_norm, two_uses_add_up) { expect_golden(dtype, th_layer_norm, &goldens[2], 2); }
TEST_BOTH(layer_norm, strided_inputs) { expect_strided(dtype, th_layer_norm, &goldens[3]); }
TEST_BOTH(layer_norm, a_value_as_its_own_gain) { expect_own_gain(dtype, th_layer_norm); }
TEST_BOTH(layer_norm, same_bits_at_any_number_of_threads) {
  expect_same_bits(dtype, th_layer_norm);
}
TEST_BOTH(layer_norm, zero_sizes) { expect_zero_sizes(dtype, th_layer_norm); }
Test(layer_norm, rejects) { expect_rejects(th_layer_norm, "layer_norm: "); }

/* C08: a constant row of any value and length gives the bias, and a gain gradient of exactly 0. */
TEST_BOTH(layer_norm, constant_rows_are_exact) {
  const double values[] = {5, 0, 0.1, -1e6 / 3, 1e30, 1e-30, 7.7, 1e38, -3e38};
  const ptrdiff_t lengths[] = {1, 2, 3, 7, 16, 33, 768, 5000};
  th_tape *tape = th_tape_new();
  for (int v = 0; v < 9; v++)
    for (int l = 0; l < 8; l++) {
      ptrdiff_t n = lengths[l];
      th_tensor *x = th_input_grad(tape, dtype, TH_SHAPE(1, n), NULL);
      th_tensor *gain = th_input_grad(tape, dtype, TH_SHAPE(n), NULL);
      th_tensor *bias = th_input_grad(tape, dtype, TH_SHAPE(n), NULL);
      th_tensor *dy = th_input(tape, dtype, TH_SHAPE(1, n), NULL);
      th_init_normal(x, values[v], 0, (th_random){0});
      th_init_normal(gain, 1, 1, (th_random){1, 0, 0});
      th_init_normal(bias, 0, 1, (th_random){2, 0, 0});
      th_init_normal(dy, 0, 1, (th_random){3, 0, 0});
      th_tensor *y = th_layer_norm(tape, x, gain, bias, 1e-5);
      cr_assert_eq(th_backward_from(tape, y, dy), TH_OK);
      size_t bytes = (size_t)n * th_dtype_size(dtype);
      cr_assert_eq(memcmp(y->data, bias->data, bytes), 0, "%g, %td: y is not the bias", values[v],
                   n);
      for (ptrdiff_t j = 0; j < n; j++) {
        cr_assert_eq(th__get(gain->grad, j), 0, "%g, %td: d gain %g", values[v], n,
                     th__get(gain->grad, j));
        cr_assert(isfinite(th__get(x->grad, j)));
        if (n == 1) cr_assert_eq(th__get(x->grad, j), 0);
      }
      th_tape_reset(tape);
    }
  th_tape_free(tape);
}

/* A constant row gives zeros under any eps, even one whose root's inverse is no f32. */
TEST_BOTH(layer_norm, zeros_under_any_eps) {
  const double eps[] = {1e-5, 1e-30, 1e-60, 1e-90, 1e-300, 5e-324};
  th_tape *tape = th_tape_new();
  for (int i = 0; i < 6; i++) {
    th_tensor *x = make(tape, dtype, TH_SHAPE(2, 2), (double[]){3, 3, 1, -1});
    th_tensor *y = th_layer_norm(tape, x, NULL, NULL, eps[i]);
    expect_values("y", y, (double[]){0, 0, 1, -1}, 1e-5);
    backward_from(tape, y, (double[]){0, 0, 1, 1});
    expect_values("dx", th_tensor_grad(x), (double[]){0, 0, 0, 0}, 1e-5);
    th_tape_reset(tape);
  }
  th_tape_free(tape);
}

/* C08: the reported row, whose gradient is that of eps alone. */
TEST_BOTH(layer_norm, constant_row_has_a_gradient) {
  const double want[] = {-474.3416490253, -158.1138830084, 158.1138830084, 474.3416490253};
  th_tape *tape = th_tape_new();
  for (int i = 0; i < 2; i++) {
    double c = i == 0 ? 5 : 0;
    th_tensor *x = make(tape, dtype, TH_SHAPE(1, 4), (double[]){c, c, c, c});
    backward_from(tape, th_layer_norm(tape, x, NULL, NULL, 1e-5), (double[]){1, 2, 3, 4});
    expect_relative("dx", th_tensor_grad(x), want, dtype == TH_F32 ? 1e-6 : 1e-12);
    th_tape_reset(tape);
  }
  th_tape_free(tape);
}

/* The values, shifted by exactly representable amounts, give the same result to rounding. */
Test(layer_norm, large_mean_costs_no_digits) {
  th_tape *tape = th_tape_new();
  for (double shift = 0; shift < 2e5; shift = shift * 4 + 1024) {
    double values[96], dy[96], y[96], dx[96];
    for (int j = 0; j < 96; j++) {
      values[j] = (double)((j * 37) % 64) / 16; /* still exact in f32 beside 2^17 */
      dy[j] = (double)((j * 29) % 31) / 16 - 1;
    }
    th_tensor *exact = make(tape, TH_F64, TH_SHAPE(1, 96), values);
    th_tensor *want = th_layer_norm(tape, exact, NULL, NULL, 1e-5);
    th_tensor_read(want, y);
    backward_from(tape, want, dy);
    th_tensor_read(th_tensor_grad(exact), dx);
    th_tape_reset(tape);
    for (int j = 0; j < 96; j++) values[j] += shift;
    th_tensor *x = make(tape, TH_F32, TH_SHAPE(1, 96), values);
    th_tensor *got = th_layer_norm(tape, x, NULL, NULL, 1e-5);
    expect_values("y", got, y, 2e-6);
    backward_from(tape, got, dy);
    expect_values("dx", th_tensor_grad(x), dx, 2e-6);
    th_tape_reset(tape);
  }
  th_tape_free(tape);
}

TEST_BOTH(layer_norm, rows_of_the_gradient_sum_to_zero) {
  th_tape *tape = th_tape_new();
  th_tensor *x = th_input_grad(tape, dtype, TH_SHAPE(20, 37), NULL);
  th_tensor *dy = th_input(tape, dtype, TH_SHAPE(20, 37), NULL);
  th_init_normal(x, 3, 2, (th_random){1, 0, 0});
  th_init_normal(dy, 0, 1, (th_random){2, 0, 0});
  th_backward_from(tape, th_layer_norm(tape, x, NULL, NULL, 1e-5), dy);
  for (ptrdiff_t i = 0; i < 20; i++) {
    double sum = 0;
    for (ptrdiff_t j = 0; j < 37; j++) sum += th__get(x->grad, i * 37 + j);
    cr_assert(fabs(sum) < (dtype == TH_F32 ? 1e-5 : 1e-14), "row %td: %g", i, sum);
  }
  th_tape_free(tape);
}

Test(layer_norm, nan_stays_in_its_row) {
  th_tape *tape = th_tape_new();
  th_tensor *x = make(tape, TH_F32, TH_SHAPE(2, 3), (double[]){1, NAN, 2, 1, 2, 3});
  const float *y = th_tensor_data(th_layer_norm(tape, x, NULL, NULL, 1e-5));
  for (int i = 0; i < 6; i++) cr_assert(i < 3 ? isnan(y[i]) : isfinite(y[i]));
  th_tape_free(tape);
}

Test(layer_norm, rejects_a_bias_of_another_length) {
  th_tape *tape = th_tape_new();
  th_tensor *x = th_input(tape, TH_F32, TH_SHAPE(2, 3), NULL);
  cr_assert_null(th_layer_norm(tape, x, NULL, th_input(tape, TH_F32, TH_SHAPE(4), NULL), 1e-5));
  expect_error(tape, TH_ERR_SHAPE, "the bias is [4]");
  th_tape_free(tape);
}
