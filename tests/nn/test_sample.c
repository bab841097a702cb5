/* sample: drawing tokens: extremes of temperature and of the uniform number, what is kept, frequencies,
 * what is refused. C27. */
#include "../optim/steps.h"

#include "tensor/alloc.h"

#define BELOW_ONE 0x1.fffffffffffffp-1 /* the largest double below 1 */

static th_tensor *row_of(th_dtype dtype, ptrdiff_t count, const double *values) {
  th_tensor *logits = th_tensor_new(dtype, TH_SHAPE(count), NULL);
  cr_assert_not_null(logits);
  th_tensor_write(logits, values);
  return logits;
}

static ptrdiff_t drawn(const th_tensor *logits, th_sampling options, double uniform) {
  th_error error = {0};
  ptrdiff_t token = th_sample(logits, &options, uniform, &error);
  cr_assert(token >= 0 && token < th_tensor_dim(logits, -1), "%td: %s", token, error.message);
  return token;
}

static const double uniforms[] = {0, 1e-300, 0.3, 0.5, 0.999, BELOW_ONE};
enum { UNIFORMS = sizeof uniforms / sizeof uniforms[0] };

/* C27: temperature 0 is the first of the largest, and so is one so small that logits / T overflow. */
TEST_BOTH(sample, temperature_zero_and_near_zero) {
  static const double values[] = {1, 3, -INFINITY, 3, 2};
  th_tensor *logits = row_of(dtype, 5, values);
  for (int i = 0; i < UNIFORMS; i++) {
    cr_assert_eq(drawn(logits, (th_sampling){0}, uniforms[i]), 1);
    cr_assert_eq(drawn(logits, (th_sampling){.top_k = 2, .top_p = 0.5}, uniforms[i]), 1);
    static const double small[] = {1e-8, 1e-300, 5e-324};
    for (int t = 0; t < 3; t++) /* the two largest share, half and half */
      cr_assert_eq(drawn(logits, (th_sampling){.temperature = small[t]}, uniforms[i]),
                   uniforms[i] < 0.5 ? 1 : 3);
  }
  cr_assert_eq(th_sample(logits, NULL, 0.7, NULL), 1);
  th_tensor_free(logits);
}

/* C27: 0 and just below 1 give tokens that can occur. */
TEST_BOTH(sample, ends_of_the_uniform_number) {
  static const double values[] = {-INFINITY, -1e4, 0.5, 1, -1e4, -INFINITY};
  th_tensor *logits = row_of(dtype, 6, values);
  for (double t = 0.1; t < 20; t *= 3) {
    cr_assert_eq(drawn(logits, (th_sampling){.temperature = t}, 0), 2);
    cr_assert_eq(drawn(logits, (th_sampling){.temperature = t}, BELOW_ONE), 3);
    cr_assert_eq(drawn(logits, (th_sampling){.temperature = t, .top_k = 5}, 0), 2);
    cr_assert_eq(drawn(logits, (th_sampling){.temperature = t, .top_p = 0.9999}, BELOW_ONE), 3);
  }
  th_tensor_free(logits);
}

/* At the highest temperature everything is as likely as anything else, but for -inf. */
TEST_BOTH(sample, minus_infinity_is_never_drawn) {
  static const double values[] = {-INFINITY, 0, -INFINITY, -50, -INFINITY};
  th_tensor *logits = row_of(dtype, 5, values);
  int count[5] = {0};
  for (uint64_t i = 0; i < 1000; i++)
    for (ptrdiff_t k = 0; k <= 5; k++)
      count[drawn(logits, (th_sampling){.temperature = 1e300, .top_k = k},
                  th_random_uniform((th_random){1, 2, 3}, i))]++;
  cr_assert(count[0] == 0 && count[2] == 0 && count[4] == 0);
  cr_assert(count[1] > 2000 && count[3] > 2000);
  th_tensor_free(logits);
}

/* Sweeps the uniform number: which tokens are drawn, and over how much of [0, 1) each. */
static void shares(const th_tensor *logits, th_sampling options, double *share) {
  enum { STEPS = 4000 };
  for (ptrdiff_t i = 0; i < th_tensor_count(logits); i++) share[i] = 0;
  for (int i = 0; i < STEPS; i++) share[drawn(logits, options, (i + 0.5) / STEPS)] += 1.0 / STEPS;
}

static void expect_shares(const th_tensor *logits, th_sampling options, const double *want) {
  double share[8];
  shares(logits, options, share);
  for (ptrdiff_t i = 0; i < th_tensor_count(logits); i++) {
    cr_assert_eq(share[i] == 0, want[i] == 0, "top_k %td, top_p %g: token %td has %g",
                 options.top_k, options.top_p, i, share[i]);
    cr_assert_float_eq(share[i], want[i], 1e-3, "top_k %td, top_p %g: token %td has %g, not %g",
                       options.top_k, options.top_p, i, share[i], want[i]);
  }
}

