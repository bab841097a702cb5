/* product.h: C = alpha A B, or C += alpha A B, for the products inside attention: many, with sides of
 * sixteen to some hundreds, on operands that are used several times. BLAS copies both operands in every
 * call; here B is copied once, into panels, and A is read where it lies.
 *
 *   A  (m, k), element (i, l) at a[i * row + l * column]: transposed is a matter of strides
 *   B  (k, n) in panels of TH__PANEL columns; in a panel the rows follow each other, TH__PANEL elements
 *      each, beyond column n filled up with zeros. th__packed(k, n) elements in all
 *   C  (m, n), rows ldc apart
 *
 * A tile of C, 6 rows by 2 vectors, stays in registers while k runs.   tests/ops/test_product.c */
#ifndef TH_OPS_PRODUCT_H
#define TH_OPS_PRODUCT_H

#include <string.h>

#include "ops/real.h"

#if defined(__AVX512F__)
#define TH__VECTOR_BYTES 64
#elif defined(__AVX__)
#define TH__VECTOR_BYTES 32
#else
#define TH__VECTOR_BYTES 16
#endif

/* GNU C vectors (gcc and clang), at any address. */
typedef real th__vector
    __attribute__((vector_size(TH__VECTOR_BYTES), aligned(TH_REAL_BITS / 8), may_alias));

enum {
  TH__LANES = TH__VECTOR_BYTES / (int)sizeof(real),
  TH__PANEL = 2 * TH__LANES,
  TH__TILE = 6,    /* rows of C in registers */
  TH__DEPTH = 256, /* steps of k between two visits to C, and */
  TH__PART = 16384 /* elements of B for which all rows of C are done: they stay in the cache */
};

/* ---- packing ---- */

/* x * 0 is 0 for every finite x and NaN for Inf and NaN, and a sum keeps a NaN. */
static inline bool th__finite_row(ptrdiff_t n, const real *x) {
  real sum = 0;
#pragma omp simd reduction(+ : sum)
  for (ptrdiff_t j = 0; j < n; j++) sum += x[j] * 0;
  return sum == 0;
}

/* One row of one panel; adds x * 0 to `probe`. */
static inline void th__pack_row(ptrdiff_t columns, const real *restrict from, real *restrict to,
                                th__vector *probe) {
  if (columns < TH__PANEL) {
    for (ptrdiff_t c = 0; c < TH__PANEL; c++) to[c] = c < columns ? from[c] : 0;
    from = to;
  }
  th__vector x0 = *(const th__vector *)from, x1 = *(const th__vector *)(from + TH__LANES);
  *(th__vector *)to = x0;
  *(th__vector *)(to + TH__LANES) = x1;
  *probe += x0 * 0 + x1 * 0;
}

/* Elements of a packed B (k, n). */
static inline ptrdiff_t th__packed(ptrdiff_t k, ptrdiff_t n) {
  return (n + TH__PANEL - 1) / TH__PANEL * TH__PANEL * k;
}

/* B = x (k, n), rows ldx apart. False if Inf or NaN was among it. Some rows at a time: each may lie in
 * a page of its own. */
static inline bool th__pack(ptrdiff_t k, ptrdiff_t n, const real *x, ptrdiff_t ldx, real *packed) {
  th__vector probe = {0};
  for (ptrdiff_t begin = 0, end; begin < k; begin = end) {
    end = begin + 16 < k ? begin + 16 : k;
    for (ptrdiff_t j = 0; j < n; j += TH__PANEL)
      for (ptrdiff_t l = begin; l < end; l++)
        th__pack_row(n - j, x + l * ldx + j, packed + j * k + l * TH__PANEL, &probe);
  }
  real sum = 0;
  for (int i = 0; i < TH__LANES; i++) sum += probe[i];
  return sum == 0;
}

/* The same with zeros in each row that holds Inf or NaN; false if there was one. */
static inline bool th__pack_finite(ptrdiff_t k, ptrdiff_t n, const real *x, ptrdiff_t ldx,
                                   real *packed) {
  if (th__pack(k, n, x, ldx, packed)) return true;
  for (ptrdiff_t l = 0; l < k; l++)
    for (ptrdiff_t j = 0; j < n && !th__finite_row(n, x + l * ldx); j += TH__PANEL)
      memset(packed + j * k + l * TH__PANEL, 0, TH__PANEL * sizeof *packed);
  return false;
}

#if TH_REAL_BITS == 32 && defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define TH__QUADS
#endif
#endif

#ifdef TH__QUADS
typedef float th__quad __attribute__((vector_size(16), aligned(4), may_alias));

