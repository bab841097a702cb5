/* linear: goldens with and without bias, shared and strided operands, the plain loop in sizes 1..33,
 * accumulation, zero sizes, NaN, threads, rejection. */
#include "gradients.h"
#include "support.h"

#include "golden/linear.inc"

typedef struct golden {
  const char *name;
  const double *x, *w, *b, *dy, *y, *dx, *dw, *db;
  const ptrdiff_t *shape;
  int ndim;
} golden;

#define NDIM(shape) ((int)(sizeof(shape) / sizeof *(shape)))
#define G(name, part) golden_linear_##name##_##part
#define CASE(name, b, db)                                                                          \
  {                                                                                                \
#name, G(name, x), G(name, w), b, G(name, dy), G(name, y), G(name, dx), G(name, dw), db,       \
        G(name, x_shape), NDIM(G(name, x_shape))                                                   \
  }
#define PLAIN(name) CASE(name, NULL, NULL)
#define BIAS(name) CASE(name, G(name, b), G(name, db))
static const golden goldens[] = {PLAIN(rank1),     PLAIN(rank2),     PLAIN(rank3),
                                 BIAS(rank1_bias), BIAS(rank2_bias), BIAS(rank3_bias)};
#define GOLDENS (sizeof goldens / sizeof *goldens)
#define IN 4
#define OUT 5

TEST_BOTH(linear, golden) {
  th_tape *tape = th_tape_new();
  for (size_t i = 0; i < GOLDENS; i++) {
    const golden *g = &goldens[i];
    th_tensor *x = make(tape, dtype, g->ndim, g->shape, g->x);
    th_tensor *w = make(tape, dtype, TH_SHAPE(OUT, IN), g->w);
    th_tensor *b = g->b == NULL ? NULL : make(tape, dtype, TH_SHAPE(OUT), g->b);
    th_tensor *y = th_linear(tape, x, w, b);
    expect_values(g->name, y, g->y, tolerances[dtype].value);
    backward_from(tape, y, g->dy);
    expect_values(g->name, th_tensor_grad(x), g->dx, tolerances[dtype].gradient);
    expect_values(g->name, th_tensor_grad(w), g->dw, tolerances[dtype].gradient);
    if (b != NULL) expect_values(g->name, th_tensor_grad(b), g->db, tolerances[dtype].gradient);
    th_tape_reset(tape);
  }
  th_tape_free(tape);
}

Test(linear, gradients) { check_gradients("linear"); }

/* A view with the values of x into a larger tensor; `rows_apart`: its rows lie apart, otherwise every
 * element does, so that the op has to copy. */
static th_tensor *strided(th_tape *tape, th_tensor *x, bool rows_apart) {
  int ndim = x->ndim;
  ptrdiff_t shape[TH_MAX_DIMS];
  memcpy(shape, x->shape, (size_t)ndim * sizeof *shape);
  shape[ndim] = 3;
  if (rows_apart) shape[ndim - 1] *= 3;
  th_tensor *large = th_input_grad(tape, x->dtype, rows_apart ? ndim : ndim + 1, shape, NULL);
  th_tensor *view = th_slice(tape, large, -1, 1, rows_apart ? x->shape[ndim - 1] + 1 : 2);
  if (!rows_apart) view = th__view(tape, view, ndim, x->shape, view->strides, 0);
  th__tensor_copy(view, x);
  return th_retain_grad(tape, view);
}

/* C05: whatever the strides of x, weight and bias, and also with the weight stored as [in, out]. */
TEST_BOTH(linear, strided_operands) {
  th_tape *tape = th_tape_new();
  for (size_t i = 0; i < GOLDENS; i++)
    for (int form = 0; form < 3; form++) {
      const golden *g = &goldens[i];
      th_tensor *x = strided(tape, make(tape, dtype, g->ndim, g->shape, g->x), form == 0);
      th_tensor *w = make(tape, dtype, TH_SHAPE(OUT, IN), g->w), *b = NULL;
      if (form == 2) {
        w = th_contiguous(tape, th_transpose(tape, w, 0, 1));
        w = th_retain_grad(tape, th_transpose(tape, w, 0, 1));
      } else
        w = strided(tape, w, form == 0);
      if (g->b != NULL) b = strided(tape, make(tape, dtype, TH_SHAPE(OUT), g->b), false);
      th_tensor *y = th_linear(tape, x, w, b);
      expect_values(g->name, y, g->y, tolerances[dtype].value);
      backward_from(tape, y, g->dy);
      expect_values(g->name, th_tensor_grad(x), g->dx, tolerances[dtype].gradient);
      expect_values(g->name, th_tensor_grad(w), g->dw, tolerances[dtype].gradient);
      if (b != NULL) expect_values(g->name, th_tensor_grad(b), g->db, tolerances[dtype].gradient);
      th_tape_reset(tape);
    }
  th_tape_free(tape);
}

