/* swiglu: goldens, tails to their own last digits, the naive loop, one tensor in both places and
 * overlapping windows, one side wanted, views, infinities, threads, rejection. */
#include "gradients.h"
#include "support.h"

#include "golden/swiglu.inc"

#define NDIM(shape) ((int)(sizeof(shape) / sizeof *(shape)))
#define G(name, part) golden_swiglu_##name##_##part
#define CASE(name, exact)                                                                          \
  {                                                                                                \
#name, NDIM(G(name, a_shape)), G(name, a_shape), G(name, a), G(name, b), G(name, dy),          \
        G(name, y), G(name, da), G(name, db), exact                                                \
  }

static const struct {
  const char *name;
  int ndim;
  const ptrdiff_t *shape;
  const double *a, *b, *dy, *y, *da, *db;
  bool exact; /* every value right relative to its own size */
} goldens[] = {CASE(rank1, false), CASE(rank2, false), CASE(rank3, false), CASE(tails, true)};

TEST_BOTH(swiglu, golden) {
  th_tape *tape = th_tape_new();
  for (size_t i = 0; i < sizeof goldens / sizeof *goldens; i++) {
    th_tensor *a = make(tape, dtype, goldens[i].ndim, goldens[i].shape, goldens[i].a);
    th_tensor *b = make(tape, dtype, goldens[i].ndim, goldens[i].shape, goldens[i].b);
    th_tensor *y = th_swiglu(tape, a, b);
    expect_values(goldens[i].name, y, goldens[i].y, tolerances[dtype].value);
    backward_from(tape, y, goldens[i].dy);
    expect_values(goldens[i].name, th_tensor_grad(a), goldens[i].da, tolerances[dtype].gradient);
    expect_values(goldens[i].name, th_tensor_grad(b), goldens[i].db, tolerances[dtype].gradient);
    if (goldens[i].exact) {
      double limit = dtype == TH_F32 ? 1e-6 : 1e-14;
      expect_relative(goldens[i].name, y, goldens[i].y, limit);
      expect_relative(goldens[i].name, th_tensor_grad(a), goldens[i].da, limit);
      expect_relative(goldens[i].name, th_tensor_grad(b), goldens[i].db, limit);
    }
    th_tape_reset(tape);
  }
  th_tape_free(tape);
}

Test(swiglu, gradients) { check_gradients("swiglu"); }

static double silu(double a) { return a / (1 + exp(-a)); }
static double silu_slope(double a) { return (1 + a / (1 + exp(a))) / (1 + exp(-a)); }

/* Lengths that reach every vector remainder, and one that is cut into pieces. */
TEST_BOTH(swiglu, equals_the_naive_loop) {
  th_tape *tape = th_tape_new();
  for (ptrdiff_t n = 1; n <= 70000; n = n < 70 ? n + 1 : n * 1000) {
    th_tensor *a = th_input_grad(tape, dtype, TH_SHAPE(n), NULL);
    th_tensor *b = th_input_grad(tape, dtype, TH_SHAPE(n), NULL);
    th_tensor *dy = th_input(tape, dtype, TH_SHAPE(n), NULL);
    th_init_normal(a, 0, 2, (th_random){1, (uint32_t)n, 0});
    th_init_normal(b, 0, 1, (th_random){2, (uint32_t)n, 0});
    th_init_normal(dy, 0, 1, (th_random){3, (uint32_t)n, 0});
    th_tensor *y = th_swiglu(tape, a, b);
    cr_assert_eq(th_backward_from(tape, y, dy), TH_OK, "%s", th_tape_message(tape));
    double limit = tolerances[dtype].gradient;
    for (ptrdiff_t i = 0; i < n; i++) {
      double gate = th__get(a, i), up = th__get(b, i), g = th__get(dy, i);
      cr_assert(fabs(th__get(y, i) - silu(gate) * up) <= limit, "n %td: y[%td]", n, i);
      cr_assert(fabs(th__get(a->grad, i) - g * up * silu_slope(gate)) <= limit, "da[%td]", i);
      cr_assert(fabs(th__get(b->grad, i) - g * silu(gate)) <= limit, "db[%td]", i);
    }
    th_tape_reset(tape);
  }
  th_tape_free(tape);
}

