/* gemm: C = alpha op(A) op(B) + beta C, row-major, by BLAS on the calling thread.
 * Shapes    op(A): (m, k), op(B): (k, n), C: (m, n); ta: A is stored (k, m); tb: B is stored (n, k)
 *           lda, ldb, ldc: elements from one stored row to the next
 * Writes    C.  beta = 0 overwrites, whatever C held before (NaN too); beta = 1 accumulates.
 * Edges     k = 0: C = beta C.  m = 0 or n = 0: nothing.  m = 1 or n = 1: matrix times vector, which
 *           saves BLAS the packing of the matrix (measured: 4 to 5 times as fast). A row times rows
 *           (th_linear of one token) is a loop here: 4 rows at a time read memory faster than
 *           OpenBLAS 0.3.21 (measured: 3.1 MB in 47 us, not 57).
 * Limits    sizes and row lengths fit an int: checked where a product is recorded (autograd/gemm.h).
 * tests/ops/test_matmul.c */
#include <cblas.h>

#include "ops/product.h"
#include "ops/real.h"

#if TH_REAL_BITS == 32
#define BLAS_GEMM cblas_sgemm
#define BLAS_GEMV cblas_sgemv
#else
#define BLAS_GEMM cblas_dgemm
#define BLAS_GEMV cblas_dgemv
#endif

/* C = beta C. Zero is written, not multiplied by: 0 * NaN is NaN. */
static void scale(ptrdiff_t m, ptrdiff_t n, double beta, real *c, ptrdiff_t ldc) {
  for (ptrdiff_t i = 0; i < m; i++)
    for (ptrdiff_t j = 0; j < n; j++)
      c[i * ldc + j] = beta == 0.0 ? 0 : c[i * ldc + j] * (real)beta;
}

void RN(gemm)(bool ta, bool tb, ptrdiff_t m, ptrdiff_t n, ptrdiff_t k, double alpha, const real *a,
              ptrdiff_t lda, const real *b, ptrdiff_t ldb, double beta, real *c, ptrdiff_t ldc) {
  if (m == 0 || n == 0) return;
  if (m == 1 && tb && (!ta || lda == 1)) {
    th__row_times_rows(n, k, (real)alpha, a, b, ldb, (real)beta, c);
    return;
  }
  bool vector = m == 1 || n == 1;
  /* Builds of BLAS differ in what they make of beta when k = 0, and for vectors when beta = 0. */
  if (k == 0 || (vector && beta == 0.0)) {
    scale(m, n, beta, c, ldc);
    if (k == 0) return;
    beta = 1.0;
  }
  if (m == 1)
    BLAS_GEMV(CblasRowMajor, tb ? CblasNoTrans : CblasTrans, (int)(tb ? n : k), (int)(tb ? k : n),
              (real)alpha, b, (int)ldb, a, (int)(ta ? lda : 1), (real)beta, c, 1);
  else if (n == 1)
    BLAS_GEMV(CblasRowMajor, ta ? CblasTrans : CblasNoTrans, (int)(ta ? k : m), (int)(ta ? m : k),
              (real)alpha, a, (int)lda, b, (int)(tb ? 1 : ldb), (real)beta, c, (int)ldc);
  else
    BLAS_GEMM(CblasRowMajor, ta ? CblasTrans : CblasNoTrans, tb ? CblasTrans : CblasNoTrans, (int)m,
              (int)n, (int)k, (real)alpha, a, (int)lda, b, (int)ldb, (real)beta, c, (int)ldc);
}
