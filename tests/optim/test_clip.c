/* clip: goldens, C17 (overflow, infinity, NaN, bad limits), extremes of f64, threads. */
#include "steps.h"

#include "golden/clip.inc"

#define GOLDEN(x) golden_clip_##x

TEST_BOTH(clip, golden_one) {
  th_params *params = th_params_new(NULL);
  th_tensor *a = add_param(params, "a", dtype, TH_SHAPE(2), (double[]){0, 0});
  give_grad(a, GOLDEN(three_four_a));
  double norm;
  cr_assert_eq(th_clip_grad_norm(params, GOLDEN(three_four_limit), &norm, NULL), TH_OK);
  cr_assert_eq(norm, 5);
  expect_values("a", th_tensor_grad(a), GOLDEN(three_four_a_clipped), tolerances[dtype].value);
  th_params_free(params);
}

static void two(th_dtype dtype, double limit, const double *a, const double *b, double want_norm,
                const double *want_a, const double *want_b) {
  th_params *params = th_params_new(NULL);
  const double zeros[6] = {0};
  th_tensor *first = add_param(params, "a", dtype, TH_SHAPE(2, 3), zeros);
  th_tensor *second = add_param(params, "b", dtype, TH_SHAPE(4), zeros);
  give_grad(first, a);
  give_grad(second, b);
  double norm;
  cr_assert_eq(th_clip_grad_norm(params, limit, &norm, NULL), TH_OK);
  cr_assert_float_eq(norm, want_norm, 1e-14 * want_norm);
  expect_values("a", th_tensor_grad(first), want_a, tolerances[dtype].value);
  expect_values("b", th_tensor_grad(second), want_b, tolerances[dtype].value);
  th_params_free(params);
}

TEST_BOTH(clip, golden_two) {
  two(dtype, GOLDEN(two_limit), GOLDEN(two_a), GOLDEN(two_b), GOLDEN(two_norm)[0],
      GOLDEN(two_a_clipped), GOLDEN(two_b_clipped));
  two(dtype, GOLDEN(below_limit), GOLDEN(below_a), GOLDEN(below_b), GOLDEN(below_norm)[0],
      GOLDEN(below_a_clipped), GOLDEN(below_b_clipped));
  /* Measuring changes nothing. */
  two(dtype, (double)INFINITY, GOLDEN(two_a), GOLDEN(two_b), GOLDEN(two_norm)[0], GOLDEN(two_a),
      GOLDEN(two_b));
}

TEST_BOTH(clip, golden_huge) {
  th_params *params = th_params_new(NULL);
  const double zeros[128] = {0};
  th_tensor *a = add_param(params, "a", dtype, TH_SHAPE(128), zeros);
  give_grad(a, GOLDEN(huge_a));
  double norm;
  cr_assert_eq(th_clip_grad_norm(params, GOLDEN(huge_limit), &norm, NULL), TH_OK);
  cr_assert_float_eq(norm, GOLDEN(huge_norm)[0], 1e-7 * norm);
  expect_values("a", th_tensor_grad(a), GOLDEN(huge_a_clipped), tolerances[dtype].value);
  th_params_free(params);
}

/* Two entries of `value` with limit 1: norm sqrt(2) value, entries 1/sqrt(2). */
static void extreme(th_dtype dtype, double value, double limit) {
  th_params *params = th_params_new(NULL);
  const double zeros[2] = {0};
  th_tensor *a = add_param(params, "a", dtype, TH_SHAPE(2), zeros);
  give_grad(a, (double[]){value, -value});
  double norm, read[2];
  th_tensor_read(th_tensor_grad(a), read); /* rounded to dtype */
  double want = sqrt(2) * read[0], part = limit / sqrt(2);
  cr_assert_eq(th_clip_grad_norm(params, limit, &norm, NULL), TH_OK);
  cr_assert(fabs(norm / want - 1) <= 1e-14, "norm %g, expected %g", norm, want);
  expect_relative("a", th_tensor_grad(a), (double[]){part, -part}, dtype == TH_F32 ? 1e-7 : 1e-14);
  th_params_free(params);
}

Test(clip, extremes) {
  extreme(TH_F32, 2e38, 1);
  extreme(TH_F32, 2e38, 1e-30); /* the factor alone would be no f32 */
  extreme(TH_F64, 1e200, 1);
  extreme(TH_F64, 1e308, 1e-300);
  extreme(TH_F64, 1e-200, 1e-201);
}

