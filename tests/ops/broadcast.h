/* broadcast.h: what the tests of add, sub and mul share. */
#ifndef TESTS_OPS_BROADCAST_H
#define TESTS_OPS_BROADCAST_H

#include "support.h"

typedef th_tensor *th_pair_op(th_tape *tape, th_tensor *a, th_tensor *b);

/* One golden case: y and both gradients. GOLDEN(add, row) names the arrays of tests/golden/add.inc. */
#define GOLDEN(op, name)                                                                           \
  expect_golden(dtype, th_##op, #name, LENGTH(golden_##op##_##name##_a_shape),                     \
                golden_##op##_##name##_a_shape, golden_##op##_##name##_a,                          \
                LENGTH(golden_##op##_##name##_b_shape), golden_##op##_##name##_b_shape,            \
                golden_##op##_##name##_b, golden_##op##_##name##_dy, golden_##op##_##name##_y,     \
                golden_##op##_##name##_da, golden_##op##_##name##_db)
#define LENGTH(array) ((int)(sizeof(array) / sizeof(array)[0]))

static inline void expect_golden(th_dtype dtype, th_pair_op *op, const char *name, int ndim_a,
                                 const ptrdiff_t *shape_a, const double *values_a, int ndim_b,
                                 const ptrdiff_t *shape_b, const double *values_b, const double *dy,
                                 const double *y, const double *da, const double *db) {
  th_tape *tape = th_tape_new();
  th_tensor *a = make(tape, dtype, ndim_a, shape_a, values_a);
  th_tensor *b = make(tape, dtype, ndim_b, shape_b, values_b);
  th_tensor *out = op(tape, a, b);
  cr_assert_not_null(out, "%s: %s", name, th_tape_message(tape));
  expect_values(name, out, y, tolerances[dtype].value);
  backward_from(tape, out, dy);
  cr_assert(th__same_shape(th_tensor_grad(a), a));
  cr_assert(th__same_shape(th_tensor_grad(b), b));
  expect_values(name, th_tensor_grad(a), da, tolerances[dtype].gradient);
  expect_values(name, th_tensor_grad(b), db, tolerances[dtype].gradient);
  th_tape_free(tape);
}

/* A value in -1 .. 1 with 8 binary places, different for every i: sums of products of a few of them
 * are exact in f32. */
static inline double wave(ptrdiff_t i) { return (double)((i * 7919 + 31) % 511 - 255) / 256; }

static inline void fill(double *values, ptrdiff_t count, ptrdiff_t start) {
  for (ptrdiff_t i = 0; i < count; i++) values[i] = wave(start + i);
}

static inline ptrdiff_t count_of(int ndim, const ptrdiff_t *shape) {
  ptrdiff_t count = 1;
  for (int i = 0; i < ndim; i++) count *= shape[i];
  return count;
}

/* Where position `at` of y lies in an operand: the plain reading of NumPy's rule. */
static inline ptrdiff_t place(ptrdiff_t at, int ndim_y, const ptrdiff_t *shape_y, int ndim,
                              const ptrdiff_t *shape) {
  ptrdiff_t result = 0, step = 1;
  for (int i = 1; i <= ndim_y; i++) {
    ptrdiff_t index = at % shape_y[ndim_y - i];
    at /= shape_y[ndim_y - i];
    if (i > ndim) continue;
    if (shape[ndim - i] != 1) result += index * step;
    step *= shape[ndim - i];
  }
  return result;
}

/* The op against the naive loop, forward and backward. `value` is y of (a, b), `slope_a` dy/da.
 * A transposed operand is stored with its last two axes swapped and handed over as a view. */
typedef double pair_value(double a, double b);

typedef struct operand {
  int ndim;
  ptrdiff_t shape[TH_MAX_DIMS];
  bool transposed;
} operand;

static inline th_tensor *make_operand(th_tape *tape, th_dtype dtype, const operand *o,
                                      const double *values, th_tensor **leaf) {
  ptrdiff_t stored[TH_MAX_DIMS];
  memcpy(stored, o->shape, sizeof stored);
  if (o->transposed) {
    stored[o->ndim - 1] = o->shape[o->ndim - 2];
    stored[o->ndim - 2] = o->shape[o->ndim - 1];
  }
  *leaf = th_input_grad(tape, dtype, o->ndim, stored, NULL);
  th_tensor *x = o->transposed ? th_transpose(tape, *leaf, -1, -2) : *leaf;
  cr_assert_not_null(x, "%s", th_tape_message(tape));
  th_tensor_write(x, values);
  return x;
}

/* The leaf's gradient, read in the operand's own order. */
static inline void expect_operand_grad(th_tape *tape, const char *what, const operand *o,
                                       th_tensor *leaf, const double *want, double limit) {
  th_tensor *grad = th_tensor_grad(leaf);
  cr_assert_not_null(grad, "%s: no gradient", what);
  if (o->transposed) grad = th_transpose(tape, grad, -1, -2);
  expect_values(what, grad, want, limit);
}

static inline void expect_naive(th_dtype dtype, th_pair_op *op, const operand *oa,
                                const operand *ob, const operand *oy, pair_value *value,
                                pair_value *slope_a, pair_value *slope_b) {
  ptrdiff_t na = count_of(oa->ndim, oa->shape), nb = count_of(ob->ndim, ob->shape);
  ptrdiff_t ny = count_of(oy->ndim, oy->shape);
  double *a = calloc((size_t)(2 * (na + nb + ny) + 1), sizeof *a), *b = a + na, *dy = b + nb;
  double *da = dy + ny, *db = da + na, *y = db + nb;
  fill(a, na, 1), fill(b, nb, 1000), fill(dy, ny, 5000);
  for (ptrdiff_t i = 0; i < ny; i++) {
    ptrdiff_t ia = place(i, oy->ndim, oy->shape, oa->ndim, oa->shape);
    ptrdiff_t ib = place(i, oy->ndim, oy->shape, ob->ndim, ob->shape);
    y[i] = value(a[ia], b[ib]);
    da[ia] += dy[i] * slope_a(a[ia], b[ib]);
    db[ib] += dy[i] * slope_b(a[ia], b[ib]);
  }
  th_tape *tape = th_tape_new();
  th_tensor *leaf_a, *leaf_b;
  th_tensor *out = op(tape, make_operand(tape, dtype, oa, a, &leaf_a),
                      make_operand(tape, dtype, ob, b, &leaf_b));
  cr_assert_not_null(out, "%s", th_tape_message(tape));
  cr_assert(th__shape_equal(out->ndim, out->shape, oy->ndim, oy->shape));
  expect_values("y", out, y, 0);
  backward_from(tape, out, dy);
  expect_operand_grad(tape, "da", oa, leaf_a, da, tolerances[dtype].gradient);
  expect_operand_grad(tape, "db", ob, leaf_b, db, tolerances[dtype].gradient);
  th_tape_free(tape);
  free(a);
}

/* Every way to stretch and to stride that takes another path through the code. */
static const struct {
  operand a, b, y;
} pairs[] = {
    {{2, {5, 7}, false}, {2, {5, 7}, false}, {2, {5, 7}, false}},
    {{2, {5, 7}, true}, {2, {5, 7}, false}, {2, {5, 7}, false}},
    {{2, {5, 7}, true}, {2, {5, 7}, true}, {2, {5, 7}, false}},
    {{3, {2, 5, 7}, true}, {2, {5, 7}, true}, {3, {2, 5, 7}, false}},
    {{1, {1}, false}, {0, {0}, false}, {1, {1}, false}},
    {{0, {0}, false}, {0, {0}, false}, {0, {0}, false}},
    {{3, {3, 4, 5}, false}, {0, {0}, false}, {3, {3, 4, 5}, false}},
    {{3, {3, 4, 5}, false}, {3, {1, 4, 1}, false}, {3, {3, 4, 5}, false}},
    {{3, {3, 4, 5}, true}, {3, {3, 1, 5}, false}, {3, {3, 4, 5}, false}},
    {{4, {2, 1, 4, 1}, false}, {4, {1, 3, 1, 5}, false}, {4, {2, 3, 4, 5}, false}},
    {{4, {2, 1, 4, 1}, true}, {3, {3, 1, 5}, true}, {4, {2, 3, 4, 5}, false}},
    {{2, {300, 200}, false}, {1, {200}, false}, {2, {300, 200}, false}},
    {{2, {300, 1}, false}, {2, {300, 200}, false}, {2, {300, 200}, false}},
    {{2, {1, 1}, false}, {2, {300, 200}, false}, {2, {300, 200}, false}},
    {{2, {1, 1}, false}, {2, {300, 200}, true}, {2, {300, 200}, false}},
    {{2, {300, 200}, true}, {2, {1, 200}, false}, {2, {300, 200}, false}},
    {{1, {200}, false}, {2, {300, 1}, false}, {2, {300, 200}, false}},
    {{2, {0, 3}, false}, {1, {3}, false}, {2, {0, 3}, false}},
    {{2, {0, 1}, false}, {2, {1, 3}, false}, {2, {0, 3}, false}},
};

static inline void expect_naive_everywhere(th_dtype dtype, th_pair_op *op, pair_value *value,
                                           pair_value *slope_a, pair_value *slope_b) {
  for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
    expect_naive(dtype, op, &pairs[i].a, &pairs[i].b, &pairs[i].y, value, slope_a, slope_b);
    expect_naive(dtype, op, &pairs[i].b, &pairs[i].a, &pairs[i].y, value, slope_a, slope_b);
  }
}

/* Gradients are the same bits at 1 and at 3 threads. */
static inline void expect_same_bits(th_pair_op *op, const operand *oa, const operand *ob) {
  ptrdiff_t na = count_of(oa->ndim, oa->shape), nb = count_of(ob->ndim, ob->shape);
  float *bits[2][2];
  for (int run = 0; run < 2; run++) {
    cr_assert_eq(th_set_threads(run == 0 ? 1 : 3), TH_OK);
    th_tape *tape = th_tape_new();
    th_tensor *a = th_input_grad(tape, TH_F32, oa->ndim, oa->shape, NULL);
    th_tensor *b = th_input_grad(tape, TH_F32, ob->ndim, ob->shape, NULL);
    th_init_normal(a, 0, 1, (th_random){1, 2, 3}), th_init_normal(b, 0, 1, (th_random){4, 5, 6});
    th_tensor *y = op(tape, a, b);
    th_tensor *dy = th_input(tape, TH_F32, y->ndim, y->shape, NULL);
    th_init_normal(dy, 0, 1, (th_random){7, 8, 9});
    cr_assert_eq(th_backward_from(tape, y, dy), TH_OK);
    th_tensor *const grads[] = {th_tensor_grad(a), th_tensor_grad(b)};
    for (int i = 0; i < 2; i++) {
      size_t bytes = (size_t)(i == 0 ? na : nb) * sizeof(float);
      bits[run][i] = malloc(bytes);
      memcpy(bits[run][i], th_tensor_data(grads[i]), bytes);
    }
    th_tape_free(tape);
  }
  th_set_threads(0);
  cr_assert(memcmp(bits[0][0], bits[1][0], (size_t)na * sizeof(float)) == 0,
            "da depends on threads");
  cr_assert(memcmp(bits[0][1], bits[1][1], (size_t)nb * sizeof(float)) == 0,
            "db depends on threads");
  for (int i = 0; i < 4; i++) free(bits[i / 2][i % 2]);
}

static inline void expect_same_bits_everywhere(th_pair_op *op) {
  const operand whole = {2, {500, 300}, false}, row = {1, {300}, false};
  const operand column = {2, {500, 1}, false}, one = {1, {1}, false};
  expect_same_bits(op, &whole, &whole);
  expect_same_bits(op, &whole, &row);
  expect_same_bits(op, &whole, &column);
  expect_same_bits(op, &one, &whole);
}

/* What every op on two operands refuses. */
static inline void expect_rejects(th_pair_op *op, const char *name) {
  th_tape *tape = th_tape_new();
  th_tensor *x = th_input(tape, TH_F32, TH_SHAPE(3, 4), NULL);
  cr_assert_null(op(tape, x, th_input(tape, TH_F32, TH_SHAPE(3, 5), NULL)));
  cr_assert_not_null(strstr(th_tape_message(tape), name), "%s", th_tape_message(tape));
  expect_error(tape, TH_ERR_SHAPE, "a is [3, 4] and b is [3, 5]");
  cr_assert_null(op(tape, th_input(tape, TH_F32, TH_SHAPE(2, 3, 4), NULL),
                    th_input(tape, TH_F32, TH_SHAPE(2, 4), NULL)));
  expect_error(tape, TH_ERR_SHAPE, "a is [2, 3, 4] and b is [2, 4]");
  cr_assert_null(op(tape, x, th_input(tape, TH_F64, TH_SHAPE(3, 4), NULL)));
  expect_error(tape, TH_ERR_DTYPE, "f64");
  th_tensor *ids = th_input(tape, TH_I32, TH_SHAPE(3), NULL);
  cr_assert_null(op(tape, ids, ids));
  expect_error(tape, TH_ERR_DTYPE, "i32");
  cr_assert_null(op(tape, x, NULL));
  expect_error(tape, TH_ERR_VALUE, "input 1 is NULL");
  cr_assert_null(op(tape, NULL, x));
  expect_error(tape, TH_ERR_VALUE, "input 0 is NULL");
  th_tape *other = th_tape_new();
  cr_assert_null(op(other, x, x));
  expect_error(other, TH_ERR_STATE, "another tape");
  cr_assert_null(op(NULL, x, x));
  th_tape_free(other);
  th_tape_free(tape);
}

#endif
