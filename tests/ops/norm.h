/* norm.h: what the tests of layer_norm and rms_norm share. */
#ifndef TESTS_OPS_NORM_H
#define TESTS_OPS_NORM_H

#include "gradients.h"
#include "support.h"

/* The op under test; rms_norm has no bias. */
typedef th_tensor *th_norm(th_tape *tape, th_tensor *x, th_tensor *gain, th_tensor *bias,
                           double eps);

typedef struct golden {
  const char *name;
  double eps;
  int ndim;
  const ptrdiff_t *shape;
  const double *x, *dy, *y, *dx;
  const double *gain, *dgain, *bias, *dbias; /* or NULL */
} golden;

#define NDIM(shape) ((int)(sizeof(shape) / sizeof *(shape)))
#define CASE(name, ...)                                                                            \
  {                                                                                                \
#name, G(name, eps), NDIM(G(name, x_shape)), G(name, x_shape), G(name, x), G(name, dy),        \
        G(name, y), G(name, dx), __VA_ARGS__                                                       \
  }
#define PLAIN(name) CASE(name, NULL, NULL, NULL, NULL)
#define GAIN(name) CASE(name, G(name, gain), G(name, dgain), NULL, NULL)
#define BOTH(name) CASE(name, G(name, gain), G(name, dgain), G(name, bias), G(name, dbias))

static inline th_tensor *vector(th_tape *tape, th_dtype dtype, const golden *g,
                                const double *values) {
  return values == NULL ? NULL : make(tape, dtype, TH_SHAPE(g->shape[g->ndim - 1]), values);
}

/* Once, or as the sum of two uses, which doubles the gradients. */
static inline void expect_golden(th_dtype dtype, th_norm *op, const golden *g, int uses) {
  th_tape *tape = th_tape_new();
  th_tensor *x = make(tape, dtype, g->ndim, g->shape, g->x), *y[2];
  th_tensor *vectors[] = {vector(tape, dtype, g, g->gain), vector(tape, dtype, g, g->bias)};
  for (int i = 0; i < uses; i++) {
    y[i] = op(tape, x, vectors[0], vectors[1], g->eps);
    expect_values(g->name, y[i], g->y, tolerances[dtype].value);
  }
  backward_from(tape, uses == 1 ? y[0] : th_add(tape, y[0], y[1]), g->dy);
  th_tensor *inputs[] = {x, vectors[0], vectors[1]};
  const double *gradients[] = {g->dx, g->dgain, g->dbias};
  for (int i = 0; i < 3; i++) {
    if (inputs[i] == NULL) continue;
    double *want = malloc((size_t)inputs[i]->count * sizeof *want);
    for (ptrdiff_t j = 0; j < inputs[i]->count; j++) want[j] = uses * gradients[i][j];
    expect_values(g->name, th_tensor_grad(inputs[i]), want, tolerances[dtype].gradient);
    free(want);
  }
  th_tape_free(tape);
}

/* x is a transposed view, gain and bias are columns of one matrix. The golden is [3, 5] with a gain. */
static inline void expect_strided(th_dtype dtype, th_norm *op, const golden *g) {
  th_tape *tape = th_tape_new();
  double x[15], vectors[10] = {0};
  for (int i = 0; i < 15; i++) x[i % 5 * 3 + i / 5] = g->x[i];
  for (int i = 0; i < 5; i++) {
    vectors[2 * i] = g->gain[i];
    if (g->bias != NULL) vectors[2 * i + 1] = g->bias[i];
  }
  th_tensor *stored = make(tape, dtype, TH_SHAPE(5, 3), x);
  th_tensor *columns = make(tape, dtype, TH_SHAPE(5, 2), vectors);
  th_tensor *gain = th_reshape(tape, th_slice(tape, columns, 1, 0, 1), TH_SHAPE(5));
  th_tensor *bias = th_reshape(tape, th_slice(tape, columns, 1, 1, 2), TH_SHAPE(5));
  th_tensor *y = op(tape, th_transpose(tape, stored, 0, 1), gain, bias, g->eps);
  expect_values("y", y, g->y, tolerances[dtype].value);
  backward_from(tape, y, g->dy);
  for (int i = 0; i < 15; i++) x[i % 5 * 3 + i / 5] = g->dx[i];
  for (int i = 0; i < 5; i++) {
    vectors[2 * i] = g->dgain[i];
    vectors[2 * i + 1] = g->dbias == NULL ? 0 : g->dbias[i];
  }
  expect_values("dx", th_tensor_grad(stored), x, tolerances[dtype].gradient);
  expect_values("dgain, dbias", th_tensor_grad(columns), vectors, tolerances[dtype].gradient);
  th_tape_free(tape);
}

