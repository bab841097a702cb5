/* layer_norm: goldens, exact edges (C08), large means, properties, strides, threads, rejection. */
#include "gradients.h"
#include "support.h"

#include "golden/layer_norm.inc"

typedef struct golden {
  const char *name;
  double eps;
  int ndim;
  const ptrdiff_t *shape;
  const double *x, *gain, *bias, *dy, *y, *dx, *dgain, *dbias;
} golden;

#define NDIM(shape) ((int)(sizeof(shape) / sizeof *(shape)))
#define G(name, part) golden_layer_norm_##name##_##part
#define CASE(name, gain, bias, dgain, dbias)                                                       \
  {                                                                                                \
#name, G(name, eps), NDIM(G(name, x_shape)), G(name, x_shape), G(name, x), gain, bias,         \
        G(name, dy), G(name, y), G(name, dx), dgain, dbias                                         \
  }
#define PLAIN(name) CASE(name, NULL, NULL, NULL, NULL)
#define GAIN(name) CASE(name, G(name, gain), NULL, G(name, dgain), NULL)
#define BOTH(name) CASE(name, G(name, gain), G(name, bias), G(name, dgain), G(name, dbias))
static const golden goldens[] = {PLAIN(plain),       GAIN(gain),     BOTH(gain_bias),
                                 BOTH(eps),          BOTH(wide),     PLAIN(offset),
                                 BOTH(constant_row), BOTH(zero_row), BOTH(length_one)};

static th_tensor *optional(th_tape *tape, th_dtype dtype, ptrdiff_t n, const double *values) {
  return values == NULL ? NULL : make(tape, dtype, TH_SHAPE(n), values);
}

TEST_BOTH(layer_norm, golden) {
  th_tape *tape = th_tape_new();
  for (size_t i = 0; i < sizeof goldens / sizeof *goldens; i++) {
    const golden *g = &goldens[i];
    th_tensor *x = make(tape, dtype, g->ndim, g->shape, g->x);
    th_tensor *gain = optional(tape, dtype, th_tensor_dim(x, -1), g->gain);
    th_tensor *bias = optional(tape, dtype, th_tensor_dim(x, -1), g->bias);
    th_tensor *y = th_layer_norm(tape, x, gain, bias, g->eps);
    expect_values(g->name, y, g->y, tolerances[dtype].value);
    backward_from(tape, y, g->dy);
    expect_values(g->name, th_tensor_grad(x), g->dx, tolerances[dtype].gradient);
    if (gain) expect_values(g->name, th_tensor_grad(gain), g->dgain, tolerances[dtype].gradient);
    if (bias) expect_values(g->name, th_tensor_grad(bias), g->dbias, tolerances[dtype].gradient);
    th_tape_reset(tape);
  }
  th_tape_free(tape);
}

Test(layer_norm, gradients) { check_gradients("layer_norm"); }

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

TEST_BOTH(layer_norm, two_uses_add_up) {
  th_tape *tape = th_tape_new();
  const golden *g = &goldens[2];
  th_tensor *x = make(tape, dtype, g->ndim, g->shape, g->x);
  th_tensor *gain = optional(tape, dtype, 5, g->gain), *bias = optional(tape, dtype, 5, g->bias);
  th_tensor *y = th_add(tape, th_layer_norm(tape, x, gain, bias, g->eps),
                        th_layer_norm(tape, x, gain, bias, g->eps));
  double twice[30];
  backward_from(tape, y, g->dy);
  for (int i = 0; i < 30; i++) twice[i] = 2 * g->dx[i];
  expect_values("dx", th_tensor_grad(x), twice, tolerances[dtype].gradient);
  for (int i = 0; i < 5; i++) twice[i] = 2 * g->dgain[i];
  expect_values("dgain", th_tensor_grad(gain), twice, tolerances[dtype].gradient);
  for (int i = 0; i < 5; i++) twice[i] = 2 * g->dbias[i];
  expect_values("dbias", th_tensor_grad(bias), twice, tolerances[dtype].gradient);
  th_tape_free(tape);
}

/* x is a transposed view, gain and bias are columns of one matrix. */
TEST_BOTH(layer_norm, strided_inputs) {
  th_tape *tape = th_tape_new();
  const golden *g = &goldens[3];
  double x[15], vectors[10];
  for (int i = 0; i < 15; i++) x[i % 5 * 3 + i / 5] = g->x[i];
  for (int i = 0; i < 5; i++) vectors[2 * i] = g->gain[i], vectors[2 * i + 1] = g->bias[i];
  th_tensor *stored = make(tape, dtype, TH_SHAPE(5, 3), x);
  th_tensor *columns = make(tape, dtype, TH_SHAPE(5, 2), vectors);
  th_tensor *gain = th_reshape(tape, th_slice(tape, columns, 1, 0, 1), TH_SHAPE(5));
  th_tensor *bias = th_reshape(tape, th_slice(tape, columns, 1, 1, 2), TH_SHAPE(5));
  th_tensor *y = th_layer_norm(tape, th_transpose(tape, stored, 0, 1), gain, bias, g->eps);
  expect_values("y", y, g->y, tolerances[dtype].value);
  backward_from(tape, y, g->dy);
  for (int i = 0; i < 15; i++) x[i % 5 * 3 + i / 5] = g->dx[i];
  for (int i = 0; i < 5; i++) vectors[2 * i] = g->dgain[i], vectors[2 * i + 1] = g->dbias[i];
  expect_values("dx", th_tensor_grad(stored), x, tolerances[dtype].gradient);
  expect_values("dgain, dbias", th_tensor_grad(columns), vectors, tolerances[dtype].gradient);
  th_tape_free(tape);
}

