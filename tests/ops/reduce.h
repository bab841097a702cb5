/* reduce.h: what the tests of sum and mean share. */
#ifndef TESTS_OPS_REDUCE_H
#define TESTS_OPS_REDUCE_H

#include "support.h"

typedef th_tensor *th_reduction(th_tape *tape, th_tensor *x, int axis);

static inline void expect_golden(th_dtype dtype, th_reduction *op, int axis, const ptrdiff_t *shape,
                                 const double *values, const double *dy, const double *y,
                                 const double *dx) {
  th_tape *tape = th_tape_new();
  th_tensor *x = make(tape, dtype, 3, shape, values);
  th_tensor *out = op(tape, x, axis);
  cr_assert_not_null(out, "%s", th_tape_message(tape));
  cr_assert_eq(th_tensor_ndim(out), axis == TH_ALL_AXES ? 0 : 2);
  expect_values("y", out, y, tolerances[dtype].value);
  backward_from(tape, out, dy);
  expect_values("dx", th_tensor_grad(x), dx, tolerances[dtype].gradient);
  th_tape_free(tape);
}

#define GOLDEN_AXIS(op, n)                                                                         \
  expect_golden(dtype, th_##op, n, golden_##op##_axis##n##_x_shape, golden_##op##_axis##n##_x,     \
                golden_##op##_axis##n##_dy, golden_##op##_axis##n##_y, golden_##op##_axis##n##_dx)

#define GOLDENS(op)                                                                                \
  do {                                                                                             \
    expect_golden(dtype, th_##op, TH_ALL_AXES, golden_##op##_all_x_shape, golden_##op##_all_x,     \
                  golden_##op##_all_dy, golden_##op##_all_y, golden_##op##_all_dx);                \
    GOLDEN_AXIS(op, 0);                                                                            \
    GOLDEN_AXIS(op, 1);                                                                            \
    GOLDEN_AXIS(op, 2);                                                                            \
  } while (0)

/* The op against the naive loop over every axis, for a tensor and for a transposed view of it. With
 * whole numbers, sums are exact in f32. */
static inline void expect_naive(th_dtype dtype, th_reduction *op, bool mean,
                                const ptrdiff_t shape[3]) {
  ptrdiff_t count = shape[0] * shape[1] * shape[2];
  double *x = calloc(4 * (size_t)count + 1, sizeof *x), *y = x + count, *dx = y + count;
  double *dy = dx + count;
  for (ptrdiff_t i = 0; i < count; i++) {
    x[i] = (double)(i * 7919 % 17 - 8);
    dy[i] = (double)(i * 31 % 13 - 6);
  }
  for (int axis = 0; axis < 3; axis++)
    for (int transposed = 0; transposed < 2; transposed++) {
      ptrdiff_t inner = 1, n = shape[axis];
      for (int i = axis + 1; i < 3; i++) inner *= shape[i];
      memset(y, 0, (size_t)count * sizeof *y);
      for (ptrdiff_t i = 0; i < count; i++) {
        ptrdiff_t to = i / (n * inner) * inner + i % inner;
        y[to] += x[i];
        dx[i] = mean ? dy[to] / (double)n : dy[to];
      }
      for (ptrdiff_t i = 0; mean && i < count / n; i++) y[i] /= (double)n;

      th_tape *tape = th_tape_new();
      ptrdiff_t stored[] = {shape[0], shape[1], shape[2]};
      if (transposed) stored[1] = shape[2], stored[2] = shape[1];
      th_tensor *leaf = th_input_grad(tape, dtype, 3, stored, NULL);
      th_tensor *view = transposed ? th_transpose(tape, leaf, 1, 2) : leaf;
      th_tensor_write(view, x);
      th_tensor *out = op(tape, view, transposed ? axis - 3 : axis);
      cr_assert_eq(th_tensor_count(out), count / n);
      expect_values("y", out, y, mean ? tolerances[dtype].value : 0);
      backward_from(tape, out, dy);
      th_tensor *grad = th_tensor_grad(leaf);
      if (transposed) grad = th_transpose(tape, grad, 1, 2);
      expect_values("dx", grad, dx, mean ? tolerances[dtype].gradient : 0);
      th_tape_free(tape);
    }
  free(x);
}

/* Shapes that take each path: short and long rows, many and few of them. */
static inline void expect_naive_everywhere(th_dtype dtype, th_reduction *op, bool mean) {
  const ptrdiff_t shapes[][3] = {{2, 3, 4},   {1, 1, 1},    {5, 1, 7},
                                 {3, 700, 2}, {40, 9, 300}, {1, 5000, 130}};
  for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
    expect_naive(dtype, op, mean, shapes[i]);
}

static inline void expect_accumulates(th_dtype dtype, th_reduction *op, double share) {
  th_error error;
  th_tensor *x = th_tensor_new(dtype, TH_SHAPE(2, 2), &error);
  cr_assert_eq(th_tensor_require_grad(x, &error), TH_OK);
  th_tensor_write(th_tensor_grad(x), (double[]){10, 20, 30, 40});
  th_tape *tape = th_tape_new();
  th_tensor *twice = th_add(tape, op(tape, x, 0), op(tape, x, 0));
  backward_from(tape, twice, (double[]){1, 2});
  expect_values("dx", th_tensor_grad(x),
                (double[]){10 + 2 * share, 20 + 4 * share, 30 + 2 * share, 40 + 4 * share}, 0);
  th_tape_free(tape);
  th_tensor_free(x);
}

/* Bits of y and of dx do not depend on the number of threads. */
static inline void expect_same_bits(th_reduction *op) {
  const ptrdiff_t shape[] = {30, 70, 80};
  enum { count = 30 * 70 * 80 };
  const int axes[] = {TH_ALL_AXES, 0, 1, 2};
  for (int a = 0; a < 4; a++) {
    static float y[2][count], dx[2][count];
    for (int run = 0; run < 2; run++) {
      cr_assert_eq(th_set_threads(run == 0 ? 1 : 3), TH_OK);
      th_tape *tape = th_tape_new();
      th_tensor *x = th_input_grad(tape, TH_F32, 3, shape, NULL);
      th_init_normal(x, 0, 1, (th_random){1, 2, 3});
      th_tensor *out = op(tape, x, axes[a]);
      th_tensor *dy = th_input(tape, TH_F32, out->ndim, out->shape, NULL);
      th_init_normal(dy, 0, 1, (th_random){4, 5, 6});
      cr_assert_eq(th_backward_from(tape, out, dy), TH_OK);
      memcpy(y[run], out->data, (size_t)out->count * sizeof(float));
      memcpy(dx[run], th_tensor_grad(x)->data, sizeof dx[run]);
      th_tape_free(tape);
    }
    cr_assert(memcmp(y[0], y[1], sizeof y[0]) == 0, "axis %d: y depends on threads", axes[a]);
    cr_assert(memcmp(dx[0], dx[1], sizeof dx[0]) == 0, "axis %d: dx depends on threads", axes[a]);
  }
  th_set_threads(0);
}

static inline void expect_rejects(th_reduction *op, const char *name) {
  th_tape *tape = th_tape_new();
  th_tensor *x = th_input(tape, TH_F32, TH_SHAPE(2, 3), NULL);
  cr_assert_null(op(tape, x, 2));
  cr_assert_not_null(strstr(th_tape_message(tape), name), "%s", th_tape_message(tape));
  expect_error(tape, TH_ERR_SHAPE, "axis 2 does not exist in shape [2, 3]");
  cr_assert_null(op(tape, x, -3));
  expect_error(tape, TH_ERR_SHAPE, "axis -3");
  cr_assert_null(op(tape, th_input(tape, TH_F32, TH_SCALAR, NULL), 0));
  expect_error(tape, TH_ERR_SHAPE, "axis 0 does not exist in shape []");
  cr_assert_null(op(tape, th_input(tape, TH_I32, TH_SHAPE(2), NULL), 0));
  expect_error(tape, TH_ERR_DTYPE, "i32");
  cr_assert_null(op(tape, NULL, TH_ALL_AXES));
  expect_error(tape, TH_ERR_VALUE, "NULL");
  th_tape_free(tape);
}

#endif
