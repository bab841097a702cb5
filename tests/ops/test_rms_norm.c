/* rms_norm: goldens, rows at the edges of the number range, properties, strides, threads, rejection. */
#include "norm.h"

#include "golden/rms_norm.inc"

#define G(name, part) golden_rms_norm_##name##_##part
static const golden goldens[] = {PLAIN(plain), GAIN(gain),     GAIN(eps),
                                 GAIN(wide),   GAIN(zero_row), GAIN(length_one)};

static th_tensor *without_bias(th_tape *tape, th_tensor *x, th_tensor *gain, th_tensor *bias,
                               double eps) {
  (void)bias;
  return th_rms_norm(tape, x, gain, eps);
}

TEST_BOTH(rms_norm, golden) {
  for (size_t i = 0; i < sizeof goldens / sizeof *goldens; i++)
    expect_golden(dtype, without_bias, &goldens[i], 1);
}

Test(rms_norm, gradients) { check_gradients("rms_norm"); }
TEST_BOTH(rms_norm, two_uses_add_up) { expect_golden(dtype, without_bias, &goldens[1], 2); }
TEST_BOTH(rms_norm, strided_inputs) { expect_strided(dtype, without_bias, &goldens[2]); }
TEST_BOTH(rms_norm, a_value_as_its_own_gain) { expect_own_gain(dtype, without_bias); }
TEST_BOTH(rms_norm, same_bits_at_any_number_of_threads) { expect_same_bits(dtype, without_bias); }
TEST_BOTH(rms_norm, zero_sizes) { expect_zero_sizes(dtype, without_bias); }
Test(rms_norm, rejects) { expect_rejects(without_bias, "rms_norm: "); }

/* 1 - z^2 cancels: the gradient of a lone number keeps its relative accuracy. */
TEST_BOTH(rms_norm, one_number) {
  const double values[] = {0, 1e-3, 0.5, -3, 1e4};
  th_tape *tape = th_tape_new();
  for (int i = 0; i < 5; i++) {
    th_tensor *x = make(tape, dtype, TH_SHAPE(1, 1), &values[i]);
    double v = th__get(x, 0), r = 1 / sqrt(v * v + 1e-5);
    backward_from(tape, th_rms_norm(tape, x, NULL, 1e-5), (double[]){0.75});
    expect_relative("dx", th_tensor_grad(x), (double[]){0.75 * 1e-5 * r * r * r},
                    dtype == TH_F32 ? 1e-6 : 1e-14);
    th_tape_reset(tape);
  }
  th_tape_free(tape);
}

/* +-size and 3 size: y does not depend on the size as long as eps is small beside its square. */
static void row_of(th_dtype dtype, double size, double eps) {
  th_tape *tape = th_tape_new();
  double rows[] = {size, -size, size, -size, 3 * size, size, -size, -3 * size};
  th_tensor *x = make(tape, dtype, TH_SHAPE(2, 4), rows);
  th_tensor *gain = make(tape, dtype, TH_SHAPE(4), (double[]){1, 1, 1, 1});
  th_tensor *y = th_rms_norm(tape, x, gain, eps);
  double r = sqrt(5);
  expect_relative("y", y, (double[]){1, -1, 1, -1, 3 / r, 1 / r, -1 / r, -3 / r},
                  dtype == TH_F32 ? 1e-6 : 1e-14);
  double small = fmin(size, 1); /* so that the gradient is a number */
  backward_from(tape, y, (double[]){small, 2 * small, 3 * small, 5 * small, 0, 0, 0, small});
  expect_values("dgain", th_tensor_grad(gain),
                (double[]){small, -2 * small, 3 * small, -5 * small - 3 / r * small},
                tolerances[dtype].gradient);
  double want[8] = {0}, per = small / size;
  double h[] = {1.75, 1.25, 3.75, 4.25}; /* 1 2 3 5 + 3/4 of the signs of x */
  for (int i = 0; i < 4; i++) want[i] = h[i] * per;
  const double z[] = {3 / r, 1 / r, -1 / r, -3 / r};
  for (int i = 0; i < 4; i++) want[4 + i] = per / r * ((i == 3) + z[i] * 3 / r / 4);
  if (per >= 1e-36) /* below, gradients are subnormal and become 0 */
    expect_relative("dx", th_tensor_grad(x), want, dtype == TH_F32 ? 1e-5 : 1e-13);
  else
    for (int i = 0; i < 8; i++) cr_assert(isfinite(th__get(th_tensor_grad(x), i)));
  th_tape_free(tape);
}

