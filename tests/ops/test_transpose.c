/* transpose: goldens, negative axes, no copy, rejection. */
#include "gradients.h"
#include "support.h"

#include "golden/transpose.inc"

#define GOLDEN(name)                                                                               \
  do {                                                                                             \
    th_tape *tape = th_tape_new();                                                                 \
    th_tensor *x = make(tape, dtype, TH_SHAPE(2, 3, 4), golden_transpose_##name##_x);              \
    int axis1 = golden_transpose_##name##_axis1, axis2 = golden_transpose_##name##_axis2;          \
    th_tensor *y = th_transpose(tape, x, axis1 - 3, axis2);                                        \
    expect_values(#name, y, golden_transpose_##name##_y, 0);                                       \
    cr_assert_eq(th_tensor_dim(y, axis1), th_tensor_dim(x, axis2));                                \
    cr_assert_eq(th_tensor_data(y), th_tensor_data(x));                                            \
    backward_from(tape, y, golden_transpose_##name##_dy);                                          \
    expect_values(#name, th_tensor_grad(x), golden_transpose_##name##_dx, 0);                      \
    th_tape_free(tape);                                                                            \
  } while (0)

TEST_BOTH(transpose, golden) {
  GOLDEN(axes01);
  GOLDEN(axes02);
  GOLDEN(axes12);
}

Test(transpose, gradients) { check_gradients("transpose"); }

/* Both ways round, and of an axis with itself: x again. Two uses add up. */
TEST_BOTH(transpose, twice_is_nothing) {
  th_tape *tape = th_tape_new();
  th_tensor *x = make(tape, dtype, TH_SHAPE(2, 2), (double[]){1, 2, 3, 4});
  th_tensor *back = th_transpose(tape, th_transpose(tape, x, 0, 1), 1, 0);
  expect_values("back", back, (double[]){1, 2, 3, 4}, 0);
  th_tensor *y = th_add(tape, th_transpose(tape, back, 1, 1), th_transpose(tape, x, 0, 1));
  backward_from(tape, y, (double[]){1, 20, 300, 4000});
  expect_values("dx", th_tensor_grad(x), (double[]){2, 320, 320, 8000}, 0);
  th_tape_free(tape);
}

TEST_BOTH(transpose, retained_gradient) {
  th_tape *tape = th_tape_new();
  th_tensor *x = make(tape, dtype, TH_SHAPE(1, 3), (double[]){1, 2, 3});
  th_tensor *view = th_retain_grad(tape, th_transpose(tape, th_scale(tape, x, 2), 0, 1));
  backward_from(tape, th_scale(tape, view, 10), (double[]){1, 2, 3});
  expect_values("dview", th_tensor_grad(view), (double[]){10, 20, 30}, 0);
  expect_values("dx", th_tensor_grad(x), (double[]){20, 40, 60}, 0);
  th_tape_free(tape);
}

Test(transpose, rejects) {
  th_tape *tape = th_tape_new();
  th_tensor *x = th_input(tape, TH_F32, TH_SHAPE(2, 3), NULL);
  cr_assert_null(th_transpose(tape, x, 0, 2));
  expect_error(tape, TH_ERR_SHAPE, "axis 2 does not exist in shape [2, 3]");
  cr_assert_null(th_transpose(tape, x, -3, 0));
  expect_error(tape, TH_ERR_SHAPE, "axis -3");
  cr_assert_null(th_transpose(tape, th_input(tape, TH_F32, TH_SCALAR, NULL), 0, 0));
  expect_error(tape, TH_ERR_SHAPE, "axis 0 does not exist in shape []");
  cr_assert_null(th_transpose(tape, NULL, 0, 1));
  expect_error(tape, TH_ERR_VALUE, "NULL");
  th_tape_free(tape);
}
