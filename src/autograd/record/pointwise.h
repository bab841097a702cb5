/* pointwise.h: what tanh, sigmoid and silu share: recording y_i = f(x_i), whose backward reads x again. */
#ifndef TH_AUTOGRAD_RECORD_POINTWISE_H
#define TH_AUTOGRAD_RECORD_POINTWISE_H

#include "autograd/tape.h"

/* An op's kernels in either precision: y from x, and dx += dy f'(x), for n elements. */
typedef void th__point_forward(th_dtype dtype, ptrdiff_t n, const void *x, void *y);
typedef void th__point_backward(th_dtype dtype, ptrdiff_t n, const void *x, const void *dy,
                                void *dx);

/* Checks x, computes and records f(x). */
th_tensor *th__pointwise(th_tape *tape, const th_op *op, th__point_forward *forward, th_tensor *x);
th_status th__pointwise_backward(th_node *node, th__point_backward *backward);

#endif
