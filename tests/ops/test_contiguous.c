/* contiguous: a copy only where one is needed; upstream gradients of any strides (C05). */
#include "gradients.h"
#include "support.h"

#include "golden/contiguous.inc"

/* x stored with its first two axes exchanged. */
static th_tensor *exchanged(th_tape *tape, th_dtype dtype, const double *x) {
  double stored[24];
  for (int i = 0; i < 24; i++) stored[i / 4 % 3 * 8 + i / 12 * 4 + i % 4] = x[i];
  return make(tape, dtype, TH_SHAPE(3, 2, 4), stored);
}

TEST_BOTH(contiguous, golden) {
  th_tape *tape = th_tape_new();
  th_tensor *stored = exchanged(tape, dtype, golden_contiguous_plain_x);
  th_tensor *y = th_contiguous(tape, th_transpose(tape, stored, 0, 1));
  cr_assert(th_tensor_is_contiguous(y));
  expect_values("y", y, golden_contiguous_plain_y, 0);
  backward_from(tape, y, golden_contiguous_plain_dy);
  double dx[24]; /* seen through the same exchange */
  th_tensor_read(th_tensor_grad(stored), dx);
  for (int i = 0; i < 24; i++)
    cr_assert_eq(dx[i / 4 % 3 * 8 + i / 12 * 4 + i % 4], golden_contiguous_plain_dx[i]);
  th_tape_free(tape);
}

Test(contiguous, gradients) { check_gradients("contiguous"); }

Test(contiguous, returns_what_is_contiguous) {
  th_tape *tape = th_tape_new();
  th_tensor *x = th_input_grad(tape, TH_F32, TH_SHAPE(2, 1, 3), NULL);
  cr_assert_eq(th_contiguous(tape, x), x);
  th_tensor *same = th_transpose(tape, x, 0, 1); /* an axis of length 1 has no order */
  cr_assert_eq(th_contiguous(tape, same), same);
  th_tensor *empty = th_transpose(tape, th_input_grad(tape, TH_F32, TH_SHAPE(2, 0, 3), NULL), 0, 2);
  cr_assert_eq(th_contiguous(tape, empty), empty);
  cr_assert_eq(th_tape_node_count(tape), 0);
  th_tape_free(tape);
}

/* C05: one upstream gradient, laid out in three ways, for an output that is itself a strided view. */
TEST_BOTH(contiguous, strided_upstream) {
  double first[24];
  for (int layout = 0; layout < 3; layout++) {
    th_tape *tape = th_tape_new();
    th_tensor *x = th_input_grad(tape, dtype, TH_SHAPE(2, 3, 4), NULL);
    th_tensor *y = th_split_heads(tape, th_scale(tape, x, 2), 2); /* [2, 2, 3, 2] */
    th_tensor *upstream = th_input(tape, dtype, TH_SHAPE(2, 2, 3, 2), NULL);
    th_init_normal(upstream, 0, 1, (th_random){1, 0, 0});
    if (layout > 0) { /* stored as [2, 2, 2, 3], or with gaps */
      th_tensor *other = layout == 1 ? th_input(tape, dtype, TH_SHAPE(2, 2, 2, 3), NULL)
                                     : th_input(tape, dtype, TH_SHAPE(2, 4, 3, 5), NULL);
      th_tensor *view = layout == 1 ? th_transpose(tape, other, 2, 3)
                                    : th_slice(tape, th_slice(tape, other, 1, 1, 3), 3, 2, 4);
      th__tensor_copy(view, upstream);
      upstream = view;
    }
    cr_assert_eq(th_backward_from(tape, y, upstream), TH_OK, "%s", th_tape_message(tape));
    double got[24];
    th_tensor_read(th_tensor_grad(x), got);
    if (layout == 0) memcpy(first, got, sizeof got);
    cr_assert_arr_eq(got, first, sizeof got);
    /* Head h, token t, column c of the upstream belongs to column 2 h + c of token t. */
    for (int i = 0; i < 24; i++) {
      int b = i / 12, h = i / 6 % 2, t = i / 2 % 3, c = i % 2;
      double want = 2 * th_random_normal((th_random){1, 0, 0}, (uint64_t)i);
      cr_assert(fabs(got[b * 12 + t * 4 + h * 2 + c] - want) < 1e-6);
    }
    th_tape_free(tape);
  }
}

Test(contiguous, rejects) {
  th_tape *tape = th_tape_new();
  cr_assert_null(th_contiguous(tape, NULL));
  expect_error(tape, TH_ERR_VALUE, "NULL");
  th_tape_free(tape);
}
