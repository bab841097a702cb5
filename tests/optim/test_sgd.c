/* sgd: goldens, options, and what every optimiser shares: which parameters a step touches. */
#include "steps.h"

#include "golden/sgd.inc"
#include "tensor/alloc.h"

TEST_BOTH(sgd, plain) {
  th_params *params = th_params_new(NULL);
  th_tensor *w =
      add_param(params, "w", dtype, 2, golden_sgd_plain_theta_shape, golden_sgd_plain_theta);
  th_optim *optim = th_sgd_new(params, &(th_sgd){.lr = golden_sgd_plain_lr}, NULL);
  follow_path(optim, w, 5, golden_sgd_plain_gradients, golden_sgd_plain_path);
  th_params_free(params);
}

TEST_BOTH(sgd, momentum) {
  th_params *params = th_params_new(NULL);
  th_tensor *w =
      add_param(params, "w", dtype, 2, golden_sgd_momentum_theta_shape, golden_sgd_momentum_theta);
  th_optim *optim = th_sgd_new(
      params, &(th_sgd){.lr = golden_sgd_momentum_lr, .momentum = golden_sgd_momentum_momentum},
      NULL);
  follow_path(optim, w, 5, golden_sgd_momentum_gradients, golden_sgd_momentum_path);
  th_params_free(params);
}

Test(sgd, default_rate) {
  th_params *params = th_params_new(NULL);
  th_optim *optim = th_sgd_new(params, NULL, NULL);
  cr_assert_eq(th_optim_lr(optim), 1e-3);
  th_optim_free(optim);
  th_params_free(params);
}

/* Several backward passes before a step add up. */
TEST_BOTH(sgd, gradients_accumulate) {
  th_params *params = th_params_new(NULL);
  th_tensor *w = add_param(params, "w", dtype, TH_SHAPE(2), (double[]){1, 2});
  th_optim *optim = th_sgd_new(params, &(th_sgd){.lr = 0.5}, NULL);
  give_grad(w, (double[]){1, 0});
  give_grad(w, (double[]){1, 4});
  step(optim);
  expect_values("w", w, (double[]){0, 0}, 0);
  th_optim_free(optim);
  th_params_free(params);
}

/* A parameter without a gradient keeps its value, whatever momentum it has. */
TEST_BOTH(sgd, only_what_got_a_gradient_moves) {
  th_params *params = th_params_new(NULL);
  th_tensor *a = add_param(params, "a", dtype, TH_SHAPE(1), (double[]){1});
  th_tensor *b = add_param(params, "b", dtype, TH_SHAPE(1), (double[]){1});
  th_optim *optim = th_sgd_new(params, &(th_sgd){.lr = 1, .momentum = 0.5}, NULL);
  give_grad(a, (double[]){1});
  give_grad(b, (double[]){1});
  step(optim);
  give_grad(b, (double[]){1});
  step(optim);
  expect_values("a", a, (double[]){0}, 0);
  expect_values("b", b, (double[]){-1.5}, 0);
  th_optim_free(optim);
  th_params_free(params);
}

/* More numbers than one piece holds, over several parameters: no seam shows, at 1 or 2 threads. */
TEST_BOTH(sgd, pieces_cover_everything_once) {
  const ptrdiff_t sizes[] = {5, 20000, 0, 1, 8186, 3, 40000};
  for (int threads = 1; threads <= 2; threads++) {
    cr_assert_eq(th_set_threads(threads), TH_OK);
    th_params *params = th_params_new(NULL);
    double *ones = malloc(40000 * sizeof *ones);
    for (int i = 0; i < 40000; i++) ones[i] = 1;
    for (int p = 0; p < 7; p++) {
      char name[] = {(char)('a' + p), '\0'};
      give_grad(add_param(params, name, dtype, TH_SHAPE(sizes[p]), ones), ones);
    }
    th_optim *optim = th_sgd_new(params, &(th_sgd){.lr = 0.25}, NULL);
    step(optim);
    for (int i = 0; i < 40000; i++) ones[i] = 0.75;
    for (int p = 0; p < 7; p++) expect_values("w", th_params_at(params, p), ones, 0);
    th_optim_free(optim);
    th_params_free(params);
    free(ones);
  }
  th_set_threads(0);
}

