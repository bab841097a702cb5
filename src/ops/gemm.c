/* gemm: C = alpha op(A) op(B) + beta C, row-major, by BLAS on the calling thread.
 * Shapes    op(A): (m, k), op(B): (k, n), C: (m, n); ta: A is stored (k, m); tb: B is stored (n, k)
 *           lda, ldb, ldc: elements from one stored row to the next
 * Writes    C.  beta = 0 overwrites, whatever C held before (NaN too); beta = 1 accumulates.
 * Edges     k = 0: C = beta C.  m = 0 or n = 0: nothing.   tests/ops/test_matmul.c */
#include <cblas.h>

#include "ops/real.h"

#if TH_REAL_BITS == 32
#define BLAS_GEMM cblas_sgemm
#else
#define BLAS_GEMM cblas_dgemm
#endif

void RN(gemm)(bool ta, bool tb, ptrdiff_t m, ptrdiff_t n, ptrdiff_t k, double alpha, const real *a,
              ptrdiff_t lda, const real *b, ptrdiff_t ldb, double beta, real *c, ptrdiff_t ldc) {
  if (m == 0 || n == 0) return;
  /* BLAS leaves C alone for k = 0 in some builds, and 0 * NaN is NaN in others. */
  if (beta == 0.0 && k == 0) {
    for (ptrdiff_t i = 0; i < m; i++)
      for (ptrdiff_t j = 0; j < n; j++) c[i * ldc + j] = 0;
    return;
  }
  if (k == 0) return;
  BLAS_GEMM(CblasRowMajor, ta ? CblasTrans : CblasNoTrans, tb ? CblasTrans : CblasNoTrans, (int)m,
            (int)n, (int)k, (real)alpha, a, (int)lda, b, (int)ldb, (real)beta, c, (int)ldc);
}
