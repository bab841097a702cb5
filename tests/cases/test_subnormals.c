/* subnormals: results below the smallest normal number are 0 in every piece on every thread, in
 * products too, and the caller's arithmetic stays as it was. How long it takes: bench/subnormals.c. */
#include <float.h>

#include "../support.h"

/* A subnormal made by the caller himself. */
static bool caller_has_subnormals(void) {
  volatile float small = FLT_MIN;
  volatile float half = small * 0.5f;
  return half > 0;
}

static void expect_zeros(const char *what, const th_tensor *x, int threads) {
  cr_assert_not_null(x, "%s", what);
  for (ptrdiff_t i = 0; i < x->count; i++)
    cr_assert_eq(th__get(x, i), 0, "%s at %d threads: %g at %td", what, threads, th__get(x, i), i);
}

TEST_BOTH(subnormals, are_zero_on_every_thread) {
  enum { N = 200 }; /* several pieces */
  double least = dtype == TH_F32 ? (double)FLT_MIN : DBL_MIN, *small = malloc(N * N * sizeof *small);
  for (int i = 0; i < N * N; i++) small[i] = (i % 2 == 0 ? 1.0 : -1.0) * 1.5 * least;
  th_tape *tape = th_tape_new();
  for (int threads = 1; threads <= 4; threads++) {
    cr_assert_eq(th_set_threads(threads), TH_OK);
    th_tensor *x = make(tape, dtype, TH_SHAPE(N, N), small);
    th_tensor *y = th_scale(tape, x, 0.25);
    expect_zeros("scale", y, threads);
    expect_zeros("mul", th_mul(tape, x, x), threads);
    th_tensor *eye = th_input(tape, dtype, TH_SHAPE(N, N), NULL);
    for (int i = 0; i < N; i++) th__set(eye, i * (N + 1), 0.25);
    expect_zeros("matmul", th_matmul(tape, x, eye, 0), threads);
    cr_assert_eq(th_backward(tape, th_scale(tape, th_sum(tape, y, TH_ALL_AXES), 4 * least)), TH_OK);
    for (int i = 0; i < N * N; i++) cr_assert_eq(th__get(th_tensor_grad(x), i), least);
    cr_assert(caller_has_subnormals());
    th_tape_reset(tape);
  }
  th_set_threads(0);
  th_tape_free(tape);
  free(small);
}

/* Gaps of 80 to 110: every weight and gradient is 0 or a normal number, and where it is normal it has
 * all its digits. */
Test(subnormals, saturated_rows_hold_none) {
  th_tape *tape = th_tape_new();
  for (double gap = 80; gap < 110; gap += 0.125) {
    th_tensor *x = make(tape, TH_F32, TH_SHAPE(1, 3), (double[]){0, -gap, -gap - 3});
    th_tensor *y = th_softmax(tape, x);
    backward_from(tape, y, (double[]){1, 0.25, -0.5});
    const float *dx = th_tensor_data(th_tensor_grad(x)), *p = th_tensor_data(y);
    double p1 = exp(-gap), p2 = exp(-gap - 3),
           want[] = {0.75 * p1 + 1.5 * p2, -0.75 * p1, -1.5 * p2};
    for (int i = 0; i < 3; i++) {
      cr_assert(p[i] == 0 || isnormal(p[i]), "gap %g: weight %g", gap, (double)p[i]);
      cr_assert(dx[i] == 0 || isnormal(dx[i]), "gap %g: gradient %g", gap, (double)dx[i]);
      if (fabs(want[i]) > 4e-38 && p2 > 2e-38)
        cr_assert(fabs((double)dx[i] / want[i] - 1) < 1e-6, "gap %g: %g, not %g", gap,
                  (double)dx[i], want[i]);
    }
    th_tape_reset(tape);
  }
  th_tape_free(tape);
}
