/* train.h: training runs of a small GPT on a toy task or a text. */
#ifndef TH_LAB_TRAIN_H
#define TH_LAB_TRAIN_H

#include "tapehead.h"

/* What is trained. All fields are to be given. */
typedef struct th__train {
  th_task_kind task;
  const void *text; /* not NULL: predict the next byte of this instead */
  size_t text_bytes;
  th_scale_kind scale;
  double factor;
  ptrdiff_t dk, heads, layers, d_model, seq, batch;
  long steps;
  bool sgd; /* otherwise AdamW with weight decay 0.01 */
  double lr;
  uint64_t seed;
} th__train;

/* One step, as it is logged. */
typedef struct th__train_step {
  long step;
  double loss, accuracy; /* of this step's batch, before the update; accuracy over counted tokens */
  double grad_norm;      /* over all parameters, before clipping to 1 */
  double entropy;        /* of the attention weights of the batch's first sequence, nats, mean over
                            layers, heads and queries */
  double tokens_per_second, seconds_left;
} th__train_step;

/* Called after every step; false ends the run there. */
typedef bool th__train_report(void *context, const th__train_step *step);

typedef struct th__train_run {
  uint64_t seed;
  long steps;                              /* done */
  double final_loss;                       /* mean over the last 20 steps */
  double train_accuracy, heldout_accuracy; /* after training, on 16 batches each */
  long steps_to_95; /* first evaluation with 95 % of held-out answers right; -1: not reached */
  double tokens_per_second;
  bool stopped; /* by the report function */
} th__train_run;

/* Trains. TH_ERR_NONFINITE names the step and the tensor when a value is not finite or the loss runs
 * away; TH_ERR_MEMORY before the first step when the sizes cannot fit, with the estimate. */
th_status th__train_run_one(const th__train *settings, th__train_report *report, void *context,
                            th__train_run *run, th_error *error);

/* Bytes that a run needs, about: parameters, gradients and moments, activations of a step. */
double th__train_bytes(const th__train *settings, ptrdiff_t vocab);

#endif
