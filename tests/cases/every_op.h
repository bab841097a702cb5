/* every_op.h: runs the cases that ops and modules registered for the gradient checker as plain calls:
 * in both precisions, with inputs that a test may exchange. */
#ifndef TESTS_CASES_EVERY_OP_H
#define TESTS_CASES_EVERY_OP_H

#include <stdio.h>

#include "../support.h"
#include "autograd/gradcheck/gradcheck.h"
#include "nn/modules.h"

/* One case with its inputs, owned by the test; those of floating point want a gradient. */
typedef struct trial {
  const th_op *op;
  const th_check *check;
  th_dtype dtype;
  th_tensor *inputs[TH_MAX_INPUTS];
  char text[96]; /* "attention/causal f32", for messages */
} trial;

static inline th_tensor *as_parameter(const th_tensor *master, th_dtype dtype) {
  if (!th__is_float(master)) dtype = master->dtype;
  th_tensor *x = th_tensor_new(dtype, master->ndim, master->shape, NULL);
  cr_assert_not_null(x);
  for (ptrdiff_t i = 0; i < x->count; i++) th__set(x, i, th__get(master, i));
  if (th__is_float(x)) cr_assert_eq(th_tensor_require_grad(x, NULL), TH_OK);
  return x;
}

static inline void trial_free(trial *t) {
  for (int i = 0; i < t->check->input_count; i++) th_tensor_free(t->inputs[i]);
}

static inline trial trial_new(const th_op *op, const th_check *check, th_dtype dtype) {
  trial t = {.op = op, .check = check, .dtype = dtype};
  snprintf(t.text, sizeof t.text, "%s/%s %s", op->name, check->variant, th_dtype_name(dtype));
  th_tensor *masters[TH_MAX_INPUTS];
  cr_assert_eq(th__fill(check, 5, masters, NULL), TH_OK, "%s", t.text);
  for (int i = 0; i < check->input_count; i++) {
    t.inputs[i] = as_parameter(masters[i], dtype);
    th_tensor_free(masters[i]);
  }
  return t;
}

static inline void zero_grads(const trial *t) {
  for (int i = 0; i < t->check->input_count; i++)
    if (th_tensor_grad(t->inputs[i]) != NULL) th_tensor_zero_grad(t->inputs[i]);
}

static inline th_tensor *trial_forward(const trial *t, th_tape *tape) {
  return t->check->forward(tape, t->inputs, t->check->context);
}

/* Backward from y with an upstream gradient of unequal numbers of either sign. */
static inline th_status trial_backward(th_tape *tape, th_tensor *y) {
  th_tensor *upstream =
      th_input(tape, th_tensor_dtype(y), th_tensor_ndim(y), th_tensor_shape(y), NULL);
  if (upstream == NULL) return th_tape_status(tape);
  for (ptrdiff_t i = 0; i < upstream->count; i++)
    th__set(upstream, i, (double)(i * 7 % 11 - 5) / 8 + 0.0625);
  return th_backward_from(tape, y, upstream);
}

/* visit() for each case of each op and module in both precisions; returns how many there were. */
static inline int for_every_case(void (*visit)(trial *t)) {
  const th_op *const *lists[] = {th__ops, th__modules};
  int cases = 0;
  for (int l = 0; l < 2; l++)
    for (const th_op *const *op = lists[l]; *op != NULL; op++)
      for (const th_check *check = (*op)->checks; check->forward != NULL; check++)
        for (th_dtype dtype = TH_F32; dtype <= TH_F64; dtype++, cases++) {
          trial t = trial_new(*op, check, dtype);
          visit(&t);
          trial_free(&t);
        }
  return cases;
}

#endif
