/* reduce.h: what sum and mean share. */
#ifndef TH_AUTOGRAD_RECORD_REDUCE_H
#define TH_AUTOGRAD_RECORD_REDUCE_H

#include "autograd/tape.h"

/* Checks, computes and records the sum of x over one axis or TH_ALL_AXES, divided by the number of
 * summed elements if `mean`. */
th_tensor *th__reduce(th_tape *tape, const th_op *op, th_tensor *x, int axis, bool mean);
th_status th__reduce_backward(th_node *node);

/* Context of their gradient checks: runs op(x, axis), or op of x transposed. */
typedef struct th__reduction {
  th_tensor *(*op)(th_tape *tape, th_tensor *x, int axis);
  int axis;
} th__reduction;
th_tensor *th__run_reduction(th_tape *tape, th_tensor *const *in, const void *context);
th_tensor *th__run_reduction_transposed(th_tape *tape, th_tensor *const *in, const void *context);

#endif
