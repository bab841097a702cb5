/* matmul: goldens for every transpose and batch form, a value used twice (C09d), strided operands
 * (C05), one operand for the whole batch, zero sizes (C26), NaN, threads, rejection. */
#include "gradients.h"
#include "support.h"

#include "golden/matmul.inc"

typedef struct golden {
  const char *name;
  const double *a, *b, *dy, *y, *da, *db;
  const ptrdiff_t *shape_a, *shape_b;
  int ndim_a, ndim_b, transpose;
} golden;

#define NDIM(shape) ((int)(sizeof(shape) / sizeof *(shape)))
#define G(name, part) golden_matmul_##name##_##part
#define CASE(name)                                                                                 \
  {                                                                                                \
#name, G(name, a), G(name, b), G(name, dy), G(name, y), G(name, da), G(name, db),              \
        G(name, a_shape), G(name, b_shape), NDIM(G(name, a_shape)), NDIM(G(name, b_shape)),        \
        G(name, transpose_a) * TH_TRANSPOSE_A + G(name, transpose_b) * TH_TRANSPOSE_B              \
  }
#define CASES(prefix) CASE(prefix##nn), CASE(prefix##tn), CASE(prefix##nt), CASE(prefix##tt)
static const golden goldens[] = {CASES(), CASES(batch_), CASES(batches_), CASES(shared_b_),
                                 CASES(shared_a_)};
#define GOLDENS (sizeof goldens / sizeof *goldens)

TEST_BOTH(matmul, golden) {
  th_tape *tape = th_tape_new();
  for (size_t i = 0; i < GOLDENS; i++) {
    const golden *g = &goldens[i];
    th_tensor *a = make(tape, dtype, g->ndim_a, g->shape_a, g->a);
    th_tensor *b = make(tape, dtype, g->ndim_b, g->shape_b, g->b);
    th_tensor *y = th_matmul(tape, a, b, g->transpose);
    expect_values(g->name, y, g->y, tolerances[dtype].value);
    backward_from(tape, y, g->dy);
    expect_values(g->name, th_tensor_grad(a), g->da, tolerances[dtype].gradient);
    expect_values(g->name, th_tensor_grad(b), g->db, tolerances[dtype].gradient);
    th_tape_reset(tape);
  }
  th_tape_free(tape);
}

Test(matmul, gradients) { check_gradients("matmul"); }

/* A tensor whose memory holds x with its last two axes exchanged, and the view that puts them back. */
static th_tensor *stored_transposed(th_tape *tape, th_tensor *x) {
  th_tensor *copy = th_contiguous(tape, th_transpose(tape, x, -1, -2));
  return th_transpose(tape, copy, -1, -2);
}

/* x inside a larger tensor: rows lie apart. */
static th_tensor *sliced(th_tape *tape, th_tensor *x) {
  int ndim = x->ndim, last = ndim - 1;
  ptrdiff_t shape[TH_MAX_DIMS];
  memcpy(shape, x->shape, (size_t)ndim * sizeof *shape);
  shape[last] += 3;
  th_tensor *large = th_input_grad(tape, x->dtype, ndim, shape, NULL);
  th_tensor *view = th_slice(tape, large, last, 2, 2 + x->shape[last]);
  th__tensor_copy(view, x);
  return view;
}

/* Every other element: no axis is contiguous, so the op has to copy. */
static th_tensor *spread(th_tape *tape, th_tensor *x) {
  int ndim = x->ndim;
  ptrdiff_t shape[TH_MAX_DIMS];
  memcpy(shape, x->shape, (size_t)ndim * sizeof *shape);
  shape[ndim] = 2;
  th_tensor *large = th_input_grad(tape, x->dtype, ndim + 1, shape, NULL);
  th_tensor *slice = th_slice(tape, large, ndim, 1, 2);
  th_tensor *view = th__view(tape, slice, ndim, x->shape, slice->strides, 0);
  th__tensor_copy(view, x);
  return view;
}

