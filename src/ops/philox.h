/* philox.h: Philox4x32-10 (Salmon et al. 2011, doi:10.1145/2063384.2063405) for whole vectors, the
 * same numbers as th_random_bits (tensor/random.c): a block of four 32-bit words is a function of the
 * stream and of the block's number.
 *
 * A 64-bit lane computes one block and holds each word in its lower half; what is in the upper half
 * does not matter, because the 32 x 32 -> 64-bit product, one instruction on x86, reads lower halves
 * only. Compilers do not find that instruction by themselves without a dozen shuffles around it. */
#ifndef TH_OPS_PHILOX_H
#define TH_OPS_PHILOX_H

#include <Random123/philox.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
#define TH__PHILOX_BYTES 64
#elif defined(__AVX2__)
#define TH__PHILOX_BYTES 32
#else
#define TH__PHILOX_BYTES 16
#endif

enum { TH__PHILOX_LANES = TH__PHILOX_BYTES / 8 };
typedef uint64_t th__lanes __attribute__((vector_size(TH__PHILOX_BYTES)));
typedef uint32_t th__half_lanes __attribute__((vector_size(TH__PHILOX_BYTES / 2)));

/* Lower half of a times lower half of b. */
static inline th__lanes th__low_product(th__lanes a, th__lanes b) {
#if defined(__AVX512F__)
  return (th__lanes)_mm512_mul_epu32((__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
  return (th__lanes)_mm256_mul_epu32((__m256i)a, (__m256i)b);
#elif defined(__SSE2__)
  return (th__lanes)_mm_mul_epu32((__m128i)a, (__m128i)b);
#else
  return (a & UINT32_MAX) * (b & UINT32_MAX);
#endif
}

/* A stream, ready for use: words 2 and 3 of the counter, and the key of each round. */
enum { TH__PHILOX_ROUNDS = 10 };
typedef struct th__philox {
  th__lanes step, purpose, keys[TH__PHILOX_ROUNDS][2];
} th__philox;

static inline void th__philox_start(th__philox *stream, uint64_t seed, uint32_t purpose,
                                    uint64_t step) {
  const th__lanes zero = {0};
  stream->step = zero + (uint32_t)step;
  stream->purpose = zero + purpose;
  uint32_t key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32) ^ (uint32_t)(step >> 32);
  for (int round = 0; round < TH__PHILOX_ROUNDS; round++) {
    stream->keys[round][0] = zero + key0;
    stream->keys[round][1] = zero + key1;
    key0 += PHILOX_W32_0;
    key1 += PHILOX_W32_1;
  }
}

/* Blocks first .. first + TH__PHILOX_LANES - 1 of a stream: word w of block first + i goes to
 * words[w * stride + i]. */
static inline void th__philox_blocks(const th__philox *stream, uint64_t first, ptrdiff_t stride,
                                     uint32_t *words) {
  th__lanes place = {0};
  for (int i = 0; i < TH__PHILOX_LANES; i++) place[i] = first + (uint64_t)i;
  const th__lanes zero = {0}, by0 = zero + PHILOX_M4x32_0, by1 = zero + PHILOX_M4x32_1;
  th__lanes word0 = place, word1 = place >> 32, word2 = stream->step, word3 = stream->purpose;
  for (int round = 0; round < TH__PHILOX_ROUNDS; round++) {
    th__lanes product0 = th__low_product(word0, by0), product1 = th__low_product(word2, by1);
    word0 = (product1 >> 32) ^ word1 ^ stream->keys[round][0];
    word2 = (product0 >> 32) ^ word3 ^ stream->keys[round][1];
    word1 = product1;
    word3 = product0;
  }
  const th__lanes result[] = {word0, word1, word2, word3};
  for (int w = 0; w < 4; w++) {
    th__half_lanes lower = __builtin_convertvector(result[w], th__half_lanes);
    memcpy(words + w * stride, &lower, sizeof lower);
  }
}

#endif
