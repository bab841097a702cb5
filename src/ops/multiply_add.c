/* multiply_add: how fast this core multiplies and adds, for `tapehead bench`; no op.
 * Does       `steps` rounds of c_i = a c_i + b on CHAINS independent vectors, enough of them to hide
 *            the latency of the fused operation on two ports, few enough to stay in registers.
 * Writes     flops: the number of operations done; it depends on the c_i, so that none can be left out. */
#include "ops/real.h"

#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#elif defined(__AVX2__)
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif

typedef real vector __attribute__((vector_size(VECTOR_BYTES)));
enum { LANES = VECTOR_BYTES / sizeof(real), CHAINS = 10 };

void RN(multiply_add)(ptrdiff_t steps, double *flops) {
  const vector zero = {0}, a = zero + RC(0.999), b = zero + RC(1e-3);
  vector c[CHAINS];
  for (int i = 0; i < CHAINS; i++) c[i] = zero + (real)i;
  for (ptrdiff_t s = 0; s < steps; s++) {
#pragma GCC unroll 10
    for (int i = 0; i < CHAINS; i++) c[i] = a * c[i] + b;
  }
  vector sum = zero;
  for (int i = 0; i < CHAINS; i++) sum += c[i];
  double total = 0;
  for (int i = 0; i < (int)LANES; i++) total += (double)sum[i];
  /* The chains converge to b / (1 - a) = 1: the comparison is always true, but not to the compiler. */
  *flops = total > 0 ? 2.0 * (double)steps * CHAINS * LANES : 0;
}