/* Evenly spaced rows, and a transposed weight, go to BLAS as they lie: one node, no copy. */
Test(linear, slices_are_not_copied) {
  th_tape *tape = th_tape_new();
  th_tensor *x = th_input_grad(tape, TH_F32, TH_SHAPE(2, 3, 8), NULL);
  th_tensor *w = th_input_grad(tape, TH_F32, TH_SHAPE(4, 6), NULL);
  th_linear(tape, th_slice(tape, x, 2, 2, 6), th_transpose(tape, w, 0, 1), NULL);
  cr_assert_eq(th_tape_node_count(tape), 1, "%s", th_tape_message(tape));
  th_tape_free(tape);
}

/* ---- against the plain loop ---- */

typedef struct sizes {
  ptrdiff_t rows, in, out;
} sizes;

static th_tensor *random_input(th_tape *tape, th_dtype dtype, ptrdiff_t m, ptrdiff_t n,
                               uint64_t seed) {
  th_tensor *x = th_input_grad(tape, dtype, TH_SHAPE(m, n), NULL);
  th_init_normal(x, 0, 1, (th_random){seed, 0, 0});
  return x;
}

static double at(const th_tensor *x, ptrdiff_t i, ptrdiff_t j) {
  return th__get(x, i * x->strides[0] + j);
}

static void expect_near(const char *what, sizes s, double got, double want, double limit) {
  cr_assert(fabs(got - want) <= limit, "%s, %td x %td -> %td: %.17g, want %.17g", what, s.rows,
            s.in, s.out, got, want);
}

static void against_the_loop(th_tape *tape, th_dtype dtype, sizes s) {
  th_tensor *x = random_input(tape, dtype, s.rows, s.in, 1);
  th_tensor *w = random_input(tape, dtype, s.out, s.in, 2);
  th_tensor *b = th_reshape(tape, random_input(tape, dtype, 1, s.out, 3), TH_SHAPE(s.out));
  th_tensor *g = random_input(tape, dtype, s.rows, s.out, 4);
  th_tensor *y = th_linear(tape, x, w, b);
  cr_assert_eq(th_backward_from(tape, y, g), TH_OK, "%s", th_tape_message(tape));
  double limit = dtype == TH_F32 ? 1e-5 : 2e-14;
  double limit_in = limit * sqrt((double)s.in), limit_rows = limit * sqrt((double)s.rows);
  for (ptrdiff_t i = 0; i < s.rows; i++)
    for (ptrdiff_t o = 0; o < s.out; o++) {
      double want = th__get(b, o);
      for (ptrdiff_t j = 0; j < s.in; j++) want += at(x, i, j) * at(w, o, j);
      expect_near("y", s, at(y, i, o), want, limit_in);
    }
  for (ptrdiff_t i = 0; i < s.rows; i++)
    for (ptrdiff_t j = 0; j < s.in; j++) {
      double want = 0;
      for (ptrdiff_t o = 0; o < s.out; o++) want += at(g, i, o) * at(w, o, j);
      expect_near("dx", s, at(x->grad, i, j), want, limit * sqrt((double)s.out));
    }
  for (ptrdiff_t o = 0; o < s.out; o++) {
    double sum = 0;
    for (ptrdiff_t i = 0; i < s.rows; i++) sum += at(g, i, o);
    expect_near("db", s, th__get(b->grad, o), sum, limit_rows);
    for (ptrdiff_t j = 0; j < s.in; j++) {
      double want = 0;
      for (ptrdiff_t i = 0; i < s.rows; i++) want += at(g, i, o) * at(x, i, j);
      expect_near("dW", s, at(w->grad, o, j), want, limit_rows);
    }
  }
  th_tape_reset(tape);
}

