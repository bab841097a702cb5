/* embedding: goldens, rows hit several times (C13), invalid ids (C07), strided tables, rejection. */
#include "gradients.h"
#include "support.h"

#include "golden/embedding.inc"

TEST_BOTH(embedding, golden) {
  th_tape *tape = th_tape_new();
  th_tensor *table =
      make(tape, dtype, 2, golden_embedding_plain_table_shape, golden_embedding_plain_table);
  th_tensor *ids =
      th_input(tape, TH_I32, 2, golden_embedding_plain_ids_shape, golden_embedding_plain_ids);
  th_tensor *y = th_embedding(tape, table, ids);
  expect_values("y", y, golden_embedding_plain_y, tolerances[dtype].value);
  backward_from(tape, y, golden_embedding_plain_dy);
  expect_values("dtable", th_tensor_grad(table), golden_embedding_plain_dtable,
                tolerances[dtype].gradient);
  th_tape_free(tape);
}

/* C13: a row that is hit three times gets the sum. */
TEST_BOTH(embedding, golden_repeats) {
  th_tape *tape = th_tape_new();
  th_tensor *table =
      make(tape, dtype, 2, golden_embedding_repeats_table_shape, golden_embedding_repeats_table);
  th_tensor *ids =
      th_input(tape, TH_I32, 1, golden_embedding_repeats_ids_shape, golden_embedding_repeats_ids);
  th_tensor *y = th_embedding(tape, table, ids);
  expect_values("y", y, golden_embedding_repeats_y, tolerances[dtype].value);
  backward_from(tape, y, golden_embedding_repeats_dy);
  expect_values("dtable", th_tensor_grad(table), golden_embedding_repeats_dtable, 0);
  th_tape_free(tape);
}

Test(embedding, gradients) { check_gradients("embedding"); }

/* The gradient of a table [V, C] for the ids, as the serial sum in the order of the ids. */
static void serial_sum(const th_tensor *dy, const int32_t *ids, th_tensor *sum) {
  ptrdiff_t n = sum->shape[1];
  for (ptrdiff_t i = 0; i < dy->count; i++) {
    ptrdiff_t to = ids[i / n] * n + i % n;
    if (dy->dtype == TH_F32)
      ((float *)sum->data)[to] += ((const float *)dy->data)[i];
    else
      ((double *)sum->data)[to] += ((const double *)dy->data)[i];
  }
}

/* C13: ids that collide, at 1 to 16 threads in turn, bit for bit the serial sum. */
static void collide(th_dtype dtype, ptrdiff_t width, uint32_t different, int rounds) {
  enum { count = 4096, vocabulary = 9 };
  static int32_t ids[count];
  for (uint32_t i = 0; i < count; i++) ids[i] = (int32_t)((i * 2654435761u >> 16) % different);
  th_tensor *dy = th_tensor_new(dtype, TH_SHAPE(count, width), NULL);
  th_tensor *want = th_tensor_new(dtype, TH_SHAPE(vocabulary, width), NULL);
  th_init_normal(dy, 0, 1, (th_random){different, 0, 0});
  serial_sum(dy, ids, want);
  th_tape *tape = th_tape_new();
  for (int round = 0; round < rounds; round++) {
    th_set_threads(1 + round % 16);
    th_tensor *table = th_input_grad(tape, dtype, TH_SHAPE(vocabulary, width), NULL);
    th_tensor *y = th_embedding(tape, table, th_input(tape, TH_I32, TH_SHAPE(count), ids));
    cr_assert_eq(th_backward_from(tape, y, dy), TH_OK);
    size_t bytes = (size_t)want->count * th_dtype_size(dtype);
    cr_assert_eq(memcmp(want->data, table->grad->data, bytes), 0, "width %td, %d threads", width,
                 1 + round % 16);
    th_tape_reset(tape);
  }
  th_set_threads(0);
  th_tape_free(tape);
  th_tensor_free(dy);
  th_tensor_free(want);
}

TEST_BOTH(embedding, equal_ids_are_the_serial_sum) {
  collide(dtype, 2, 1, 100);
  collide(dtype, 40, 1, 1000);
  collide(dtype, 40, 7, 100);
}

TEST_BOTH(embedding, two_uses_add_up) {
  th_tape *tape = th_tape_new();
  th_tensor *table = make(tape, dtype, TH_SHAPE(2, 2), (double[]){1, 2, 3, 4});
  th_tensor *a = th_embedding(tape, table, th_input(tape, TH_I32, TH_SHAPE(1), (int32_t[]){1}));
  th_tensor *b = th_embedding(tape, table, th_input(tape, TH_I32, TH_SHAPE(1), (int32_t[]){1}));
  backward_from(tape, th_add(tape, a, b), (double[]){5, 6});
  expect_values("dtable", th_tensor_grad(table), (double[]){0, 0, 10, 12}, 0);
  th_tape_free(tape);
}

/* Rows that no id names keep their gradient, NaN too: they are not read and written again. */
TEST_BOTH(embedding, other_rows_are_not_touched) {
  th_tape *tape = th_tape_new();
  th_tensor *table = th_tensor_new(dtype, TH_SHAPE(3, 2), NULL);
  cr_assert_eq(th_tensor_require_grad(table, NULL), TH_OK);
  th__set(th_tensor_grad(table), 0, NAN);
  th_tensor *y = th_embedding(tape, table, th_input(tape, TH_I32, TH_SHAPE(1), (int32_t[]){2}));
  backward_from(tape, y, (double[]){1, 2});
  double got[6];
  th_tensor_read(th_tensor_grad(table), got);
  cr_assert(isnan(got[0]) && got[1] == 0 && got[2] == 0 && got[3] == 0 && got[4] == 1 &&
            got[5] == 2);
  th_tensor_free(table);
  th_tape_free(tape);
}

