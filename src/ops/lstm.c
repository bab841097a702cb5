/* lstm: a layer of LSTM cells over a whole sequence (Hochreiter & Schmidhuber 1997, with the forget
 * gates of Gers, Schmidhuber & Cummins 2000), backward through time.
 * Shapes    gates: (rows, steps, 4, width);  cells h dh dcells: (rows, steps, width);  c0 h0 carry room:
 *           (rows, width);  W: (4 width, width), all contiguous. A row is one sequence
 * Forward   z_t = u_t + W h_(t-1), cut into z_i, z_f, z_g, z_o; s is the sigmoid:
 *           i = s(z_i),  f = s(z_f),  g = tanh(z_g),  o = s(z_o)
 *           c_t = f c_(t-1) + i g,  h_t = o tanh(c_t)
 *           u = W_x x + b of all steps at once is a product (autograd/record/recurrent.c)
 * Saves     the gates' values and the cells
 * Backward  dh_t and dc_t, the arguments, come from what reads h_t and c_t outside. Step t + 1 reads
 *           both, too. With y = tanh(c_t):
 *           H = dh_t + W^T dz_(t+1)
 *           C = dc_t + H o (1 - y^2) + C_(t+1) f_(t+1)
 *           dz_o = H y o (1 - o),  dz_i = C g i (1 - i),  dz_f = C c_(t-1) f (1 - f),
 *           dz_g = C i (1 - g^2)
 *           In the end dc0 += C_0 f_0 (the carry). Of dz, products over all steps at once, with
 *           h_(-1) = h0:  dW += sum_t dz_t h_(t-1)^T;  dW_x, db, dx as in linear.c;  dh0 += W^T dz_0
 * Writes    gates: u in, values out; in the backward values in, dz out.  cells, h, carry: overwrite.
 * Edges     h0, c0 = NULL: zeros; dcells = NULL: nobody reads the cells.  steps = 0: carry = 0.
 * Checks    against the cell built from linear, sigmoid and tanh, step by step.   tests/ops/test_lstm.c
 *
 * `packed` is W as recurrent_pack() (rnn.c) packs it. */
#include <string.h>

#include "ops/product.h"
#include "ops/real.h"
#include "ops/vecmath.h"

/* Rows of one step lie far apart, where no processor expects them: those of the next step are called
 * into the cache while a product runs. */
static inline void ask_for(ptrdiff_t n, const real *x) {
  const ptrdiff_t line = 64 / (ptrdiff_t)sizeof *x;
  for (ptrdiff_t j = 0; j < n; j += line) __builtin_prefetch(x + j);
}

/* One step of one sequence; z and a are the four gates of a row, before NULL for zeros. */
static void cell(ptrdiff_t n, const real *before, real *restrict a, real *restrict c,
                 real *restrict h) {
#pragma omp simd
  for (ptrdiff_t j = 0; j < n; j++) {
    real i = th__sigmoid(a[j]), f = th__sigmoid(a[n + j]);
    real g = th__tanh(a[2 * n + j]), o = th__sigmoid(a[3 * n + j]);
    a[j] = i;
    a[n + j] = f;
    a[2 * n + j] = g;
    a[3 * n + j] = o;
    c[j] = i * g;
  }
  if (before != NULL) {
#pragma omp simd
    for (ptrdiff_t j = 0; j < n; j++) c[j] += a[n + j] * before[j];
  }
#pragma omp simd
  for (ptrdiff_t j = 0; j < n; j++) h[j] = a[3 * n + j] * th__tanh(c[j]);
}

void RN(lstm_fwd)(ptrdiff_t rows, ptrdiff_t steps, ptrdiff_t width, const real *packed,
                  const real *h0, const real *c0, real *gates, real *cells, real *h) {
  ptrdiff_t apart = steps * width;
  for (ptrdiff_t t = 0; t < steps; t++) {
    real *a = gates + 4 * t * width;
    th__left before = {t > 0 ? h + (t - 1) * width : h0, t > 0 ? apart : width, 1};
    for (ptrdiff_t row = 0; row < rows && t + 1 < steps; row++) {
      ask_for(4 * width, a + 4 * (row * apart + width));
      ask_for(width, cells + (t + 1) * width + row * apart);
      ask_for(width, h + (t + 1) * width + row * apart);
    }
    if (before.a != NULL)
      th__product(rows, 4 * width, width, 1, before, packed, width, true, a, 4 * apart);
    for (ptrdiff_t row = 0; row < rows; row++) {
      real *c = cells + t * width + row * apart;
      const real *last = t > 0 ? c - width : c0 != NULL ? c0 + row * width : NULL;
      cell(width, last, a + 4 * row * apart, c, h + t * width + row * apart);
    }
  }
}

/* The same step backwards: dh has all that reads h; carry brings C_(t+1) f_(t+1) and takes C_t f_t. */
static void cell_back(ptrdiff_t n, const real *before, const real *restrict c,
                      const real *restrict dh, const real *dcell, real *restrict a,
                      real *restrict carry) {
  if (dcell != NULL) {
#pragma omp simd
    for (ptrdiff_t j = 0; j < n; j++) carry[j] += dcell[j];
  }
#pragma omp simd
  for (ptrdiff_t j = 0; j < n; j++) {
    real i = a[j], f = a[n + j], g = a[2 * n + j], o = a[3 * n + j];
    real y = th__tanh(c[j]);
    real dc = carry[j] + dh[j] * o * ((1 - y) * (1 + y));
    a[j] = dc * g * (i * (1 - i));
    a[n + j] = dc * (f * (1 - f)); /* times c_(t-1): below */
    a[2 * n + j] = dc * i * ((1 - g) * (1 + g));
    a[3 * n + j] = dh[j] * y * (o * (1 - o));
    carry[j] = dc * f;
  }
  if (before == NULL)
    memset(a + n, 0, (size_t)n * sizeof *a);
  else {
#pragma omp simd
    for (ptrdiff_t j = 0; j < n; j++) a[n + j] *= before[j];
  }
}

void RN(lstm_bwd)(ptrdiff_t rows, ptrdiff_t steps, ptrdiff_t width, const real *packed,
                  const real *c0, const real *cells, const real *dh, const real *dcells,
                  real *gates, real *carry, real *room) {
  ptrdiff_t apart = steps * width;
  memset(carry, 0, (size_t)(rows * width) * sizeof *carry);
  for (ptrdiff_t t = steps - 1; t >= 0; t--) {
    real *a = gates + 4 * t * width;
    for (ptrdiff_t row = 0; row < rows; row++)
      memcpy(room + row * width, dh + t * width + row * apart, (size_t)width * sizeof *room);
    for (ptrdiff_t row = 0; row < rows && t > 0; row++) {
      ask_for(4 * width, a + 4 * (row * apart - width));
      ask_for(width, cells + (t - 1) * width + row * apart);
      ask_for(width, dh + (t - 1) * width + row * apart);
    }
    if (t + 1 < steps)
      th__product(rows, width, 4 * width, 1, (th__left){a + 4 * width, 4 * apart, 1}, packed,
                  4 * width, true, room, width);
    for (ptrdiff_t row = 0; row < rows; row++) {
      ptrdiff_t at = t * width + row * apart;
      const real *last = t > 0 ? cells + at - width : c0 != NULL ? c0 + row * width : NULL;
      cell_back(width, last, cells + at, room + row * width, dcells != NULL ? dcells + at : NULL,
                a + 4 * row * apart, carry + row * width);
    }
  }
}
