/* angles: sines and cosines of position * base^(-2i/width), for rope and sinusoidal.
 * Shapes    pairs begin <= i < end of `rows` positions from `position` on; pair i of row t goes to
 *           sine[t ld + i step] and cosine[t ld + i step]
 * Forward   Each entry depends on position and i only, whatever the range asked for, so that a text
 *           continued token by token has the bits of the whole. Position p = 32 a + b, 0 <= b < 32:
 *           cos p w = cos(32 a w) cos(b w) - sin(32 a w) sin(b w);  sin likewise: of 32 rows one calls
 *           the C library.
 *           An angle of 10^6 radians as one double is wrong by 10^-10. It is kept as angle + rest, w
 *           too, and sin(angle + rest) = sin(angle) + rest cos(angle) - rest^2 sin(angle) / 2.
 * Writes    sine, cosine: overwrites.
 * Edges     position 0: sine 0, cosine 1, exactly.  Right to rounding up to positions of 10^6, and to
 *           10^-7 up to 2^40.
 * Checks    against 60 digits.   tests/ops/test_sinusoidal.c, tests/ops/test_rope.c */
#include "ops/real.h"

#define BLOCK 32

static void turn(acc position, acc w, acc w_rest, acc *sine, acc *cosine) {
  acc angle = position * w;
  acc rest = fma(position, w, -angle) + position * w_rest;
  acc s = sin(angle), c = cos(angle);
  *sine = s + rest * (c - s * rest / 2);
  *cosine = c - rest * (s + c * rest / 2);
}

/* The rows of one pair. */
static void column(ptrdiff_t position, ptrdiff_t rows, acc w, acc w_rest, ptrdiff_t ld, real *sine,
                   real *cosine) {
  acc fine_s[BLOCK], fine_c[BLOCK];
  bool made[BLOCK] = {false};
  for (ptrdiff_t t = 0; t < rows;) {
    ptrdiff_t b = (position + t) % BLOCK, start = position + t - b;
    acc s, c;
    turn((acc)start, w, w_rest, &s, &c);
    for (; b < BLOCK && t < rows; b++, t++) {
      if (!made[b]) turn((acc)b, w, w_rest, &fine_s[b], &fine_c[b]);
      made[b] = true;
      sine[t * ld] = (real)(s * fine_c[b] + c * fine_s[b]);
      cosine[t * ld] = (real)(c * fine_c[b] - s * fine_s[b]);
    }
  }
}

void RN(angles)(ptrdiff_t position, ptrdiff_t rows, ptrdiff_t begin, ptrdiff_t end, ptrdiff_t width,
                double base, ptrdiff_t ld, ptrdiff_t step, real *sine, real *cosine) {
  for (ptrdiff_t i = begin; i < end; i++) {
    long double w = powl((long double)base, -2 * (long double)i / (long double)width);
    acc high = (acc)w;
    column(position, rows, high, (acc)(w - (long double)high), ld, sine + i * step,
           cosine + i * step);
  }
}
