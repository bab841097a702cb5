/* logsumexp: goldens, saturation (C04), large values (C06), infinities and NaN as in PyTorch, the naive
 * loop, properties, views, threads, rejection. */
#include "log_sum.h"

#include "golden/logsumexp.inc"

#define G(name, part) golden_logsumexp_##name##_##part
static const golden goldens[] = {CASE(rank1, false), CASE(rank2, false), CASE(rank3, false),
                                 CASE(single, true), CASE(wide, false),  CASE(saturated, true),
                                 CASE(sharp, true),  CASE(large, true)};

TEST_BOTH(logsumexp, golden) {
  for (size_t i = 0; i < sizeof goldens / sizeof *goldens; i++)
    expect_golden(dtype, th_logsumexp, &goldens[i], 1);
}

Test(logsumexp, gradients) { check_gradients("logsumexp"); }
TEST_BOTH(logsumexp, gradients_accumulate) { expect_accumulates(dtype, th_logsumexp, &goldens[1]); }
TEST_BOTH(logsumexp, strided_input) { expect_strided(dtype, th_logsumexp, &goldens[1]); }
TEST_BOTH(logsumexp, same_bits_at_any_number_of_threads) { expect_same_bits(dtype, th_logsumexp); }
Test(logsumexp, rejects) { expect_rejects(th_logsumexp, "logsumexp: a scalar"); }

/* Rows shorter and longer than a block of the sum, and of every vector remainder. */
TEST_BOTH(logsumexp, equals_the_naive_loop) {
  th_tape *tape = th_tape_new();
  double limit = dtype == TH_F32 ? 2e-6 : 1e-13;
  for (ptrdiff_t n = 1; n <= 1600; n = n < 70 ? n + 1 : 2 * n + 31) {
    th_tensor *x = th_input_grad(tape, dtype, TH_SHAPE(3, n), NULL);
    th_init_normal(x, 0, 3, (th_random){(uint64_t)n, 0, 0});
    th_tensor *y = th_logsumexp(tape, x);
    backward_from(tape, y, (double[]){1, -2, 0.5});
    for (ptrdiff_t i = 0; i < 3; i++) {
      double sum = 0, g = i == 0 ? 1 : i == 1 ? -2 : 0.5;
      for (ptrdiff_t j = 0; j < n; j++) sum += exp(th__get(x, i * n + j));
      cr_assert(fabs(th__get(y, i) - log(sum)) <= limit * fmax(1, fabs(log(sum))), "n %td", n);
      for (ptrdiff_t j = 0; j < n; j++)
        cr_assert(fabs(th__get(x->grad, i * n + j) - g * exp(th__get(x, i * n + j)) / sum) <= limit,
                  "n %td, row %td: dx[%td]", n, i, j);
    }
    th_tape_reset(tape);
  }
  th_tape_free(tape);
}

/* A row of -inf only: -inf, and its gradient is 0, where (x - y) would give NaN. */
TEST_BOTH(logsumexp, minus_infinity) {
  th_tape *tape = th_tape_new();
  th_tensor *x = make(tape, dtype, 2, G(minus_infinity, x_shape), G(minus_infinity, x));
  th_tensor *y = th_logsumexp(tape, x);
  double got[2];
  th_tensor_read(y, got);
  cr_assert(fabs(got[0] - G(minus_infinity, y)[0]) <= tolerances[dtype].value, "%g", got[0]);
  cr_assert_eq(got[1], -HUGE_VAL);
  backward_from(tape, y, G(minus_infinity, dy));
  expect_values("dx", th_tensor_grad(x), G(minus_infinity, dx), tolerances[dtype].gradient);
  th_tape_free(tape);
}

/* As in PyTorch: inf in a row makes y inf, the gradient NaN at the inf itself and 0 elsewhere; NaN makes
 * all of its row NaN, and no other. */
