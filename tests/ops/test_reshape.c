/* reshape: goldens; a view wherever strides allow one, and right whether or not; retained gradients. */
#include "gradients.h"
#include "support.h"

#include "golden/reshape.inc"

#define NDIM(shape) ((int)(sizeof(shape) / sizeof *(shape)))
#define GOLDEN(name)                                                                               \
  do {                                                                                             \
    th_tape *tape = th_tape_new();                                                                 \
    th_tensor *x = make(tape, dtype, TH_SHAPE(2, 3, 4), golden_reshape_##name##_x);                \
    th_tensor *y = th_reshape(tape, x, NDIM(golden_reshape_##name##_y_shape),                      \
                              golden_reshape_##name##_y_shape);                                    \
    expect_values(#name, y, golden_reshape_##name##_y, 0);                                         \
    cr_assert_eq(th_tensor_data(y), th_tensor_data(x));                                            \
    backward_from(tape, y, golden_reshape_##name##_dy);                                            \
    expect_values(#name, th_tensor_grad(x), golden_reshape_##name##_dx, 0);                        \
    th_tape_free(tape);                                                                            \
  } while (0)

TEST_BOTH(reshape, golden) {
  GOLDEN(join);
  GOLDEN(split);
  GOLDEN(flat);
  GOLDEN(ones);
}

Test(reshape, gradients) { check_gradients("reshape"); }

/* The next shape of `count` elements with axes 1..12 and at most 5 of them; false after the last. */
static bool next_shape(ptrdiff_t count, int *ndim, ptrdiff_t *shape) {
  for (;;) {
    int i = *ndim - 1;
    while (i >= 0 && shape[i] == 12) shape[i--] = 1;
    if (i >= 0)
      shape[i]++;
    else if (++*ndim > 5)
      return false;
    else
      for (int j = 0; j < *ndim; j++) shape[j] = 1;
    ptrdiff_t product = 1;
    for (int j = 0; j < *ndim; j++) product *= shape[j];
    if (product == count) return true;
  }
}

/* Views of one tensor of 0, 1, 2, ...: transposed, sliced, split, with axes of length 1. */
static th_tensor *strided(th_tape *tape, int which) {
  double values[48];
  for (int i = 0; i < 48; i++) values[i] = i;
  th_tensor *x = make(tape, TH_F64, TH_SHAPE(2, 4, 6), values);
  switch (which) {
  case 0: return x;
  case 1: return th_transpose(tape, x, 0, 1);
  case 2: return th_transpose(tape, x, 1, 2);
  case 3: return th_transpose(tape, x, 0, 2);
  case 4: return th_slice(tape, x, 2, 1, 4);
  case 5: return th_slice(tape, x, 1, 1, 3);
  case 6: return th_slice(tape, x, 2, 3, 4);
  case 7: return th_slice(tape, x, 1, 2, 3);
  case 8: return th_split_heads(tape, x, 3);
  case 9: return th_transpose(tape, th_slice(tape, x, 0, 1, 2), 1, 2);
  default: return th_slice(tape, th_split_heads(tape, x, 2), 3, 0, 2);
  }
}

/* Every shape of every view holds the same elements in row-major order, and gives them back. */
Test(reshape, every_shape_of_strided_views) {
  th_tape *tape = th_tape_new();
  for (int which = 0; which <= 10; which++) {
    double want[48], got[48];
    ptrdiff_t count = th_tensor_count(strided(tape, which)), shape[5];
    int ndim = 0, shapes = 0;
    while (next_shape(count, &ndim, shape)) {
      th_tape_reset(tape);
      th_tensor *x = strided(tape, which);
      th_tensor_read(x, want);
      th_tensor *y = th_reshape(tape, x, ndim, shape);
      cr_assert_not_null(y, "%s", th_tape_message(tape));
      th_tensor_read(y, got);
      cr_assert_arr_eq(got, want, (size_t)count * sizeof *got);
      shapes++;
    }
    cr_assert_geq(shapes, 10);
  }
  th_tape_free(tape);
}

/* No copy where strides exist: the memory is the same and no node is recorded. */
Test(reshape, copies_only_what_it_must) {
  th_tape *tape = th_tape_new();
  th_tensor *x = th_input_grad(tape, TH_F32, TH_SHAPE(2, 4, 6), NULL);
  th_tensor *slice = th_slice(tape, x, 2, 0, 4), *turned = th_transpose(tape, x, 0, 2);
  th_tensor *views[] = {th_reshape(tape, slice, TH_SHAPE(8, 4)),
                        th_reshape(tape, slice, TH_SHAPE(2, 2, 2, 2, 2)),
                        th_reshape(tape, turned, TH_SHAPE(2, 3, 1, 4, 2)),
                        th_reshape(tape, slice, TH_SHAPE(8, 1, 2, 2))};
  for (int i = 0; i < 4; i++)
    cr_assert_eq(th_tensor_data(views[i]), th_tensor_data(x), "view %d", i);
  cr_assert_eq(th_tape_node_count(tape), 0);
  cr_assert_neq(th_tensor_data(th_reshape(tape, slice, TH_SHAPE(32))), th_tensor_data(x));
  cr_assert_neq(th_tensor_data(th_reshape(tape, turned, TH_SHAPE(24, 2))), th_tensor_data(x));
  cr_assert_eq(th_tape_node_count(tape), 2);
  th_tape_free(tape);
}

/* A view of an inner value has a gradient on request, and passes it on to its base. */
TEST_BOTH(reshape, retained_gradient) {
  th_tape *tape = th_tape_new();
  th_tensor *x = make(tape, dtype, TH_SHAPE(2, 2), (double[]){1, 2, 3, 4});
  th_tensor *inner = th_scale(tape, x, 3);
  th_tensor *view = th_retain_grad(tape, th_reshape(tape, inner, TH_SHAPE(4)));
  th_tensor *lost = th_reshape(tape, inner, TH_SHAPE(1, 4));
  th_tensor *twice = th_add(tape, view, view);
  th_tensor *y = th_add(tape, twice, lost);
  backward_from(tape, y, (double[]){1, 2, 3, 4});
  expect_values("dview", th_tensor_grad(view), (double[]){2, 4, 6, 8}, 0);
  expect_values("dx", th_tensor_grad(x), (double[]){9, 18, 27, 36}, 0);
  cr_assert_null(th_tensor_grad(inner)); /* not asked for: recycled, and so is its view's */
  cr_assert_null(th_tensor_grad(lost));
  th_tape_free(tape);
}

TEST_BOTH(reshape, zero_sizes_and_scalars) {
  th_tape *tape = th_tape_new();
  th_tensor *empty = th_input_grad(tape, dtype, TH_SHAPE(2, 0, 3), NULL);
  cr_assert_not_null(th_reshape(tape, th_transpose(tape, empty, 0, 2), TH_SHAPE(0, 7)));
  th_tensor *one = make(tape, dtype, TH_SHAPE(1, 1), (double[]){5});
  th_tensor *scalar = th_reshape(tape, one, TH_SCALAR);
  expect_values("scalar", scalar, (double[]){5}, 0);
  cr_assert_eq(th_backward(tape, th_reshape(tape, scalar, TH_SHAPE(1, 1, 1))), TH_OK);
  expect_values("dx", th_tensor_grad(one), (double[]){1}, 0);
  th_tape_free(tape);
}

Test(reshape, rejects) {
  th_tape *tape = th_tape_new();
  th_tensor *x = th_input(tape, TH_F32, TH_SHAPE(2, 3), NULL);
  cr_assert_null(th_reshape(tape, x, TH_SHAPE(4, 2)));
  expect_error(tape, TH_ERR_SHAPE, "[2, 3] has 6 elements but [4, 2] has 8");
  cr_assert_null(th_reshape(tape, x, TH_SHAPE(-1, 6)));
  expect_error(tape, TH_ERR_SHAPE, "dimension 0 is -1");
  cr_assert_null(th_reshape(tape, x, TH_SHAPE((ptrdiff_t)1 << 62, 4)));
  expect_error(tape, TH_ERR_SHAPE, "overflows");
  cr_assert_null(th_reshape(tape, x, TH_SHAPE(1, 1, 1, 1, 1, 1, 1, 2, 3)));
  expect_error(tape, TH_ERR_SHAPE, "9 dimensions");
  cr_assert_null(th_reshape(tape, NULL, TH_SHAPE(6)));
  expect_error(tape, TH_ERR_VALUE, "NULL");
  th_tape_free(tape);
}
