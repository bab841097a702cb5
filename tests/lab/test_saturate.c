/* saturate: the sweep against a plain recomputation, theory, and itself at other thread counts.
 * ctest: full */
#include "lab/saturate.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/alloc.h"
#include "tensor/purpose.h"

static const th__saturate_scale none = {TH_SCALE_NONE, 0, "none"},
                                root = {TH_SCALE_SQRT, 0, "sqrt"}, inverse = {TH_SCALE_DK, 0, "dk"};

static th__saturate_result *run(const th__saturate_options *options) {
  th_error error;
  th__saturate_result *result = th__saturate(options, &error);
  cr_assert_not_null(result, "%s", error.message);
  return result;
}

/* A sweep of one point. */
static th__saturate_point run_point(long dk, long keys, th__saturate_scale scale, long samples,
                                    th_dtype dtype) {
  th__saturate_result *result = run(&(th__saturate_options){.dk = &dk,
                                                            .keys = &keys,
                                                            .scales = &scale,
                                                            .dk_count = 1,
                                                            .keys_count = 1,
                                                            .scale_count = 1,
                                                            .samples = samples,
                                                            .dtype = dtype});
  cr_assert_eq(result->count, 1);
  th__saturate_point point = result->points[0];
  th__saturate_free(result);
  return point;
}

static void expect_near(const char *what, double got, double want, double limit) {
  cr_assert(fabs(got - want) <= limit * fmax(fabs(want), 1e-300), "%s: got %.17g, want %.17g", what,
            got, want);
}

/* ---- right values ---- */

/* One row in f64 by the textbook formulas, from the same draws. */
Test(saturate, a_row_by_hand) {
  enum { D = 8, N = 5 };
  double q[D], k[N][D], v[N][D], g[D], s[N], p[N], dp[N], ds[N];
  const double scale = 0.25;
  uint64_t step = (uint64_t)D << 43 | (uint64_t)N << 22;
  for (uint64_t i = 0; i < D; i++) {
    q[i] = th_random_normal((th_random){11, TH__PURPOSE_SATURATE, step}, i);
    g[i] = th_random_normal((th_random){11, TH__PURPOSE_SATURATE + 3, step}, i);
  }
  for (uint64_t i = 0; i < N * D; i++) {
    k[i / D][i % D] = th_random_normal((th_random){11, TH__PURPOSE_SATURATE + 1, step}, i);
    v[i / D][i % D] = th_random_normal((th_random){11, TH__PURPOSE_SATURATE + 2, step}, i);
  }
  double sum = 0, largest = 0, entropy = 0, s2 = 0, s3 = 0, dot = 0, mean_s = 0, var = 0;
  for (int j = 0; j < N; j++) {
    s[j] = dp[j] = 0;
    for (int c = 0; c < D; c++) {
      s[j] += scale * q[c] * k[j][c];
      dp[j] += g[c] * v[j][c];
    }
    mean_s += s[j] / N;
    sum += p[j] = exp(s[j]);
  }
  for (int j = 0; j < N; j++) {
    p[j] /= sum;
    largest = fmax(largest, p[j]);
    entropy -= p[j] * log(p[j]);
    s2 += p[j] * p[j];
    s3 += p[j] * p[j] * p[j];
    dot += p[j] * dp[j];
    var += (s[j] - mean_s) * (s[j] - mean_s) / (N - 1);
  }
  double dq2 = 0, dk2 = 0;
  for (int j = 0; j < N; j++) ds[j] = p[j] * (dp[j] - dot);
  for (int c = 0; c < D; c++) {
    double dq = 0;
    for (int j = 0; j < N; j++) {
      dq += scale * ds[j] * k[j][c];
      dk2 += scale * ds[j] * q[c] * scale * ds[j] * q[c];
    }
    dq2 += dq * dq;
  }

  long dk = D, keys = N;
  th__saturate_scale factor = {TH_SCALE_FACTOR, scale, "0.25"};
  th__saturate_result *result = run(&(th__saturate_options){.dk = &dk,
                                                            .keys = &keys,
                                                            .scales = &factor,
                                                            .dk_count = 1,
                                                            .keys_count = 1,
                                                            .scale_count = 1,
                                                            .samples = 1,
                                                            .dtype = TH_F64,
                                                            .seed = 11});
  const th__saturate_point *point = result->points;
  expect_near("variance", point->logit_variance, var, 1e-12);
  expect_near("entropy", point->figures[TH__ENTROPY].mean, entropy, 1e-12);
  expect_near("rest", point->figures[TH__ONE_MINUS_MAX].median, 1 - largest, 1e-12);
  expect_near("trace", point->figures[TH__JACOBIAN_TRACE].q10, 1 - s2, 1e-12);
  expect_near("norm", point->figures[TH__JACOBIAN_NORM].q90, sqrt(s2 - 2 * s3 + s2 * s2), 1e-12);
  expect_near("dq", point->figures[TH__DQ_NORM].mean, sqrt(dq2), 1e-12);
  expect_near("dK", point->figures[TH__DK_NORM].mean, sqrt(dk2), 1e-12);
  cr_assert_eq(point->figures[TH__DQ_NORM].standard_error, 0);
  cr_assert_eq(point->fd_rows, 1);
  th__saturate_free(result);
}

