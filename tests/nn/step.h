/* step.h: one training step of a model against goldens: its weights filled in, every gradient compared. */
#ifndef TESTS_NN_STEP_H
#define TESTS_NN_STEP_H

#include "../support.h"

typedef struct golden_param {
  const char *name;
  int ndim;
  const ptrdiff_t *shape;
  const double *value, *gradient;
} golden_param;

/* The model's list is the goldens', in order, and gets their values. */
static inline void fill_params(th_model *model, const golden_param *golden, ptrdiff_t count) {
  th_params *params = th_model_params(model);
  cr_assert_eq(th_params_count(params), count);
  for (ptrdiff_t i = 0; i < count; i++) {
    th_tensor *w = th_params_at(params, i);
    cr_assert_str_eq(th_tensor_name(w), golden[i].name);
    cr_assert_eq(th_tensor_ndim(w), golden[i].ndim);
    for (int axis = 0; axis < th_tensor_ndim(w); axis++)
      cr_assert_eq(th_tensor_dim(w, axis), golden[i].shape[axis], "%s", golden[i].name);
    th_tensor_write(w, golden[i].value);
  }
}

/* Relative to each parameter's largest gradient; one that is 0 throughout (a bias of keys) to 1. */
static inline void expect_gradients(th_model *model, const golden_param *golden, ptrdiff_t count,
                                    double limit) {
  for (ptrdiff_t i = 0; i < count; i++) {
    const th_tensor *grad = th_tensor_grad(th_params_at(th_model_params(model), i));
    double largest = 0, *got = malloc((size_t)th_tensor_count(grad) * sizeof *got);
    th_tensor_read(grad, got);
    for (ptrdiff_t j = 0; j < th_tensor_count(grad); j++)
      largest = fmax(largest, fabs(golden[i].gradient[j]));
    if (largest == 0) largest = 1;
    for (ptrdiff_t j = 0; j < th_tensor_count(grad); j++)
      cr_assert(fabs(got[j] - golden[i].gradient[j]) <= limit * largest,
                "gradient of %s[%td]: got %.17g, want %.17g", golden[i].name, j, got[j],
                golden[i].gradient[j]);
    free(got);
  }
}

static inline double step_limit(th_dtype dtype) { return dtype == TH_F32 ? 2e-4 : 1e-9; }

/* Logits against goldens, then loss and every gradient. */
static inline void expect_step(th_tape *tape, th_model *model, th_tensor *logits,
                               const double *want_logits, const th_tensor *targets,
                               double want_loss, const golden_param *golden, ptrdiff_t count) {
  cr_assert_not_null(logits, "%s", th_tape_message(tape));
  double limit = step_limit(th_tensor_dtype(logits));
  expect_values("logits", logits, want_logits, limit);
  th_tensor *loss = th_cross_entropy(tape, logits, targets);
  expect_values("loss", loss, &want_loss, limit);
  cr_assert_eq(th_backward(tape, loss), TH_OK, "%s", th_tape_message(tape));
  expect_gradients(model, golden, count, limit);
}

#endif