/* Four rows of x, from column l on, become four rows of four in a panel. */
static inline void th__turn_quad(const float *x, ptrdiff_t ldx, float *to) {
  th__quad a = *(const th__quad *)x, b = *(const th__quad *)(x + ldx);
  th__quad c = *(const th__quad *)(x + 2 * ldx), d = *(const th__quad *)(x + 3 * ldx);
  th__quad ac0 = __builtin_shufflevector(a, c, 0, 4, 1, 5);
  th__quad ac1 = __builtin_shufflevector(a, c, 2, 6, 3, 7);
  th__quad bd0 = __builtin_shufflevector(b, d, 0, 4, 1, 5);
  th__quad bd1 = __builtin_shufflevector(b, d, 2, 6, 3, 7);
  *(th__quad *)to = __builtin_shufflevector(ac0, bd0, 0, 4, 1, 5);
  *(th__quad *)(to + TH__PANEL) = __builtin_shufflevector(ac0, bd0, 2, 6, 3, 7);
  *(th__quad *)(to + 2 * TH__PANEL) = __builtin_shufflevector(ac1, bd1, 0, 4, 1, 5);
  *(th__quad *)(to + 3 * TH__PANEL) = __builtin_shufflevector(ac1, bd1, 2, 6, 3, 7);
}
#endif

/* B = x^T, x (n, k), rows ldx apart. */
static inline void th__pack_transposed(ptrdiff_t k, ptrdiff_t n, const real *x, ptrdiff_t ldx,
                                       real *packed) {
  for (ptrdiff_t j = 0; j < n; j += TH__PANEL, packed += k * TH__PANEL) {
    ptrdiff_t c = 0, columns = n - j < TH__PANEL ? n - j : TH__PANEL;
#ifdef TH__QUADS
    for (; c + 4 <= columns; c += 4) {
      const real *from = x + (j + c) * ldx;
      ptrdiff_t l = 0;
      for (; l + 4 <= k; l += 4) th__turn_quad(from + l, ldx, packed + l * TH__PANEL + c);
      for (; l < k; l++)
        for (int i = 0; i < 4; i++) packed[l * TH__PANEL + c + i] = from[i * ldx + l];
    }
#endif
    for (; c < TH__PANEL; c++)
      for (ptrdiff_t l = 0; l < k; l++)
        packed[l * TH__PANEL + c] = c < columns ? x[(j + c) * ldx + l] : 0;
  }
}

/* ---- products ---- */

typedef struct th__left {
  const real *a;
  ptrdiff_t row, column; /* steps from one row, and from one column, to the next */
} th__left;

#define TH__ROWS(X) X(0) X(1) X(2) X(3) X(4) X(5)

/* `rows` is a constant wherever this is inlined: what is beyond it disappears. */
static inline __attribute__((always_inline)) void th__tile(const int rows, ptrdiff_t k, real alpha,
                                                           th__left left, const real *b,
                                                           ptrdiff_t columns, bool add, real *c,
                                                           ptrdiff_t ldc) {
  const real *a = left.a;
#define X(i) th__vector sum##i##0 = {0}, sum##i##1 = {0};
  TH__ROWS(X)
#undef X
  for (ptrdiff_t l = 0; l < k; l++, a += left.column, b += TH__PANEL) {
    th__vector b0 = *(const th__vector *)b, b1 = *(const th__vector *)(b + TH__LANES);
#define X(i)                                                                                       \
  if (rows > i) {                                                                                  \
    real factor = a[i * left.row];                                                                 \
    sum##i##0 += factor * b0;                                                                      \
    sum##i##1 += factor * b1;                                                                      \
  }
    TH__ROWS(X)
#undef X
  }
  if (columns >= TH__PANEL) {
#define X(i)                                                                                       \
  if (rows > i) {                                                                                  \
    th__vector *c0 = (th__vector *)(c + i * ldc), *c1 = (th__vector *)(c + i * ldc + TH__LANES);   \
    *c0 = alpha * sum##i##0 + (add ? *c0 : (th__vector){0});                                       \
    *c1 = alpha * sum##i##1 + (add ? *c1 : (th__vector){0});                                       \
  }
    TH__ROWS(X)
#undef X
    return;
  }
  real part[TH__TILE * TH__PANEL];
#define X(i)                                                                                       \
  if (rows > i) {                                                                                  \
    *(th__vector *)(part + i * TH__PANEL) = alpha * sum##i##0;                                     \
    *(th__vector *)(part + i * TH__PANEL + TH__LANES) = alpha * sum##i##1;                         \
  }
  TH__ROWS(X)
#undef X
  for (int i = 0; i < rows; i++)
    for (ptrdiff_t j = 0; j < columns; j++)
      c[i * ldc + j] = part[i * TH__PANEL + j] + (add ? c[i * ldc + j] : 0);
}

