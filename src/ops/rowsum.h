/* rowsum.h: sums over a row without one of its entries, for the ops in which that entry's own gradient
 * is minus the sum of the others (log_softmax, cross_entropy), or whose term is known to be 1
 * (logsumexp).
 *
 * Blocks are summed in `real`, in whole vectors, and the blocks' sums in `acc`. */
#ifndef TH_OPS_ROWSUM_H
#define TH_OPS_ROWSUM_H

#include "ops/real.h"
#include "ops/vecmath.h"

#define TH__BLOCK 512

/* The place of `skip` in the block that starts at `begin`, or -1. */
static inline int th__place(ptrdiff_t skip, ptrdiff_t begin, int n) {
  return skip >= begin && skip - begin < n ? (int)(skip - begin) : -1;
}

/* The loops over a block stand alone: within the loops over blocks compilers cut them up at `skip`
 * and leave half of the pieces to single elements (measured: three times slower). */
#define TH__APART __attribute__((noinline, unused))

static TH__APART real th__block_sum_exp(int n, const real *x, real max, int skip) {
  real sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int j = 0; j < n; j++) {
    real e = th__exp(x[j] - max);
    sum += j == skip ? 0 : e;
  }
  return sum;
}

static TH__APART real th__block_sum(int n, const real *x, int skip) {
  real sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int j = 0; j < n; j++) sum += j == skip ? 0 : x[j];
  return sum;
}

static inline int th__block_length(ptrdiff_t left) {
  return left < TH__BLOCK ? (int)left : TH__BLOCK;
}

/* The place of the first largest entry; of NaN only if there is nothing else. n > 0. */
static inline ptrdiff_t th__largest(ptrdiff_t n, const real *x) {
  real max = -RINF;
#pragma omp simd reduction(max : max)
  for (ptrdiff_t j = 0; j < n; j++) max = x[j] > max ? x[j] : max;
  for (ptrdiff_t j = 0; j < n; j++)
    if (x[j] == max) return j;
  return 0; /* nothing but NaN */
}

/* sum over j != skip of exp(x_j - max) */
static inline acc th__sum_exp(ptrdiff_t n, const real *x, real max, ptrdiff_t skip) {
  acc sum = 0;
  for (ptrdiff_t begin = 0; begin < n; begin += TH__BLOCK) {
    int length = th__block_length(n - begin);
    sum += (acc)th__block_sum_exp(length, x + begin, max, th__place(skip, begin, length));
  }
  return sum;
}

/* sum over j != skip of x_j */
static inline acc th__sum_others(ptrdiff_t n, const real *x, ptrdiff_t skip) {
  acc sum = 0;
  for (ptrdiff_t begin = 0; begin < n; begin += TH__BLOCK) {
    int length = th__block_length(n - begin);
    sum += (acc)th__block_sum(length, x + begin, th__place(skip, begin, length));
  }
  return sum;
}

#endif
