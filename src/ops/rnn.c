/* rnn: a layer of tanh cells over a whole sequence (Elman 1990), backward through time.
 * Shapes    h dh dz: (rows, steps, width), h0: (rows, width), W: (width, width), all contiguous. A row
 *           is one sequence: rows do not know of each other
 * Forward   z_t = u_t + W h_(t-1),  h_t = tanh(z_t);  u = W_x x + b of all steps at once is a product
 *           (autograd/record/recurrent.c) and stands where h is going to be
 * Saves     h, its output
 * Backward  dh_t, the argument, is dL/dh_t of what reads h_t outside. Step t + 1 reads it, too:
 *           dL/dz_t = (dh_t + W^T dL/dz_(t+1)) (1 - h_t^2)     from t = steps - 1 down; 0 beyond the end
 *           What is left is products over all steps at once, with h_(-1) = h0:
 *           dW += sum_t dz_t h_(t-1)^T;  dW_x, db, dx as in linear.c;  dh0 += W^T dz_0
 * Writes    h: u in, h out.  dz: overwrites.
 * Edges     h0 = NULL: zeros.  steps = 0, rows = 0: nothing.
 * Checks    against the cell built from linear, add and tanh, step by step.   tests/ops/test_rnn.c
 *
 * The step's product has few rows and always the same matrix, which is packed once for all steps:
 * recurrent_pack() turns W into panels of W^T for the forward, of W for the backward. */
#include <string.h>

#include "ops/product.h"
#include "ops/real.h"
#include "ops/vecmath.h"

/* x (rows, columns) in panels, of its transpose if asked. */
void RN(recurrent_pack)(bool transposed, ptrdiff_t rows, ptrdiff_t columns, const real *x,
                        real *packed) {
  if (transposed)
    th__pack_transposed(columns, rows, x, columns, packed);
  else
    th__pack(rows, columns, x, columns, packed);
}

void RN(rnn_fwd)(ptrdiff_t rows, ptrdiff_t steps, ptrdiff_t width, const real *packed,
                 const real *h0, real *h) {
  ptrdiff_t apart = steps * width;
  for (ptrdiff_t t = 0; t < steps; t++) {
    real *now = h + t * width;
    th__left before = t > 0 ? (th__left){now - width, apart, 1} : (th__left){h0, width, 1};
    if (before.a != NULL)
      th__product(rows, width, width, 1, before, packed, width, true, now, apart);
    for (ptrdiff_t i = 0; i < rows; i++) {
      real *restrict y = now + i * apart;
#pragma omp simd
      for (ptrdiff_t j = 0; j < width; j++) y[j] = th__tanh(y[j]);
    }
  }
}

void RN(rnn_bwd)(ptrdiff_t rows, ptrdiff_t steps, ptrdiff_t width, const real *packed,
                 const real *h, const real *dh, real *dz) {
  ptrdiff_t apart = steps * width;
  for (ptrdiff_t t = steps - 1; t >= 0; t--) {
    real *now = dz + t * width;
    for (ptrdiff_t i = 0; i < rows; i++)
      memcpy(now + i * apart, dh + t * width + i * apart, (size_t)width * sizeof *dh);
    if (t + 1 < steps)
      th__product(rows, width, width, 1, (th__left){now + width, apart, 1}, packed, width, true,
                  now, apart);
    for (ptrdiff_t i = 0; i < rows; i++) {
      const real *restrict y = h + t * width + i * apart;
      real *restrict g = now + i * apart;
#pragma omp simd
      for (ptrdiff_t j = 0; j < width; j++) g[j] *= (1 - y[j]) * (1 + y[j]);
    }
  }
}
