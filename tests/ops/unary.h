/* unary.h: what the tests of ops on one tensor share. The op is given as a function of tape and x. */
#ifndef TESTS_OPS_UNARY_H
#define TESTS_OPS_UNARY_H

#include "support.h"

typedef th_tensor *th_unary_op(th_tape *tape, th_tensor *x);

/* y and dx of one golden case. */
static inline void expect_golden(th_dtype dtype, th_unary_op *op, int ndim, const ptrdiff_t *shape,
                                 const double *values, const double *dy, const double *y,
                                 const double *dx) {
  th_tape *tape = th_tape_new();
  th_tensor *x = make(tape, dtype, ndim, shape, values);
  th_tensor *out = op(tape, x);
  expect_values("y", out, y, tolerances[dtype].value);
  backward_from(tape, out, dy);
  expect_values("dx", th_tensor_grad(x), dx, tolerances[dtype].gradient);
  th_tape_free(tape);
}

/* The same for values far out, each of which must be right relative to its own size. */
static inline void expect_tails(th_dtype dtype, th_unary_op *op, const ptrdiff_t *shape,
                                const double *values, const double *dy, const double *y,
                                const double *dx) {
  double limit = dtype == TH_F32 ? 1e-6 : 1e-14;
  th_tape *tape = th_tape_new();
  th_tensor *x = make(tape, dtype, 1, shape, values);
  th_tensor *out = op(tape, x);
  expect_relative("y", out, y, limit);
  backward_from(tape, out, dy);
  expect_relative("dx", th_tensor_grad(x), dx, limit);
  th_tape_free(tape);
}

/* y and dy/dx at each x. */
static inline void evaluate(th_dtype dtype, th_unary_op *op, ptrdiff_t count, const double *x,
                            double *y, double *slope) {
  th_tape *tape = th_tape_new();
  th_tensor *input = make(tape, dtype, 1, &count, x);
  th_tensor *out = op(tape, input), *ones = th_input(tape, dtype, 1, &count, NULL);
  for (ptrdiff_t i = 0; i < count; i++) th__set(ones, i, 1);
  th_tensor_read(out, y);
  cr_assert_eq(th_backward_from(tape, out, ones), TH_OK, "%s", th_tape_message(tape));
  th_tensor_read(th_tensor_grad(input), slope);
  th_tape_free(tape);
}

/* f32 numbers of every magnitude up to 3.2e38 and of both signs, in turns. */
enum { MAGNITUDES = 200000 };
static inline void fill_magnitudes(double *x) {
  for (int i = 0; i < MAGNITUDES; i++) {
    uint32_t bits = (uint32_t)(i / 2) * 21391 | (uint32_t)i << 31;
    float value;
    memcpy(&value, &bits, sizeof value);
    x[i] = (double)value;
  }
  cr_assert(x[MAGNITUDES - 2] > 1e37 && x[MAGNITUDES - 1] < -1e37 && x[0] == 0);
}

/* Compares both at every magnitude, relative to the values themselves. The slope may in addition be
 * wrong by limit * cancelled(x), where it has a zero; y and slope by y_floor and slope_floor. */
typedef double th_cancelled(double x);
static inline void f32_against_f64(th_unary_op *op, double limit, th_cancelled *cancelled,
                                   double y_floor, double slope_floor) {
  static double x[MAGNITUDES], y[2][MAGNITUDES], slope[2][MAGNITUDES];
  fill_magnitudes(x);
  evaluate(TH_F32, op, MAGNITUDES, x, y[0], slope[0]);
  evaluate(TH_F64, op, MAGNITUDES, x, y[1], slope[1]);
  for (int i = 0; i < MAGNITUDES; i++) {
    double rest = cancelled == NULL ? 0 : cancelled(x[i]);
    cr_assert(fabs(y[0][i] - y[1][i]) <= limit * fabs(y[1][i]) + y_floor,
              "x = %.9g: y = %.9g, should be %.17g", x[i], y[0][i], y[1][i]);
    cr_assert(fabs(slope[0][i] - slope[1][i]) <= limit * (fabs(slope[1][i]) + rest) + slope_floor,
              "x = %.9g: slope %.9g, should be %.17g", x[i], slope[0][i], slope[1][i]);
  }
}

/* y and slope at inf, -inf, a huge number and minus that; an infinite y_ends[2] stands for that number
 * itself. NaN gives NaN. */
static inline void expect_ends(th_dtype dtype, th_unary_op *op, const double y_ends[4],
                               const double slope_ends[4]) {
  const double huge = dtype == TH_F32 ? 0x1p100 : 0x1p1000;
  const double x[] = {INFINITY, -INFINITY, huge, -huge, NAN};
  double y[5], slope[5];
  evaluate(dtype, op, 5, x, y, slope);
  for (int i = 0; i < 4; i++) {
    double want = i == 2 && isinf(y_ends[i]) ? huge : y_ends[i];
    cr_assert_eq(y[i], want, "y at %g is %g", x[i], y[i]);
    cr_assert_eq(slope[i], slope_ends[i], "slope at %g is %g", x[i], slope[i]);
  }
  cr_assert(isnan(y[4]) && isnan(slope[4]));
}
#define LENGTH(array) ((int)(sizeof(array) / sizeof(array)[0]))

