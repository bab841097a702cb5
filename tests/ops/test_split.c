/* split: goldens, views, what concat joins again, rejection. */
#include "gradients.h"
#include "support.h"

#include "golden/split.inc"

#define G(axis, part) golden_split_axis##axis##_##part
static void golden(th_dtype dtype, int axis, const ptrdiff_t *sizes, const ptrdiff_t *shape,
                   const double *x, const double *dy, const double *y, const double *dx) {
  for (int negative = 0; negative < 2; negative++) {
    th_tape *tape = th_tape_new();
    th_tensor *whole = make(tape, dtype, 3, shape, x), *pieces[3];
    th_split(tape, whole, negative ? axis - 3 : axis, sizes, 3, pieces);
    expect_values("y", pieces[1], y, 0);
    backward_from(tape, pieces[1], dy);
    expect_values("dx", th_tensor_grad(whole), dx, 0);
    th_tape_free(tape);
  }
}

#define GOLDEN(axis)                                                                               \
  golden(dtype, axis, (const ptrdiff_t[]){G(axis, size0), G(axis, size1), G(axis, size2)},         \
         G(axis, x_shape), G(axis, x), G(axis, dy), G(axis, y), G(axis, dx))

TEST_BOTH(split, golden) {
  GOLDEN(0);
  GOLDEN(1);
  GOLDEN(2);
}

Test(split, gradients) { check_gradients("split"); }

TEST_BOTH(split, pieces_are_views) {
  th_tape *tape = th_tape_new();
  th_tensor *x = make(tape, dtype, TH_SHAPE(2, 3), (double[]){1, 2, 3, 4, 5, 6}), *pieces[2];
  th_split(tape, x, 1, (const ptrdiff_t[]){1, 2}, 2, pieces);
  cr_assert_eq(th_tape_node_count(tape), 0);
  cr_assert_eq(pieces[0]->data, x->data);
  cr_assert_eq(pieces[1]->data, th__at(x, 1));
  cr_assert(!th_tensor_is_contiguous(pieces[1]));
  th_tape_free(tape);
}

/* Joined again it is x, and each element's gradient has arrived where it belongs. */
TEST_BOTH(split, concat_joins_it_again) {
  th_tape *tape = th_tape_new();
  th_tensor *stored = th_input_grad(tape, dtype, TH_SHAPE(7, 5, 3), NULL), *pieces[4];
  th_init_normal(stored, 0, 1, (th_random){1, 0, 0});
  th_tensor *x = th_transpose(tape, stored, 0, 2); /* [3, 5, 7] */
  double values[105], upstream[105];
  th_tensor_read(x, values);
  th_split(tape, x, -1, (const ptrdiff_t[]){2, 0, 4, 1}, 4, pieces);
  th_tensor *y = th_concat(tape, pieces, 4, -1);
  expect_values("y", y, values, 0);
  for (int i = 0; i < 105; i++) upstream[i] = i;
  backward_from(tape, y, upstream);
  for (int i = 0; i < 105; i++)
    cr_assert_eq(th__get(stored->grad, i % 7 * 15 + i / 7 % 5 * 3 + i / 35), i);
  th_tape_free(tape);
}

/* One piece used twice, one not at all. */
TEST_BOTH(split, uses_add_up) {
  th_tape *tape = th_tape_new();
  th_tensor *x = make(tape, dtype, TH_SHAPE(4), (double[]){1, 2, 3, 4}), *pieces[3];
  th_split(tape, x, 0, (const ptrdiff_t[]){1, 2, 1}, 3, pieces);
  backward_from(tape, th_mul(tape, pieces[1], pieces[1]), (double[]){1, 10});
  expect_values("dx", th_tensor_grad(x), (double[]){0, 4, 60, 0}, 0);
  th_tape_free(tape);
}

TEST_BOTH(split, zero_sizes) {
  th_tape *tape = th_tape_new();
  th_tensor *x = th_input_grad(tape, dtype, TH_SHAPE(2, 0), NULL), *pieces[2] = {NULL, x};
  th_split(tape, x, 1, (const ptrdiff_t[]){0, 0}, 2, pieces);
  cr_assert_eq(th_tensor_dim(pieces[1], 0), 2);
  th_split(tape, x, 0, (const ptrdiff_t[]){1, 1}, 2, pieces);
  cr_assert_eq(th_tensor_dim(pieces[1], 0), 1);
  th_split(tape, x, 1, NULL, 0, NULL);
  cr_assert_eq(th_tape_status(tape), TH_OK);
  th_tape_free(tape);
}

Test(split, rejects) {
  th_tape *tape = th_tape_new();
  th_tensor *x = th_input(tape, TH_F32, TH_SHAPE(2, 5), NULL);
  const struct {
    int axis;
    ptrdiff_t sizes[2];
    th_status status;
    const char *text;
  } bad[] = {{1, {2, 2}, TH_ERR_SHAPE, "the 2 sizes leave 1 of the 5 of axis 1 over"},
             {1, {2, 4}, TH_ERR_SHAPE, "size 1 is 4 where 3 of the 5 of axis 1 are left"},
             {1, {6, -1}, TH_ERR_SHAPE, "size 0 is 6"},
             {1, {-1, 6}, TH_ERR_VALUE, "size 0 is -1"},
             {1, {PTRDIFF_MAX, PTRDIFF_MAX}, TH_ERR_SHAPE, "size 0"},
             {2, {2, 3}, TH_ERR_SHAPE, "axis 2 does not exist"},
             {-3, {2, 3}, TH_ERR_SHAPE, "axis -3 does not exist"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    th_tensor *pieces[2] = {x, x};
    th_split(tape, x, bad[i].axis, bad[i].sizes, 2, pieces);
    expect_error(tape, bad[i].status, bad[i].text);
    cr_assert(pieces[0] == NULL && pieces[1] == NULL);
  }
  th_tensor *pieces[2] = {x, x};
  th_split(tape, NULL, 0, (const ptrdiff_t[]){1, 1}, 2, pieces);
  expect_error(tape, TH_ERR_VALUE, "NULL");
  cr_assert(pieces[0] == NULL && pieces[1] == NULL);
  pieces[0] = x;
  th_split(NULL, x, 0, (const ptrdiff_t[]){1, 1}, 2, pieces);
  cr_assert_null(pieces[0]);
  th_tape_free(tape);
}