TEST_BOTH(linear, equals_the_plain_loop) {
  th_tape *tape = th_tape_new();
  for (ptrdiff_t i = 1; i <= 33; i++)
    for (ptrdiff_t j = 1; j <= 33; j += j < 9 ? 1 : 4)
      against_the_loop(tape, dtype, (sizes){i, j, 34 - i});
  /* Large enough to be cut. */
  against_the_loop(tape, dtype, (sizes){300, 70, 130});
  against_the_loop(tape, dtype, (sizes){70, 300, 90});
  against_the_loop(tape, dtype, (sizes){1000, 33, 65});
  th_tape_free(tape);
}

TEST_BOTH(linear, same_bits_at_any_number_of_threads) {
  const sizes all[] = {{512, 32, 96}, {300, 200, 130}, {64, 300, 1000}};
  for (int i = 0; i < 3; i++) {
    sizes s = all[i];
    th_tensor *results[2][4];
    th_tape *tapes[2] = {th_tape_new(), th_tape_new()};
    for (int t = 0; t < 2; t++) {
      th_set_threads(t + 1);
      th_tape *tape = tapes[t];
      th_tensor *x = random_input(tape, dtype, s.rows, s.in, 1);
      th_tensor *w = random_input(tape, dtype, s.out, s.in, 2);
      th_tensor *b = th_reshape(tape, random_input(tape, dtype, 1, s.out, 3), TH_SHAPE(s.out));
      th_tensor *y = th_linear(tape, x, w, b);
      th_backward_from(tape, y, random_input(tape, dtype, s.rows, s.out, 4));
      th_tensor *got[] = {y, x->grad, w->grad, b->grad};
      memcpy(results[t], got, sizeof got);
    }
    th_set_threads(0);
    for (int j = 0; j < 4; j++) {
      const th_tensor *one = results[0][j], *two = results[1][j];
      size_t bytes = (size_t)one->count * th_dtype_size(dtype);
      cr_assert_eq(memcmp(one->data, two->data, bytes), 0, "shape %d, result %d", i, j);
    }
    th_tape_free(tapes[0]);
    th_tape_free(tapes[1]);
  }
}

/* ---- graph and edges ---- */

TEST_BOTH(linear, two_uses_add_up) {
  th_tape *tape = th_tape_new();
  th_tensor *x = make(tape, dtype, TH_SHAPE(1, 2), (double[]){1, 2});
  th_tensor *w = make(tape, dtype, TH_SHAPE(2, 2), (double[]){1, 2, 3, 4});
  th_tensor *b = make(tape, dtype, TH_SHAPE(2), (double[]){10, 20});
  th_tensor *y = th_linear(tape, th_linear(tape, x, w, b), w, b); /* h = [15, 31] */
  expect_values("y", y, (double[]){87, 189}, 0);
  backward_from(tape, y, (double[]){1, 0}); /* dh = [1, 2] */
  expect_values("dx", th_tensor_grad(x), (double[]){7, 10}, 0);
  expect_values("dw", th_tensor_grad(w), (double[]){16, 33, 2, 4}, 0);
  expect_values("db", th_tensor_grad(b), (double[]){2, 2}, 0);
  th_tape_free(tape);
}

/* x is also the weight: x x^T (C09d), where both gradients go into one memory. */
TEST_BOTH(linear, a_value_with_itself) {
  th_tape *tape = th_tape_new();
  th_tensor *x = make(tape, dtype, TH_SHAPE(2, 2), (double[]){1, 2, 3, 4});
  backward_from(tape, th_linear(tape, x, x, NULL), (double[]){1, 1, 1, 1});
  expect_values("dx", th_tensor_grad(x), (double[]){8, 12, 8, 12}, 0);
  th_tape_free(tape);
}

/* Only what is wanted is computed: a constant weight, a constant x, nothing but the bias. */
TEST_BOTH(linear, constants_get_no_gradient) {
  const double ones[] = {1, 1, 1, 1};
  for (int wanted = 0; wanted < 3; wanted++) {
    th_tape *tape = th_tape_new();
    th_tensor *in[] = {make(tape, dtype, TH_SHAPE(2, 2), (double[]){1, 2, 3, 4}),
                       make(tape, dtype, TH_SHAPE(2, 2), (double[]){5, 6, 7, 8}),
                       make(tape, dtype, TH_SHAPE(2), (double[]){1, 2})};
    for (int i = 0; i < 3; i++)
      if (i != wanted) in[i] = th_detach(tape, in[i]);
    backward_from(tape, th_linear(tape, in[0], in[1], in[2]), ones);
    const double want[][4] = {{12, 14, 12, 14}, {4, 6, 4, 6}, {2, 2}};
    for (int i = 0; i < 3; i++)
      if (i == wanted)
        expect_values("gradient", th_tensor_grad(in[i]), want[i], 0);
      else
        cr_assert_null(th_tensor_grad(in[i]));
    th_tape_free(tape);
  }
}

