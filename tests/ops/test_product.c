/* product: small products on packed operands against plain loops, every size up to several tiles. */
#include "support.h"

#define TH_REAL_BITS 32
#define TH_ISA base
#include "ops/product.h"

enum { SIDE = 80 };

typedef struct operands {
  float a[SIDE * SIDE], b[SIDE * SIDE], c[SIDE * SIDE], packed[SIDE * 2 * SIDE];
} operands;

static operands *new_operands(void) {
  operands *o = malloc(sizeof *o);
  cr_assert_not_null(o);
  for (int i = 0; i < SIDE * SIDE; i++) {
    o->a[i] = (float)(i * 37 % 101 - 50) / 8; /* sums of such products are exact in f32 */
    o->b[i] = (float)(i * 53 % 97 - 48) / 8;
  }
  return o;
}

/* alpha sum_l a_il b_lj, with A and B stored as they are or transposed, rows SIDE apart. */
static float expected(const operands *o, bool ta, bool tb, ptrdiff_t k, float alpha, ptrdiff_t i,
                      ptrdiff_t j) {
  float sum = 0;
  for (ptrdiff_t l = 0; l < k; l++)
    sum += (ta ? o->a[l * SIDE + i] : o->a[i * SIDE + l]) *
           (tb ? o->b[j * SIDE + l] : o->b[l * SIDE + j]);
  return alpha * sum;
}

static void check(operands *o, bool ta, bool tb, bool add, ptrdiff_t m, ptrdiff_t n, ptrdiff_t k) {
  float before = add ? 3 : NAN; /* NaN in C must not survive */
  for (int i = 0; i < SIDE * SIDE; i++) o->c[i] = before;
  for (int i = 0; i < SIDE * 2 * SIDE; i++) o->packed[i] = NAN;
  cr_assert_leq(th__packed(k, n), SIDE * 2 * SIDE);
  if (tb)
    th__pack_transposed(k, n, o->b, SIDE, o->packed);
  else
    cr_assert(th__pack(k, n, o->b, SIDE, o->packed));
  th__left left = {o->a, ta ? 1 : SIDE, ta ? SIDE : 1};
  th__product(m, n, k, 0.5f, left, o->packed, k, add, o->c, SIDE);
  for (ptrdiff_t i = 0; i < SIDE; i++)
    for (ptrdiff_t j = 0; j < SIDE; j++) {
      float got = o->c[i * SIDE + j];
      if (i < m && j < n) {
        float want = expected(o, ta, tb, k, 0.5f, i, j) + (add ? before : 0);
        cr_assert(got == want, "%td x %td x %td, [%td, %td]: %g, not %g", m, n, k, i, j,
                  (double)got, (double)want);
      } else
        cr_assert(add ? got == before : isnan(got), "written beyond C at [%td, %td]", i, j);
    }
}

Test(product, any_size) {
  operands *o = new_operands();
  for (ptrdiff_t m = 0; m <= 13; m++)
    for (ptrdiff_t n = 0; n <= 21; n += 1 + (n > 9))
      for (ptrdiff_t k = 0; k <= 9; k++)
        for (int way = 0; way < 8; way++)
          if ((way + m + n + k) % 3 == 0) /* a third of them: each way meets each size of each side */
            check(o, (way & 1) != 0, (way & 2) != 0, (way & 4) != 0, m, n, k);
  check(o, false, false, false, 80, 80, 80);
  check(o, true, true, true, 79, 77, 75);
  free(o);
}

/* Longer than what is done at once, so that C is visited several times and B comes in several parts. */
Test(product, long_sums_and_wide_operands) {
  enum { M = 7, N = 150, K = 700 };
  float *a = calloc(M * K, sizeof *a), *b = calloc(K * N, sizeof *b);
  float *c = calloc(M * N, sizeof *c), *packed = calloc(K * (N + 64), sizeof *packed);
  cr_assert(a != NULL && b != NULL && c != NULL && packed != NULL);
  for (int i = 0; i < M * K; i++) a[i] = (float)(i % 7 - 3);
  for (int i = 0; i < K * N; i++) b[i] = (float)(i % 11 - 5);
  th__pack(K, N, b, N, packed);
  for (int part = 0; part < 2; part++) { /* all of the packed rows, and the first 300 of them */
    int k = part == 0 ? K : 300;
    th__product(M, N, k, 1, (th__left){a, K, 1}, packed, K, false, c, N);
    for (int i = 0; i < M; i++)
      for (int j = 0; j < N; j++) {
        float want = 0;
        for (int l = 0; l < k; l++) want += a[i * K + l] * b[l * N + j];
        cr_assert_eq(c[i * N + j], want);
      }
  }
  free(a), free(b), free(c), free(packed);
}

/* A row that holds Inf or NaN, anywhere, is packed as zeros; the others as they are. */
Test(product, rows_that_are_not_finite) {
  operands *o = new_operands();
  enum { K = 19, N = 21 };
  cr_assert(th__pack_finite(K, N, o->b, SIDE, o->packed));
  for (int column = 0; column < N; column++) {
    o->b[7 * SIDE + column] = column % 2 ? NAN : INFINITY;
    cr_assert_not(th__pack(K, N, o->b, SIDE, o->packed));
    cr_assert_not(th__pack_finite(K, N, o->b, SIDE, o->packed));
    for (int l = 0; l < K; l++)
      for (int j = 0; j < N; j++) {
        float got = o->packed[j / TH__PANEL * TH__PANEL * K + l * TH__PANEL + j % TH__PANEL];
        cr_assert_eq(got, l == 7 ? 0 : o->b[l * SIDE + j]);
      }
    o->b[7 * SIDE + column] = 1;
  }
  free(o);
}