/* Var(q.k) = d_k. The keys of a row share its q: the mean of (q.k_j)^2 over n keys has the relative
 * variance 2 / d + (2 / n) (1 + 2 / d). */
Test(saturate, variance_of_the_logits) {
  const long dks[] = {4, 64, 256};
  for (int i = 0; i < 3; i++) {
    double d = (double)dks[i], n = 32, rows = 400;
    double sampling = sqrt((2 / d + 2 / n * (1 + 2 / d)) / rows);
    th__saturate_point p = run_point(dks[i], 32, none, 400, TH_F32);
    expect_near("variance, none", p.logit_variance, d, 4 * sampling);
    expect_near("its standard error", p.logit_variance_error, d * sampling, 0.25);
    p = run_point(dks[i], 32, root, 400, TH_F32);
    expect_near("variance, sqrt", p.logit_variance, 1, 4 * sampling);
    p = run_point(dks[i], 32, inverse, 400, TH_F32);
    expect_near("variance, dk", p.logit_variance, 1 / d, 4 * sampling);
  }
}

static th__saturate_result *run_default(th_dtype dtype, long samples) {
  const long dk[] = {4, 16, 64, 256}, keys[] = {2, 8, 32};
  return run(&(th__saturate_options){.dk = dk,
                                     .keys = keys,
                                     .dk_count = 4,
                                     .keys_count = 3,
                                     .samples = samples,
                                     .dtype = dtype,
                                     .seed = 3});
}

/* |J| <= trace J <= 1 - 1/n and entropy <= ln n, in every summary; more saturation without the scale
 * at every d_k, and a dying median gradient. */
Test(saturate, figures_are_consistent) {
  th__saturate_result *result = run_default(TH_F32, 128);
  for (int i = 0; i < result->count; i++) {
    const th__saturate_point *p = &result->points[i];
    const th__summary *norm = &p->figures[TH__JACOBIAN_NORM];
    const th__summary *trace = &p->figures[TH__JACOBIAN_TRACE];
    cr_assert(norm->mean <= trace->mean && norm->median <= trace->median && norm->q10 <= trace->q10);
    cr_assert(trace->q90 <= 1 - 1 / (double)p->keys && trace->mean <= 1 - 1 / (double)p->keys);
    cr_assert(p->figures[TH__ENTROPY].q90 <= log((double)p->keys) + 1e-6);
    cr_assert(p->figures[TH__ONE_MINUS_MAX].q90 <= 1 - 1 / (double)p->keys);
    for (int f = 0; f < TH__SATURATE_FIGURES; f++) {
      const th__summary *s = &p->figures[f];
      cr_assert(s->q10 <= s->median && s->median <= s->q90 && s->standard_error > 0);
    }
    cr_assert(p->fd_rel_error_median <= 1e-5 && p->fd_rows == 16);
  }
  for (int i = 0; i < result->count; i += 3)
    cr_assert(result->points[i].saturated_share >= result->points[i + 1].saturated_share &&
              result->points[i + 1].saturated_share >= result->points[i + 2].saturated_share);
  /* d_k 256, 8 keys, scale none and sqrt; d_k 4, none */
  double dead = result->points[30].figures[TH__DQ_NORM].median;
  cr_assert(dead < 0.1 * result->points[31].figures[TH__DQ_NORM].median);
  cr_assert(result->points[30].saturated_share > 0.4 && result->points[3].saturated_share < 0.1);
  th__saturate_free(result);
}

