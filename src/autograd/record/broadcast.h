/* broadcast.h: what add, sub and mul share: aligning two shapes as NumPy does, and adding an operand's
 * gradient up again where it was stretched. */
#ifndef TH_AUTOGRAD_RECORD_BROADCAST_H
#define TH_AUTOGRAD_RECORD_BROADCAST_H

#include "autograd/tape.h"

/* An op's forward kernel in both precisions: y_i from a_i and b_i, i < n, with the strides given. */
typedef struct th__pair_kernel {
  void (*f32)(ptrdiff_t n, const float *a, ptrdiff_t sa, const float *b, ptrdiff_t sb, float *y);
  void (*f64)(ptrdiff_t n, const double *a, ptrdiff_t sa, const double *b, ptrdiff_t sb, double *y);
} th__pair_kernel;

/* Checks a and b, computes and records op(a, b). */
th_tensor *th__pair(th_tape *tape, const th_op *op, th__pair_kernel kernel, th_tensor *a,
                    th_tensor *b);

/* Adds sign * dL/dy, times `other` element by element unless it is NULL, to the gradient of input i,
 * summed over the axes along which input i was stretched. sign: 1 or -1. */
th_status th__operand_backward(th_node *node, int i, double sign, const th_tensor *other);

#endif