typedef th_tensor *layout(th_tape *tape, th_tensor *x);

/* Golden i with both operands in the given layouts; gradients are read through the same views. */
static void layouts_of(th_dtype dtype, const golden *g, layout *of_a, layout *of_b) {
  th_tape *tape = th_tape_new();
  th_tensor *a = of_a(tape, make(tape, dtype, g->ndim_a, g->shape_a, g->a));
  th_tensor *b = of_b(tape, make(tape, dtype, g->ndim_b, g->shape_b, g->b));
  th_tensor *da = th_retain_grad(tape, a), *db = th_retain_grad(tape, b);
  th_tensor *y = th_matmul(tape, da, db, g->transpose);
  expect_values(g->name, y, g->y, tolerances[dtype].value);
  backward_from(tape, y, g->dy);
  expect_values(g->name, th_tensor_grad(a), g->da, tolerances[dtype].gradient);
  expect_values(g->name, th_tensor_grad(b), g->db, tolerances[dtype].gradient);
  th_tape_free(tape);
}

/* C05: whatever the strides of the operands, values and gradients are those of contiguous ones. */
TEST_BOTH(matmul, strided_operands) {
  layout *const layouts[] = {stored_transposed, sliced, spread};
  for (size_t i = 0; i < GOLDENS; i++)
    for (int j = 0; j < 9; j++) layouts_of(dtype, &goldens[i], layouts[j % 3], layouts[j / 3]);
}

/* The gradient of a slice lands in the slice of the larger tensor and nowhere else. */
TEST_BOTH(matmul, gradient_of_a_slice_stays_inside) {
  th_tape *tape = th_tape_new();
  th_tensor *large = make(tape, dtype, TH_SHAPE(2, 4), (double[]){9, 1, 2, 9, 9, 3, 4, 9});
  th_tensor *a = th_slice(tape, large, 1, 1, 3);
  th_tensor *b = make(tape, dtype, TH_SHAPE(2, 2), (double[]){1, 0, 0, 1});
  th_tensor *y = th_matmul(tape, a, b, 0);
  expect_values("y", y, (double[]){1, 2, 3, 4}, 0);
  backward_from(tape, y, (double[]){1, 2, 3, 4});
  expect_values("dlarge", th_tensor_grad(large), (double[]){0, 1, 2, 0, 0, 3, 4, 0}, 0);
  th_tape_free(tape);
}

/* Views that BLAS takes as they lie record no copy: one node for the product only. */
Test(matmul, heads_and_transposed_views_are_not_copied) {
  th_tape *tape = th_tape_new();
  th_tensor *x = th_input_grad(tape, TH_F32, TH_SHAPE(2, 5, 12), NULL);
  th_tensor *q = th_split_heads(tape, x, 3);
  cr_assert_not_null(th_matmul(tape, q, th_transpose(tape, q, 2, 3), 0));
  cr_assert_eq(th_tape_node_count(tape), 1);
  cr_assert_not_null(th_matmul(tape, th_transpose(tape, q, 2, 3), q, 0));
  cr_assert_eq(th_tape_node_count(tape), 2);
  th_tape_free(tape);
}

/* C09d: both gradients of a value that meets itself. */
TEST_BOTH(matmul, a_value_times_itself) {
  th_tape *tape = th_tape_new();
  for (int i = 0; i < 2; i++) {
    th_tensor *x = make(tape, dtype, TH_SHAPE(2, 2), (double[]){1, 2, 3, 4});
    backward_from(tape, th_matmul(tape, x, x, i == 0 ? TH_TRANSPOSE_B : 0), (double[]){1, 1, 1, 1});
    const double want[][4] = {{8, 12, 8, 12}, {7, 11, 9, 13}};
    expect_values("dx", th_tensor_grad(x), want[i], 0);
    th_tape_reset(tape);
  }
  /* The same through a transposed view of it. */
  th_tensor *x = make(tape, dtype, TH_SHAPE(2, 2), (double[]){1, 2, 3, 4});
  backward_from(tape, th_matmul(tape, x, th_transpose(tape, x, 0, 1), 0), (double[]){1, 1, 1, 1});
  expect_values("dx", th_tensor_grad(x), (double[]){8, 12, 8, 12}, 0);
  th_tape_free(tape);
}