/* In f64 the backward and the differences agree to the differences' own accuracy, everywhere. */
Test(saturate, gradients_are_true) {
  th__saturate_result *result = run_default(TH_F64, 32);
  for (int i = 0; i < result->count; i++)
    cr_assert(result->points[i].fd_rel_error_max <= 1e-8, "point %d: %.3g", i,
              result->points[i].fd_rel_error_max);
  th__saturate_free(result);
}

/* Both precisions draw the same rows, so their figures differ by rounding only. */
Test(saturate, precisions_agree) {
  th__saturate_point single = run_point(64, 8, none, 100, TH_F32);
  th__saturate_point dual = run_point(64, 8, none, 100, TH_F64);
  for (int f = 0; f < TH__SATURATE_FIGURES; f++) {
    expect_near("mean", single.figures[f].mean, dual.figures[f].mean, 1e-4);
    expect_near("median", single.figures[f].median, dual.figures[f].median, 1e-4);
  }
  cr_assert(single.figures[TH__ENTROPY].mean != dual.figures[TH__ENTROPY].mean, "one precision");
}

/* Logits so far apart that f32 weights underflow: the rows are reported dead, and the differences, in
 * f64, say that the gradient is not 0. In f64 they live. */
Test(saturate, underflow_is_reported) {
  th__saturate_scale large = {TH_SCALE_FACTOR, 20, "20"};
  th__saturate_point single = run_point(16, 2, large, 128, TH_F32);
  th__saturate_point dual = run_point(16, 2, large, 128, TH_F64);
  cr_assert(single.zero_gradient_rows > 20 && single.zero_gradient_rows < 100);
  cr_assert_eq(single.zero_weights, single.zero_gradient_rows, "with 2 keys, one zero is all");
  cr_assert_eq(single.fd_rel_error_max, 1);
  cr_assert(dual.zero_gradient_rows == 0 && dual.zero_weights == 0);
  cr_assert(dual.fd_rel_error_max < 1e-6, "%.3g", dual.fd_rel_error_max);
  cr_assert(dual.figures[TH__DQ_NORM].q10 > 0 && dual.figures[TH__DQ_NORM].q10 < 1e-38);
}

/* ---- what a figure may depend on ---- */

static void expect_same(const th__saturate_point *a, const th__saturate_point *b) {
  cr_assert_eq(memcmp(a->figures, b->figures, sizeof a->figures), 0);
  cr_assert(a->logit_variance == b->logit_variance && a->saturated_share == b->saturated_share &&
            a->fd_rel_error_median == b->fd_rel_error_median &&
            a->fd_rel_error_max == b->fd_rel_error_max && a->zero_weights == b->zero_weights);
}

/* The same bits at 1, 2 and 5 threads, with several pieces of rows per point. */
Test(saturate, threads_do_not_matter) {
  const long dk[] = {64, 512}, keys[] = {33, 64};
  th__saturate_options options = {
      .dk = dk, .keys = keys, .dk_count = 2, .keys_count = 2, .samples = 70, .seed = 5};
  th__saturate_result *results[3];
  const int threads[] = {1, 2, 5};
  for (int i = 0; i < 3; i++) {
    th_set_threads(threads[i]);
    results[i] = run(&options);
    cr_assert_eq(results[i]->threads, threads[i]);
    for (int p = 0; p < results[0]->count; p++)
      expect_same(&results[0]->points[p], &results[i]->points[p]);
  }
  options.seed = 6;
  th__saturate_result *other = run(&options);
  cr_assert(other->points[0].logit_variance != results[0]->points[0].logit_variance);
  th__saturate_free(other);
  for (int i = 0; i < 3; i++) th__saturate_free(results[i]);
}

