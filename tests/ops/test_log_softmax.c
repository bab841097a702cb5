/* log_softmax: goldens, saturation (C04), large values (C06), -inf, properties, rejection. */
#include "gradients.h"
#include "support.h"

#include "golden/log_softmax.inc"

typedef struct golden {
  const char *name;
  int ndim;
  const ptrdiff_t *shape;
  const double *x, *dy, *y, *dx;
  bool exact; /* every value right relative to its own size */
} golden;

#define NDIM(shape) ((int)(sizeof(shape) / sizeof *(shape)))
#define G(name, part) golden_log_softmax_##name##_##part
#define CASE(name, exact)                                                                          \
  {                                                                                                \
#name, NDIM(G(name, x_shape)), G(name, x_shape), G(name, x), G(name, dy), G(name, y),          \
        G(name, dx), exact                                                                         \
  }
static const golden goldens[] = {CASE(rank2, false), CASE(rank3, false), CASE(single, false),
                                 CASE(saturated, true), CASE(sharp, true)};

TEST_BOTH(log_softmax, golden) {
  th_tape *tape = th_tape_new();
  for (size_t i = 0; i < sizeof goldens / sizeof *goldens; i++) {
    const golden *g = &goldens[i];
    th_tensor *x = make(tape, dtype, g->ndim, g->shape, g->x);
    th_tensor *y = th_log_softmax(tape, x);
    expect_values(g->name, y, g->y, tolerances[dtype].value);
    if (g->exact) expect_relative(g->name, y, g->y, dtype == TH_F32 ? 5e-7 : 1e-14);
    backward_from(tape, y, g->dy);
    expect_values(g->name, th_tensor_grad(x), g->dx, tolerances[dtype].gradient);
    if (g->exact)
      expect_relative(g->name, th_tensor_grad(x), g->dx, dtype == TH_F32 ? 1e-6 : 1e-14);
    th_tape_reset(tape);
  }
  th_tape_free(tape);
}

Test(log_softmax, gradients) { check_gradients("log_softmax"); }

/* C06: the maximum goes first. */
TEST_BOTH(log_softmax, large_logits) {
  th_tape *tape = th_tape_new();
  th_tensor *x = make(tape, dtype, TH_SHAPE(2, 2), (double[]){1e8, 1e8, 1e8, 1e8 - 8});
  const double want[] = {-log(2), -log(2), -log1p(exp(-8)), -8 - log1p(exp(-8))};
  expect_relative("y", th_log_softmax(tape, x), want, dtype == TH_F32 ? 2e-7 : 1e-13);
  th_tape_free(tape);
}

TEST_BOTH(log_softmax, minus_infinity) {
  th_tape *tape = th_tape_new();
  th_tensor *x = make(tape, dtype, TH_SHAPE(2, 3),
                      (double[]){-INFINITY, 1, 1, -INFINITY, -INFINITY, -INFINITY});
  th_tensor *y = th_log_softmax(tape, x);
  double got[6];
  th_tensor_read(y, got);
  for (int i = 0; i < 6; i++)
    cr_assert(i == 1 || i == 2 ? fabs(got[i] + log(2)) < 1e-6 : isinf(got[i]) && got[i] < 0,
              "%d: %g", i, got[i]);
  backward_from(tape, y, (double[]){1, 2, 3, 4, 5, 6});
  expect_values("dx", th_tensor_grad(x), (double[]){1, -1, 0, 0, 0, 0}, 1e-6);
  th_tape_free(tape);
}

TEST_BOTH(log_softmax, rows_of_the_gradient_sum_to_zero_and_shifts_change_nothing) {
  th_tape *tape = th_tape_new();
  double first[111], second[111];
  for (int shifted = 0; shifted < 2; shifted++) {
    th_tensor *x = th_input_grad(tape, dtype, TH_SHAPE(3, 37), NULL);
    for (ptrdiff_t i = 0; i < 111; i++) /* multiples of 1/8: the shift is exact */
      th__set(x, i, (double)((i * 53) % 97) / 8 - 6 + (shifted ? 256 : 0));
    th_tensor *dy = th_input(tape, dtype, TH_SHAPE(3, 37), NULL);
    th_init_normal(dy, 0, 1, (th_random){2, 0, 0});
    th_tensor *y = th_log_softmax(tape, x);
    th_tensor_read(y, shifted ? second : first);
    th_backward_from(tape, y, dy);
    for (ptrdiff_t i = 0; i < 3; i++) {
      double sum = 0;
      for (ptrdiff_t j = 0; j < 37; j++) sum += th__get(x->grad, i * 37 + j);
      cr_assert(fabs(sum) < (dtype == TH_F32 ? 1e-5 : 1e-14), "row %td: %g", i, sum);
    }
    th_tape_reset(tape);
  }
  cr_assert_arr_eq(first, second, sizeof first);
  th_tape_free(tape);
}

