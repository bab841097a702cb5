/* steps.h: what the tests of optimisers share: parameters from doubles, gradients given by hand, and
 * a run over the goldens' path. */
#ifndef TESTS_OPTIM_STEPS_H
#define TESTS_OPTIM_STEPS_H

#include "../support.h"

static inline th_tensor *add_param(th_params *params, const char *name, th_dtype dtype, int ndim,
                                   const ptrdiff_t *shape, const double *values) {
  th_error error = {0};
  th_tensor *w = th_params_add(params, name, dtype, ndim, shape, &error);
  cr_assert_not_null(w, "%s", error.message);
  th_tensor_write(w, values);
  return w;
}

/* Adds `values` to w's gradient the way an op would: by a backward pass. */
static inline void give_grad(th_tensor *w, const double *values) {
  th_tape *tape = th_tape_new();
  backward_from(tape, w, values);
  th_tape_free(tape);
}

static inline void step(th_optim *optim) {
  th_error error = {0};
  cr_assert_eq(th_optim_step(optim, &error), TH_OK, "%s", error.message);
}

/* `steps` gradients, one after another, against the weight after each. Frees the optimiser. */
static inline void follow_path(th_optim *optim, th_tensor *w, int steps, const double *gradients,
                               const double *path) {
  cr_assert_not_null(optim);
  ptrdiff_t n = th_tensor_count(w);
  for (int t = 0; t < steps; t++) {
    give_grad(w, gradients + t * n);
    step(optim);
    expect_values("w", w, path + t * n, tolerances[th_tensor_dtype(w)].value);
    double *zeros = calloc((size_t)n, sizeof *zeros);
    expect_values("gradient after the step", th_tensor_grad(w), zeros, 0);
    free(zeros);
  }
  cr_assert_eq(th_optim_steps(optim), steps);
  th_optim_free(optim);
}

/* making(...) was refused with this status and a sentence that contains the text. */
#define EXPECT_REFUSED(making, expected, text)                                                     \
  do {                                                                                             \
    th_error error = {0};                                                                          \
    cr_assert(!(making), "%s was accepted", #making);                                              \
    cr_assert_eq(error.status, expected, "%s: %s", #making, error.message);                        \
    cr_assert_not_null(strstr(error.message, text), "\"%s\" does not contain \"%s\"",              \
                       error.message, text);                                                       \
  } while (0)

#endif