/* d/dx silu(x) x; and x without its last element as gate with x without its first as up, whose gradients
 * meet in all elements but two. */
TEST_BOTH(swiglu, one_tensor_in_both_places_and_overlapping_windows) {
  enum { n = 20000 };
  static double want[n + 1];
  th_set_threads(3);
  th_tape *tape = th_tape_new();
  for (int shared = 0; shared < 2; shared++) {
    th_tensor *x = th_input_grad(tape, dtype, TH_SHAPE(n + 1), NULL);
    th_init_normal(x, 0, 2, (th_random){5, 0, 0});
    th_tensor *gate = shared ? x : th_slice(tape, x, 0, 0, n);
    th_tensor *up = shared ? x : th_slice(tape, x, 0, 1, n + 1);
    th_tensor *y = th_swiglu(tape, gate, up);
    th_tensor *dy = th_input(tape, dtype, y->ndim, y->shape, NULL);
    th_init_normal(dy, 0, 1, (th_random){6, 0, 0});
    cr_assert_eq(th_backward_from(tape, y, dy), TH_OK, "%s", th_tape_message(tape));
    memset(want, 0, sizeof want);
    for (ptrdiff_t i = 0; i < y->count; i++) {
      ptrdiff_t to = shared ? i : i + 1;
      double g = th__get(dy, i), a = th__get(x, i), b = th__get(x, to);
      want[i] += g * b * silu_slope(a);
      want[to] += g * silu(a);
    }
    expect_values("dx", th_tensor_grad(x), want, tolerances[dtype].gradient);
    th_tape_reset(tape);
  }
  th_tape_free(tape);
  th_set_threads(0);
}

/* Windows [300, 40] into one matrix [301, 100], whose gradients meet or do not: read and written where they
 * lie, without a copy. */
TEST_BOTH(swiglu, windows_into_one_matrix) {
  enum { rows = 300, n = 40, width = 100 };
  static const ptrdiff_t origins[][4] = {
      {0, 0, 0, 40},  {0, 60, 0, 0}, /* halves; the second comes first */
      {0, 0, 0, 1},   {0, 23, 0, 0}, /* columns in common */
      {0, 10, 1, 10}, {1, 0, 0, 0},  /* rows in common */
      {0, 60, 1, 10}, {0, 60, 1, 0}, /* the end of a row and the next one's begin */
  };
  static double want[(rows + 1) * width];
  th_set_threads(3);
  th_tape *tape = th_tape_new();
  for (size_t k = 0; k < sizeof origins / sizeof *origins; k++) {
    const ptrdiff_t *o = origins[k];
    th_tensor *x = th_input_grad(tape, dtype, TH_SHAPE(rows + 1, width), NULL), *window[2];
    th_init_normal(x, 0, 2, (th_random){5, 0, 0});
    for (int i = 0; i < 2; i++) {
      th_tensor *high = th_slice(tape, x, 0, o[2 * i], o[2 * i] + rows);
      window[i] = th_slice(tape, high, 1, o[2 * i + 1], o[2 * i + 1] + n);
    }
    th_tensor *y = th_swiglu(tape, window[0], window[1]);
    cr_assert_eq(th_tape_node_count(tape), 1, "a copy was made");
    th_tensor *dy = th_input(tape, dtype, TH_SHAPE(rows, n), NULL);
    th_init_normal(dy, 0, 1, (th_random){6, 0, 0});
    cr_assert_eq(th_backward_from(tape, y, dy), TH_OK, "%s", th_tape_message(tape));
    memset(want, 0, sizeof want);
    for (ptrdiff_t i = 0; i < rows * n; i++) {
      ptrdiff_t gate = (i / n + o[0]) * width + i % n + o[1];
      ptrdiff_t up = (i / n + o[2]) * width + i % n + o[3];
      double g = th__get(dy, i), a = th__get(x, gate), b = th__get(x, up);
      cr_assert(fabs(th__get(y, i) - silu(a) * b) <= tolerances[dtype].gradient, "y[%td]", i);
      want[gate] += g * b * silu_slope(a);
      want[up] += g * silu(a);
    }
    expect_values("dx", th_tensor_grad(x), want, tolerances[dtype].gradient);
    th_tape_reset(tape);
  }
  th_tape_free(tape);
  th_set_threads(0);
}

