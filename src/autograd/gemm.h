/* gemm.h: matrix products on several threads, for the record files (linear, matmul, attention). */
#ifndef TH_AUTOGRAD_GEMM_H
#define TH_AUTOGRAD_GEMM_H

#include "tapehead.h"

/* C = beta C + op(A) op(B), or a batch of such products. op(A) is (m, k), op(B) (k, n), C (m, n), all
 * row-major; ta: A is stored (k, m); tb: B is stored (n, k); lda, ldb, ldc: elements between rows. */
typedef struct th__product {
  th_dtype dtype;
  bool ta, tb;
  ptrdiff_t m, n, k;
  const void *a, *b;
  void *c;
  ptrdiff_t lda, ldb, ldc;
  bool accumulate;  /* beta = 1; otherwise C is overwritten */
  const void *bias; /* not NULL: [n], every row of C starts as this one (accumulate is not read) */

  /* a NULL: op(A) is a row of ones, so that C (1, n) gets the sums of B's columns. It accumulates. */

  /* A batch: `axes` leading axes of these lengths; how far each operand moves along each. */
  int axes;
  ptrdiff_t length[TH_MAX_DIMS], move_a[TH_MAX_DIMS], move_b[TH_MAX_DIMS], move_c[TH_MAX_DIMS];
  bool sum; /* all products of the batch add into one C */
} th__product;

/* Runs the products side by side; their C must not overlap. They are cut into pieces by their sizes
 * alone and no sum is split between pieces: every number of threads gives the same bits. */
void th__products(const th__product *products, int count);
#define TH__MAX_PRODUCTS 3

/* True if two inputs' gradients may share memory: they are one tensor, or views of one. Then products
 * that add to both must run one after the other. Either may be NULL. */
bool th__share_grad(const th_tensor *x, const th_tensor *y);

/* False, with an error on the tape, if BLAS cannot count to one of these sizes. */
bool th__blas_sizes(th_tape *tape, const char *op, int count, const ptrdiff_t *sizes);

/* A matrix of x's last two axes as BLAS wants it: rows `ld` elements apart, stored as (rows, columns)
 * or, if `transposed`, as (columns, rows). False if neither axis is contiguous. */
typedef struct th__matrix {
  bool transposed;
  ptrdiff_t ld;
} th__matrix;
bool th__matrix_of(const th_tensor *x, th__matrix *matrix);

/* All but x's last axis as one axis of evenly spaced rows, `ld` elements apart: then any number of
 * leading axes is one matrix. False if the rows are not evenly spaced or not contiguous. */
bool th__rows_of(const th_tensor *x, ptrdiff_t *rows, ptrdiff_t *ld);

#endif
