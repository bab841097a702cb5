/* graph: shapes of graphs beside chains. Time and memory stay linear. The rest: autograd/test_tape.c. */
#include "../support.h"

/* All losses first, then their sum: backward sets free one size after another while it needs a second.
 * Seconds if it searched through what is free: minutes. */
Test(graph, many_branches_in_linear_time, .timeout = 40) {
  enum { N = 60000 };
  th_tape *tape = th_tape_new();
  th_tensor *x = make(tape, TH_F64, TH_SHAPE(16), (double[16]){1});
  th_tensor **branches = malloc(N * sizeof *branches);
  for (int i = 0; i < N; i++) branches[i] = th_scale(tape, x, 2);
  for (int i = 0; i < N; i++) branches[i] = th_sum(tape, branches[i], TH_ALL_AXES);
  th_tensor *total = branches[0];
  for (int i = 1; i < N; i++) total = th_add(tape, total, branches[i]);
  cr_assert_eq(th_backward(tape, total), TH_OK, "%s", th_tape_message(tape));
  for (int i = 0; i < 16; i++) cr_assert_eq(th__get(th_tensor_grad(x), i), 2.0 * N);
  free(branches);
  th_tape_free(tape);
}

/* Values of many sizes at once: each gradient has its own memory. */
TEST_BOTH(graph, gradients_of_many_sizes) {
  enum { N = 300 };
  th_tape *tape = th_tape_new();
  double ones[N];
  for (int i = 0; i < N; i++) ones[i] = 1;
  th_tensor *x = make(tape, dtype, TH_SHAPE(N), ones), *total = NULL;
  for (int repeat = 0; repeat < 3; repeat++)
    for (int i = 1; i <= N; i++) {
      th_tensor *part = th_scale(tape, th_slice(tape, x, 0, 0, i), i);
      th_tensor *sum = th_sum(tape, th_mul(tape, part, part), TH_ALL_AXES);
      total = total == NULL ? sum : th_add(tape, total, sum);
    }
  cr_assert_eq(th_backward(tape, total), TH_OK, "%s", th_tape_message(tape));
  double want[N], sum = 0; /* d/dx_k of 3 sum over i > k of i^2 x_k^2 */
  for (int k = N - 1; k >= 0; k--) {
    sum += (double)(k + 1) * (k + 1);
    want[k] = 6 * sum;
  }
  expect_values("dx", th_tensor_grad(x), want, tolerances[dtype].gradient);
  th_tape_free(tape);
}

/* A million views of views: no recursion, and the gradient arrives. */
Test(graph, million_views) {
  th_tape *tape = th_tape_new();
  th_tensor *x = make(tape, TH_F32, TH_SHAPE(2, 3), (double[6]){0}), *y = x;
  for (int i = 0; i < 1000000; i++) y = th_transpose(tape, y, 0, 1);
  backward_from(tape, y, (double[]){1, 2, 3, 4, 5, 6});
  expect_values("dx", th_tensor_grad(x), (double[]){1, 2, 3, 4, 5, 6}, 0);
  th_tape_free(tape);
}