/* A point alone is the point in a sweep; a scale by name is the scale by its number. */
Test(saturate, points_do_not_depend_on_each_other) {
  const long dk[] = {4, 16}, keys[] = {3, 8};
  th__saturate_result *result = run(&(th__saturate_options){
      .dk = dk, .keys = keys, .dk_count = 2, .keys_count = 2, .samples = 40});
  cr_assert_eq(result->count, 12);
  const th__saturate_point *in_sweep = &result->points[(1 * 2 + 1) * 3 + 1];
  cr_assert(in_sweep->dk == 16 && in_sweep->keys == 8 && in_sweep->scale.kind == TH_SCALE_SQRT);
  th__saturate_point alone = run_point(16, 8, root, 40, TH_F32);
  expect_same(in_sweep, &alone);
  alone = run_point(16, 8, (th__saturate_scale){TH_SCALE_FACTOR, 0.25, "0.25"}, 40, TH_F32);
  expect_same(in_sweep, &alone);
  th__saturate_free(result);
}

static void note_progress(void *context, double done) {
  double *last = context;
  cr_assert(done >= *last && done <= 1 + 1e-12, "progress went from %g to %g", *last, done);
  *last = done;
}

Test(saturate, progress_reaches_the_end) {
  double last = 0;
  const long dk[] = {4, 512};
  th__saturate_result *result = run(&(th__saturate_options){
      .dk = dk, .dk_count = 2, .samples = 20, .progress = note_progress, .progress_context = &last});
  cr_assert_float_eq(last, 1, 1e-12);
  th__saturate_free(result);
}

/* ---- refusals ---- */

static void expect_refusal(long dk, long keys, th__saturate_scale scale, long samples,
                           th_status status, const char *text) {
  th_error error = {0};
  th__saturate_result *result = th__saturate(&(th__saturate_options){.dk = &dk,
                                                                     .keys = &keys,
                                                                     .scales = &scale,
                                                                     .dk_count = 1,
                                                                     .keys_count = 1,
                                                                     .scale_count = 1,
                                                                     .samples = samples},
                                             &error);
  cr_assert_null(result);
  cr_assert_eq(error.status, status, "%s", error.message);
  cr_assert_not_null(strstr(error.message, text), "'%s' does not say '%s'", error.message, text);
}

Test(saturate, bad_settings) {
  const long most = TH__SATURATE_MOST_DK;
  expect_refusal(0, 8, none, 10, TH_ERR_VALUE, "d_k is 0; 1 to 1048576 is possible");
  expect_refusal(most + 1, 8, none, 10, TH_ERR_VALUE, "d_k is 1048577");
  expect_refusal(4, -1, none, 10, TH_ERR_VALUE, "number of keys is -1");
  expect_refusal(4, 8, none, -1, TH_ERR_VALUE, "number of samples is -1");
  expect_refusal(most, most, none, 10, TH_ERR_MEMORY, "GiB are free; use fewer");
  expect_refusal(16, 8, (th__saturate_scale){TH_SCALE_FACTOR, 1e60, "1e60"}, 10, TH_ERR_NONFINITE,
                 "d_k 16, 8 keys, scale 1e60: weights or gradients are not finite in f32");
  expect_refusal(16, 8, (th__saturate_scale){TH_SCALE_FACTOR, (double)NAN, "nan"}, 10, TH_ERR_VALUE,
                 "finite");
}

/* Every request for memory fails once: an error, nothing lost. */
Test(saturate, memory_that_ends) {
  const long dk = 64, keys = 32;
  th__saturate_options options = {
      .dk = &dk, .keys = &keys, .dk_count = 1, .keys_count = 1, .samples = 3};
  th_set_threads(1);
  th__saturate_result *result = NULL;
  size_t n = 1;
  for (; result == NULL; n++) {
    th_error error = {0};
    cr_assert(n < 200, "it never succeeds");
    th__alloc_fail_at(n);
    result = th__saturate(&options, &error);
    th__alloc_fail_at(0);
    cr_assert(result != NULL || error.status == TH_ERR_MEMORY, "request %zu: %s", n, error.message);
  }
  cr_assert(n > 15, "only %zu requests were seen", n);
  th__saturate_free(result);
}