Test(sgd, refuses_to_step) {
  th_params *params = th_params_new(NULL);
  th_tensor *w = add_param(params, "w", TH_F32, TH_SHAPE(1), (double[]){1});
  th_optim *optim = th_sgd_new(params, &(th_sgd){.lr = 1}, NULL);
  EXPECT_REFUSED(th_optim_step(optim, &error) == TH_OK, TH_ERR_STATE, "no gradient has arrived");
  give_grad(w, (double[]){1});
  w->grad_broken = true; /* as a backward that ran out of memory leaves it */
  EXPECT_REFUSED(th_optim_step(optim, &error) == TH_OK, TH_ERR_STATE, "gradient of w is incomplete");
  expect_values("w", w, (double[]){1}, 0);
  cr_assert_eq(th_optim_steps(optim), 0);
  th_params_zero_grad(params);
  EXPECT_REFUSED(th_optim_step(optim, &error) == TH_OK, TH_ERR_STATE, "no gradient has arrived");
  add_param(params, "late", TH_F32, TH_SHAPE(1), (double[]){1});
  EXPECT_REFUSED(th_optim_step(optim, &error) == TH_OK, TH_ERR_STATE, "add all parameters first");
  EXPECT_REFUSED(th_optim_step(NULL, &error) == TH_OK, TH_ERR_VALUE, "NULL");
  th_optim_free(optim);
  th_params_free(params);
}

Test(sgd, rejects_options) {
  th_params *params = th_params_new(NULL);
#define BAD(...) th_sgd_new(params, &(th_sgd){__VA_ARGS__}, &error)
  EXPECT_REFUSED(BAD(.lr = -1), TH_ERR_VALUE, "lr is -1");
  EXPECT_REFUSED(BAD(.lr = (double)NAN), TH_ERR_VALUE, "lr is nan");
  EXPECT_REFUSED(BAD(.lr = (double)INFINITY), TH_ERR_VALUE, "lr is inf");
  EXPECT_REFUSED(BAD(.momentum = 1), TH_ERR_VALUE, "momentum is 1");
  EXPECT_REFUSED(BAD(.momentum = -0.1), TH_ERR_VALUE, "momentum is -0.1");
  EXPECT_REFUSED(BAD(.momentum = (double)NAN), TH_ERR_VALUE, "momentum is nan");
  EXPECT_REFUSED(th_sgd_new(NULL, NULL, &error), TH_ERR_VALUE, "NULL");
  th_optim *optim = th_sgd_new(params, NULL, NULL);
  cr_assert_eq(th_optim_set_lr(optim, (double)NAN), TH_ERR_VALUE);
  cr_assert_eq(th_optim_set_lr(optim, -1), TH_ERR_VALUE);
  cr_assert_eq(th_optim_lr(optim), 1e-3);
  cr_assert_eq(th_optim_set_lr(optim, 0), TH_OK);
  cr_assert_eq(th_optim_lr(optim), 0);
  cr_assert_eq(th_optim_set_lr(NULL, 1), TH_ERR_VALUE);
  cr_assert(th_optim_lr(NULL) == 0 && th_optim_steps(NULL) == 0);
  th_optim_free(optim);
  th_params_free(params);
}

Test(sgd, every_allocation_may_fail) {
  th_params *params = th_params_new(NULL);
  add_param(params, "w", TH_F32, TH_SHAPE(3), (double[]){1, 2, 3});
  th_optim *optim = NULL;
  size_t n = 0;
  while (optim == NULL) {
    th_error error = {0};
    th__alloc_fail_at(++n);
    optim = th_sgd_new(params, &(th_sgd){.momentum = 0.9}, &error);
    th__alloc_fail_at(0);
    if (optim == NULL) cr_assert_eq(error.status, TH_ERR_MEMORY, "%s", error.message);
  }
  cr_assert_gt(n, 3u); /* the optimiser, its slots, a moment's header and data */
  th_optim_free(optim);
  th_params_free(params);
}
