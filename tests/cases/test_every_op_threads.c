/* every op at 1, 2, 3 and 4 threads: the same bits forward and backward, onto a gradient that is not
 * zero; and that gradient is added to, not overwritten. */
#include "every_op.h"

static double start_value(int input, ptrdiff_t i) { return (double)((i + input) % 5 + 1) / 4; }

static size_t grad_bytes(const th_tensor *x) { return (size_t)x->count * th_dtype_size(x->dtype); }

/* Bits of the output, then of each gradient, one after the other; released with free(). */
static char *run(const trial *t, int threads, bool from_start, size_t *bytes) {
  cr_assert_eq(th_set_threads(threads), TH_OK);
  for (int i = 0; i < t->check->input_count; i++) {
    th_tensor *grad = th_tensor_grad(t->inputs[i]);
    for (ptrdiff_t k = 0; grad != NULL && k < grad->count; k++)
      th__set(grad, k, from_start ? start_value(i, k) : 0);
  }
  th_tape *tape = th_tape_new();
  const th_tensor *y = th_contiguous(tape, trial_forward(t, tape));
  cr_assert_not_null(y, "%s: %s", t->text, th_tape_message(tape));
  cr_assert_eq(trial_backward(tape, (th_tensor *)(uintptr_t)y), TH_OK, "%s: %s", t->text,
               th_tape_message(tape));
  *bytes = grad_bytes(y);
  for (int i = 0; i < t->check->input_count; i++)
    if (th_tensor_grad(t->inputs[i]) != NULL) *bytes += grad_bytes(t->inputs[i]);
  char *bits = malloc(*bytes + 1), *at = bits;
  memcpy(at, y->data, grad_bytes(y));
  at += grad_bytes(y);
  for (int i = 0; i < t->check->input_count; i++) {
    const th_tensor *grad = th_tensor_grad(t->inputs[i]);
    if (grad == NULL) continue;
    memcpy(at, grad->data, grad_bytes(grad));
    at += grad_bytes(grad);
  }
  th_tape_free(tape);
  cr_assert_eq(th_set_threads(0), TH_OK);
  return bits;
}

static void expect_same_bits(trial *t) {
  size_t bytes, other;
  char *one = run(t, 1, true, &bytes);
  for (int threads = 2; threads <= 4; threads++) {
    char *several = run(t, threads, true, &other);
    cr_assert_eq(bytes, other);
    cr_expect(memcmp(one, several, bytes) == 0, "%s: %d threads give other bits", t->text, threads);
    free(several);
  }
  free(one);
}

Test(every_op_threads, same_bits) { cr_assert_geq(for_every_case(expect_same_bits), 200); }

/* What stands there afterwards is start + gradient, to the rounding of sums in another order. */
static void expect_adds(trial *t) {
  size_t bytes;
  double *gradients[TH_MAX_INPUTS] = {0}, unit = t->dtype == TH_F32 ? 2e-6 : 1e-14;
  free(run(t, 2, false, &bytes));
  for (int i = 0; i < t->check->input_count; i++) {
    const th_tensor *grad = th_tensor_grad(t->inputs[i]);
    if (grad == NULL) continue;
    gradients[i] = malloc((size_t)(grad->count + 1) * sizeof(double));
    th_tensor_read(grad, gradients[i]);
  }
  free(run(t, 2, true, &bytes));
  for (int i = 0; i < t->check->input_count; i++) {
    const th_tensor *grad = th_tensor_grad(t->inputs[i]);
    if (grad == NULL) continue;
    double largest = 1;
    for (ptrdiff_t k = 0; k < grad->count; k++) largest = fmax(largest, fabs(gradients[i][k]));
    for (ptrdiff_t k = 0; k < grad->count; k++) {
      double got = th__get(grad, k), want = start_value(i, k) + gradients[i][k];
      cr_assert(fabs(got - want) <= unit * (2 + largest), "%s input %d [%td]: %.17g, not %.17g",
                t->text, i, k, got, want);
    }
    free(gradients[i]);
  }
}

Test(every_op_threads, gradients_are_added) { for_every_case(expect_adds); }
