/* The tape: what is recorded, what flows back, what an error does. Cases C09, C10, C11. */
#include <pthread.h>

#include "support.h"
#include "tensor/alloc.h"

static th_tensor *scalar(th_tape *tape, double value) {
  return make(tape, TH_F64, TH_SCALAR, &value);
}

static double grad_of(const th_tensor *x) { return th_tensor_item(th_tensor_grad(x)); }

/* ---- C09: a value used more than once ---- */

Test(tape, fan_out_adds_up) {
  th_tape *tape = th_tape_new();
  th_tensor *x = scalar(tape, 2);
  th_tensor *y = th_scale(tape, x, 3);
  th_backward(tape, th_add(tape, th_scale(tape, y, 2), th_scale(tape, y, 5)));
  cr_assert_eq(grad_of(x), 21);

  th_tape_reset(tape);
  th_tensor *a = scalar(tape, 1);
  th_tensor *b = th_add(tape, a, a);
  th_backward(tape, th_add(tape, b, b));
  cr_assert_eq(grad_of(a), 4);
  th_tape_free(tape);
}

Test(tape, several_paths_through_products) {
  th_tape *tape = th_tape_new();
  th_tensor *x = scalar(tape, 1), *one = th_input(tape, TH_F64, TH_SCALAR, (double[]){1});
  th_tensor *first = th_mul(tape, x, th_mul(tape, x, one));
  th_tensor *second = th_mul(tape, th_mul(tape, x, x), one);
  th_tensor *third = th_mul(tape, x, th_mul(tape, x, one));
  th_backward(tape, th_add(tape, th_add(tape, first, second), third));
  cr_assert_eq(grad_of(x), 6);
  th_tape_free(tape);
}

Test(tape, product_with_itself) {
  th_tape *tape = th_tape_new();
  th_tensor *x = make(tape, TH_F64, TH_SHAPE(2, 2), (double[]){1, 2, 3, 4});
  th_backward(tape, th_sum(tape, th_matmul(tape, x, x, TH_TRANSPOSE_B), TH_ALL_AXES));
  expect_values("d sum(X X^T)", th_tensor_grad(x), (double[]){8, 12, 8, 12}, 0);
  th_tape_reset(tape);
  x = make(tape, TH_F64, TH_SHAPE(2, 2), (double[]){1, 2, 3, 4});
  th_backward(tape, th_sum(tape, th_matmul(tape, x, x, 0), TH_ALL_AXES));
  expect_values("d sum(X X)", th_tensor_grad(x), (double[]){7, 11, 9, 13}, 0);
  th_tape_free(tape);
}

/* ---- C10: a million nodes on a small stack ---- */

static void *million_steps(void *result) {
  th_tape *tape = th_tape_new();
  th_tensor *x = scalar(tape, 0), *one = th_input(tape, TH_F64, TH_SCALAR, (double[]){1});
  th_tensor *y = x;
  for (int i = 0; i < 1000000; i++) y = th_add(tape, y, one);
  if (th_backward(tape, y) == TH_OK && th_tape_node_count(tape) == 1000000 &&
      th_tensor_item(y) == 1000000)
    *(double *)result = grad_of(x);
  th_tape_free(tape);
  return NULL;
}

Test(tape, million_nodes_in_256_kib_of_stack) {
  pthread_attr_t attributes;
  pthread_t thread;
  double gradient = 0;
  pthread_attr_init(&attributes);
  cr_assert_eq(pthread_attr_setstacksize(&attributes, 256 * 1024), 0);
  cr_assert_eq(pthread_create(&thread, &attributes, million_steps, &gradient), 0);
  pthread_join(thread, NULL);
  pthread_attr_destroy(&attributes);
  cr_assert_eq(gradient, 1);
}

/* ---- C11: backward twice, memory ---- */

Test(tape, second_backward_is_an_error_and_changes_nothing) {
  th_tape *tape = th_tape_new();
  th_tensor *a = scalar(tape, 3), *b = scalar(tape, 2), *d = scalar(tape, 1);
  th_tensor *e = th_mul(tape, th_add(tape, a, b), d);
  cr_assert_eq(th_backward(tape, e), TH_OK);
  cr_assert(grad_of(a) == 1 && grad_of(b) == 1 && grad_of(d) == 5);
  cr_assert_eq(th_backward(tape, e), TH_ERR_STATE);
  cr_assert(grad_of(a) == 1 && grad_of(b) == 1 && grad_of(d) == 5);
  expect_error(tape, TH_ERR_STATE, "th_tape_reset");
  th_tape_free(tape);
}

