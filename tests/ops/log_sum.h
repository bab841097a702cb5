/* log_sum.h: what the tests of log_softmax and logsumexp share. A test defines G(name, part), which names
 * its goldens' arrays, and lists them with CASE. */
#ifndef TESTS_OPS_LOG_SUM_H
#define TESTS_OPS_LOG_SUM_H

#include "gradients.h"
#include "support.h"

typedef th_tensor *th_log_sum(th_tape *tape, th_tensor *x);

typedef struct golden {
  const char *name;
  int ndim;
  const ptrdiff_t *shape;
  const double *x, *dy, *y, *dx;
  bool exact; /* every value right relative to its own size */
} golden;

#define NDIM(shape) ((int)(sizeof(shape) / sizeof *(shape)))
#define CASE(name, exact)                                                                          \
  {                                                                                                \
#name, NDIM(G(name, x_shape)), G(name, x_shape), G(name, x), G(name, dy), G(name, y),          \
        G(name, dx), exact                                                                         \
  }

/* y has `lost` axes less than x. */
static inline void expect_golden(th_dtype dtype, th_log_sum *op, const golden *g, int lost) {
  th_tape *tape = th_tape_new();
  th_tensor *x = make(tape, dtype, g->ndim, g->shape, g->x), *y = op(tape, x);
  cr_assert_not_null(y, "%s", th_tape_message(tape));
  cr_assert(th__shape_equal(y->ndim, y->shape, g->ndim - lost, g->shape));
  expect_values(g->name, y, g->y, tolerances[dtype].value);
  backward_from(tape, y, g->dy);
  expect_values(g->name, th_tensor_grad(x), g->dx, tolerances[dtype].gradient);
  if (g->exact) {
    expect_relative(g->name, y, g->y, dtype == TH_F32 ? 5e-7 : 1e-14);
    expect_relative(g->name, th_tensor_grad(x), g->dx, dtype == TH_F32 ? 1e-6 : 1e-14);
  }
  th_tape_free(tape);
}

/* A gradient that is there already stays, and a second use adds to it. The golden is [3, 5]. */
static inline void expect_accumulates(th_dtype dtype, th_log_sum *op, const golden *g) {
  double want[15];
  th_error error;
  th_tensor *x = th_tensor_new(dtype, TH_SHAPE(3, 5), &error);
  cr_assert_eq(th_tensor_require_grad(x, &error), TH_OK);
  th_tensor_write(x, g->x);
  for (int i = 0; i < 15; i++) want[i] = 7;
  th_tensor_write(th_tensor_grad(x), want);
  th_tape *tape = th_tape_new();
  backward_from(tape, th_add(tape, op(tape, x), op(tape, x)), g->dy);
  for (int i = 0; i < 15; i++) want[i] += 2 * g->dx[i];
  expect_values("dx", th_tensor_grad(x), want, tolerances[dtype].gradient);
  th_tape_free(tape);
  th_tensor_free(x);
}

/* x is a transposed view. The golden is [3, 5]. */
static inline void expect_strided(th_dtype dtype, th_log_sum *op, const golden *g) {
  th_tape *tape = th_tape_new();
  double x[15];
  for (int i = 0; i < 15; i++) x[i % 5 * 3 + i / 5] = g->x[i];
  th_tensor *stored = make(tape, dtype, TH_SHAPE(5, 3), x);
  th_tensor *y = op(tape, th_transpose(tape, stored, 0, 1));
  expect_values("y", y, g->y, tolerances[dtype].value);
  backward_from(tape, y, g->dy);
  for (int i = 0; i < 15; i++) x[i % 5 * 3 + i / 5] = g->dx[i];
  expect_values("dx", th_tensor_grad(stored), x, tolerances[dtype].gradient);
  th_tape_free(tape);
}

static inline void expect_same_bits(th_dtype dtype, th_log_sum *op) {
  th_tensor *x[2], *y[2];
  th_tape *tapes[2] = {th_tape_new(), th_tape_new()};
  for (int run = 0; run < 2; run++) {
    th_set_threads(run == 0 ? 1 : 3);
    x[run] = th_input_grad(tapes[run], dtype, TH_SHAPE(100, 300), NULL);
    th_init_normal(x[run], 0, 5, (th_random){1, 0, 0});
    y[run] = op(tapes[run], x[run]);
    cr_assert_eq(th_backward_from(tapes[run], y[run], th_detach(tapes[run], y[run])), TH_OK);
  }
  th_set_threads(0);
  size_t size = th_dtype_size(dtype);
  cr_assert_eq(memcmp(y[0]->data, y[1]->data, (size_t)y[0]->count * size), 0, "y: threads");
  cr_assert_eq(memcmp(x[0]->grad->data, x[1]->grad->data, 30000 * size), 0, "dx: threads");
  th_tape_free(tapes[0]), th_tape_free(tapes[1]);
}

static inline void expect_rejects(th_log_sum *op, const char *scalar) {
  th_tape *tape = th_tape_new();
  cr_assert_null(op(tape, th_input(tape, TH_F32, TH_SCALAR, NULL)));
  expect_error(tape, TH_ERR_SHAPE, scalar);
  cr_assert_null(op(tape, th_input(tape, TH_I32, TH_SHAPE(2), NULL)));
  expect_error(tape, TH_ERR_DTYPE, "i32");
  cr_assert_null(op(tape, NULL));
  expect_error(tape, TH_ERR_VALUE, "NULL");
  th_tape_free(tape);
}

#endif