/* Probabilities 0.1, 0.4, 0.1, 0.2, 0.2. Of equals the first is kept. */
TEST_BOTH(sample, top_k_and_top_p) {
  const double values[] = {log(0.1), log(0.4), log(0.1), log(0.2), log(0.2)};
  th_tensor *logits = row_of(dtype, 5, values);
#define SHARES(...)                                                                                \
  (const double[]) { __VA_ARGS__ }
  static const double all[] = {0.1, 0.4, 0.1, 0.2, 0.2};
  expect_shares(logits, (th_sampling){.temperature = 1}, all);
  expect_shares(logits, (th_sampling){.temperature = 1, .top_k = 5, .top_p = 1}, all);
  expect_shares(logits, (th_sampling){.temperature = 1, .top_k = 1000}, all);
  expect_shares(logits, (th_sampling){.temperature = 1, .top_k = 1}, SHARES(0, 1, 0, 0, 0));
  expect_shares(logits, (th_sampling){.temperature = 1, .top_k = 2},
                SHARES(0, 2 / 3.0, 0, 1 / 3.0, 0));
  expect_shares(logits, (th_sampling){.temperature = 1, .top_k = 3}, SHARES(0, 0.5, 0, 0.25, 0.25));
  expect_shares(logits, (th_sampling){.temperature = 1, .top_k = 4},
                SHARES(1 / 9.0, 4 / 9.0, 0, 2 / 9.0, 2 / 9.0));
  expect_shares(logits, (th_sampling){.temperature = 1, .top_p = 1e-9}, SHARES(0, 1, 0, 0, 0));
  expect_shares(logits, (th_sampling){.temperature = 1, .top_p = 0.39}, SHARES(0, 1, 0, 0, 0));
  expect_shares(logits, (th_sampling){.temperature = 1, .top_p = 0.5},
                SHARES(0, 2 / 3.0, 0, 1 / 3.0, 0));
  expect_shares(logits, (th_sampling){.temperature = 1, .top_p = 0.7},
                SHARES(0, 0.5, 0, 0.25, 0.25));
  expect_shares(logits, (th_sampling){.temperature = 1, .top_p = 0.999}, all);
  /* of the three that top_k leaves, with 0.5, 0.25 and 0.25, two reach 0.6 */
  expect_shares(logits, (th_sampling){.temperature = 1, .top_k = 3, .top_p = 0.6},
                SHARES(0, 2 / 3.0, 0, 1 / 3.0, 0));
  /* temperature first: squares of the probabilities, 1 16 1 4 4 of 26 */
  expect_shares(logits, (th_sampling){.temperature = 0.5, .top_p = 0.6}, SHARES(0, 1, 0, 0, 0));
  th_tensor_free(logits);
}

Test(sample, equals_are_kept_by_index) {
  static const double values[] = {7, 7, 7, 7, 7, 7, 7, 7};
  th_tensor *logits = row_of(TH_F32, 8, values);
  for (ptrdiff_t k = 1; k <= 8; k++) {
    double want[8] = {0};
    for (ptrdiff_t i = 0; i < k; i++) want[i] = 1.0 / (double)k;
    expect_shares(logits, (th_sampling){.temperature = 1, .top_k = k}, want);
    expect_shares(logits, (th_sampling){.temperature = 1, .top_p = ((double)k - 0.5) / 8}, want);
  }
  th_tensor_free(logits);
}

/* Frequencies of 100000 draws against the exact probabilities: chi-square with 29 degrees of freedom
 * stays below 58.3 with probability 0.999; the draws are the same in every run. Draws from the next
 * seed's probabilities do not. */
TEST_BOTH(sample, frequencies) {
  enum { V = 30, DRAWS = 100000 };
  double values[V], weights[V], total = 0;
  int count[V] = {0};
  for (uint64_t i = 0; i < V; i++) {
    values[i] = th_random_normal((th_random){5, 6, 7}, i);
    if (dtype == TH_F32) values[i] = (double)(float)values[i];
    total += weights[i] = exp(values[i] / 1.3);
  }
  th_tensor *logits = row_of(dtype, V, values);
  for (uint64_t i = 0; i < DRAWS; i++)
    count[drawn(logits, (th_sampling){.temperature = 1.3},
                th_random_uniform((th_random){8, 9, 10}, i))]++;
  double chi = 0, wrong = 0;
  for (int i = 0; i < V; i++) {
    double want = DRAWS * weights[i] / total, other = DRAWS * weights[(i + 1) % V] / total;
    chi += (count[i] - want) * (count[i] - want) / want;
    wrong += (count[i] - other) * (count[i] - other) / other;
  }
  cr_assert_lt(chi, 58.3);
  cr_assert_gt(wrong, 1000);
  th_tensor_free(logits);
}

