/* sinusoidal: goldens, the turn between positions, pieces, threads, rejection. */
#include "support.h"

#include "golden/sinusoidal.inc"

#define GOLDEN(name)                                                                                \
  expect_values(#name,                                                                              \
                th_sinusoidal(tape, dtype, golden_sinusoidal_##name##_offset,                       \
                              golden_sinusoidal_##name##_length, golden_sinusoidal_##name##_width), \
                golden_sinusoidal_##name##_y, dtype == TH_F32 ? 1e-7 : 1e-13)

TEST_BOTH(sinusoidal, golden) {
  th_tape *tape = th_tape_new();
  GOLDEN(start);
  GOLDEN(later);
  GOLDEN(far);
  th_tape_free(tape);
}

/* Row 0 is 0, 1, 0, 1, .. exactly, and each pair of a row has length 1. */
TEST_BOTH(sinusoidal, pairs_have_length_one) {
  th_tape *tape = th_tape_new();
  th_tensor *y = th_sinusoidal(tape, dtype, 0, 3000, 16);
  for (ptrdiff_t i = 0; i < 16; i++) cr_assert_eq(th__get(y, i), (double)(i % 2));
  for (ptrdiff_t i = 0; i < 3000 * 8; i++) {
    double length = hypot(th__get(y, 2 * i), th__get(y, 2 * i + 1));
    cr_assert(fabs(length - 1) < (dtype == TH_F32 ? 1e-7 : 1e-15), "pair %td: %.17g", i, length);
  }
  th_tape_free(tape);
}

/* Row t + k is row t with each pair turned by an angle that depends on k only. */
TEST_BOTH(sinusoidal, distance_is_a_turn) {
  th_tape *tape = th_tape_new();
  th_tensor *y = th_sinusoidal(tape, dtype, 500, 100, 12);
  const ptrdiff_t k = 7;
  for (ptrdiff_t i = 0; i < 6; i++)
    for (ptrdiff_t t = 0; t + k < 100; t++) {
      double w = (double)k * pow(10000, -2 * (double)i / 12), s = th__get(y, t * 12 + 2 * i),
             c = th__get(y, t * 12 + 2 * i + 1);
      double want = s * cos(w) + c * sin(w), got = th__get(y, (t + k) * 12 + 2 * i);
      cr_assert(fabs(got - want) < (dtype == TH_F32 ? 3e-7 : 1e-13), "%td, %td: %g, %g", i, t, got,
                want);
    }
  th_tape_free(tape);
}

/* A row has the same bits whatever rows are made with it, on one thread and on two. */
TEST_BOTH(sinusoidal, rows_depend_on_nothing_else) {
  const ptrdiff_t width = 300;
  size_t row = (size_t)width * th_dtype_size(dtype);
  th_tape *tape = th_tape_new();
  th_set_threads(1);
  const char *all = th_sinusoidal(tape, dtype, 90, 200, width)->data;
  th_set_threads(2);
  cr_assert_eq(memcmp(th_sinusoidal(tape, dtype, 90, 200, width)->data, all, 200 * row), 0);
  for (ptrdiff_t t = 0; t < 200; t += 13)
    cr_assert_eq(
        memcmp(th_sinusoidal(tape, dtype, 90 + t, 1, width)->data, all + (size_t)t * row, row), 0,
        "row %td", t);
  th_set_threads(0);
  th_tape_free(tape);
}

/* No gradient flows into it, and it stands in no one's way. */
TEST_BOTH(sinusoidal, is_a_constant) {
  th_tape *tape = th_tape_new();
  th_tensor *y = th_sinusoidal(tape, dtype, 0, 2, 2);
  cr_assert_eq(th_tape_node_count(tape), 0);
  th_tensor *x = th_input_grad(tape, dtype, TH_SHAPE(3, 2, 2), NULL);
  cr_assert_eq(th_backward(tape, th_sum(tape, th_add(tape, x, y), TH_ALL_AXES)), TH_OK);
  cr_assert_null(th_tensor_grad(y));
  expect_values("dx", th_tensor_grad(x), (double[]){1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, 0);
  th_tape_free(tape);
}

TEST_BOTH(sinusoidal, zero_sizes) {
  th_tape *tape = th_tape_new();
  cr_assert_eq(th_tensor_dim(th_sinusoidal(tape, dtype, 5, 0, 4), 1), 4);
  cr_assert_eq(th_tensor_dim(th_sinusoidal(tape, dtype, 5, 3, 0), 0), 3);
  cr_assert_eq(th_tape_status(tape), TH_OK);
  th_tape_free(tape);
}

Test(sinusoidal, rejects) {
  th_tape *tape = th_tape_new();
  cr_assert_null(th_sinusoidal(tape, TH_F32, 0, 4, 3));
  expect_error(tape, TH_ERR_SHAPE, "[4, 3] was asked for");
  cr_assert_null(th_sinusoidal(tape, TH_F32, 0, -1, 4));
  expect_error(tape, TH_ERR_SHAPE, "[-1, 4]");
  cr_assert_null(th_sinusoidal(tape, TH_F32, 0, 1, -2));
  expect_error(tape, TH_ERR_SHAPE, "[1, -2]");
  const ptrdiff_t offsets[] = {-1, PTRDIFF_MIN, PTRDIFF_MAX, ((ptrdiff_t)1 << 40) - 1};
  for (int i = 0; i < 4; i++) {
    cr_assert_null(th_sinusoidal(tape, TH_F32, offsets[i], 2, 4));
    expect_error(tape, TH_ERR_VALUE, "the offset is");
  }
  cr_assert_null(th_sinusoidal(tape, TH_F32, 0, PTRDIFF_MAX, 4));
  expect_error(tape, TH_ERR_VALUE, "positions from 0");
  cr_assert_null(th_sinusoidal(tape, TH_F64, 0, (ptrdiff_t)1 << 40, (ptrdiff_t)1 << 40));
  cr_assert_neq(th_tape_status(tape), TH_OK);
  th_tape_clear_error(tape);
  cr_assert_null(th_sinusoidal(tape, TH_I32, 0, 2, 4));
  expect_error(tape, TH_ERR_DTYPE, "i32");
  cr_assert_null(th_sinusoidal(NULL, TH_F32, 0, 2, 4));
  th_tape_free(tape);
}