/* Up to 6 rows of C against several panels of B, `step` elements apart. */
static inline __attribute__((always_inline)) void th__strip(const int rows, ptrdiff_t n,
                                                            ptrdiff_t k, real alpha, th__left left,
                                                            const real *b, ptrdiff_t step, bool add,
                                                            real *c, ptrdiff_t ldc) {
  for (ptrdiff_t j = 0; j < n; j += TH__PANEL, b += step)
    th__tile(rows, k, alpha, left, b, n - j, add, c + j, ldc);
}

static inline void th__rows(ptrdiff_t m, ptrdiff_t n, ptrdiff_t k, real alpha, th__left left,
                            const real *b, ptrdiff_t step, bool add, real *c, ptrdiff_t ldc) {
  for (; m >= TH__TILE; m -= TH__TILE, left.a += TH__TILE * left.row, c += TH__TILE * ldc)
    th__strip(TH__TILE, n, k, alpha, left, b, step, add, c, ldc);
  switch (m) {
  case 5: th__strip(5, n, k, alpha, left, b, step, add, c, ldc); break;
  case 4: th__strip(4, n, k, alpha, left, b, step, add, c, ldc); break;
  case 3: th__strip(3, n, k, alpha, left, b, step, add, c, ldc); break;
  case 2: th__strip(2, n, k, alpha, left, b, step, add, c, ldc); break;
  case 1: th__strip(1, n, k, alpha, left, b, step, add, c, ldc); break;
  default: break;
  }
}

/* B was packed with `depth` rows, of which the first k are used; of its columns the first n. */
static inline void th__product(ptrdiff_t m, ptrdiff_t n, ptrdiff_t k, real alpha, th__left left,
                               const real *b, ptrdiff_t depth, bool add, real *c, ptrdiff_t ldc) {
  ptrdiff_t done = 0;
  do { /* also for k = 0, where C becomes 0 */
    ptrdiff_t steps = k - done < TH__DEPTH ? k - done : TH__DEPTH;
    ptrdiff_t width = TH__PART / (steps + 1) / TH__PANEL * TH__PANEL + TH__PANEL;
    for (ptrdiff_t j = 0; j < n; j += width)
      th__rows(m, n - j < width ? n - j : width, steps, alpha, left,
               b + j * depth + done * TH__PANEL, depth * TH__PANEL, add, c + j, ldc);
    add = true;
    done += steps;
    left.a += steps * left.column;
  } while (done < k);
}

/* ---- one row ---- */

enum { TH__TOGETHER = 4 }; /* rows of B: as many streams from memory, as many sums in registers */

static inline real th__sum_of(th__vector x) {
  real sum = 0;
  for (int i = 0; i < TH__LANES; i++) sum += x[i];
  return sum;
}

/* c_j = beta c_j + alpha a . b_j of up to 4 rows b_j. While one set is read, the next is asked for. */
static inline __attribute__((always_inline)) void th__some_rows(const int rows, ptrdiff_t k,
                                                                real alpha, const real *a,
                                                                const real *b, ptrdiff_t ldb,
                                                                real beta, real *c) {
  th__vector sums[TH__TOGETHER] = {0};
  real rest[TH__TOGETHER] = {0};
  ptrdiff_t l = 0;
  for (; l + TH__LANES <= k; l += TH__LANES) {
    th__vector x = *(const th__vector *)(a + l);
    for (int i = 0; i < rows; i++) {
      const real *row = b + i * ldb + l;
      sums[i] += x * *(const th__vector *)row;
      __builtin_prefetch(row + TH__TOGETHER * ldb);
    }
  }
  for (; l < k; l++)
    for (int i = 0; i < rows; i++) rest[i] += a[l] * b[i * ldb + l];
  for (int i = 0; i < rows; i++)
    c[i] = alpha * (th__sum_of(sums[i]) + rest[i]) + (beta == 0 ? 0 : beta * c[i]);
}

/* c_j = beta c_j + alpha a . b_j for the n rows b_j of B, which is not packed. */
static inline void th__row_times_rows(ptrdiff_t n, ptrdiff_t k, real alpha, const real *a,
                                      const real *b, ptrdiff_t ldb, real beta, real *c) {
  ptrdiff_t j = 0;
  for (; j + TH__TOGETHER <= n; j += TH__TOGETHER, b += TH__TOGETHER * ldb)
    th__some_rows(TH__TOGETHER, k, alpha, a, b, ldb, beta, c + j);
  for (; j < n; j++, b += ldb) th__some_rows(1, k, alpha, a, b, ldb, beta, c + j);
}

#endif