Test(tape, parameters_accumulate_over_tapes) {
  th_tensor *w = th_tensor_from(TH_F64, TH_SHAPE(1), (double[]){3}, NULL);
  cr_assert_eq(th_tensor_require_grad(w, NULL), TH_OK);
  th_tape *tape = th_tape_new();
  for (int i = 0; i < 2; i++) {
    cr_assert_eq(th_backward(tape, th_mul(tape, w, w)), TH_OK);
    th_tape_reset(tape);
  }
  cr_assert_eq(grad_of(w), 12);
  th_tensor_zero_grad(w);
  cr_assert_eq(grad_of(w), 0);
  th_tape_free(tape);
  th_tensor_free(w);
}

Test(tape, memory_is_flat_and_no_step_allocates) {
  th_tensor *w = th_tensor_new(TH_F32, TH_SHAPE(32, 32), NULL);
  cr_assert_eq(th_tensor_require_grad(w, NULL), TH_OK);
  th_tape *tape = th_tape_new();
  size_t bytes = 0, requests = 0;
  double logged = 0;
  for (int step = 0; step < 10000; step++) {
    th_tensor *loss = th_sum(tape, th_softmax(tape, th_mul(tape, w, w)), TH_ALL_AXES);
    logged += th_tensor_item(loss);
    cr_assert_eq(th_backward(tape, loss), TH_OK);
    th_tape_reset(tape);
    if (step == 1) {
      bytes = th_tape_bytes(tape);
      requests = th__alloc_count();
    }
  }
  cr_assert(logged > 0);
  cr_assert_eq(th_tape_bytes(tape), bytes);
  cr_assert_eq(th__alloc_count(), requests);
  th_tape_free(tape);
  th_tensor_free(w);
}

/* ---- recording, detaching, retaining ---- */

Test(tape, nothing_is_recorded_unless_wanted) {
  th_tape *tape = th_tape_new();
  th_tensor *constant = th_input(tape, TH_F64, TH_SHAPE(2), (double[]){1, 2});
  th_softmax(tape, constant);
  cr_assert_eq(th_tape_node_count(tape), 0);
  th_tensor *x = th_input_grad(tape, TH_F64, TH_SHAPE(2), (double[]){1, 2});
  cr_assert(th_tape_set_recording(tape, false));
  th_tensor *y = th_softmax(tape, x);
  cr_assert_eq(th_tape_node_count(tape), 0);
  cr_assert_not(th_tape_set_recording(tape, true));
  th_backward_from(tape, y, constant);
  expect_error(tape, TH_ERR_STATE, "wanted gradient");
  th_tape_free(tape);
}

Test(tape, detach_stops_the_gradient) {
  th_tape *tape = th_tape_new();
  th_tensor *x = scalar(tape, 3);
  th_backward(tape, th_mul(tape, x, th_detach(tape, x)));
  cr_assert_eq(grad_of(x), 3);
  th_tape_free(tape);
}

Test(tape, inner_gradients_are_kept_on_request) {
  th_tape *tape = th_tape_new();
  th_tensor *x = make(tape, TH_F64, TH_SHAPE(2, 3), (double[]){1, 2, 3, 4, 5, 6});
  th_tensor *y = th_retain_grad(tape, th_scale(tape, x, 2));
  th_tensor *view = th_retain_grad(tape, th_transpose(tape, y, 0, 1));
  th_tensor *z = th_add(tape, th_contiguous(tape, view), th_contiguous(tape, view));
  const double g[] = {1, 2, 3, 4, 5, 6};
  backward_from(tape, z, g);
  expect_values("d view", th_tensor_grad(view), (double[]){2, 4, 6, 8, 10, 12}, 0);
  expect_values("d y", th_tensor_grad(y), (double[]){2, 6, 10, 4, 8, 12}, 0);
  expect_values("d x", th_tensor_grad(x), (double[]){4, 12, 20, 8, 16, 24}, 0);
  th_tape_free(tape);
}

/* A view that is used beside its base: both contributions arrive, and the retained view's gradient is
 * its own share only. */
Test(tape, view_and_base_used_together) {
  th_tape *tape = th_tape_new();
  th_tensor *x = make(tape, TH_F64, TH_SHAPE(4), (double[]){1, 2, 3, 4});
  th_tensor *y = th_scale(tape, x, 1);
  th_tensor *tail = th_retain_grad(tape, th_slice(tape, y, 0, 2, 4));
  th_tensor *loss = th_add(tape, th_sum(tape, y, TH_ALL_AXES),
                           th_sum(tape, th_mul(tape, tail, tail), TH_ALL_AXES));
  cr_assert_eq(th_backward(tape, loss), TH_OK, "%s", th_tape_message(tape));
  expect_values("d tail", th_tensor_grad(tail), (double[]){6, 8}, 0);
  expect_values("d x", th_tensor_grad(x), (double[]){1, 1, 7, 9}, 0);
  th_tape_free(tape);
}