TEST_BOTH(rms_norm, sizes_whose_squares_are_no_numbers) {
  const double sizes[] = {1, 1e4, 1e18, 1e19, 1e20, 1e30, 9e37, 1e38};
  for (int i = 0; i < 8; i++) row_of(dtype, sizes[i], 1e-20);
  if (dtype == TH_F64) row_of(dtype, 1e200, 1e-5);
  if (dtype == TH_F64) row_of(dtype, 5e307, 1e-5);
  const double tiny[] = {1e-15, 1e-19, 1e-22, 1e-30, 1e-37};
  for (int i = 0; i < 5; i++) row_of(dtype, tiny[i], 1e-100);
  if (dtype == TH_F64) row_of(dtype, 1e-145, 1e-307);
}

/* Tiny values beside a usual eps are x / sqrt(eps), and no gradient is infinite. */
TEST_BOTH(rms_norm, tiny_beside_eps) {
  th_tape *tape = th_tape_new();
  const double r = 1 / sqrt(1e-5);
  th_tensor *x = make(tape, dtype, TH_SHAPE(3), (double[]){1e-30, -2e-30, 3e-30});
  th_tensor *y = th_rms_norm(tape, x, NULL, 1e-5);
  expect_relative("y", y, (double[]){1e-30 * r, -2e-30 * r, 3e-30 * r}, 1e-6);
  backward_from(tape, y, (double[]){1, 2, -3});
  expect_relative("dx", th_tensor_grad(x), (double[]){r, 2 * r, -3 * r}, 1e-6);
  th_tape_free(tape);
}

/* A row of zeros gives zeros under any eps, even one whose root's inverse is no f32. */
TEST_BOTH(rms_norm, zeros) {
  const double eps[] = {1e-5, 1e-30, 1e-60, 1e-90, 1e-300, 5e-324};
  th_tape *tape = th_tape_new();
  for (int i = 0; i < 6; i++) {
    th_tensor *x = make(tape, dtype, TH_SHAPE(2, 2), (double[]){0, 0, 1, -1});
    th_tensor *y = th_rms_norm(tape, x, NULL, eps[i]);
    expect_values("y", y, (double[]){0, 0, 1, -1}, 1e-5);
    backward_from(tape, y, (double[]){0, 0, 1, 1});
    expect_values("dx", th_tensor_grad(x), (double[]){0, 0, 1, 1}, 1e-5);
    th_tape_reset(tape);
  }
  th_tape_free(tape);
}

/* The gradient stands at right angles to x: y does not change when x is scaled. */
TEST_BOTH(rms_norm, the_size_of_a_row_is_lost) {
  th_tape *tape = th_tape_new();
  th_tensor *x = th_input_grad(tape, dtype, TH_SHAPE(20, 37), NULL);
  th_tensor *gain = th_input(tape, dtype, TH_SHAPE(37), NULL);
  th_tensor *dy = th_input(tape, dtype, TH_SHAPE(20, 37), NULL);
  th_init_normal(x, 1, 2, (th_random){1, 0, 0});
  th_init_normal(dy, 0, 1, (th_random){2, 0, 0});
  th_init_normal(gain, 1, 1, (th_random){3, 0, 0});
  th_tensor *y = th_rms_norm(tape, x, gain, 1e-12);
  double scaled[740];
  th_tensor_read(th_rms_norm(tape, th_scale(tape, x, 7), gain, 1e-12), scaled);
  expect_values("f(7 x)", y, scaled, dtype == TH_F32 ? 4e-6 : 1e-12);
  th_backward_from(tape, y, dy);
  for (ptrdiff_t i = 0; i < 20; i++) {
    double sum = 0;
    for (ptrdiff_t j = 0; j < 37; j++) sum += th__get(x->grad, i * 37 + j) * th__get(x, i * 37 + j);
    cr_assert(fabs(sum) < (dtype == TH_F32 ? 2e-5 : 1e-11), "row %td: %g", i, sum);
  }
  th_tape_free(tape);
}

TEST_BOTH(rms_norm, nan_and_infinity_stay_in_their_row) {
  th_tape *tape = th_tape_new();
  double rows[] = {1, NAN, 2, 1, INFINITY, 2, 1, 2, 3};
  th_tensor *y = th_rms_norm(tape, make(tape, dtype, TH_SHAPE(3, 3), rows), NULL, 1e-5);
  for (int i = 0; i < 9; i++)
    cr_assert(i < 6 ? isnan(th__get(y, i)) : isfinite(th__get(y, i)), "%d", i);
  th_tape_free(tape);
}
