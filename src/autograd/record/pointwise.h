/* pointwise.h: what relu, tanh, sigmoid and silu share: recording y_i = f(x_i), whose backward reads x or y
 * again. */
#ifndef TH_AUTOGRAD_RECORD_POINTWISE_H
#define TH_AUTOGRAD_RECORD_POINTWISE_H

#include "autograd/record/cases.h"
#include "autograd/tape.h"

/* An op's forward kernel in both precisions, y from x, n elements; and what an element costs. */
typedef struct th__point_forward {
  void (*f32)(ptrdiff_t n, const float *x, float *y);
  void (*f64)(ptrdiff_t n, const double *x, double *y);
  ptrdiff_t cost;
} th__point_forward;

/* Its backward kernel: dx += dy f', from x or y. */
typedef struct th__point_backward {
  void (*f32)(ptrdiff_t n, const float *from, const float *dy, float *dx);
  void (*f64)(ptrdiff_t n, const double *from, const double *dy, double *dx);
  ptrdiff_t cost;
} th__point_backward;

/* Checks x, computes and records f(x). */
th_tensor *th__pointwise(th_tape *tape, const th_op *op, th__point_forward kernel, th_tensor *x);
/* from: the node's input or output, whichever the kernel reads. */
th_status th__pointwise_backward(th_node *node, const th_tensor *from, th__point_backward kernel);

#endif
