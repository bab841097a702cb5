/* Tensors, shapes, the arena. */
#include "support.h"
#include "tensor/alloc.h"
#include "tensor/arena.h"

Test(tensor, new_is_zero_and_row_major) {
  th_tensor *x = th_tensor_new(TH_F32, TH_SHAPE(2, 3), NULL);
  cr_assert_eq(th_tensor_count(x), 6);
  cr_assert_eq(th_tensor_dim(x, -1), 3);
  cr_assert_eq(th_tensor_dim(x, 5), 0);
  cr_assert_eq(th_tensor_strides(x)[0], 3);
  cr_assert(th_tensor_is_contiguous(x));
  for (int i = 0; i < 6; i++) cr_assert_eq(((float *)th_tensor_data(x))[i], 0.0f);
  th_tensor_free(x);
}

Test(tensor, scalar_and_empty) {
  th_tensor *scalar = th_tensor_from(TH_F64, TH_SCALAR, (double[]){2.5}, NULL);
  cr_assert_eq(th_tensor_item(scalar), 2.5);
  th_tensor *empty = th_tensor_new(TH_F64, TH_SHAPE(0, 3), NULL);
  cr_assert_eq(th_tensor_count(empty), 0);
  cr_assert(isnan(th_tensor_item(empty)));
  cr_assert(isnan(th_tensor_item(NULL)));
  th_tensor_free(scalar);
  th_tensor_free(empty);
  th_tensor_free(NULL);
}

Test(tensor, every_type_reads_and_writes) {
  const double values[] = {0, 1, 1, 0};
  for (int dtype = TH_F32; dtype <= TH_BOOL; dtype++) {
    th_tensor *x = th_tensor_new((th_dtype)dtype, TH_SHAPE(2, 2), NULL);
    double back[4];
    th_tensor_write(x, values);
    th_tensor_read(x, back);
    cr_assert_arr_eq(back, values, sizeof values);
    th_tensor_free(x);
  }
}

Test(tensor, bad_shapes_are_named) {
  th_error error;
  cr_assert_null(th_tensor_new(TH_F32, TH_SHAPE(1, 1, 1, 1, 1, 1, 1, 1, 1), &error));
  cr_assert_eq(error.status, TH_ERR_SHAPE);
  cr_assert_not_null(strstr(error.message, "9 dimensions"));
  cr_assert_null(th_tensor_new(TH_F32, TH_SHAPE((ptrdiff_t)1 << 32, (ptrdiff_t)1 << 32), &error));
  cr_assert_not_null(strstr(error.message, "overflow"));
  cr_assert_null(th_tensor_new((th_dtype)17, TH_SHAPE(1), &error));
  cr_assert_eq(error.status, TH_ERR_DTYPE);
}

Test(tensor, out_of_memory_is_an_error) {
  for (size_t n = 1; n <= 2; n++) {
    th_error error;
    th__alloc_fail_at(n);
    cr_assert_null(th_tensor_new(TH_F32, TH_SHAPE(4), &error));
    th__alloc_fail_at(0);
    cr_assert_eq(error.status, TH_ERR_MEMORY);
  }
}

Test(tensor, only_floats_have_gradients) {
  th_error error;
  th_tensor *x = th_tensor_new(TH_I32, TH_SHAPE(4), NULL);
  cr_assert_eq(th_tensor_require_grad(x, &error), TH_ERR_DTYPE);
  cr_assert_null(th_tensor_grad(x));
  th_tensor_free(x);
}

Test(tensor, names_are_copied_and_cut) {
  th_tensor *x = th_tensor_new(TH_F32, TH_SHAPE(1), NULL);
  cr_assert_str_eq(th_tensor_name(x), "");
  char name[100];
  memset(name, 'a', sizeof name);
  name[99] = '\0';
  th_tensor_set_name(x, name);
  cr_assert_eq(strlen(th_tensor_name(x)), 63);
  th_tensor_set_name(x, "w");
  name[0] = 'b';
  cr_assert_str_eq(th_tensor_name(x), "w");
  th_tensor_set_name(x, "");
  cr_assert_str_eq(th_tensor_name(x), "");
  th_tensor_free(x);
}

/* ---- arena ---- */

Test(arena, alignment_and_separation) {
  th__arena arena = {0};
  char *previous_end = NULL;
  for (size_t bytes = 1; bytes < 3000; bytes += 7) {
    char *memory = th__arena_alloc(&arena, bytes);
    cr_assert_eq((uintptr_t)memory % (bytes >= 64 ? 64 : 16), 0);
    cr_assert(previous_end == NULL || memory >= previous_end || memory + bytes <= previous_end);
    memset(memory, 0xab, bytes);
    previous_end = memory + bytes;
  }
  th__arena_free(&arena);
}

Test(arena, same_requests_need_no_new_memory) {
  th__arena arena = {0};
  size_t requests = 0;
  for (int round = 0; round < 5; round++) {
    for (size_t bytes = 1; bytes < (size_t)1 << 22; bytes = bytes * 3 + 1)
      cr_assert_not_null(th__arena_alloc(&arena, bytes));
    if (round == 0) requests = th__alloc_count();
    th__arena_reset(&arena);
  }
  cr_assert_eq(th__alloc_count(), requests);
  th__arena_free(&arena);
}

Test(arena, changing_requests_stay_bounded) {
  th__arena arena = {0};
  size_t held = 0;
  for (int round = 0; round < 200; round++) {
    for (int i = 0; i < 20; i++)
      cr_assert_not_null(th__arena_alloc(&arena, (size_t)((round * 7919 + i * 104729) % 300000)));
    th__arena_reset(&arena);
    if (round == 100) held = arena.held;
  }
  cr_assert_leq(arena.held, 2 * held);
  th__arena_free(&arena);
}
