/* slice: goldens, overlapping and empty slices, retained gradients, rejection. */
#include "gradients.h"
#include "support.h"

#include "golden/slice.inc"

#define GOLDEN(name)                                                                               \
  do {                                                                                             \
    th_tape *tape = th_tape_new();                                                                 \
    th_tensor *x = make(tape, dtype, TH_SHAPE(2, 3, 5), golden_slice_##name##_x);                  \
    th_tensor *y = th_slice(tape, x, golden_slice_##name##_axis - 3, golden_slice_##name##_begin,  \
                            golden_slice_##name##_end);                                            \
    expect_values(#name, y, golden_slice_##name##_y, 0);                                           \
    backward_from(tape, y, golden_slice_##name##_dy);                                              \
    expect_values(#name, th_tensor_grad(x), golden_slice_##name##_dx, 0);                          \
    th_tape_free(tape);                                                                            \
  } while (0)

TEST_BOTH(slice, golden) {
  GOLDEN(axis0);
  GOLDEN(axis1);
  GOLDEN(axis2);
}

Test(slice, gradients) { check_gradients("slice"); }

TEST_BOTH(slice, overlapping_slices_add_up) {
  th_tape *tape = th_tape_new();
  th_tensor *x = make(tape, dtype, TH_SHAPE(4), (double[]){1, 2, 3, 4});
  th_tensor *y = th_mul(tape, th_slice(tape, x, 0, 0, 3), th_slice(tape, x, 0, 1, 4));
  expect_values("y", y, (double[]){2, 6, 12}, 0);
  backward_from(tape, y, (double[]){1, 10, 100});
  expect_values("dx", th_tensor_grad(x), (double[]){2, 31, 420, 300}, 0);
  th_tape_free(tape);
}

/* A slice's own gradient leaves the rest of its base's alone. */
TEST_BOTH(slice, retained_gradient) {
  th_tape *tape = th_tape_new();
  th_tensor *x = make(tape, dtype, TH_SHAPE(2, 3), (double[]){1, 2, 3, 4, 5, 6});
  th_tensor *inner = th_retain_grad(tape, th_scale(tape, x, 2));
  th_tensor *slice = th_retain_grad(tape, th_slice(tape, inner, 1, 1, 3));
  th_tensor *y = th_add(tape, slice, th_slice(tape, inner, 1, 0, 2));
  backward_from(tape, y, (double[]){1, 2, 3, 4});
  expect_values("dslice", th_tensor_grad(slice), (double[]){1, 2, 3, 4}, 0);
  expect_values("dinner", th_tensor_grad(inner), (double[]){1, 3, 2, 3, 7, 4}, 0);
  expect_values("dx", th_tensor_grad(x), (double[]){2, 6, 4, 6, 14, 8}, 0);
  th_tape_free(tape);
}

TEST_BOTH(slice, empty_and_whole) {
  th_tape *tape = th_tape_new();
  th_tensor *x = make(tape, dtype, TH_SHAPE(2, 2), (double[]){1, 2, 3, 4});
  cr_assert_eq(th_tensor_count(th_slice(tape, x, 1, 2, 2)), 0, "%s", th_tape_message(tape));
  expect_values("all", th_slice(tape, x, 0, 0, 2), (double[]){1, 2, 3, 4}, 0);
  th_tape_free(tape);
}

Test(slice, rejects) {
  th_tape *tape = th_tape_new();
  th_tensor *x = th_input(tape, TH_F32, TH_SHAPE(2, 3), NULL);
  const ptrdiff_t bad[][2] = {{0, 4}, {-1, 2}, {2, 1}, {4, 5}, {PTRDIFF_MIN, 0}, {0, PTRDIFF_MAX}};
  for (int i = 0; i < 6; i++) {
    cr_assert_null(th_slice(tape, x, 1, bad[i][0], bad[i][1]));
    expect_error(tape, TH_ERR_INDEX, "of axis 1 does not lie within 0 to 3");
  }
  cr_assert_null(th_slice(tape, x, 2, 0, 1));
  expect_error(tape, TH_ERR_SHAPE, "axis 2");
  cr_assert_null(th_slice(tape, NULL, 0, 0, 1));
  expect_error(tape, TH_ERR_VALUE, "NULL");
  th_tape_free(tape);
}