/* Large enough to be cut into pieces that run side by side: the two gradients must not race. */
Test(matmul, a_large_value_times_itself) {
  double trace[2];
  for (int threads = 1; threads <= 2; threads++) {
    th_set_threads(threads);
    th_tape *tape = th_tape_new();
    th_tensor *x = th_input_grad(tape, TH_F32, TH_SHAPE(256, 256), NULL);
    th_init_normal(x, 0, 1, (th_random){7, 0, 0});
    th_tensor *y = th_matmul(tape, x, x, TH_TRANSPOSE_B);
    th_tensor *ones = th_input(tape, TH_F32, TH_SHAPE(256, 256), NULL);
    th_init_normal(ones, 1, 0, (th_random){7, 1, 0});
    cr_assert_eq(th_backward_from(tape, y, ones), TH_OK);
    trace[threads - 1] = 0;
    for (ptrdiff_t i = 0; i < x->count; i++)
      trace[threads - 1] += th__get(x->grad, i) * th__get(x, i); /* = 2 sum of y */
    double sum = 0;
    for (ptrdiff_t i = 0; i < y->count; i++) sum += 2 * th__get(y, i);
    cr_assert(fabs(sum - trace[threads - 1]) <= 1e-5 * fabs(sum), "%g, %g", sum, trace[threads - 1]);
    th_tape_free(tape);
  }
  th_set_threads(0);
  cr_assert_eq(trace[0], trace[1]);
}

TEST_BOTH(matmul, two_uses_add_up) {
  th_tape *tape = th_tape_new();
  th_tensor *a = make(tape, dtype, TH_SHAPE(1, 2), (double[]){1, 2});
  th_tensor *b = make(tape, dtype, TH_SHAPE(2, 1), (double[]){3, 4});
  th_tensor *first = th_matmul(tape, a, b, 0);
  th_tensor *both = th_matmul(tape, first, th_matmul(tape, a, b, 0), 0); /* (a b)^2 */
  expect_values("y", both, (double[]){121}, 0);
  cr_assert_eq(th_backward(tape, both), TH_OK);
  expect_values("da", th_tensor_grad(a), (double[]){66, 88}, 0);
  expect_values("db", th_tensor_grad(b), (double[]){22, 44}, 0);
  th_tape_free(tape);
}

/* C26: no inner dimension gives zeros; no rows, columns or batches give nothing. */
TEST_BOTH(matmul, zero_sizes) {
  th_tape *tape = th_tape_new();
  for (int transpose = 0; transpose < 4; transpose++) {
    bool ta = transpose & TH_TRANSPOSE_A, tb = transpose & TH_TRANSPOSE_B;
    for (int empty = 0; empty < 4; empty++) {
      ptrdiff_t m = empty == 0 ? 0 : 2, n = empty == 1 ? 0 : 3, k = empty == 2 ? 0 : 4;
      ptrdiff_t batch = empty == 3 ? 0 : 2;
      th_tensor *a = th_input_grad(tape, dtype, TH_SHAPE(batch, ta ? k : m, ta ? m : k), NULL);
      th_tensor *b = th_input_grad(tape, dtype, TH_SHAPE(batch, tb ? n : k, tb ? k : n), NULL);
      th_tensor *b2 = th_input_grad(tape, dtype, TH_SHAPE(tb ? n : k, tb ? k : n), NULL);
      double ones[12] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
      const double zeros[24] = {0};
      th_tensor *y = th_matmul(tape, a, b, transpose);
      expect_values("y", y, zeros, 0);
      expect_values("y2", th_matmul(tape, a, b2, transpose), zeros, 0);
      backward_from(tape, y, ones);
      expect_values("da", th_tensor_grad(a), zeros, 0);
      expect_values("db", th_tensor_grad(b), zeros, 0);
      th_tape_reset(tape);
    }
  }
  th_tape_free(tape);
}