/* x is also the gain: both gradients go into one memory. */
TEST_BOTH(layer_norm, a_value_as_its_own_gain) {
  double sum[2];
  for (int same = 0; same < 2; same++) {
    th_tape *tape = th_tape_new();
    th_tensor *x = th_input_grad(tape, dtype, TH_SHAPE(600), NULL);
    th_tensor *gain = th_input_grad(tape, dtype, TH_SHAPE(600), NULL);
    th_init_normal(x, 0, 1, (th_random){5, 0, 0});
    th_init_normal(gain, 0, 1, (th_random){5, 0, 0});
    th_tensor *y = th_layer_norm(tape, x, same ? x : gain, NULL, 1e-5);
    th_backward_from(tape, y, th_detach(tape, x));
    sum[same] = 0;
    for (ptrdiff_t i = 0; i < 600; i++)
      sum[same] += fabs(th__get(x->grad, i) + (same ? 0 : th__get(gain->grad, i)));
    th_tape_free(tape);
  }
  cr_assert(fabs(sum[0] - sum[1]) <= 1e-5 * sum[0], "%g, %g", sum[0], sum[1]);
}

TEST_BOTH(layer_norm, same_bits_at_any_number_of_threads) {
  const ptrdiff_t shapes[][2] = {{700, 32}, {40, 1000}, {3, 5000}};
  for (int s = 0; s < 3; s++) {
    th_tensor *results[2][4];
    th_tape *tapes[2] = {th_tape_new(), th_tape_new()};
    for (int t = 0; t < 2; t++) {
      th_set_threads(t + 1);
      th_tensor *x = th_input_grad(tapes[t], dtype, 2, shapes[s], NULL);
      th_tensor *gain = th_input_grad(tapes[t], dtype, 1, &shapes[s][1], NULL);
      th_tensor *bias = th_input_grad(tapes[t], dtype, 1, &shapes[s][1], NULL);
      th_init_normal(x, 1, 2, (th_random){1, 0, 0});
      th_init_normal(gain, 1, 1, (th_random){2, 0, 0});
      th_tensor *y = th_layer_norm(tapes[t], x, gain, bias, 1e-5);
      cr_assert_eq(th_backward_from(tapes[t], y, th_detach(tapes[t], x)), TH_OK);
      th_tensor *got[] = {y, x->grad, gain->grad, bias->grad};
      memcpy(results[t], got, sizeof got);
    }
    th_set_threads(0);
    for (int i = 0; i < 4; i++)
      cr_assert_eq(memcmp(results[0][i]->data, results[1][i]->data,
                          (size_t)results[0][i]->count * th_dtype_size(dtype)),
                   0, "shape %d, result %d", s, i);
    th_tape_free(tapes[0]);
    th_tape_free(tapes[1]);
  }
}

TEST_BOTH(layer_norm, zero_sizes) {
  th_tape *tape = th_tape_new();
  for (int i = 0; i < 2; i++) {
    th_tensor *x = th_input_grad(tape, dtype, TH_SHAPE(i ? 0 : 3, i ? 3 : 0), NULL);
    th_tensor *gain = th_input_grad(tape, dtype, TH_SHAPE(i ? 3 : 0), NULL);
    th_tensor *y = th_layer_norm(tape, x, gain, gain, 1e-5);
    backward_from(tape, y, (double[]){0});
    expect_values("dgain", th_tensor_grad(gain), (double[]){0, 0, 0}, 0);
    th_tape_reset(tape);
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

Test(layer_norm, rejects) {
  th_tape *tape = th_tape_new();
  th_tensor *x = th_input(tape, TH_F32, TH_SHAPE(2, 3), NULL);
  th_tensor *four = th_input(tape, TH_F32, TH_SHAPE(4), NULL);
  cr_assert_null(th_layer_norm(tape, x, four, NULL, 1e-5));
  expect_error(tape, TH_ERR_SHAPE, "the gain is [4] but x is [2, 3]");
  cr_assert_null(th_layer_norm(tape, x, NULL, four, 1e-5));
  expect_error(tape, TH_ERR_SHAPE, "the bias is [4]");
  const double bad[] = {0, -1, NAN, INFINITY};
  for (int i = 0; i < 4; i++) {
    cr_assert_null(th_layer_norm(tape, x, NULL, NULL, bad[i]));
    expect_error(tape, TH_ERR_VALUE, "eps");
  }
  cr_assert_null(th_layer_norm(tape, th_input(tape, TH_F32, TH_SCALAR, NULL), NULL, NULL, 1e-5));
  expect_error(tape, TH_ERR_SHAPE, "scalar");
  cr_assert_null(th_layer_norm(tape, x, th_input(tape, TH_F64, TH_SHAPE(3), NULL), NULL, 1e-5));
  expect_error(tape, TH_ERR_DTYPE, "f64");
  cr_assert_null(th_layer_norm(tape, NULL, NULL, NULL, 1e-5));
  expect_error(tape, TH_ERR_VALUE, "NULL");
  th_tape_free(tape);
}
