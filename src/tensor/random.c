/* random.c: counter-based random numbers. The 64-bit seed is Philox's key; purpose, step and the
 * number's own place are its counter, so a number depends on nothing but these. */
#include <Random123/philox.h>
#include <math.h>

#include "tapehead.h"
#include "tensor/parallel.h"
#include "tensor/tensor.h"

/* Counter words: 0 and 1 hold the place i (4 words a block, so 2 numbers of 64 bits), 2 and 3 hold
 * step and purpose. Steps beyond 2^32 fold their upper half into the key. */
static philox4x32_ctr_t block(th_random stream, uint64_t place) {
  philox4x32_ctr_t counter = {
      {(uint32_t)place, (uint32_t)(place >> 32), (uint32_t)stream.step, stream.purpose}};
  philox4x32_key_t key = {
      {(uint32_t)stream.seed, (uint32_t)(stream.seed >> 32) ^ (uint32_t)(stream.step >> 32)}};
  return philox4x32(counter, key);
}

static uint64_t half(philox4x32_ctr_t words, int which) {
  return words.v[2 * which] | (uint64_t)words.v[2 * which + 1] << 32;
}

static double to_uniform(uint64_t bits) { return (double)(bits >> 11) * 0x1p-53; }

uint64_t th_random_bits(th_random stream, uint64_t i) {
  return half(block(stream, i >> 1), (int)(i & 1));
}

double th_random_uniform(th_random stream, uint64_t i) {
  return to_uniform(th_random_bits(stream, i));
}

/* Box and Muller 1958: a block of two uniforms gives the pair of normals 2j and 2j+1. */
static void normal_pair(th_random stream, uint64_t j, double *first, double *second) {
  philox4x32_ctr_t words = block(stream, j);
  double radius = sqrt(-2.0 * log1p(-to_uniform(half(words, 0))));
  double angle = 2.0 * 3.14159265358979323846 * to_uniform(half(words, 1));
  *first = radius * cos(angle);
  *second = radius * sin(angle);
}

double th_random_normal(th_random stream, uint64_t i) {
  double pair[2];
  normal_pair(stream, i >> 1, &pair[0], &pair[1]);
  return pair[i & 1];
}

/* The upper half of a 64 x 64-bit product: its bias, limit / 2^64, is far below anything measurable. */
uint64_t th_random_below(th_random stream, uint64_t i, uint64_t limit) {
  return (uint64_t)(((unsigned __int128)th_random_bits(stream, i) * limit) >> 64);
}

/* ---- filling tensors ---- */

/* Number i of the stream goes to element i, so pieces may be filled in any order. Views are filled
 * here too, element by element; they are small. */
typedef struct filling {
  th_tensor *tensor;
  th_random stream;
  bool normal;
  double a, b; /* mean and sd, or low and high - low */
} filling;

static void fill_piece(const void *context, ptrdiff_t begin, ptrdiff_t end) {
  const filling *f = context;
  bool dense = th_tensor_is_contiguous(f->tensor); /* otherwise the only piece: it starts at 0 */
  ptrdiff_t index[TH_MAX_DIMS] = {0}, offset = dense ? begin : 0;
  double pair[2] = {0, 0};
  for (ptrdiff_t i = begin; i < end; i++) {
    if (f->normal && i % 2 == 0) normal_pair(f->stream, (uint64_t)i / 2, &pair[0], &pair[1]);
    double draw = f->normal ? pair[i % 2] : th_random_uniform(f->stream, (uint64_t)i);
    th__set(f->tensor, offset, f->a + f->b * draw);
    offset = dense ? i + 1 : th__next_offset(f->tensor, index, offset);
  }
}

#define FILL_GRAIN 4096 /* even: a pair of normals lies in one piece */

static void fill(const filling *f) {
  ptrdiff_t count = f->tensor->count;
  th__parallel(count, th_tensor_is_contiguous(f->tensor) ? FILL_GRAIN : count, fill_piece, f);
}

void th_init_normal(th_tensor *tensor, double mean, double sd, th_random stream) {
  if (tensor == NULL) return;
  fill(&(filling){.tensor = tensor, .stream = stream, .normal = true, .a = mean, .b = sd});
}

void th_init_uniform(th_tensor *tensor, double low, double high, th_random stream) {
  if (tensor == NULL) return;
  fill(&(filling){.tensor = tensor, .stream = stream, .a = low, .b = high - low});
}
