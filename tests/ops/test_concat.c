/* concat: goldens, repeated and strided pieces, many pieces, all types, threads, rejection. */
#include "gradients.h"
#include "support.h"

#include "golden/concat.inc"

#define G(axis, part) golden_concat_axis##axis##_##part
static void golden(th_dtype dtype, int axis, const ptrdiff_t *const *shapes,
                   const double *const *pieces, const double *const *gradients, const double *y,
                   const double *dy) {
  for (int negative = 0; negative < 2; negative++) {
    th_tape *tape = th_tape_new();
    th_tensor *in[3];
    for (int i = 0; i < 3; i++) in[i] = make(tape, dtype, 3, shapes[i], pieces[i]);
    th_tensor *got = th_concat(tape, in, 3, negative ? axis - 3 : axis);
    expect_values("y", got, y, 0);
    backward_from(tape, got, dy);
    for (int i = 0; i < 3; i++) expect_values("gradient", th_tensor_grad(in[i]), gradients[i], 0);
    th_tape_free(tape);
  }
}

#define GOLDEN(axis)                                                                               \
  golden(dtype, axis, (const ptrdiff_t *[]){G(axis, a_shape), G(axis, b_shape), G(axis, c_shape)}, \
         (const double *[]){G(axis, a), G(axis, b), G(axis, c)},                                   \
         (const double *[]){G(axis, da), G(axis, db), G(axis, dc)}, G(axis, y), G(axis, dy))

TEST_BOTH(concat, golden) {
  GOLDEN(0);
  GOLDEN(1);
  GOLDEN(2);
}

Test(concat, gradients) { check_gradients("concat"); }

TEST_BOTH(concat, same_tensor_twice) {
  th_tape *tape = th_tape_new();
  th_tensor *x = make(tape, dtype, TH_SHAPE(2, 2), (double[]){1, 2, 3, 4});
  th_tensor *y = th_concat(tape, (th_tensor *[]){x, x, x}, 3, 1);
  expect_values("y", y, (double[]){1, 2, 1, 2, 1, 2, 3, 4, 3, 4, 3, 4}, 0);
  backward_from(tape, y, (double[]){1, 10, 2, 20, 4, 40, 8, 80, 16, 160, 32, 320});
  expect_values("dx", th_tensor_grad(x), (double[]){7, 70, 56, 560}, 0);
  th_tape_free(tape);
}

/* Two windows of one matrix that overlap, the other way round. */
TEST_BOTH(concat, strided_pieces) {
  th_tape *tape = th_tape_new();
  th_tensor *x = make(tape, dtype, TH_SHAPE(3, 2), (double[]){1, 2, 3, 4, 5, 6});
  th_tensor *turned = th_transpose(tape, x, 0, 1); /* 1 3 5; 2 4 6 */
  th_tensor *pieces[] = {th_slice(tape, turned, 1, 1, 3), th_slice(tape, turned, 1, 0, 2)};
  th_tensor *y = th_concat(tape, pieces, 2, 1);
  expect_values("y", y, (double[]){3, 5, 1, 3, 4, 6, 2, 4}, 0);
  backward_from(tape, y, (double[]){1, 2, 3, 4, 5, 6, 7, 8});
  expect_values("dx", th_tensor_grad(x), (double[]){3, 7, 5, 13, 2, 6}, 0);
  th_tape_free(tape);
}

TEST_BOTH(concat, gradient_only_where_wanted) {
  th_tape *tape = th_tape_new();
  th_tensor *x = make(tape, dtype, TH_SHAPE(2), (double[]){1, 2});
  th_tensor *fixed = th_input(tape, dtype, TH_SHAPE(1), NULL);
  backward_from(tape, th_concat(tape, (th_tensor *[]){fixed, x}, 2, 0), (double[]){1, 2, 3});
  expect_values("dx", th_tensor_grad(x), (double[]){2, 3}, 0);
  cr_assert_null(th_tensor_grad(fixed));
  th_tape_reset(tape);
  fixed = th_input(tape, dtype, TH_SHAPE(1), NULL);
  th_concat(tape, (th_tensor *[]){fixed, fixed}, 2, 0);
  cr_assert_eq(th_tape_node_count(tape), 0, "a node that nobody wants");
  th_tape_free(tape);
}

/* The one piece is copied: who writes into the result does not write into it. */
TEST_BOTH(concat, one_piece_is_a_copy) {
  th_tape *tape = th_tape_new();
  th_tensor *x = make(tape, dtype, TH_SHAPE(2), (double[]){1, 2});
  th_tensor *y = th_concat(tape, &x, 1, 0);
  cr_assert_neq(y->data, x->data);
  backward_from(tape, y, (double[]){3, 4});
  expect_values("dx", th_tensor_grad(x), (double[]){3, 4}, 0);
  th_tape_free(tape);
}

#define MANY 3000
TEST_BOTH(concat, many_pieces) {
  th_tape *tape = th_tape_new();
  static th_tensor *pieces[MANY];
  static double values[2 * MANY], upstream[2 * MANY];
  for (int i = 0; i < MANY; i++) {
    values[i] = i, values[MANY + i] = -i;
    upstream[i] = 3 * i, upstream[MANY + i] = 1;
    pieces[i] = make(tape, dtype, TH_SHAPE(2, 1), (double[]){i, -i});
  }
  th_tensor *y = th_concat(tape, pieces, MANY, -1);
  expect_values("y", y, values, 0);
  backward_from(tape, y, upstream);
  for (int i = 0; i < MANY; i++)
    expect_values("gradient", th_tensor_grad(pieces[i]), (double[]){3 * i, 1}, 0);
  th_tape_free(tape);
}

