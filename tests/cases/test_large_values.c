/* large values: what is finite and large gives the right number, not 0 and not infinity. */
#include "../support.h"

/* Rows whose sum or squares are no float (no double), or vanish: y as for any other size, and dx shrinks
 * or grows with it. The second row's mean is not 0. */
static void norm_of(th_dtype dtype, double size, double eps) {
  double limit = dtype == TH_F32 ? 1e-5 : 1e-12, small = fmin(size, 1); /* dx stays a number */
  double rows[] = {size, -size, size, -size, 3 * size, 3 * size, 3 * size, -size};
  double r = 1 / sqrt(3), z[] = {1, -1, 1, -1, r, r, r, -3 * r}, dy[] = {1, 2, 3, 5, 0, 0, 6, 0};
  for (int i = 0; i < 8; i++) dy[i] *= small;
  th_tape *tape = th_tape_new();
  th_tensor *x = make(tape, dtype, TH_SHAPE(2, 4), rows);
  th_tensor *gain = make(tape, dtype, TH_SHAPE(4), (double[]){1, 1, 1, 1});
  th_tensor *bias = make(tape, dtype, TH_SHAPE(4), (double[]){0, 0, 0, 0});
  expect_relative("plain y", th_layer_norm(tape, x, NULL, NULL, eps), z, limit);
  th_tensor *y = th_layer_norm(tape, x, gain, bias, eps);
  expect_relative("y", y, z, limit);
  backward_from(tape, y, dy);
  expect_relative("dgain", th_tensor_grad(gain),
                  (double[]){small, -2 * small, (3 + 6 * r) * small, -5 * small}, limit);
  expect_relative("dbias", th_tensor_grad(bias), (double[]){small, 2 * small, 9 * small, 5 * small},
                  limit);
  double per = small / size;
  double want[] = {-per, -1.5 * per, per, 1.5 * per};
  for (int j = 0; j < 8; j++) {
    double mean = 1.5 * small, slope = 1.5 * r * small, h = j == 6 ? 6 * small : 0;
    double wanted = j < 4 ? want[j] : (h - mean - z[j] * slope) / (sqrt(3) * size);
    double got = th__get(th_tensor_grad(x), j);
    if (per >= 1e-36) /* below, gradients are subnormal and become 0 */
      cr_assert(fabs(got - wanted) <= 4 * limit * per, "size %g: dx[%d] %g, not %g", size, j, got,
                wanted);
    else
      cr_assert(isfinite(got));
  }
  th_tape_free(tape);
}

TEST_BOTH(large_values, layer_norm) {
  const double sizes[] = {1, 1e4, 1e18, 1e19, 1e20, 1e30, 5e37, 9e37, 1e38};
  for (int i = 0; i < 9; i++) norm_of(dtype, sizes[i], 1e-20);
  if (dtype == TH_F64) norm_of(dtype, 1e200, 1e-5);
  if (dtype == TH_F64) norm_of(dtype, 2e307, 1e-5);
  const double tiny[] = {1e-15, 1e-19, 1e-22, 1e-30, 1e-37};
  for (int i = 0; i < 5; i++) norm_of(dtype, tiny[i], 1e-100);
  if (dtype == TH_F64) norm_of(dtype, 1e-145, 1e-307);
}

/* Beside an upstream gradient of their own size, rows near the largest f32 have gradients like others. */
Test(large_values, layer_norm_keeps_the_gradient_of_the_largest_rows) {
  const double rows[] = {1e38, -1e38, 1e38, -1e38}, dy[] = {1e30, 2e30, 3e30, 5e30};
  th_tape *tape = th_tape_new();
  th_tensor *x = make(tape, TH_F32, TH_SHAPE(1, 4), rows);
  backward_from(tape, th_layer_norm(tape, x, NULL, NULL, 1e-5), dy);
  expect_relative("dx", th_tensor_grad(x), (double[]){-1e-8, -1.5e-8, 1e-8, 1.5e-8}, 1e-5);
  th_tape_free(tape);
}

Test(large_values, layer_norm_of_infinity_is_not_a_number) {
  th_tape *tape = th_tape_new();
  th_tensor *x = make(tape, TH_F32, TH_SHAPE(4), (double[]){1, (double)INFINITY, 2, 3});
  cr_assert(isnan(th__get(th_layer_norm(tape, x, NULL, NULL, 1e-5), 0)));
  th_tape_free(tape);
}

/* C06 further out: equal logits give log 2 however large. */
TEST_BOTH(large_values, cross_entropy) {
  const double sizes[] = {1e8, -1e8, 1e30, -3e38};
  const int32_t target = 1;
  th_tape *tape = th_tape_new();
  for (int i = 0; i < 4; i++) {
    th_tensor *x = make(tape, dtype, TH_SHAPE(1, 2), (double[]){sizes[i], sizes[i]});
    th_tensor *loss = th_cross_entropy(tape, x, th_input(tape, TH_I32, TH_SHAPE(1), &target));
    expect_values("loss", loss, (double[]){log(2)}, tolerances[dtype].value);
    cr_assert_eq(th_backward(tape, loss), TH_OK);
    expect_values("dx", th_tensor_grad(x), (double[]){0.5, -0.5}, tolerances[dtype].gradient);
    th_tape_reset(tape);
  }
  th_tape_free(tape);
}