TEST_BOTH(clip, non_finite_is_named_and_nothing_changes) {
  const double bad[] = {(double)INFINITY, -(double)INFINITY, (double)NAN};
  for (int i = 0; i < 3; i++) {
    th_params *params = th_params_new(NULL);
    const double zeros[2] = {0};
    th_tensor *good = add_param(params, "good", dtype, TH_SHAPE(2), zeros);
    th_tensor *culprit = add_param(params, "culprit", dtype, TH_SHAPE(2), zeros);
    th_tensor *second = add_param(params, "second", dtype, TH_SHAPE(2), zeros);
    give_grad(good, (double[]){3, 4});
    give_grad(culprit, (double[]){bad[i], 1});
    give_grad(second, (double[]){1, (double)NAN});
    double norm = 0;
    EXPECT_REFUSED(th_clip_grad_norm(params, 1, &norm, &error) == TH_OK, TH_ERR_NONFINITE,
                   i < 2 ? "culprit holds infinity" : "culprit holds NaN");
    cr_assert(!isfinite(norm));
    expect_values("good", th_tensor_grad(good), (double[]){3, 4}, 0);
    th_params_free(params);
  }
}

/* Finite entries whose norm is no double. */
Test(clip, a_norm_beyond_all_numbers) {
  th_params *params = th_params_new(NULL);
  const double zeros[4] = {0}, large[4] = {1e308, 1e308, 1e308, 1.5e308};
  th_tensor *w = add_param(params, "w", TH_F64, TH_SHAPE(4), zeros);
  give_grad(w, large);
  EXPECT_REFUSED(th_clip_grad_norm(params, 1, NULL, &error) == TH_OK, TH_ERR_NONFINITE,
                 "1.5e+308, in w");
  expect_values("w", th_tensor_grad(w), large, 0);
  th_params_free(params);
}

Test(clip, rejects_limits) {
  th_params *params = th_params_new(NULL);
  th_tensor *w = add_param(params, "w", TH_F64, TH_SHAPE(2), (double[]){0, 0});
  give_grad(w, (double[]){3, 4});
  EXPECT_REFUSED(th_clip_grad_norm(params, -1, NULL, &error) == TH_OK, TH_ERR_VALUE, "limit is -1");
  EXPECT_REFUSED(th_clip_grad_norm(params, 0, NULL, &error) == TH_OK, TH_ERR_VALUE, "limit is 0");
  EXPECT_REFUSED(th_clip_grad_norm(params, (double)NAN, NULL, &error) == TH_OK, TH_ERR_VALUE,
                 "limit is nan");
  EXPECT_REFUSED(th_clip_grad_norm(NULL, 1, NULL, &error) == TH_OK, TH_ERR_VALUE, "NULL");
  expect_values("w", th_tensor_grad(w), (double[]){3, 4}, 0);
  th_params_free(params);
}

TEST_BOTH(clip, nothing_to_clip) {
  th_params *params = th_params_new(NULL);
  double norm = -1;
  cr_assert_eq(th_clip_grad_norm(params, 1, &norm, NULL), TH_OK);
  cr_assert_eq(norm, 0);
  add_param(params, "w", dtype, TH_SHAPE(2), (double[]){1, 2});
  norm = -1;
  cr_assert_eq(th_clip_grad_norm(params, 1, &norm, NULL), TH_OK);
  cr_assert_eq(norm, 0);
  th_params_free(params);
}

/* Many pieces: the norm has the same bits at 1, 2 and 3 threads. */
TEST_BOTH(clip, threads) {
  enum { N = 50001 };
  double *g = malloc(N * sizeof *g), *read = malloc(3 * N * sizeof *read), norms[3];
  for (int i = 0; i < N; i++) g[i] = th_random_normal((th_random){.seed = 3}, (uint64_t)i);
  for (int threads = 1; threads <= 3; threads++) {
    th_set_threads(threads);
    th_params *params = th_params_new(NULL);
    th_tensor *w = add_param(params, "w", dtype, TH_SHAPE(N), g);
    give_grad(w, g);
    cr_assert_eq(th_clip_grad_norm(params, 1, &norms[threads - 1], NULL), TH_OK);
    th_tensor_read(th_tensor_grad(w), read + (threads - 1) * N);
    th_params_free(params);
  }
  th_set_threads(0);
  for (int i = 1; i < 3; i++) {
    cr_assert_eq(norms[i], norms[0]);
    cr_assert_eq(memcmp(read + i * N, read, N * sizeof *read), 0);
  }
  double exact = 0;
  for (int i = 0; i < N; i++) exact += g[i] * g[i];
  cr_assert_float_eq(norms[0], sqrt(exact), 1e-6 * sqrt(exact));
  free(g), free(read);
}