TEST_BOTH(linear, zero_sizes) {
  const sizes all[] = {{0, 2, 3}, {2, 0, 3}, {2, 3, 0}, {0, 0, 0}};
  for (int i = 0; i < 4; i++) {
    th_tape *tape = th_tape_new();
    sizes s = all[i];
    th_tensor *x = th_input_grad(tape, dtype, TH_SHAPE(s.rows, s.in), NULL);
    th_tensor *w = th_input_grad(tape, dtype, TH_SHAPE(s.out, s.in), NULL);
    th_tensor *b = make(tape, dtype, TH_SHAPE(s.out), (double[]){1, 2, 3});
    th_tensor *y = th_linear(tape, x, w, b);
    expect_values("y", y, (double[]){1, 2, 3, 1, 2, 3}, 0); /* in = 0: the bias; else empty */
    expect_values("y", th_linear(tape, x, w, NULL), (double[]){0, 0, 0, 0, 0, 0}, 0);
    backward_from(tape, y, (double[]){1, 2, 3, 4, 5, 6});
    double rows = (double)(s.rows == 2);
    expect_values("db", th_tensor_grad(b), (double[]){5 * rows, 7 * rows, 9 * rows}, 0);
    expect_values("dx", th_tensor_grad(x), (double[]){0, 0, 0, 0, 0, 0}, 0);
    expect_values("dw", th_tensor_grad(w), (double[]){0, 0, 0, 0, 0, 0}, 0);
    th_tape_free(tape);
  }
}

Test(linear, nan_comes_through) {
  th_tape *tape = th_tape_new();
  th_tensor *x = make(tape, TH_F32, TH_SHAPE(2, 2), (double[]){1, NAN, 3, 4});
  th_tensor *w = make(tape, TH_F32, TH_SHAPE(2, 2), (double[]){1, 1, 1, 1});
  th_tensor *b = make(tape, TH_F32, TH_SHAPE(2), (double[]){0, NAN});
  const float *y = th_tensor_data(th_linear(tape, x, w, b));
  cr_assert(isnan(y[0]) && isnan(y[1]) && y[2] == 7 && isnan(y[3]));
  th_tape_free(tape);
}

Test(linear, rejects) {
  th_tape *tape = th_tape_new();
  th_tensor *x = th_input(tape, TH_F32, TH_SHAPE(2, 3), NULL);
  th_tensor *w = th_input(tape, TH_F32, TH_SHAPE(5, 3), NULL);
  cr_assert_null(th_linear(tape, x, th_input(tape, TH_F32, TH_SHAPE(3, 5), NULL), NULL));
  expect_error(tape, TH_ERR_SHAPE, "x is [2, 3] but the weight [out, in] is [3, 5]");
  cr_assert_null(th_linear(tape, x, th_input(tape, TH_F32, TH_SHAPE(3), NULL), NULL));
  expect_error(tape, TH_ERR_SHAPE, "the weight is [3]");
  cr_assert_null(th_linear(tape, x, w, th_input(tape, TH_F32, TH_SHAPE(3), NULL)));
  expect_error(tape, TH_ERR_SHAPE, "a bias of [5]");
  cr_assert_null(th_linear(tape, th_input(tape, TH_F32, TH_SCALAR, NULL), w, NULL));
  expect_error(tape, TH_ERR_SHAPE, "scalar");
  cr_assert_null(th_linear(tape, x, w, th_input(tape, TH_F64, TH_SHAPE(5), NULL)));
  expect_error(tape, TH_ERR_DTYPE, "f64");
  cr_assert_null(th_linear(tape, x, NULL, NULL));
  expect_error(tape, TH_ERR_VALUE, "NULL");
  const ptrdiff_t beyond = (ptrdiff_t)1 << 31;
  th_tensor *tall = th_input(tape, TH_F32, TH_SHAPE(beyond, 0), NULL);
  cr_assert_null(th_linear(tape, tall, th_input(tape, TH_F32, TH_SHAPE(1, 0), NULL), NULL));
  expect_error(tape, TH_ERR_SHAPE, "2147483648");
  th_tape_free(tape);
}
