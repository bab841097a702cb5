/* params: names, order, counts, ownership, failing memory. */
#include <stdio.h>

#include "../support.h"

#include "tensor/alloc.h"

static th_error error;

Test(params, list_and_counts) {
  th_params *params = th_params_new(NULL);
  for (int i = 0; i < 40; i++) { /* more than the first capacity */
    char name[16];
    snprintf(name, sizeof name, "w.%d", i);
    cr_assert_not_null(th_params_add(params, name, TH_F32, TH_SHAPE(i, 2), NULL));
  }
  cr_assert_eq(th_params_count(params), 40);
  cr_assert_eq(th_params_elements(params), 2 * 39 * 40 / 2);
  th_tensor *w = th_params_find(params, "w.7");
  cr_assert_eq(w, th_params_at(params, 7));
  cr_assert_str_eq(th_tensor_name(w), "w.7");
  cr_assert_not_null(th_tensor_grad(w));
  cr_assert_null(th_params_find(params, "w.40"));
  cr_assert_null(th_params_at(params, 40));
  cr_assert_null(th_params_at(params, -1));
  th_params_free(params);
  th_params_free(NULL);
}

TEST_BOTH(params, zero_grad) {
  th_params *params = th_params_new(NULL);
  th_tensor *w = th_params_add(params, "w", dtype, TH_SHAPE(2), NULL);
  th_tape *tape = th_tape_new();
  backward_from(tape, w, (double[]){1, 2});
  expect_values("gradient", th_tensor_grad(w), (double[]){1, 2}, 0);
  th_params_zero_grad(params);
  expect_values("gradient", th_tensor_grad(w), (double[]){0, 0}, 0);
  th_tape_free(tape);
  th_params_free(params);
}

static void refused(th_params *params, const char *name, th_dtype dtype, ptrdiff_t length,
                    th_status status, const char *text) {
  error = (th_error){0};
  cr_assert_null(th_params_add(params, name, dtype, TH_SHAPE(length), &error));
  cr_assert_eq(error.status, status, "%s", error.message);
  cr_assert_not_null(strstr(error.message, text), "\"%s\" does not contain \"%s\"", error.message,
                     text);
  cr_assert_eq(th_params_count(params), 1);
  cr_assert_eq(th_params_elements(params), 3);
}

Test(params, rejects) {
  th_params *params = th_params_new(NULL);
  th_params_add(params, "w", TH_F32, TH_SHAPE(3), NULL);
  char longest[65];
  memset(longest, 'x', 64);
  longest[64] = '\0';
  refused(params, "w", TH_F32, 3, TH_ERR_VALUE, "\"w\" already");
  refused(params, "", TH_F32, 3, TH_ERR_VALUE, "name");
  refused(params, NULL, TH_F32, 3, TH_ERR_VALUE, "name");
  refused(params, longest, TH_F32, 3, TH_ERR_VALUE, "64 bytes");
  refused(params, "ids", TH_I32, 3, TH_ERR_DTYPE, "i32");
  refused(params, "v", TH_F32, -1, TH_ERR_SHAPE, "-1");
  cr_assert_null(th_params_add(NULL, "w", TH_F32, TH_SHAPE(1), &error));
  th_params_free(params);
}

/* A program that checks later walks over what a failed call returned. */
Test(params, of_a_model_that_is_none) {
  th_params *none = th_model_params(NULL);
  cr_assert(th_params_count(none) == 0 && th_params_elements(none) == 0);
  cr_assert(th_params_at(none, 0) == NULL && th_params_find(none, "w") == NULL);
  th_params_zero_grad(none);
  th_init_normal(NULL, 0, 1, (th_random){.seed = 1});
  th_init_uniform(NULL, 0, 1, (th_random){.seed = 1});
  cr_assert(th_tensor_grad(NULL) == NULL && th_tensor_data(NULL) == NULL);
  cr_assert_str_empty(th_tensor_name(NULL));
  cr_assert_null(th_recurrent_new(NULL, 1, &error));
  cr_assert(strstr(error.message, "th_recurrent_new: the configuration is NULL") != NULL);
}

Test(params, every_allocation_may_fail) {
  th_params *params = NULL;
  th_tensor *w = NULL;
  size_t n = 0;
  while (w == NULL) {
    error = (th_error){0};
    th__alloc_fail_at(++n);
    if ((params = th_params_new(&error)) != NULL)
      w = th_params_add(params, "w", TH_F32, TH_SHAPE(3), &error);
    th__alloc_fail_at(0);
    if (w != NULL) break;
    cr_assert_eq(error.status, TH_ERR_MEMORY, "%s", error.message);
    cr_assert(params == NULL || th_params_count(params) == 0);
    th_params_free(params);
  }
  cr_assert_gt(n, 6u);
  th_params_free(params);
}
