/* merge_heads: goldens, the inverse of split_heads, copied where it must be, rejection. */
#include "gradients.h"
#include "support.h"

#include "golden/merge_heads.inc"

TEST_BOTH(merge_heads, golden) {
  th_tape *tape = th_tape_new();
  th_tensor *x = make(tape, dtype, 4, golden_merge_heads_merge_x_shape, golden_merge_heads_merge_x);
  th_tensor *y = th_merge_heads(tape, x);
  expect_values("y", y, golden_merge_heads_merge_y, 0);
  backward_from(tape, y, golden_merge_heads_merge_dy);
  expect_values("dx", th_tensor_grad(x), golden_merge_heads_merge_dx, 0);
  th_tape_free(tape);
}

Test(merge_heads, gradients) { check_gradients("merge_heads"); }

/* Of split heads nothing is copied; gradients pass through unchanged. */
TEST_BOTH(merge_heads, undoes_split_heads) {
  th_tape *tape = th_tape_new();
  double values[24];
  for (int i = 0; i < 24; i++) values[i] = i;
  th_tensor *x = make(tape, dtype, TH_SHAPE(2, 3, 4), values);
  th_tensor *y = th_merge_heads(tape, th_split_heads(tape, x, 2));
  cr_assert_eq(th_tensor_data(y), th_tensor_data(x));
  cr_assert_eq(th_tape_node_count(tape), 0);
  expect_values("y", y, values, 0);
  backward_from(tape, y, values);
  expect_values("dx", th_tensor_grad(x), values, 0);
  th_tape_free(tape);
}

TEST_BOTH(merge_heads, zero_sizes) {
  th_tape *tape = th_tape_new();
  for (int axis = 0; axis < 4; axis++) {
    ptrdiff_t shape[] = {2, 3, 4, 5};
    shape[axis] = 0;
    th_tensor *y = th_merge_heads(tape, th_input_grad(tape, dtype, 4, shape, NULL));
    cr_assert_eq(th_tensor_count(y), 0, "%s", th_tape_message(tape));
    cr_assert_eq(th_tensor_dim(y, 2), shape[1] * shape[3]);
  }
  th_tape_free(tape);
}

Test(merge_heads, rejects) {
  th_tape *tape = th_tape_new();
  cr_assert_null(th_merge_heads(tape, th_input(tape, TH_F32, TH_SHAPE(2, 3, 4), NULL)));
  expect_error(tape, TH_ERR_SHAPE, "x is [2, 3, 4]; [B, H, T, D] is expected");
  cr_assert_null(th_merge_heads(tape, NULL));
  expect_error(tape, TH_ERR_VALUE, "NULL");
  th_tape_free(tape);
}
