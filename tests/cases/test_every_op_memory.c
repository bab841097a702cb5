/* every op in little memory: however few bytes the tape has left, and whichever request of the system
 * fails, forward and backward end with TH_ERR_MEMORY or succeed with the right numbers. */
#include "every_op.h"
#include "tensor/alloc.h"

/* A step's status; TH_OK only if forward and backward came through. */
static th_status step(const trial *t, th_tape *tape) {
  th_tensor *y = trial_forward(t, tape);
  if (y == NULL) {
    cr_assert_neq(th_tape_status(tape), TH_OK, "%s: NULL without an error", t->text);
    return th_tape_status(tape);
  }
  cr_assert_eq(th_tape_status(tape), TH_OK, "%s: a value with an error", t->text);
  return trial_backward(tape, y);
}

/* Clean: says that memory ended, and no gradient counts as arrived that is not whole. */
static void expect_clean_failure(const trial *t, const th_tape *tape, th_status status) {
  cr_assert_eq(status, TH_ERR_MEMORY, "%s: %s", t->text, th_tape_message(tape));
  cr_assert_eq(th_tape_status(tape), TH_ERR_MEMORY, "%s", t->text);
  for (int i = 0; i < t->check->input_count; i++) {
    const th_tensor *x = t->inputs[i];
    cr_assert(!x->grad_arrived || x->grad_broken, "%s: the gradient of input %d looks whole",
              t->text, i);
  }
}

static double *gradients_of(const trial *t) {
  ptrdiff_t count = 1;
  for (int i = 0; i < t->check->input_count; i++)
    if (t->inputs[i]->grad != NULL) count += t->inputs[i]->count;
  double *values = malloc((size_t)count * sizeof *values), *at = values;
  for (int i = 0; i < t->check->input_count; i++) {
    const th_tensor *grad = t->inputs[i]->grad;
    if (grad == NULL) continue;
    th_tensor_read(grad, at);
    at += grad->count;
  }
  *at = 0;
  return values;
}

static void expect_gradients(const trial *t, const double *want) {
  for (int i = 0; i < t->check->input_count; i++) {
    const th_tensor *grad = t->inputs[i]->grad;
    for (ptrdiff_t k = 0; grad != NULL && k < grad->count; k++, want++)
      cr_assert_eq(th__get(grad, k), *want, "%s: gradient of input %d differs at %td", t->text, i,
                   k);
  }
}

#define ROOM ((size_t)64 << 20)

/* A tape whose arena is one large chunk. */
static th_tape *roomy_tape(void) {
  th_tape *tape = th_tape_new();
  cr_assert_not_null(th_tape_alloc(tape, ROOM));
  th_tape_reset(tape);
  return tape;
}

/* The tape has `left` bytes and gets no more. */
static th_status step_within(const trial *t, th_tape *tape, size_t left) {
  th_tape_reset(tape);
  th_tape_clear_error(tape);
  zero_grads(t);
  tape->arena.used = tape->arena.held - left;
  th__alloc_fail_at(1);
  th_status status = step(t, tape);
  th__alloc_fail_at(0);
  return status;
}

static void starve(trial *t) {
  th_tape *tape = roomy_tape();
  cr_assert_eq(step_within(t, tape, ROOM), TH_OK, "%s: %s", t->text, th_tape_message(tape));
  double *want = gradients_of(t);
  size_t need = tape->arena.used;
  cr_assert_gt(need, 0);
  size_t stride = t->check->large ? need / 64 : need / 256;
  stride = stride < 16 ? 16 : stride / 16 * 16;
  for (size_t left = 0;; left += stride) {
    th_status status = step_within(t, tape, left);
    if (status == TH_OK) break;
    cr_assert_leq(left, need + 64, "%s never succeeds", t->text);
    expect_clean_failure(t, tape, status);
  }
  expect_gradients(t, want);
  free(want);
  th_tape_free(tape);
}

Test(every_op_memory, however_little_is_left, .timeout = 240) {
  cr_assert_geq(for_every_case(starve), 200);
}

/* A fresh tape each time, so that its arena has to grow. */
static size_t failures;
static void fail_each_request(trial *t) {
  double *want = NULL;
  for (size_t n = 0;; n++) { /* 0: none fails */
    zero_grads(t);
    th__alloc_fail_at(n);
    th_tape *tape = th_tape_new();
    th_status status = tape == NULL ? TH_ERR_MEMORY : step(t, tape);
    th__alloc_fail_at(0);
    if (status != TH_OK && tape != NULL) expect_clean_failure(t, tape, status);
    failures += status != TH_OK;
    if (n > 0 && status == TH_OK) expect_gradients(t, want);
    if (n == 0) {
      cr_assert_eq(status, TH_OK, "%s: %s", t->text, th_tape_message(tape));
      want = gradients_of(t);
    }
    th_tape_free(tape);
    if (n > 0 && status == TH_OK) break;
  }
  free(want);
}

Test(every_op_memory, whichever_request_fails) {
  int cases = for_every_case(fail_each_request);
  cr_assert_gt(failures, (size_t)(2 * cases), "only %zu requests failed in %d cases", failures,
               cases);
}

/* 2 x^3 each: gradient 6. False when the backward had enough with `left` bytes. */
static bool fails_and_is_not_repeated(size_t left) {
  th_tape *tape = roomy_tape();
  th_tensor *x = make(tape, TH_F64, TH_SHAPE(2, 2), (double[]){1, 1, 1, 1});
  th_tensor *z = th_mul(tape, th_mul(tape, x, x), th_scale(tape, x, 2));
  th_tensor *loss = th_sum(tape, z, TH_ALL_AXES);
  tape->arena.used = tape->arena.held - left;
  th__alloc_fail_at(1);
  th_status first = th_backward(tape, loss);
  th__alloc_fail_at(0);
  if (first == TH_OK) {
    expect_values("dx", th_tensor_grad(x), (double[]){6, 6, 6, 6}, 0);
  } else {
    expect_error(tape, TH_ERR_MEMORY, "");
    if (th_backward(tape, loss) == TH_OK) /* had not begun */
      expect_values("dx", th_tensor_grad(x), (double[]){6, 6, 6, 6}, 0);
    else
      expect_error(tape, TH_ERR_STATE, "th_tape_reset()");
  }
  th_tape_free(tape);
  return first != TH_OK;
}

/* A backward that failed half-way does not start again from what it left behind. */
Test(every_op_memory, a_failed_backward_is_not_repeated) {
  size_t left = 0;
  while (fails_and_is_not_repeated(left)) left += 16;
  cr_assert_gt(left, 160);
}