/* A gradient that is there already stays; an input that wants none gets none. */
TEST_BOTH(swiglu, gradients_accumulate_and_one_side_may_be_wanted) {
  const double a = 0.75, b = -2;
  for (int wanted = 0; wanted < 2; wanted++) {
    th_error error;
    th_tensor *leaf = th_tensor_new(dtype, TH_SHAPE(1), &error);
    cr_assert_eq(th_tensor_require_grad(leaf, &error), TH_OK);
    th_tensor_write(leaf, wanted == 0 ? &a : &b);
    th_tensor_write(th_tensor_grad(leaf), (double[]){7});
    th_tape *tape = th_tape_new();
    th_tensor *other = th_input(tape, dtype, TH_SHAPE(1), NULL);
    th_tensor_write(other, wanted == 0 ? &b : &a);
    for (int use = 0; use < 2; use++) {
      th_tensor *y = wanted == 0 ? th_swiglu(tape, leaf, other) : th_swiglu(tape, other, leaf);
      backward_from(tape, y, (double[]){3});
      th_tape_reset(tape);
      other = th_input(tape, dtype, TH_SHAPE(1), NULL);
      th_tensor_write(other, wanted == 0 ? &b : &a);
    }
    double once = wanted == 0 ? 3 * b * silu_slope(a) : 3 * silu(a);
    expect_values("d", th_tensor_grad(leaf), (double[]){7 + 2 * once}, tolerances[dtype].gradient);
    cr_assert_null(th_tensor_grad(other));
    th_tape_free(tape);
    th_tensor_free(leaf);
  }
}

/* The two halves of a product, and a transposed gate, give what copies of them give. */
TEST_BOTH(swiglu, views) {
  double x[24], a[12], b[12], y[12], da[12], db[12], dx[24], dy[12];
  for (int i = 0; i < 24; i++) x[i] = (i * 7 % 24 - 11.5) / 4;
  for (int i = 0; i < 12; i++) {
    a[i] = x[i / 4 * 8 + i % 4];
    b[i] = x[i / 4 * 8 + 4 + i % 4];
    dy[i] = 1 + i / 4.0;
  }
  th_tape *tape = th_tape_new();
  th_tensor *gate = make(tape, dtype, TH_SHAPE(3, 4), a), *up = make(tape, dtype, TH_SHAPE(3, 4), b);
  th_tensor *out = th_swiglu(tape, gate, up);
  backward_from(tape, out, dy);
  th_tensor_read(out, y), th_tensor_read(gate->grad, da), th_tensor_read(up->grad, db);
  th_tape_reset(tape);

  th_tensor *whole = make(tape, dtype, TH_SHAPE(3, 8), x);
  out = th_swiglu(tape, th_slice(tape, whole, 1, 0, 4), th_slice(tape, whole, 1, 4, 8));
  expect_values("y of halves", out, y, 0);
  backward_from(tape, out, dy);
  for (int i = 0; i < 12; i++) {
    dx[i / 4 * 8 + i % 4] = da[i];
    dx[i / 4 * 8 + 4 + i % 4] = db[i];
  }
  expect_values("dx of halves", th_tensor_grad(whole), dx, 0);
  th_tape_reset(tape);

  for (int i = 0; i < 12; i++) dx[i % 4 * 3 + i / 4] = a[i];
  gate = make(tape, dtype, TH_SHAPE(4, 3), dx);
  up = make(tape, dtype, TH_SHAPE(3, 4), b);
  out = th_swiglu(tape, th_transpose(tape, gate, 0, 1), up);
  expect_values("y of a transposed gate", out, y, 0);
  backward_from(tape, out, dy);
  expect_values("da", th_transpose(tape, th_tensor_grad(gate), 0, 1), da, 0);
  expect_values("db", th_tensor_grad(up), db, 0);
  th_tape_free(tape);
}