/* ---- errors ---- */

Test(tape, first_error_stays_and_null_runs_through) {
  th_tape *tape = th_tape_new();
  th_tensor *x = make(tape, TH_F64, TH_SHAPE(2, 3), (double[]){1, 2, 3, 4, 5, 6});
  th_tensor *bad = th_matmul(tape, x, x, 0);
  cr_assert_null(bad);
  cr_assert_null(th_softmax(tape, th_add(tape, bad, x)));
  cr_assert_null(th_softmax(tape, x), "an operation ran although the tape holds an error");
  cr_assert_eq(th_backward(tape, bad), TH_ERR_SHAPE);
  th_tape_reset(tape);
  cr_assert_not_null(strstr(th_tape_message(tape), "matmul"));
  expect_error(tape, TH_ERR_SHAPE, "[2, 3]");
  cr_assert_not_null(make(tape, TH_F64, TH_SCALAR, (double[]){1}));
  th_tape_free(tape);
}

Test(tape, values_of_another_tape_are_refused) {
  th_tape *one = th_tape_new(), *two = th_tape_new();
  cr_assert_null(th_scale(two, scalar(one, 1), 2));
  expect_error(two, TH_ERR_STATE, "another tape");
  th_tape_free(one);
  th_tape_free(two);
}

Test(tape, loss_must_be_one_number) {
  th_tape *tape = th_tape_new();
  th_tensor *x = make(tape, TH_F64, TH_SHAPE(2), (double[]){1, 2});
  cr_assert_eq(th_backward(tape, th_scale(tape, x, 2)), TH_ERR_SHAPE);
  expect_error(tape, TH_ERR_SHAPE, "[2]");
  th_tensor *g = th_input(tape, TH_F64, TH_SHAPE(3), NULL);
  cr_assert_eq(th_backward_from(tape, th_scale(tape, x, 2), g), TH_ERR_SHAPE);
  expect_error(tape, TH_ERR_SHAPE, "[3]");
  th_tape_free(tape);
}

Test(tape, impossible_sizes) {
  th_tape *tape = th_tape_new();
  cr_assert_null(th_input(tape, TH_F32, TH_SHAPE((ptrdiff_t)1 << 62, 4), NULL));
  expect_error(tape, TH_ERR_SHAPE, "overflow");
  cr_assert_null(th_input(tape, TH_F32, TH_SHAPE((ptrdiff_t)1 << 61), NULL));
  expect_error(tape, TH_ERR_SHAPE, "address");
  cr_assert_null(th_input(tape, TH_F32, TH_SHAPE(0, (ptrdiff_t)1 << 40, (ptrdiff_t)1 << 40), NULL));
  expect_error(tape, TH_ERR_SHAPE, "overflow");
  cr_assert_null(th_input(tape, TH_F32, TH_SHAPE(-1), NULL));
  expect_error(tape, TH_ERR_SHAPE, "-1");
  cr_assert_null(th_input(tape, TH_F32, TH_SHAPE((ptrdiff_t)1 << 45), NULL));
  expect_error(tape, TH_ERR_MEMORY, "smaller");
  th_tape_free(tape);
}

/* ---- every allocation fails once ---- */

static bool one_step(th_tensor *w, const double *want) {
  th_tape *tape = th_tape_new();
  th_tensor *x = th_input(tape, TH_F64, TH_SHAPE(512, 8), NULL);
  th_tensor *y = th_softmax(tape, th_matmul(tape, x, w, 0));
  th_tensor *loss = th_sum(tape, th_mul(tape, y, y), TH_ALL_AXES);
  bool done = th_backward(tape, loss) == TH_OK;
  if (!done) {
    cr_assert_eq(th_tape_status(tape), TH_ERR_MEMORY, "%s", th_tape_message(tape));
    cr_assert_not_null(strstr(th_tape_message(tape), "out of memory"));
  } else if (want != NULL)
    cr_assert_eq(th_tensor_item(loss), *want);
  th_tape_free(tape);
  return done;
}

Test(tape, out_of_memory_at_every_request) {
  th_tensor *w = th_tensor_new(TH_F64, TH_SHAPE(8, 512), NULL);
  cr_assert_eq(th_tensor_require_grad(w, NULL), TH_OK);
  cr_assert(one_step(w, NULL));
  size_t failures = 0;
  for (size_t n = 1;; n++) {
    th__alloc_fail_at(n);
    bool done = one_step(w, NULL);
    th__alloc_fail_at(0);
    if (done) break;
    failures++;
  }
  cr_assert(failures >= 3, "only %zu requests could fail", failures);
  th_tensor_free(w);
}
