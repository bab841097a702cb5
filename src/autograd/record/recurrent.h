/* recurrent.h: what recording rnn and lstm share: checks, the products over all steps at once. */
#ifndef TH_AUTOGRAD_RECORD_RECURRENT_H
#define TH_AUTOGRAD_RECORD_RECURRENT_H

#include "autograd/tape.h"

/* Inputs of both nodes, in this order; NULL where not given. */
enum { TH__X, TH__H0, TH__W_X, TH__W_H, TH__BIAS, TH__C0, TH__RECURRENT_INPUTS };

typedef struct th__recurrent {
  const char *op;
  ptrdiff_t batch, steps, in, width;
  ptrdiff_t gates; /* rows of the weights: width times 1 (rnn) or 4 (lstm) */
  ptrdiff_t grain; /* sequences per piece */
} th__recurrent;

/* Checks the inputs, makes them contiguous and fills *r. False with an error on the tape. */
bool th__recurrent_check(th_tape *tape, const char *op, int gates, th_tensor **inputs,
                         th__recurrent *r);

/* Sizes of a recorded node. */
th__recurrent th__recurrent_of(const th_node *node, const char *op);

/* u = x W_x^T + b of all steps: u [B, T, gates]. */
void th__recurrent_project(const th__recurrent *r, th_tensor *const *inputs, void *u);

/* W_h in panels, for the products of single steps; NULL when memory ends. */
void *th__recurrent_pack(th_tape *tape, const th__recurrent *r, const th_tensor *w_h,
                         bool transposed);

/* From dz [B, T, gates] and all h [B, T, width]: adds what x, h0 and the weights get. */
th_status th__recurrent_gradients(th_node *node, const th__recurrent *r, const void *dz,
                                  const void *h);

#endif
