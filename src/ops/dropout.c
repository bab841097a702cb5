/* dropout: each element is zeroed with probability p, the others are multiplied by 1 / (1 - p).
 * Shapes    x y dy dx : n elements, contiguous; the first is element 64 `group` of the whole tensor
 * Forward   y_i = k_i x_i / (1 - p), where k_i = 0 with probability p and otherwise 1. Element i of the
 *           tensor takes word (i / 16) mod 4 of block 16 (i / 64) + i mod 16 of the random stream, as
 *           whole vectors of blocks yield them, and k_i = 0 if it is below p 2^32. So k_i is a function
 *           of stream and i alone.
 * Saves     the stream; k is computed again, which costs less than a pass through memory saves
 * Backward  dy_i/dx_i = k_i / (1 - p), so dL/dx_i = k_i g_i / (1 - p) with g = dL/dy
 * Writes    y: overwrites.  dx: accumulates (+=), always.
 * Edges     a NaN or Inf that is dropped becomes 0. The last group may be short.
 * Checks    mean of y = mean of x; same k in both directions.   tests/ops/test_dropout.c */
#include "ops/philox.h"
#include "ops/real.h"

enum { BLOCKS = 16, GROUP = 4 * BLOCKS };

typedef struct mask {
  th__philox stream;
  int32_t limit; /* words below it (as `ordered` has them) drop their element */
  real kept;     /* the factor of the others */
} mask;

/* Order-preserving from unsigned to signed, which is what every instruction set can compare. */
static inline int32_t ordered(uint32_t word) { return (int32_t)(word ^ UINT32_C(0x80000000)); }

static mask start(uint64_t seed, uint32_t purpose, uint64_t step, double p) {
  mask m = {.limit = ordered((uint32_t)(p * 0x1p32)), .kept = (real)(1.0 / (1.0 - p))};
  th__philox_start(&m.stream, seed, purpose, step);
  return m;
}

/* The words of a group; returns how many of the `left` elements it holds. */
static ptrdiff_t draw(const mask *m, uint64_t group, ptrdiff_t left, uint32_t words[GROUP]) {
  for (int i = 0; i < BLOCKS; i += TH__PHILOX_LANES)
    th__philox_blocks(&m->stream, group * BLOCKS + (uint64_t)i, BLOCKS, words + i);
  return left < GROUP ? left : GROUP;
}

void RN(dropout_fwd)(ptrdiff_t n, uint64_t group, uint64_t seed, uint32_t purpose, uint64_t step,
                     double p, const real *restrict x, real *restrict y) {
  mask m = start(seed, purpose, step, p);
  for (ptrdiff_t begin = 0; begin < n; begin += GROUP) {
    uint32_t words[GROUP];
    ptrdiff_t width = draw(&m, group++, n - begin, words);
#pragma omp simd
    for (ptrdiff_t i = 0; i < width; i++) {
      real value = m.kept * x[begin + i];
      y[begin + i] = ordered(words[i]) < m.limit ? 0 : value;
    }
  }
}

void RN(dropout_bwd)(ptrdiff_t n, uint64_t group, uint64_t seed, uint32_t purpose, uint64_t step,
                     double p, const real *restrict dy, real *restrict dx) {
  mask m = start(seed, purpose, step, p);
  for (ptrdiff_t begin = 0; begin < n; begin += GROUP) {
    uint32_t words[GROUP];
    ptrdiff_t width = draw(&m, group++, n - begin, words);
#pragma omp simd
    for (ptrdiff_t i = 0; i < width; i++) {
      real g = m.kept * dy[begin + i];
      dx[begin + i] += ordered(words[i]) < m.limit ? 0 : g;
    }
  }
}