TEST_BOTH(swiglu, infinities_huge_values_and_nan) {
  const double a[] = {INFINITY, -INFINITY, 1e30, -1e30, NAN, 1, -INFINITY};
  const double b[] = {2, 2, 2, 2, 2, NAN, INFINITY};
  const double y[] = {INFINITY, 0, 2e30, 0}, da[] = {2, 0, 2, 0}, db[] = {INFINITY, 0, 1e30, 0};
  double got[3][7];
  th_tape *tape = th_tape_new();
  th_tensor *gate = make(tape, dtype, TH_SHAPE(7), a), *up = make(tape, dtype, TH_SHAPE(7), b);
  th_tensor *out = th_swiglu(tape, gate, up);
  backward_from(tape, out, (double[]){1, 1, 1, 1, 1, 1, 1});
  th_tensor_read(out, got[0]), th_tensor_read(gate->grad, got[1]), th_tensor_read(up->grad, got[2]);
  const double *want[] = {y, da, db};
  for (int k = 0; k < 3; k++)
    for (int i = 0; i < 4; i++)
      cr_assert(got[k][i] == want[k][i] || fabs(got[k][i] / want[k][i] - 1) < 1e-6, "%d[%d]: %g", k,
                i, got[k][i]);
  cr_assert(isnan(got[0][4]) && isnan(got[1][4]) && isnan(got[2][4]));
  cr_assert(isnan(got[0][5]) && isnan(got[1][5]) && fabs(got[2][5] - silu(1)) < 1e-6);
  cr_assert(isnan(got[0][6]));
  th_tape_free(tape);
}

TEST_BOTH(swiglu, no_elements_and_scalars) {
  th_tape *tape = th_tape_new();
  th_tensor *x = th_input_grad(tape, dtype, TH_SHAPE(2, 0, 3), NULL);
  th_tensor *y = th_swiglu(tape, x, x);
  cr_assert_not_null(y, "%s", th_tape_message(tape));
  backward_from(tape, y, NULL);
  y = th_swiglu(tape, make(tape, dtype, TH_SCALAR, (double[]){2}),
                make(tape, dtype, TH_SCALAR, (double[]){3}));
  expect_values("y", y, (double[]){3 * silu(2)}, tolerances[dtype].value);
  th_tape_free(tape);
}

Test(swiglu, same_bits_at_any_number_of_threads) {
  enum { n = 100003 };
  static float bits[2][3 * n];
  for (int run = 0; run < 2; run++) {
    th_set_threads(run == 0 ? 1 : 3);
    th_tape *tape = th_tape_new();
    th_tensor *a = th_input_grad(tape, TH_F32, TH_SHAPE(n), NULL);
    th_tensor *b = th_input_grad(tape, TH_F32, TH_SHAPE(n), NULL);
    th_init_normal(a, 0, 2, (th_random){1, 0, 0}), th_init_normal(b, 0, 1, (th_random){2, 0, 0});
    th_tensor *y = th_swiglu(tape, a, b);
    cr_assert_eq(th_backward_from(tape, y, th_detach(tape, b)), TH_OK);
    memcpy(bits[run], y->data, n * sizeof(float));
    memcpy(bits[run] + n, a->grad->data, n * sizeof(float));
    memcpy(bits[run] + 2 * n, b->grad->data, n * sizeof(float));
    th_tape_free(tape);
  }
  th_set_threads(0);
  cr_assert(memcmp(bits[0], bits[1], sizeof bits[0]) == 0, "depends on threads");
}

Test(swiglu, rejects) {
  th_tape *tape = th_tape_new();
  th_tensor *x = th_input(tape, TH_F32, TH_SHAPE(3, 4), NULL);
  cr_assert_null(th_swiglu(tape, x, th_input(tape, TH_F32, TH_SHAPE(4), NULL)));
  expect_error(tape, TH_ERR_SHAPE, "swiglu: the gate is [3, 4] and up [4]");
  cr_assert_null(th_swiglu(tape, x, th_input(tape, TH_F64, TH_SHAPE(3, 4), NULL)));
  expect_error(tape, TH_ERR_DTYPE, "f64");
  th_tensor *ids = th_input(tape, TH_I32, TH_SHAPE(3), NULL);
  cr_assert_null(th_swiglu(tape, ids, ids));
  expect_error(tape, TH_ERR_DTYPE, "i32");
  cr_assert_null(th_swiglu(tape, x, NULL));
  expect_error(tape, TH_ERR_VALUE, "input 1 is NULL");
  cr_assert_null(th_swiglu(tape, NULL, x));
  expect_error(tape, TH_ERR_VALUE, "input 0 is NULL");
  cr_assert_null(th_swiglu(NULL, x, x));
  th_tape_free(tape);
}
