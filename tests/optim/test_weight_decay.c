/* weight_decay: what each parameter decays with, and that it does. */
#include "steps.h"

/* C16: a gradient of 0 leaves the decay alone: w -= lr decay w. */
Test(weight_decay, is_what_a_step_does) {
  static const double ones[] = {1, 1, 1, 1}, zeros[4] = {0};
  th_params *params = th_params_new(NULL);
  th_tensor *w[] = {add_param(params, "matrix", TH_F64, TH_SHAPE(2, 2), ones),
                    add_param(params, "bias", TH_F64, TH_SHAPE(4), ones),
                    add_param(params, "column", TH_F64, TH_SHAPE(4, 1), ones),
                    add_param(params, "scalar", TH_F64, TH_SCALAR, ones)};
  static const double decays[] = {0.1, 0, 0.1, 0};
  th_optim *optim = th_adamw_new(params, &(th_adamw){.lr = 0.5, .weight_decay = 0.1}, NULL);
  for (int i = 0; i < 4; i++) give_grad(w[i], zeros);
  step(optim);
  for (int i = 0; i < 4; i++) {
    double values[4];
    cr_assert_eq(th_optim_weight_decay(optim, i), decays[i], "%s", th_tensor_name(w[i]));
    th_tensor_read(w[i], values);
    cr_assert_float_eq(values[0], 1 - 0.5 * decays[i], 1e-15, "%s", th_tensor_name(w[i]));
  }
  cr_assert_eq(th_optim_weight_decay(optim, 4), 0);
  cr_assert_eq(th_optim_weight_decay(optim, -1), 0);
  cr_assert_eq(th_optim_weight_decay(NULL, 0), 0);
  th_optim_free(optim);
  th_params_free(params);
}

Test(weight_decay, none_without_it) {
  static const double ones[] = {1, 1};
  th_params *params = th_params_new(NULL);
  add_param(params, "matrix", TH_F32, TH_SHAPE(1, 2), ones);
  th_optim *optims[] = {th_sgd_new(params, NULL, NULL), th_adam_new(params, NULL, NULL),
                        th_adamw_new(params, NULL, NULL)};
  for (int i = 0; i < 3; i++) {
    cr_assert_eq(th_optim_weight_decay(optims[i], 0), 0);
    th_optim_free(optims[i]);
  }
  th_params_free(params);
}

/* The output is the token table: it stands in the list, and decays, once. */
Test(weight_decay, tied_once_biases_and_gains_not) {
  const th_gpt config = {.layers = 2, .heads = 2, .width = 8, .context = 4, .vocab = 5};
  th_error error = {0};
  th_model *model = th_gpt_new(&config, 1, &error);
  cr_assert_not_null(model, "%s", error.message);
  th_params *params = th_model_params(model);
  th_optim *optim = th_adamw_new(params, &(th_adamw){.weight_decay = 0.1}, NULL);
  int tables = 0, decaying = 0;
  for (ptrdiff_t i = 0; i < th_params_count(params); i++) {
    const th_tensor *w = th_params_at(params, i);
    double decay = th_optim_weight_decay(optim, i);
    cr_assert_eq(decay, th_tensor_ndim(w) >= 2 ? 0.1 : 0, "%s", th_tensor_name(w));
    decaying += decay > 0;
    tables += th_tensor_dim(w, 0) == 5;
  }
  cr_assert_eq(tables, 1);
  cr_assert_eq(decaying, 2 + 2 * 4); /* two tables; four matrices per layer */
  th_optim_free(optim);
  th_model_free(model);
}
