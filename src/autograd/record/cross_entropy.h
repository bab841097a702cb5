/* cross_entropy.h: what cross_entropy and cross_entropy_sum share, which differ in a divisor. */
#ifndef TH_AUTOGRAD_RECORD_CROSS_ENTROPY_H
#define TH_AUTOGRAD_RECORD_CROSS_ENTROPY_H

#include "autograd/tape.h"

/* Checks logits and targets, computes and records the rows' losses' sum, divided by how many targets
 * count if `mean`. */
th_tensor *th__cross_entropy(th_tape *tape, const th_op *op, th_tensor *logits,
                             const th_tensor *targets, bool mean);
th_status th__cross_entropy_backward(th_node *node);

/* How the gradient checker runs them: context is a th__loss *const *. */
typedef th_tensor *th__loss(th_tape *tape, th_tensor *logits, const th_tensor *targets);
th_tensor *th__run_loss(th_tape *tape, th_tensor *const *in, const void *context);

#endif