TEST_BOTH(logsumexp, infinity_and_nan) {
  const double x[6][3] = {{INFINITY, 1, 2},   {INFINITY, INFINITY, 0}, {0, -INFINITY, INFINITY},
                          {NAN, 1, INFINITY}, {NAN, NAN, -INFINITY},   {1, NAN, 2}};
  double y[6], dx[18];
  th_tape *tape = th_tape_new();
  th_tensor *in = make(tape, dtype, TH_SHAPE(6, 3), x[0]), *out = th_logsumexp(tape, in);
  backward_from(tape, out, (double[]){1, 2, 3, 4, 5, 6});
  th_tensor_read(out, y), th_tensor_read(th_tensor_grad(in), dx);
  for (int i = 0; i < 6; i++) {
    cr_assert(i < 3 ? y[i] == HUGE_VAL : isnan(y[i]), "y[%d] = %g", i, y[i]);
    for (int j = 0; j < 3; j++)
      cr_assert(i >= 3 || x[i][j] == HUGE_VAL ? isnan(dx[3 * i + j]) : dx[3 * i + j] == 0,
                "dx[%d][%d] = %g", i, j, dx[3 * i + j]);
  }
  th_tape_free(tape);
}

/* y(x + c) = y(x) + c, and rows of the gradient sum to the upstream. */
TEST_BOTH(logsumexp, shifts_pass_through_and_weights_sum_to_one) {
  th_tape *tape = th_tape_new();
  double y[2][3], limit = dtype == TH_F32 ? 4e-5 : 1e-13;
  for (int shifted = 0; shifted < 2; shifted++) {
    th_tensor *x = th_input_grad(tape, dtype, TH_SHAPE(3, 37), NULL);
    for (ptrdiff_t i = 0; i < 111; i++) /* multiples of 1/8: the shift is exact */
      th__set(x, i, (double)((i * 53) % 97) / 8 - 6 + (shifted ? 256 : 0));
    th_tensor *out = th_logsumexp(tape, x);
    th_tensor_read(out, y[shifted]);
    backward_from(tape, out, (double[]){1, 1, 1});
    for (ptrdiff_t i = 0; i < 3; i++) {
      double sum = 0;
      for (ptrdiff_t j = 0; j < 37; j++) sum += th__get(x->grad, i * 37 + j);
      cr_assert(fabs(sum - 1) < (dtype == TH_F32 ? 1e-6 : 1e-14), "row %td: %g", i, sum);
    }
    th_tape_reset(tape);
  }
  for (int i = 0; i < 3; i++) cr_assert(fabs(y[1][i] - y[0][i] - 256) <= limit, "row %d", i);
  th_tape_free(tape);
}

/* log_softmax is x - logsumexp(x), in value and in gradient. */
TEST_BOTH(logsumexp, is_what_log_softmax_takes_away) {
  double direct[15], made[15], dy[15];
  const golden *g = &goldens[1]; /* [3, 5] */
  for (int i = 0; i < 15; i++) dy[i] = (i * 7 % 11 - 5) / 4.0;
  th_tape *tape = th_tape_new();
  th_tensor *x = make(tape, dtype, 2, g->shape, g->x), *y = th_log_softmax(tape, x);
  th_tensor_read(y, direct);
  backward_from(tape, y, dy);
  th_tensor_read(th_tensor_grad(x), made);
  th_tape_reset(tape);
  x = make(tape, dtype, 2, g->shape, g->x);
  y = th_sub(tape, x, th_reshape(tape, th_logsumexp(tape, x), TH_SHAPE(3, 1)));
  expect_values("y", y, direct, tolerances[dtype].value);
  backward_from(tape, y, dy);
  expect_values("dx", th_tensor_grad(x), made, tolerances[dtype].gradient);
  th_tape_free(tape);
}

/* No rows; rows of nothing, whose sum is 0. */
TEST_BOTH(logsumexp, zero_sizes) {
  th_tape *tape = th_tape_new();
  th_tensor *x = th_input_grad(tape, dtype, TH_SHAPE(0, 3), NULL), *y = th_logsumexp(tape, x);
  cr_assert_eq(th_tensor_count(y), 0);
  backward_from(tape, y, NULL);
  th_tape_reset(tape);
  x = th_input_grad(tape, dtype, TH_SHAPE(2, 0), NULL);
  y = th_logsumexp(tape, x);
  double got[2];
  th_tensor_read(y, got);
  cr_assert(got[0] == -HUGE_VAL && got[1] == -HUGE_VAL);
  backward_from(tape, y, (double[]){1, 2});
  th_tape_free(tape);
}