/* C07: named with value, index and limit, before anything is written. */
TEST_BOTH(embedding, invalid_ids) {
  const int32_t bad[] = {4, -1, 1000, INT32_MIN, INT32_MAX};
  th_tape *tape = th_tape_new();
  for (int i = 0; i < 5; i++) {
    th_tensor *table = make(tape, dtype, TH_SHAPE(4, 2), (double[]){1, 2, 3, 4, 5, 6, 7, 8});
    char says[64];
    snprintf(says, sizeof says, "id %d at index 2; the table has 4 rows", bad[i]);
    const int32_t ids[] = {0, 3, bad[i]};
    cr_assert_null(th_embedding(tape, table, th_input(tape, TH_I32, TH_SHAPE(3), ids)));
    expect_error(tape, TH_ERR_INDEX, says);
    cr_assert_eq(th_tape_node_count(tape), 0);
  }
  th_tape_free(tape);
}

/* A column slice of a table goes without a copy, a transposed one with; strided ids; copied ids. */
TEST_BOTH(embedding, strided_inputs) {
  th_tape *tape = th_tape_new();
  th_tensor *wide = make(tape, dtype, TH_SHAPE(2, 4), (double[]){1, 2, 3, 4, 5, 6, 7, 8});
  int32_t values[] = {1, 9, 0, 9, 1, 9};
  th_tensor *pairs = th_tensor_from(TH_I32, TH_SHAPE(3, 2), values, NULL);
  th_tensor *ids = th_slice(tape, pairs, 1, 0, 1);
  th_tensor *y = th_embedding(tape, th_slice(tape, wide, 1, 1, 3), ids);
  cr_assert_eq(th_tape_node_count(tape), 1);
  expect_values("y", y, (double[]){6, 7, 2, 3, 6, 7}, 0);
  ((int32_t *)th_tensor_data(pairs))[0] = 99;
  backward_from(tape, y, (double[]){1, 2, 3, 4, 5, 6});
  expect_values("dwide", th_tensor_grad(wide), (double[]){0, 3, 4, 0, 0, 6, 8, 0}, 0);
  th_tape_reset(tape);

  th_tensor *tall = make(tape, dtype, TH_SHAPE(2, 3), (double[]){1, 2, 3, 4, 5, 6});
  th_tensor *one = th_input(tape, TH_I32, TH_SCALAR, (int32_t[]){2});
  y = th_embedding(tape, th_transpose(tape, tall, 0, 1), one);
  cr_assert_eq(th_tensor_ndim(y), 1);
  expect_values("y", y, (double[]){3, 6}, 0);
  backward_from(tape, y, (double[]){1, 2});
  expect_values("dtall", th_tensor_grad(tall), (double[]){0, 0, 1, 0, 0, 2}, 0);
  th_tensor_free(pairs);
  th_tape_free(tape);
}

TEST_BOTH(embedding, zero_sizes) {
  const ptrdiff_t shapes[][3] = {{0, 3, 0}, {4, 0, 2}, {4, 3, 0}}; /* V, C, ids */
  th_tape *tape = th_tape_new();
  for (int i = 0; i < 3; i++) {
    th_tensor *table = th_input_grad(tape, dtype, 2, shapes[i], NULL);
    th_tensor *y = th_embedding(tape, table, th_input(tape, TH_I32, 1, &shapes[i][2], NULL));
    cr_assert_eq(th_tensor_count(y), 0, "%s", th_tape_message(tape));
    backward_from(tape, y, (double[]){0});
    th_tape_reset(tape);
  }
  th_tape_free(tape);
}

Test(embedding, rejects) {
  th_tape *tape = th_tape_new();
  th_tensor *table = th_input(tape, TH_F32, TH_SHAPE(4, 2), NULL);
  th_tensor *ids = th_input(tape, TH_I32, TH_SHAPE(3), NULL);
  cr_assert_null(th_embedding(tape, th_input(tape, TH_F32, TH_SHAPE(4), NULL), ids));
  expect_error(tape, TH_ERR_SHAPE, "the table is [4]");
  cr_assert_null(th_embedding(tape, table, th_input(tape, TH_F32, TH_SHAPE(3), NULL)));
  expect_error(tape, TH_ERR_DTYPE, "the ids are f32");
  cr_assert_null(th_embedding(tape, ids, ids));
  expect_error(tape, TH_ERR_DTYPE, "i32");
  th_tensor *deep = th_input(tape, TH_I32, TH_SHAPE(1, 1, 1, 1, 1, 1, 1, 1), NULL);
  cr_assert_null(th_embedding(tape, table, deep));
  expect_error(tape, TH_ERR_SHAPE, "8 axes");
  cr_assert_null(th_embedding(tape, NULL, ids));
  expect_error(tape, TH_ERR_VALUE, "NULL");
  cr_assert_null(th_embedding(tape, table, NULL));
  expect_error(tape, TH_ERR_VALUE, "NULL");
  th_tape_free(tape);
}