/* A gradient that is there already stays, and a second use adds to it. */
static inline void expect_accumulates(th_dtype dtype, th_unary_op *op) {
  const double values[] = {0.5, -1.25, 2, 0.75, -0.5, 3}, dy[] = {1, -2, 3, 0.5, 0.25, -1};
  double once[6], twice[6];
  th_tape *tape = th_tape_new();
  th_tensor *x = make(tape, dtype, TH_SHAPE(2, 3), values);
  backward_from(tape, op(tape, x), dy);
  th_tensor_read(th_tensor_grad(x), once);
  th_tape_reset(tape);

  th_error error;
  th_tensor *leaf = th_tensor_new(dtype, TH_SHAPE(2, 3), &error);
  cr_assert_eq(th_tensor_require_grad(leaf, &error), TH_OK);
  th_tensor_write(leaf, values);
  th_tensor_write(th_tensor_grad(leaf), (double[]){7, 7, 7, 7, 7, 7});
  backward_from(tape, th_add(tape, op(tape, leaf), op(tape, leaf)), dy);
  for (int i = 0; i < 6; i++) twice[i] = 7 + 2 * once[i];
  expect_values("dx", th_tensor_grad(leaf), twice, tolerances[dtype].gradient);
  th_tensor_free(leaf);
  th_tape_free(tape);
}

/* A transposed view and a slice give what a copy of them gives, forward and backward. */
static inline void expect_views(th_dtype dtype, th_unary_op *op) {
  enum { rows = 3, columns = 4 };
  double values[rows * columns], y[rows * columns], dx[rows * columns], moved[rows * columns];
  double dy[rows * columns];
  for (int i = 0; i < rows * columns; i++) {
    values[i] = (i * 5 % 12 - 5.5) / 4;
    dy[i] = 1 + i / 4.0;
  }
  th_tape *tape = th_tape_new();
  th_tensor *x = make(tape, dtype, TH_SHAPE(rows, columns), values);
  th_tensor *out = op(tape, x);
  th_tensor_read(out, y);
  backward_from(tape, out, dy);
  th_tensor_read(th_tensor_grad(x), dx);
  th_tape_reset(tape);

  for (int i = 0; i < rows * columns; i++) moved[i % columns * rows + i / columns] = values[i];
  th_tensor *base = make(tape, dtype, TH_SHAPE(columns, rows), moved);
  out = op(tape, th_transpose(tape, base, 0, 1));
  expect_values("y of a transposed view", out, y, 0);
  backward_from(tape, out, dy);
  expect_values("dx of a transposed view", th_transpose(tape, th_tensor_grad(base), 0, 1), dx, 0);
  th_tape_reset(tape);

  x = make(tape, dtype, TH_SHAPE(rows, columns), values);
  out = op(tape, th_slice(tape, x, 0, 1, 3)); /* contiguous, but not from the first element on */
  expect_values("y of a slice", out, y + columns, 0);
  backward_from(tape, out, dy + columns);
  for (int i = 0; i < columns; i++) dx[i] = 0;
  expect_values("dx of a slice", th_tensor_grad(x), dx, 0);
  th_tape_free(tape);
}

/* No element, and one number without a shape. */
static inline void expect_small(th_dtype dtype, th_unary_op *op) {
  th_tape *tape = th_tape_new();
  th_tensor *x = th_input_grad(tape, dtype, TH_SHAPE(2, 0, 3), NULL);
  th_tensor *y = op(tape, x);
  cr_assert_not_null(y, "%s", th_tape_message(tape));
  cr_assert(th__same_shape(x, y));
  backward_from(tape, y, NULL);
  cr_assert_eq(th_tensor_count(th_tensor_grad(x)), 0);
  y = op(tape, make(tape, dtype, TH_SCALAR, (double[]){2}));
  cr_assert_not_null(y, "%s", th_tape_message(tape));
  cr_assert_eq(th_tensor_ndim(y), 0);
  th_tape_free(tape);
}

/* The same bits, forward and backward, at 1 and at 3 threads. */
static inline void expect_same_bits(th_unary_op *op) {
  enum { count = 100003 };
  float *bits[2];
  for (int run = 0; run < 2; run++) {
    cr_assert_eq(th_set_threads(run == 0 ? 1 : 3), TH_OK);
    th_tape *tape = th_tape_new();
    th_tensor *x = th_input_grad(tape, TH_F32, TH_SHAPE(count), NULL);
    th_init_normal(x, 0, 2, (th_random){1, 2, 3});
    th_tensor *y = op(tape, x);
    th_tensor *dy = th_input(tape, TH_F32, y->ndim, y->shape, NULL);
    th_init_normal(dy, 0, 1, (th_random){7, 8, 9});
    cr_assert_eq(th_backward_from(tape, y, dy), TH_OK, "%s", th_tape_message(tape));
    bits[run] = calloc(2 * count, sizeof(float));
    memcpy(bits[run], th_tensor_data(y), (size_t)y->count * sizeof(float));
    memcpy(bits[run] + count, th_tensor_data(th_tensor_grad(x)), count * sizeof(float));
    th_tape_free(tape);
  }
  th_set_threads(0);
  cr_assert(memcmp(bits[0], bits[1], 2 * count * sizeof(float)) == 0, "depends on threads");
  free(bits[0]), free(bits[1]);
}

/* What every op on one float tensor refuses. */
static inline void expect_rejects(th_unary_op *op, const char *name) {
  th_tape *tape = th_tape_new();
  cr_assert_null(op(tape, th_input(tape, TH_I32, TH_SHAPE(3), NULL)));
  cr_assert_not_null(strstr(th_tape_message(tape), name), "%s", th_tape_message(tape));
  expect_error(tape, TH_ERR_DTYPE, "i32");
  cr_assert_null(op(tape, NULL));
  expect_error(tape, TH_ERR_VALUE, "input 0 is NULL");
  cr_assert_null(op(NULL, NULL));
  th_tape_free(tape);
}

#endif
