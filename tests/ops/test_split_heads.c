/* split_heads: goldens, the layout of C05, no copy, rejection. */
#include "gradients.h"
#include "support.h"

#include "golden/split_heads.inc"

TEST_BOTH(split_heads, golden) {
  th_tape *tape = th_tape_new();
  th_tensor *x = make(tape, dtype, 3, golden_split_heads_split_x_shape, golden_split_heads_split_x);
  th_tensor *y = th_split_heads(tape, x, golden_split_heads_split_heads);
  cr_assert_eq(th_tensor_data(y), th_tensor_data(x));
  expect_values("y", y, golden_split_heads_split_y, 0);
  backward_from(tape, y, golden_split_heads_split_dy);
  expect_values("dx", th_tensor_grad(x), golden_split_heads_split_dx, 0);
  th_tape_free(tape);
}

Test(split_heads, gradients) { check_gradients("split_heads"); }

/* C05: head h is columns 2h and 2h+1. Attention of each head with itself, made of single ops. */
TEST_BOTH(split_heads, attention_of_two_heads) {
  const double x[] = {0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7};
  const double want[] = {0.2028282386, 0.3028282386, 0.2253192675, 0.3253192675,
                         0.4141186124, 0.5141186124, 0.4363608077, 0.5363608077};
  th_tape *tape = th_tape_new();
  th_tensor *q = th_split_heads(tape, make(tape, dtype, TH_SHAPE(1, 2, 4), x), 2);
  th_tensor *scores = th_scale(tape, th_matmul(tape, q, q, TH_TRANSPOSE_B), sqrt(0.5));
  th_tensor *y = th_matmul(tape, th_softmax(tape, scores), q, 0);
  expect_values("y", y, want, dtype == TH_F32 ? 1e-6 : 1e-9);
  th_tape_free(tape);
}

/* The heads of a slice of columns (q of a joint q, k, v projection) are a view too. */
TEST_BOTH(split_heads, of_a_slice) {
  th_tape *tape = th_tape_new();
  double values[24], dy[8] = {1, 2, 3, 4, 5, 6, 7, 8}, want[24] = {0};
  for (int i = 0; i < 24; i++) values[i] = i;
  th_tensor *joint = make(tape, dtype, TH_SHAPE(1, 2, 12), values);
  th_tensor *k = th_split_heads(tape, th_slice(tape, joint, 2, 4, 8), 2);
  expect_values("k", k, (double[]){4, 5, 16, 17, 6, 7, 18, 19}, 0);
  cr_assert_eq(th_tape_node_count(tape), 0);
  backward_from(tape, k, dy);
  const int at[] = {4, 5, 16, 17, 6, 7, 18, 19};
  for (int i = 0; i < 8; i++) want[at[i]] = dy[i];
  expect_values("djoint", th_tensor_grad(joint), want, 0);
  th_tape_free(tape);
}

Test(split_heads, rejects) {
  th_tape *tape = th_tape_new();
  th_tensor *x = th_input(tape, TH_F32, TH_SHAPE(2, 3, 4), NULL);
  const ptrdiff_t bad[] = {3, 0, -2, 8};
  for (int i = 0; i < 4; i++) {
    cr_assert_null(th_split_heads(tape, x, bad[i]));
    expect_error(tape, TH_ERR_SHAPE, "the width 4 does not divide into");
  }
  cr_assert_null(th_split_heads(tape, th_input(tape, TH_F32, TH_SHAPE(3, 4), NULL), 2));
  expect_error(tape, TH_ERR_SHAPE, "x is [3, 4]");
  cr_assert_null(th_split_heads(tape, NULL, 2));
  expect_error(tape, TH_ERR_VALUE, "NULL");
  th_tape_free(tape);
}
