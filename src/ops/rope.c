/* rope: rotary positions, each pair of a row turned by an angle that grows with the row's position.
 * Shapes    x dx: (rows, 2 half), rows ldx elements apart; y dy: (rows, 2 half), contiguous;
 *           turns: (rows, 2 half), of each row the cosines, then the sines (angles.c)
 * Forward   pair i of row t, (a, b) = (x[i], x[half + i]), or (x[2i], x[2i + 1]) if interleaved, with
 *           c, s = cos, sin of (position of t) base^(-i/half):
 *           y_a = a c - b s;  y_b = a s + b c
 * Saves     turns, shared by all heads, and by all calls with the same positions
 * Backward  the matrix (c -s; s c) transposed, which is the turn by the negated angle:
 *           dL/da = g_a c + g_b s;  dL/db = g_b c - g_a s
 * Writes    y: overwrites.  dx: accumulates (+=), always.
 * Edges     position 0: y = x, dx = g, exactly.
 * Checks    |y| = |x|; rope(q, m) . rope(k, n) depends on m - n only.   tests/ops/test_rope.c */
#include "ops/real.h"

void RN(rope_fwd)(ptrdiff_t rows, ptrdiff_t half, bool interleaved, const real *turns,
                  const real *x, ptrdiff_t ldx, real *y) {
  for (ptrdiff_t t = 0; t < rows; t++) {
    const real *restrict c = turns + 2 * half * t, *restrict s = c + half;
    const real *restrict xt = x + ldx * t;
    real *restrict yt = y + 2 * half * t;
    if (!interleaved) {
#pragma omp simd
      for (ptrdiff_t i = 0; i < half; i++) {
        yt[i] = xt[i] * c[i] - xt[half + i] * s[i];
        yt[half + i] = xt[i] * s[i] + xt[half + i] * c[i];
      }
    } else {
#pragma omp simd
      for (ptrdiff_t i = 0; i < half; i++) {
        yt[2 * i] = xt[2 * i] * c[i] - xt[2 * i + 1] * s[i];
        yt[2 * i + 1] = xt[2 * i] * s[i] + xt[2 * i + 1] * c[i];
      }
    }
  }
}

void RN(rope_bwd)(ptrdiff_t rows, ptrdiff_t half, bool interleaved, const real *turns,
                  const real *dy, real *dx, ptrdiff_t ldx) {
  for (ptrdiff_t t = 0; t < rows; t++) {
    const real *restrict c = turns + 2 * half * t, *restrict s = c + half;
    const real *restrict gt = dy + 2 * half * t;
    real *restrict dt = dx + ldx * t;
    if (!interleaved) {
#pragma omp simd
      for (ptrdiff_t i = 0; i < half; i++) {
        dt[i] += gt[i] * c[i] + gt[half + i] * s[i];
        dt[half + i] += gt[half + i] * c[i] - gt[i] * s[i];
      }
    } else {
#pragma omp simd
      for (ptrdiff_t i = 0; i < half; i++) {
        dt[2 * i] += gt[2 * i] * c[i] + gt[2 * i + 1] * s[i];
        dt[2 * i + 1] += gt[2 * i + 1] * c[i] - gt[2 * i] * s[i];
      }
    }
  }
}
