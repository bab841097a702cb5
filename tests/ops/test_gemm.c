/* gemm: BLAS against the plain loop, C26 (beta = 0 over NaN, inner dimension 0), vectors; and the
 * cutting of products into pieces: the same bits at any number of threads. */
#include "autograd/gemm.h"
#include "support.h"

static double number(ptrdiff_t i) { return (double)((i * 2654435761u) % 1021) / 256 - 2; }

static void fill(th_tensor *x) {
  double *values = malloc(((size_t)x->count + 1) * sizeof *values);
  for (ptrdiff_t i = 0; i < x->count; i++) values[i] = number(i + x->count);
  th_tensor_write(x, values);
  free(values);
}

/* Element (i, j) of op(X), X stored with rows `ld` apart. */
static double element(const th_tensor *x, bool transposed, ptrdiff_t ld, ptrdiff_t i, ptrdiff_t j) {
  return th__get(x, transposed ? j * ld + i : i * ld + j);
}

typedef struct sizes {
  ptrdiff_t m, n, k;
} sizes;

#define GAP 3 /* columns between the rows of C, which must stay as they are */

/* beta C + op(A) op(B) by the kernel and by the plain loop. With beta = 0, C is full of NaN before. */
static void compare(th_dtype dtype, sizes s, bool ta, bool tb, double beta) {
  ptrdiff_t lda = (ta ? s.m : s.k) + 1, ldb = (tb ? s.k : s.n) + 2, ldc = s.n + GAP;
  th_tensor *a = th_tensor_new(dtype, TH_SHAPE((ta ? s.k : s.m) + 1, lda), NULL);
  th_tensor *b = th_tensor_new(dtype, TH_SHAPE((tb ? s.n : s.k) + 1, ldb), NULL);
  th_tensor *c = th_tensor_new(dtype, TH_SHAPE(s.m, ldc), NULL);
  fill(a), fill(b);
  for (ptrdiff_t i = 0; i < c->count; i++) th__set(c, i, beta == 0 ? (double)NAN : number(i));
  TH__CALL(dtype, gemm, ta, tb, s.m, s.n, s.k, 1.0, a->data, lda, b->data, ldb, beta, c->data, ldc);

  double limit = (dtype == TH_F32 ? 2e-6 : 4e-15) * (double)(s.k + 1);
  for (ptrdiff_t i = 0; i < s.m; i++)
    for (ptrdiff_t j = 0; j < ldc; j++) {
      double got = th__get(c, i * ldc + j), old = number(i * ldc + j);
      if (j >= s.n) {
        cr_assert(beta == 0 ? isnan(got) : fabs(got - old) < 1e-6, "the gap was written to");
        continue;
      }
      double want = beta == 0 ? 0 : beta * old;
      for (ptrdiff_t l = 0; l < s.k; l++)
        want += element(a, ta, lda, i, l) * element(b, tb, ldb, l, j);
      cr_assert(fabs(got - want) <= limit, "%td x %td x %td, ta %d, tb %d, beta %g: %.17g not %.17g",
                s.m, s.n, s.k, ta, tb, beta, got, want);
    }
  th_tensor_free(a);
  th_tensor_free(b);
  th_tensor_free(c);
}

TEST_BOTH(gemm, equals_the_plain_loop_in_every_size) {
  const ptrdiff_t inner[] = {0, 1, 2, 3, 8, 17, 33};
  for (ptrdiff_t m = 1; m <= 33; m++)
    for (ptrdiff_t n = 1; n <= 33; n++)
      for (int i = 0; i < 7; i++)
        for (int flags = 0; flags < 4; flags++)
          compare(dtype, (sizes){m, n, inner[i]}, flags & 1, flags & 2, 0.0);
}

TEST_BOTH(gemm, accumulates) {
  const ptrdiff_t side[] = {1, 2, 5, 16, 33, 70};
  for (int i = 0; i < 6 * 6 * 6; i++)
    for (int flags = 0; flags < 4; flags++)
      compare(dtype, (sizes){side[i % 6], side[i / 6 % 6], side[i / 36]}, flags & 1, flags & 2, 1.0);
  for (int flags = 0; flags < 4; flags++)
    compare(dtype, (sizes){3, 4, 0}, flags & 1, flags & 2, 0.5);
}

/* C26: a NaN in A or B comes through wherever its partner is not zero. */
TEST_BOTH(gemm, nan_in_an_operand_comes_through) {
  const ptrdiff_t side[] = {1, 2, 7, 33};
  for (int s = 0; s < 16; s++) {
    ptrdiff_t m = side[s % 4], n = side[s / 4], k = 5;
    th_tensor *a = th_tensor_new(dtype, TH_SHAPE(m, k), NULL);
    th_tensor *b = th_tensor_new(dtype, TH_SHAPE(k, n), NULL);
    th_tensor *c = th_tensor_new(dtype, TH_SHAPE(m, n), NULL);
    for (ptrdiff_t i = 0; i < a->count; i++) th__set(a, i, 1);
    for (ptrdiff_t i = 0; i < b->count; i++) th__set(b, i, 1);
    th__set(a, (m - 1) * k + 2, NAN);
    TH__CALL(dtype, gemm, false, false, m, n, k, 1.0, a->data, k, b->data, n, 0.0, c->data, n);
    for (ptrdiff_t i = 0; i < m * n; i++) {
      double got = th__get(c, i);
      cr_assert(i / n == m - 1 ? isnan(got) : fabs(got - 5) < 1e-6, "%td x %td, %td: %g", m, n, i,
                got);
    }
    th_tensor_free(a);
    th_tensor_free(b);
    th_tensor_free(c);
  }
}