/* x is also the gain: both gradients go into one memory. */
static inline void expect_own_gain(th_dtype dtype, th_norm *op) {
  double sum[2];
  for (int same = 0; same < 2; same++) {
    th_tape *tape = th_tape_new();
    th_tensor *x = th_input_grad(tape, dtype, TH_SHAPE(600), NULL);
    th_tensor *gain = th_input_grad(tape, dtype, TH_SHAPE(600), NULL);
    th_init_normal(x, 0, 1, (th_random){5, 0, 0});
    th_init_normal(gain, 0, 1, (th_random){5, 0, 0});
    th_tensor *y = op(tape, x, same ? x : gain, NULL, 1e-5);
    th_backward_from(tape, y, th_detach(tape, x));
    sum[same] = 0;
    for (ptrdiff_t i = 0; i < 600; i++)
      sum[same] += fabs(th__get(x->grad, i) + (same ? 0 : th__get(gain->grad, i)));
    th_tape_free(tape);
  }
  cr_assert(fabs(sum[0] - sum[1]) <= 1e-5 * sum[0], "%g, %g", sum[0], sum[1]);
}

static inline void expect_same_bits(th_dtype dtype, th_norm *op) {
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
      th_tensor *y = op(tapes[t], x, gain, bias, 1e-5);
      cr_assert_eq(th_backward_from(tapes[t], y, th_detach(tapes[t], x)), TH_OK);
      th_tensor *got[] = {y, x->grad, gain->grad, bias->grad};
      memcpy(results[t], got, sizeof got);
    }
    th_set_threads(0);
    for (int i = 0; i < 4; i++)
      if (results[0][i] != NULL)
        cr_assert_eq(memcmp(results[0][i]->data, results[1][i]->data,
                            (size_t)results[0][i]->count * th_dtype_size(dtype)),
                     0, "shape %d, result %d", s, i);
    th_tape_free(tapes[0]);
    th_tape_free(tapes[1]);
  }
}

static inline void expect_zero_sizes(th_dtype dtype, th_norm *op) {
  th_tape *tape = th_tape_new();
  for (int i = 0; i < 2; i++) {
    th_tensor *x = th_input_grad(tape, dtype, TH_SHAPE(i ? 0 : 3, i ? 3 : 0), NULL);
    th_tensor *gain = th_input_grad(tape, dtype, TH_SHAPE(i ? 3 : 0), NULL);
    backward_from(tape, op(tape, x, gain, gain, 1e-5), (double[]){0});
    expect_values("dgain", th_tensor_grad(gain), (double[]){0, 0, 0}, 0);
    th_tape_reset(tape);
  }
  th_tape_free(tape);
}

static inline void expect_rejects(th_norm *op, const char *name) {
  th_tape *tape = th_tape_new();
  th_tensor *x = th_input(tape, TH_F32, TH_SHAPE(2, 3), NULL);
  cr_assert_null(op(tape, x, th_input(tape, TH_F32, TH_SHAPE(4), NULL), NULL, 1e-5));
  cr_assert_not_null(strstr(th_tape_message(tape), name), "%s", th_tape_message(tape));
  expect_error(tape, TH_ERR_SHAPE, "the gain is [4] but x is [2, 3]; a gain of [3]");
  cr_assert_null(op(tape, x, x, NULL, 1e-5));
  expect_error(tape, TH_ERR_SHAPE, "the gain is [2, 3]");
  const double bad[] = {0, -1, NAN, INFINITY};
  for (int i = 0; i < 4; i++) {
    cr_assert_null(op(tape, x, NULL, NULL, bad[i]));
    expect_error(tape, TH_ERR_VALUE, "eps");
  }
  cr_assert_null(op(tape, th_input(tape, TH_F32, TH_SCALAR, NULL), NULL, NULL, 1e-5));
  expect_error(tape, TH_ERR_SHAPE, "scalar");
  cr_assert_null(op(tape, x, th_input(tape, TH_F64, TH_SHAPE(3), NULL), NULL, 1e-5));
  expect_error(tape, TH_ERR_DTYPE, "f64");
  cr_assert_null(op(tape, th_input(tape, TH_I32, TH_SHAPE(3), NULL), NULL, NULL, 1e-5));
  expect_error(tape, TH_ERR_DTYPE, "i32");
  cr_assert_null(op(tape, NULL, NULL, NULL, 1e-5));
  expect_error(tape, TH_ERR_VALUE, "NULL");
  th_tape_free(tape);
}

#endif
