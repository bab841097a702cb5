/* adamw and adam: goldens (C16: decay from the weight before the update; eps outside the root; one
 * axis does not decay), bias correction per parameter, fading moments (C27), options. */
#include "steps.h"

#include "golden/adam.inc"
#include "golden/adamw.inc"
#include "optim/optim.h"
#include "tensor/alloc.h"

#define OPTIONS(kind, name)                                                                        \
  .lr = golden_##kind##_##name##_lr, .beta1 = golden_##kind##_##name##_beta1,                      \
  .beta2 = golden_##kind##_##name##_beta2, .eps = golden_##kind##_##name##_eps

#define GOLDEN_PATH(kind, name, ...)                                                               \
  do {                                                                                             \
    th_params *params = th_params_new(NULL);                                                       \
    int ndim = (int)(sizeof golden_##kind##_##name##_theta_shape / sizeof(ptrdiff_t));             \
    th_tensor *w = add_param(params, "w", dtype, ndim, golden_##kind##_##name##_theta_shape,       \
                             golden_##kind##_##name##_theta);                                      \
    th_optim *optim = th_##kind##_new(params, &(th_adamw){__VA_ARGS__}, NULL);                     \
    follow_path(optim, w, (int)golden_##kind##_##name##_gradients_shape[0],                        \
                golden_##kind##_##name##_gradients, golden_##kind##_##name##_path);                \
    th_params_free(params);                                                                        \
  } while (0)

TEST_BOTH(adamw, golden) {
#define ADAMW(name)                                                                                \
  GOLDEN_PATH(adamw, name, OPTIONS(adamw, name), .weight_decay = golden_adamw_##name##_weight_decay)
  ADAMW(plain);
  ADAMW(decay);
  ADAMW(eps);
  ADAMW(bias);
  ADAMW(order);
}

TEST_BOTH(adamw, adam_golden) {
  GOLDEN_PATH(adam, plain, OPTIONS(adam, plain));
  GOLDEN_PATH(adam, eps, OPTIONS(adam, eps));
  GOLDEN_PATH(adam, silent, OPTIONS(adam, silent));
}

Test(adamw, defaults) {
  th_params *params = th_params_new(NULL);
  th_optim *optim = th_adamw_new(params, NULL, NULL);
  cr_assert_eq(optim->lr, 1e-3);
  cr_assert_eq(optim->beta1, 0.9);
  cr_assert_eq(optim->beta2, 0.999);
  cr_assert_eq(optim->eps, 1e-8);
  cr_assert_eq(optim->weight_decay, 0);
  th_optim_free(optim);
  th_params_free(params);
}

/* A parameter whose first gradient comes late is corrected from its own first step, and does not
 * decay while it has no gradient. */
TEST_BOTH(adamw, a_late_parameter_starts_afresh) {
  th_params *params = th_params_new(NULL);
  th_tensor *early = add_param(params, "early", dtype, TH_SHAPE(1, 1), (double[]){1});
  th_tensor *late = add_param(params, "late", dtype, TH_SHAPE(1, 1), (double[]){1});
  th_optim *optim = th_adamw_new(params, &(th_adamw){.lr = 0.1, .weight_decay = 0.5}, NULL);
  for (int t = 0; t < 3; t++) {
    give_grad(early, (double[]){1});
    step(optim);
  }
  expect_values("late", late, (double[]){1}, 0);
  give_grad(late, (double[]){1});
  step(optim);
  expect_values("late", late, golden_adamw_order_path, tolerances[dtype].value);
  th_optim_free(optim);
  th_params_free(params);
}

/* C27: moments of a weight whose gradients stay 0 become 0, never subnormal. */
Test(adamw, moments_fade_to_zero) {
  th_params *params = th_params_new(NULL);
  double ones[8], zeros[8] = {0};
  for (int i = 0; i < 8; i++) ones[i] = 1e-3;
  th_tensor *w = add_param(params, "w", TH_F32, TH_SHAPE(8), zeros);
  th_optim *optim = th_adamw_new(params, &(th_adamw){.beta2 = 0.9}, NULL);
  give_grad(w, ones);
  step(optim);
  for (int t = 0; t < 1000; t++) {
    give_grad(w, zeros);
    step(optim);
    for (int i = 0; i < 8; i++) {
      float m = ((const float *)optim->slots[0].m->data)[i];
      float v = ((const float *)optim->slots[0].v->data)[i];
      cr_assert(m == 0 || isnormal(m), "m is %g after %d steps", (double)m, t);
      cr_assert(v == 0 || isnormal(v), "v is %g after %d steps", (double)v, t);
      cr_assert(t < 900 || (m == 0 && v == 0), "m %g, v %g", (double)m, (double)v);
    }
  }
  th_optim_free(optim);
  th_params_free(params);
}

/* Pieces, vector tails and threads: the same numbers as the plain loop, and the same bits. */
TEST_BOTH(adamw, pieces_and_threads) {
  enum { N = 20011 };
  double *w0 = malloc(N * sizeof *w0), *g0 = malloc(N * sizeof *g0),
         *want = malloc(N * sizeof *want);
  double *got[2] = {malloc(N * sizeof *want), malloc(N * sizeof *want)};
  th_random draw = {.seed = 7};
  for (int i = 0; i < N; i++) {
    w0[i] = (double)(float)th_random_normal(draw, (uint64_t)i);
    g0[i] = (double)(float)th_random_normal(draw, (uint64_t)(N + i));
    /* One step: mhat = g, vhat = g^2. */
    want[i] = w0[i] - 0.1 * (0.5 * w0[i] + g0[i] / (fabs(g0[i]) + 1e-8));
  }
  for (int threads = 1; threads <= 2; threads++) {
    th_set_threads(threads);
    th_params *params = th_params_new(NULL);
    th_tensor *w = add_param(params, "w", dtype, TH_SHAPE(1, N), w0);
    th_optim *optim = th_adamw_new(params, &(th_adamw){.lr = 0.1, .weight_decay = 0.5}, NULL);
    give_grad(w, g0);
    step(optim);
    expect_values("w", w, want, tolerances[dtype].value);
    th_tensor_read(w, got[threads - 1]);
    th_optim_free(optim);
    th_params_free(params);
  }
  th_set_threads(0);
  cr_assert_eq(memcmp(got[0], got[1], N * sizeof *want), 0);
  free(w0), free(g0), free(want), free(got[0]), free(got[1]);
}

Test(adamw, rejects_options) {
  th_params *params = th_params_new(NULL);
  add_param(params, "w", TH_F32, TH_SHAPE(1), (double[]){1});
#define BAD(...) th_adamw_new(params, &(th_adamw){__VA_ARGS__}, &error)
  EXPECT_REFUSED(BAD(.lr = -1e-3), TH_ERR_VALUE, "lr is -0.001");
  EXPECT_REFUSED(BAD(.lr = (double)NAN), TH_ERR_VALUE, "lr is nan");
  EXPECT_REFUSED(BAD(.beta1 = 1), TH_ERR_VALUE, "beta1 is 1");
  EXPECT_REFUSED(BAD(.beta1 = -0.5), TH_ERR_VALUE, "beta1 is -0.5");
  EXPECT_REFUSED(BAD(.beta2 = 1.5), TH_ERR_VALUE, "beta2 is 1.5");
  EXPECT_REFUSED(BAD(.beta2 = (double)NAN), TH_ERR_VALUE, "beta2 is nan");
  EXPECT_REFUSED(BAD(.eps = -1), TH_ERR_VALUE, "eps is -1");
  EXPECT_REFUSED(BAD(.eps = (double)NAN), TH_ERR_VALUE, "eps is nan");
  EXPECT_REFUSED(BAD(.eps = 1e-50), TH_ERR_VALUE, "too small for w");
  EXPECT_REFUSED(BAD(.weight_decay = -0.1), TH_ERR_VALUE, "weight_decay is -0.1");
  EXPECT_REFUSED(BAD(.weight_decay = (double)INFINITY), TH_ERR_VALUE, "weight_decay is inf");
  EXPECT_REFUSED(th_adamw_new(NULL, NULL, &error), TH_ERR_VALUE, "NULL");
  EXPECT_REFUSED(th_adam_new(params, &(th_adamw){.weight_decay = 0.1}, &error), TH_ERR_VALUE,
                 "use th_adamw_new");
  th_params_free(params);
}

Test(adamw, every_allocation_may_fail) {
  th_params *params = th_params_new(NULL);
  add_param(params, "w", TH_F32, TH_SHAPE(3), (double[]){1, 2, 3});
  th_optim *optim = NULL;
  size_t n = 0;
  while (optim == NULL) {
    th_error error = {0};
    th__alloc_fail_at(++n);
    optim = th_adamw_new(params, NULL, &error);
    th__alloc_fail_at(0);
    if (optim == NULL) cr_assert_eq(error.status, TH_ERR_MEMORY, "%s", error.message);
  }
  cr_assert_gt(n, 5u);
  th_optim_free(optim);
  th_params_free(params);
}