TEST_BOTH(concat, zero_sizes) {
  th_tape *tape = th_tape_new();
  th_tensor *none = th_input_grad(tape, dtype, TH_SHAPE(2, 0), NULL);
  th_tensor *x = make(tape, dtype, TH_SHAPE(2, 1), (double[]){1, 2});
  th_tensor *y = th_concat(tape, (th_tensor *[]){none, x, none}, 3, 1);
  expect_values("y", y, (double[]){1, 2}, 0);
  backward_from(tape, y, (double[]){3, 4});
  expect_values("dx", th_tensor_grad(x), (double[]){3, 4}, 0);
  th_tape_reset(tape);
  none = th_input_grad(tape, dtype, TH_SHAPE(2, 0), NULL);
  y = th_concat(tape, (th_tensor *[]){none, none}, 2, 0);
  cr_assert_eq(th_tensor_dim(y, 0), 4);
  backward_from(tape, y, (double[]){0});
  th_tape_free(tape);
}

/* Tokens and masks are joined too. */
Test(concat, other_types) {
  th_tape *tape = th_tape_new();
  th_tensor *a = make(tape, TH_I32, TH_SHAPE(2), (double[]){1, -2});
  expect_values("i32", th_concat(tape, (th_tensor *[]){a, a}, 2, 0), (double[]){1, -2, 1, -2}, 0);
  th_tensor *m = make(tape, TH_BOOL, TH_SHAPE(2), (double[]){1, 0});
  expect_values("bool", th_concat(tape, (th_tensor *[]){m, m}, 2, 0), (double[]){1, 0, 1, 0}, 0);
  th_tape_free(tape);
}

TEST_BOTH(concat, same_bits_at_any_number_of_threads) {
  th_tensor *results[2][3];
  th_tape *tapes[2] = {th_tape_new(), th_tape_new()};
  for (int t = 0; t < 2; t++) {
    th_set_threads(t + 1);
    th_tensor *a = th_input_grad(tapes[t], dtype, TH_SHAPE(300, 500), NULL);
    th_tensor *b = th_input_grad(tapes[t], dtype, TH_SHAPE(300, 77), NULL);
    th_init_normal(a, 1, 2, (th_random){1, 0, 0});
    th_init_normal(b, 1, 2, (th_random){2, 0, 0});
    th_tensor *y = th_concat(tapes[t], (th_tensor *[]){a, b, a}, 3, 1);
    cr_assert_eq(th_backward_from(tapes[t], y, th_detach(tapes[t], y)), TH_OK);
    results[t][0] = y, results[t][1] = a->grad, results[t][2] = b->grad;
  }
  th_set_threads(0);
  for (int i = 0; i < 3; i++)
    cr_assert_eq(memcmp(results[0][i]->data, results[1][i]->data,
                        (size_t)results[0][i]->count * th_dtype_size(dtype)),
                 0, "result %d", i);
  th_tape_free(tapes[0]);
  th_tape_free(tapes[1]);
}

Test(concat, rejects) {
  th_tape *tape = th_tape_new();
  th_tensor *x = th_input(tape, TH_F32, TH_SHAPE(2, 3), NULL);
  th_tensor *y = th_input(tape, TH_F32, TH_SHAPE(2, 4), NULL);
  th_tensor *flat = th_input(tape, TH_F32, TH_SHAPE(3), NULL);
  th_tensor *twice = th_input(tape, TH_F64, TH_SHAPE(2, 3), NULL);
  cr_assert_null(th_concat(tape, (th_tensor *[]){x, y}, 2, 0));
  expect_error(tape, TH_ERR_SHAPE,
               "piece 1 is [2, 4] but piece 0 is [2, 3]; they may differ in axis 0");
  cr_assert_null(th_concat(tape, (th_tensor *[]){x, flat}, 2, 1));
  expect_error(tape, TH_ERR_SHAPE, "piece 1 is [3]");
  cr_assert_null(th_concat(tape, (th_tensor *[]){x, twice}, 2, 1));
  expect_error(tape, TH_ERR_DTYPE, "piece 1 is f64 but piece 0 is f32");
  const int axes[] = {2, -3, 127, -128};
  for (int i = 0; i < 4; i++) {
    cr_assert_null(th_concat(tape, (th_tensor *[]){x, x}, 2, axes[i]));
    expect_error(tape, TH_ERR_SHAPE, "does not exist");
  }
  cr_assert_null(th_concat(tape, &x, 0, 0));
  expect_error(tape, TH_ERR_VALUE, "0 pieces");
  cr_assert_null(th_concat(tape, &x, -1, 0));
  expect_error(tape, TH_ERR_VALUE, "-1 pieces");
  cr_assert_null(th_concat(tape, NULL, 2, 0));
  expect_error(tape, TH_ERR_VALUE, "0 pieces");
  cr_assert_null(th_concat(tape, (th_tensor *[]){x, NULL}, 2, 0));
  expect_error(tape, TH_ERR_VALUE, "input 1 is NULL");
  th_tensor *scalar = th_input(tape, TH_F32, TH_SCALAR, NULL);
  cr_assert_null(th_concat(tape, &scalar, 1, 0));
  expect_error(tape, TH_ERR_SHAPE, "axis 0 does not exist");
  th_tensor *wide = th_input(tape, TH_F32, TH_SHAPE(0, PTRDIFF_MAX), NULL);
  if (wide == NULL) th_tape_clear_error(tape);
  if (wide != NULL) {
    cr_assert_null(th_concat(tape, (th_tensor *[]){wide, wide}, 2, 1));
    expect_error(tape, TH_ERR_SHAPE, "longer than");
  }
  cr_assert_null(th_concat(NULL, &x, 1, 0));
  th_tape_free(tape);
}