/* The last row, in any layout. */
Test(sample, last_row_of_a_view) {
  static const double values[] = {9, 0, 0, 0, 0, 9, 0, 9, 0, 0, 0, 8};
  th_tape *tape = th_tape_new();
  th_tensor *x = make(tape, TH_F32, TH_SHAPE(2, 2, 3), values);
  cr_assert_eq(th_sample(x, NULL, 0, NULL), 2);
  cr_assert_eq(th_sample(th_slice(tape, x, 1, 0, 1), NULL, 0, NULL), 1);  /* row [1][0] */
  cr_assert_eq(th_sample(th_slice(tape, x, 0, 0, 1), NULL, 0, NULL), 2);  /* row [0][1] */
  cr_assert_eq(th_sample(th_transpose(tape, x, 1, 2), NULL, 0, NULL), 1); /* 0 8: x[1][.][2] */
  th_tape_free(tape);
}

Test(sample, rejects) {
  static const double good[] = {1, 2, 3}, with_nan[] = {1, NAN, 3}, with_inf[] = {1, 2, INFINITY},
                      none[] = {-INFINITY, -INFINITY, -INFINITY};
  th_tensor *x = row_of(TH_F32, 3, good);
#define REFUSED(status, text, logits, uniform, ...)                                                \
  EXPECT_REFUSED(th_sample(logits, &(th_sampling){__VA_ARGS__}, uniform, &error) >= 0, status, text)
  REFUSED(TH_ERR_VALUE, "temperature is -1", x, 0.5, .temperature = -1);
  REFUSED(TH_ERR_VALUE, "temperature is nan", x, 0.5, .temperature = NAN);
  REFUSED(TH_ERR_VALUE, "temperature is inf", x, 0.5, .temperature = INFINITY);
  REFUSED(TH_ERR_VALUE, "top_k is -1", x, 0.5, .top_k = -1);
  REFUSED(TH_ERR_VALUE, "top_p is 1.5", x, 0.5, .top_p = 1.5);
  REFUSED(TH_ERR_VALUE, "top_p is -0.1", x, 0.5, .top_p = -0.1);
  REFUSED(TH_ERR_VALUE, "top_p is nan", x, 0.5, .top_p = NAN);
  REFUSED(TH_ERR_VALUE, "uniform is 1", x, 1, .temperature = 1);
  REFUSED(TH_ERR_VALUE, "uniform is -0.1", x, -0.1, .temperature = 1);
  REFUSED(TH_ERR_VALUE, "uniform is nan", x, NAN, .temperature = 1);
  REFUSED(TH_ERR_VALUE, "NULL", NULL, 0.5, .temperature = 1);
  th_tensor_free(x);
  for (double t = 0; t <= 1; t++) {
    REFUSED(TH_ERR_NONFINITE, "logit 1 of 3 is NaN", x = row_of(TH_F32, 3, with_nan), 0.5,
            .temperature = t);
    th_tensor_free(x);
    REFUSED(TH_ERR_NONFINITE, "logit 2 of 3 is infinity", x = row_of(TH_F64, 3, with_inf), 0.5,
            .temperature = t);
    th_tensor_free(x);
    REFUSED(TH_ERR_NONFINITE, "all 3 logits", x = row_of(TH_F32, 3, none), 0.5, .temperature = t);
    th_tensor_free(x);
  }
  REFUSED(TH_ERR_DTYPE, "i32", x = th_tensor_new(TH_I32, TH_SHAPE(3), NULL), 0.5, .temperature = 1);
  th_tensor_free(x);
  REFUSED(TH_ERR_SHAPE, "no last row", x = th_tensor_new(TH_F32, TH_SHAPE(0, 3), NULL), 0.5,
          .temperature = 1);
  th_tensor_free(x);
  REFUSED(TH_ERR_SHAPE, "no last row", x = th_tensor_new(TH_F32, TH_SCALAR, NULL), 0.5,
          .temperature = 1);
  th_tensor_free(x);
}

Test(sample, memory) {
  static const double values[] = {1, 2, 3};
  th_tensor *x = row_of(TH_F32, 3, values);
  th__alloc_fail_at(1);
  cr_assert_geq(th_sample(x, &(th_sampling){.temperature = 1}, 0.5, NULL), 0); /* needs none */
  th_error error = {0};
  ptrdiff_t token = th_sample(x, &(th_sampling){.temperature = 1, .top_k = 2}, 0.5, &error);
  th__alloc_fail_at(0);
  cr_assert_eq(token, -1);
  cr_assert_eq(error.status, TH_ERR_MEMORY);
  th_tensor_free(x);
}
