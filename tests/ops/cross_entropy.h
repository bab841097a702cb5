/* cross_entropy.h: what the tests of cross_entropy and cross_entropy_sum share. A test defines
 * G(name, part), which names its goldens' arrays, and lists them with CASE: in an array within a function,
 * as dy and y are no constant expressions. */
#ifndef TESTS_OPS_CROSS_ENTROPY_H
#define TESTS_OPS_CROSS_ENTROPY_H

#include "gradients.h"
#include "support.h"

typedef th_tensor *th_loss(th_tape *tape, th_tensor *logits, const th_tensor *targets);

typedef struct golden {
  const char *name;
  int ndim;
  const ptrdiff_t *shape;
  const double *logits;
  const int32_t *targets;
  double dy, y;
  const double *dlogits;
  bool exact; /* loss and gradient right relative to their own size */
} golden;

#define NDIM(shape) ((int)(sizeof(shape) / sizeof *(shape)))
#define CASE(name, exact)                                                                          \
  {                                                                                                \
#name, NDIM(G(name, logits_shape)), G(name, logits_shape), G(name, logits), G(name, targets),  \
        G(name, dy)[0], G(name, y)[0], G(name, dlogits), exact                                     \
  }

static inline void expect_golden(th_dtype dtype, th_loss *op, const golden *g) {
  th_tape *tape = th_tape_new();
  th_tensor *logits = make(tape, dtype, g->ndim, g->shape, g->logits);
  th_tensor *y = op(tape, logits, th_input(tape, TH_I32, g->ndim - 1, g->shape, g->targets));
  expect_values(g->name, y, &g->y, tolerances[dtype].value);
  backward_from(tape, y, &g->dy);
  expect_values(g->name, th_tensor_grad(logits), g->dlogits, tolerances[dtype].gradient);
  if (g->exact) {
    expect_relative(g->name, y, &g->y, dtype == TH_F32 ? 1e-6 : 1e-14);
    expect_relative(g->name, th_tensor_grad(logits), g->dlogits, dtype == TH_F32 ? 1e-6 : 1e-14);
  }
  th_tape_free(tape);
}

/* Strided logits and targets; no rows at all. The golden is [4, 5]. */
static inline void expect_forms(th_dtype dtype, th_loss *op, const golden *g) {
  double columns[20];
  int32_t spread[8];
  for (int i = 0; i < 20; i++) columns[i % 5 * 4 + i / 5] = g->logits[i];
  for (int i = 0; i < 4; i++) spread[2 * i] = g->targets[i], spread[2 * i + 1] = 77;
  th_tape *tape = th_tape_new();
  th_tensor *stored = make(tape, dtype, TH_SHAPE(5, 4), columns);
  th_tensor *targets = th_slice(tape, th_input(tape, TH_I32, TH_SHAPE(4, 2), spread), 1, 0, 1);
  th_tensor *y = op(tape, th_transpose(tape, stored, 0, 1), th_reshape(tape, targets, TH_SHAPE(4)));
  expect_values("y", y, &g->y, tolerances[dtype].value);
  backward_from(tape, y, &g->dy);
  for (int i = 0; i < 20; i++) columns[i % 5 * 4 + i / 5] = g->dlogits[i];
  expect_values("dlogits", th_tensor_grad(stored), columns, tolerances[dtype].gradient);
  th_tape_reset(tape);

  th_tensor *none = th_input_grad(tape, dtype, TH_SHAPE(0, 3), NULL);
  y = op(tape, none, th_input(tape, TH_I32, TH_SHAPE(0), NULL));
  expect_values("y", y, (double[]){0}, 0);
  cr_assert_eq(th_backward(tape, y), TH_OK);
  th_tape_free(tape);
}

/* Its own name stands in the messages. */
static inline void expect_error_of(th_tape *tape, const char *name, th_status status,
                                   const char *says) {
  cr_assert_not_null(strstr(th_tape_message(tape), name), "%s", th_tape_message(tape));
  expect_error(tape, status, says);
}

static inline void expect_rejects(th_loss *op, const char *name) {
  th_tape *tape = th_tape_new();
  th_tensor *x = th_input_grad(tape, TH_F32, TH_SHAPE(2, 3), NULL);
  th_tensor *t = th_input(tape, TH_I32, TH_SHAPE(2), (int32_t[]){0, 3});
  cr_assert_null(op(tape, x, t));
  expect_error_of(tape, name, TH_ERR_INDEX, ": target 3 at index 1; 0 to 2");
  cr_assert_eq(th_tape_node_count(tape), 0);
  cr_assert_null(op(tape, x, th_input(tape, TH_I32, TH_SHAPE(3), NULL)));
  expect_error_of(tape, name, TH_ERR_SHAPE, ": the targets are [3] but the logits [2, 3]");
  cr_assert_null(op(tape, x, th_input(tape, TH_F32, TH_SHAPE(2), NULL)));
  expect_error_of(tape, name, TH_ERR_DTYPE, ": the targets are f32");
  cr_assert_null(op(tape, th_input(tape, TH_F32, TH_SCALAR, NULL), t));
  expect_error_of(tape, name, TH_ERR_SHAPE, "scalar");
  cr_assert_null(op(tape, t, t));
  expect_error_of(tape, name, TH_ERR_DTYPE, "i32");
  cr_assert_null(op(tape, NULL, t));
  expect_error_of(tape, name, TH_ERR_VALUE, "input 0 is NULL");
  cr_assert_null(op(tape, x, NULL));
  expect_error_of(tape, name, TH_ERR_VALUE, "input 1 is NULL");
  th_tape_free(tape);
}

#endif