TEST_BOTH(log_softmax, two_uses_add_up) {
  th_tape *tape = th_tape_new();
  const golden *g = &goldens[0];
  th_tensor *x = make(tape, dtype, g->ndim, g->shape, g->x);
  th_tensor *y = th_add(tape, th_log_softmax(tape, x), th_log_softmax(tape, x));
  double twice[15];
  for (int i = 0; i < 15; i++) twice[i] = 2 * g->dx[i];
  backward_from(tape, y, g->dy);
  expect_values("dx", th_tensor_grad(x), twice, tolerances[dtype].gradient);
  th_tape_free(tape);
}

TEST_BOTH(log_softmax, strided_input) {
  th_tape *tape = th_tape_new();
  const golden *g = &goldens[0];
  double x[15];
  for (int i = 0; i < 15; i++) x[i % 5 * 3 + i / 5] = g->x[i];
  th_tensor *stored = make(tape, dtype, TH_SHAPE(5, 3), x);
  th_tensor *y = th_log_softmax(tape, th_transpose(tape, stored, 0, 1));
  expect_values("y", y, g->y, tolerances[dtype].value);
  backward_from(tape, y, g->dy);
  for (int i = 0; i < 15; i++) x[i % 5 * 3 + i / 5] = g->dx[i];
  expect_values("dx", th_tensor_grad(stored), x, tolerances[dtype].gradient);
  th_tape_free(tape);
}

TEST_BOTH(log_softmax, same_bits_at_any_number_of_threads) {
  th_tensor *results[2][2];
  th_tape *tapes[2] = {th_tape_new(), th_tape_new()};
  for (int t = 0; t < 2; t++) {
    th_set_threads(t + 1);
    th_tensor *x = th_input_grad(tapes[t], dtype, TH_SHAPE(100, 300), NULL);
    th_init_normal(x, 0, 5, (th_random){1, 0, 0});
    th_tensor *y = th_log_softmax(tapes[t], x);
    th_backward_from(tapes[t], y, th_detach(tapes[t], x));
    results[t][0] = y;
    results[t][1] = x->grad;
  }
  th_set_threads(0);
  for (int i = 0; i < 2; i++)
    cr_assert_eq(memcmp(results[0][i]->data, results[1][i]->data, 30000 * th_dtype_size(dtype)), 0);
  th_tape_free(tapes[0]);
  th_tape_free(tapes[1]);
}

TEST_BOTH(log_softmax, zero_sizes) {
  th_tape *tape = th_tape_new();
  for (int i = 0; i < 2; i++) {
    th_tensor *x = th_input_grad(tape, dtype, TH_SHAPE(i ? 0 : 3, i ? 3 : 0), NULL);
    th_tensor *y = th_log_softmax(tape, x);
    cr_assert_eq(th_tensor_count(y), 0);
    backward_from(tape, y, (double[]){0});
    th_tape_reset(tape);
  }
  th_tape_free(tape);
}

/* NaN and +inf make their row NaN, and no other. */
TEST_BOTH(log_softmax, nan_stays_in_its_row) {
  th_tape *tape = th_tape_new();
  const double x[] = {1, NAN, 2, 1, 2, 3, INFINITY, 1, 2, NAN, NAN, NAN};
  double y[12];
  th_tensor_read(th_log_softmax(tape, make(tape, dtype, TH_SHAPE(4, 3), x)), y);
  for (int i = 0; i < 12; i++)
    cr_assert(i / 3 == 1 ? isfinite(y[i]) : isnan(y[i]), "%d: %g", i, y[i]);
  th_tape_free(tape);
}

Test(log_softmax, rejects) {
  th_tape *tape = th_tape_new();
  cr_assert_null(th_log_softmax(tape, th_input(tape, TH_F32, TH_SCALAR, NULL)));
  expect_error(tape, TH_ERR_SHAPE, "scalar");
  cr_assert_null(th_log_softmax(tape, th_input(tape, TH_I32, TH_SHAPE(2), NULL)));
  expect_error(tape, TH_ERR_DTYPE, "i32");
  cr_assert_null(th_log_softmax(tape, NULL));
  expect_error(tape, TH_ERR_VALUE, "NULL");
  th_tape_free(tape);
}
