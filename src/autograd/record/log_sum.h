/* log_sum.h: what log_softmax and logsumexp share: rows of the last axis, two numbers saved of each. */
#ifndef TH_AUTOGRAD_RECORD_LOG_SUM_H
#define TH_AUTOGRAD_RECORD_LOG_SUM_H

#include "autograd/record/cases.h"
#include "autograd/tape.h"

/* An op's kernels in both precisions. */
typedef struct th__log_sum_forward {
  void (*f32)(ptrdiff_t rows, ptrdiff_t n, const float *x, float *y, float *stats);
  void (*f64)(ptrdiff_t rows, ptrdiff_t n, const double *x, double *y, double *stats);
} th__log_sum_forward;

typedef struct th__log_sum_backward {
  void (*f32)(ptrdiff_t rows, ptrdiff_t n, const float *x, const float *stats, const float *dy,
              float *dx);
  void (*f64)(ptrdiff_t rows, ptrdiff_t n, const double *x, const double *stats, const double *dy,
              double *dx);
} th__log_sum_backward;

/* Checks x, computes and records op(x): of x's shape, or without its last axis if `reduces`. */
th_tensor *th__log_sum(th_tape *tape, const th_op *op, th__log_sum_forward kernel, th_tensor *x,
                       bool reduces);
th_status th__log_sum_backward_rows(th_node *node, th__log_sum_backward kernel);

#endif