Test(matmul, nan_comes_through) {
  th_tape *tape = th_tape_new();
  th_tensor *a = make(tape, TH_F32, TH_SHAPE(2, 2), (double[]){1, NAN, 3, 4});
  th_tensor *b = make(tape, TH_F32, TH_SHAPE(2, 2), (double[]){1, 1, 1, 1});
  const float *y = th_tensor_data(th_matmul(tape, a, b, 0));
  cr_assert(isnan(y[0]) && isnan(y[1]) && y[2] == 7 && y[3] == 7);
  th_tape_free(tape);
}

/* An upstream gradient that someone asked to keep is still the same one. */
TEST_BOTH(matmul, retained_output) {
  th_tape *tape = th_tape_new();
  th_tensor *a = make(tape, dtype, TH_SHAPE(1, 2), (double[]){1, 2});
  th_tensor *b = make(tape, dtype, TH_SHAPE(2, 2), (double[]){1, 2, 3, 4});
  th_tensor *y = th_retain_grad(tape, th_matmul(tape, a, b, 0));
  backward_from(tape, th_reshape(tape, y, TH_SHAPE(2)), (double[]){5, 6});
  expect_values("dy", th_tensor_grad(y), (double[]){5, 6}, 0);
  expect_values("da", th_tensor_grad(a), (double[]){17, 39}, 0);
  th_tape_free(tape);
}

Test(matmul, rejects) {
  th_tape *tape = th_tape_new();
  th_tensor *a = th_input(tape, TH_F32, TH_SHAPE(2, 3, 4), NULL);
  th_tensor *b = th_input(tape, TH_F32, TH_SHAPE(2, 4, 5), NULL);
  cr_assert_null(th_matmul(tape, a, b, TH_TRANSPOSE_B));
  expect_error(tape, TH_ERR_SHAPE, "4 columns do not meet 5 rows");
  cr_assert_null(th_matmul(tape, a, b, TH_TRANSPOSE_A));
  expect_error(tape, TH_ERR_SHAPE, "[2, 3, 4] transposed");
  cr_assert_null(th_matmul(tape, a, b, 4));
  expect_error(tape, TH_ERR_VALUE, "transpose is 4");
  cr_assert_null(th_matmul(tape, a, th_input(tape, TH_F32, TH_SHAPE(3, 4, 5), NULL), 0));
  expect_error(tape, TH_ERR_SHAPE, "leading axes");
  cr_assert_null(th_matmul(tape, a, th_input(tape, TH_F32, TH_SHAPE(1, 2, 4, 5), NULL), 0));
  expect_error(tape, TH_ERR_SHAPE, "leading axes");
  cr_assert_null(th_matmul(tape, a, th_input(tape, TH_F32, TH_SHAPE(4), NULL), 0));
  expect_error(tape, TH_ERR_SHAPE, "two axes");
  cr_assert_null(th_matmul(tape, a, th_input(tape, TH_F64, TH_SHAPE(2, 4, 5), NULL), 0));
  expect_error(tape, TH_ERR_DTYPE, "f64");
  cr_assert_null(th_matmul(tape, NULL, b, 0));
  expect_error(tape, TH_ERR_VALUE, "NULL");
  const ptrdiff_t beyond = (ptrdiff_t)1 << 31;
  th_tensor *tall = th_input(tape, TH_F32, TH_SHAPE(beyond, 0), NULL);
  cr_assert_null(th_matmul(tape, tall, th_input(tape, TH_F32, TH_SHAPE(0, 1), NULL), 0));
  expect_error(tape, TH_ERR_SHAPE, "2147483648");
  th_tape_free(tape);
}