/* ---- pieces ---- */

static th_tensor *filled(th_tape *tape, th_dtype dtype, ptrdiff_t batch, ptrdiff_t m, ptrdiff_t n) {
  th_tensor *x = th_input(tape, dtype, TH_SHAPE(batch, m, n), NULL);
  cr_assert_not_null(x, "%s", th_tape_message(tape));
  fill(x);
  return x;
}

typedef struct shape {
  ptrdiff_t batch, m, n, k;
  bool ta, tb, sum;
} shape;

/* A batch of products on `threads` threads, into a C of its own. */
static th_tensor *run_products(th_tape *tape, th_dtype dtype, shape s, int threads) {
  th_tensor *a = filled(tape, dtype, s.batch, s.ta ? s.k : s.m, s.ta ? s.m : s.k);
  th_tensor *b = filled(tape, dtype, s.batch, s.tb ? s.n : s.k, s.tb ? s.k : s.n);
  th_tensor *c = th_output(tape, dtype, TH_SHAPE(s.sum ? 1 : s.batch, s.m, s.n));
  for (ptrdiff_t i = 0; i < c->count; i++) th__set(c, i, NAN);
  th__product product = {.dtype = dtype, .ta = s.ta, .tb = s.tb, .m = s.m, .n = s.n, .k = s.k};
  product.a = a->data, product.lda = s.ta ? s.m : s.k;
  product.b = b->data, product.ldb = s.tb ? s.k : s.n;
  product.c = c->data, product.ldc = s.n;
  product.sum = s.sum;
  product.axes = 1;
  product.length[0] = s.batch;
  product.move_a[0] = s.m * s.k;
  product.move_b[0] = s.k * s.n;
  product.move_c[0] = s.sum ? 0 : s.m * s.n;
  th_set_threads(threads);
  th__products(&product, 1);
  th_set_threads(0);
  return c;
}

/* Each piece belongs to one C, whole products or tiles, for a few or many, square or thin. */
TEST_BOTH(gemm, same_bits_at_any_number_of_threads) {
  const shape shapes[] = {
      {1, 512, 32, 32, false, true, false},  {1, 200, 333, 100, false, false, false},
      {1, 65, 700, 64, true, false, false},  {40, 33, 17, 40, false, true, false},
      {3, 150, 130, 120, true, true, false}, {6, 100, 70, 90, true, false, true},
      {1, 1, 5000, 300, false, true, false}, {1, 3000, 1, 300, false, false, false},
      {500, 2, 3, 4, false, false, false},   {1, 40, 40, 2000, true, false, false}};
  th_tape *tape = th_tape_new();
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    const th_tensor *one = run_products(tape, dtype, shapes[i], 1);
    for (int threads = 2; threads <= 5; threads++) {
      const th_tensor *many = run_products(tape, dtype, shapes[i], threads);
      cr_assert_eq(memcmp(one->data, many->data, (size_t)one->count * th_dtype_size(dtype)), 0,
                   "shape %zu differs at %d threads", i, threads);
    }
    for (ptrdiff_t j = 0; j < one->count; j++)
      cr_assert_not(isnan(th__get(one, j)), "shape %zu: element %td was not written", i, j);
    th_tape_reset(tape);
  }
  th_tape_free(tape);
}

/* The tiles together are the product: against one call of the kernel per product. */
TEST_BOTH(gemm, pieces_equal_the_whole) {
  const shape shapes[] = {
      {1, 523, 131, 47, false, true, false}, {1, 129, 1000, 65, true, false, false},
      {7, 33, 17, 40, false, true, false},   {2, 270, 190, 64, true, true, false},
      {6, 100, 70, 90, true, false, true},   {5, 31, 300, 90, false, false, true}};
  th_tape *tape = th_tape_new();
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    shape s = shapes[i];
    const th_tensor *c = run_products(tape, dtype, s, 2);
    th_tensor *a = filled(tape, dtype, s.batch, s.ta ? s.k : s.m, s.ta ? s.m : s.k);
    th_tensor *b = filled(tape, dtype, s.batch, s.tb ? s.n : s.k, s.tb ? s.k : s.n);
    th_tensor *whole = th_output(tape, dtype, TH_SHAPE(s.batch, s.m, s.n));
    for (ptrdiff_t j = 0; j < s.batch; j++)
      TH__CALL(dtype, gemm, s.ta, s.tb, s.m, s.n, s.k, 1.0, th__at(a, j * s.m * s.k),
               s.ta ? s.m : s.k, th__at(b, j * s.k * s.n), s.tb ? s.k : s.n,
               s.sum && j > 0 ? 1.0 : 0.0, th__at(whole, s.sum ? 0 : j * s.m * s.n), s.n);
    double limit = dtype == TH_F32 ? 2e-4 : 1e-12;
    for (ptrdiff_t j = 0; j < c->count; j++)
      cr_assert(fabs(th__get(c, j) - th__get(whole, j)) <= limit,
                "shape %zu, element %td: %g not %g", i, j, th__get(c, j), th__get(whole, j));
    th_tape_reset(tape);
  }
  th_tape_free(tape);
}

Test(gemm, sizes_beyond_int_are_refused) {
  th_tape *tape = th_tape_new();
  cr_assert(th__blas_sizes(tape, "matmul", 2, (ptrdiff_t[]){5, 2147483647}));
  cr_assert_not(th__blas_sizes(tape, "matmul", 2, (ptrdiff_t[]){5, 2147483648}));
  expect_error(tape, TH_ERR_SHAPE, "2147483648");
  th_tape_free(tape);
}
