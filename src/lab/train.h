/* train.h: training runs of a small GPT on a toy task or a text. */
#ifndef TH_LAB_TRAIN_H
#define TH_LAB_TRAIN_H

#include "tapehead.h"

/* What is trained, and how. */
typedef struct th__train {
  th_task_kind task;
  const void *text; /* not NULL: predict the next byte of this instead */
  size_t text_bytes;
  const char *text_name; /* for messages */
  th_scale_kind scale;
  double factor; /* for TH_SCALE_FACTOR */
  ptrdiff_t dk, heads, layers, d_model, seq, batch;
  long steps;
  bool sgd; /* otherwise AdamW with weight decay 0.01 */
  double lr;
  uint64_t seed;
  long evaluate_every; /* steps from one look for steps_to_95 to the next; 0: none */
} th__train;

/* Replaces fields that are 0 by the defaults (docs/training.md): those of the task where it matters.
 * Not the seed. heads must divide d_model by then. */
void th__train_complete(th__train *settings);

/* One step, as it is logged. */
typedef struct th__train_step {
  long step;             /* 1, 2, ... */
  double loss, accuracy; /* of this step's batch, before its update; accuracy over counted tokens */
  double grad_norm;      /* over all parameters, before clipping to 1 */
  double entropy;        /* of the attention weights of the batch's first sequence, nats, mean over
                            layers, heads and queries */
  double tokens_per_second; /* steps only, without evaluations and reports */
  double seconds_left;      /* at the pace so far, all included */
} th__train_step;

/* Called after every step; false ends the run there. */
typedef bool th__train_report(void *context, const th__train_step *step);

typedef struct th__train_run {
  uint64_t seed;
  long steps;                              /* done */
  double final_loss;                       /* mean over the last 20 steps */
  double train_accuracy, heldout_accuracy; /* after training, on 16 batches each; stopped: 2 */
  long steps_to_95; /* the first evaluation that found 95 % of held-out answers right; -1: none */
  double tokens_per_second;
  bool stopped; /* by the report function */
} th__train_run;

/* Trains. TH_ERR_NONFINITE when a value is not finite or the loss runs away: names the step and the
 * tensor. TH_ERR_MEMORY before the first step, with the figures, when the sizes do not fit. */
th_status th__train_run_one(const th__train *settings, th__train_report *report, void *context,
                            th__train_run *run, th_error *error);

/* Bytes that a run needs, beside the program itself. */
typedef struct th__train_need {
  double model, step, text; /* parameters with gradients and moments; activations; the text, twice */
} th__train_need;
th__train_need th__train_bytes(const th__train *settings, ptrdiff_t vocab);
/* Whether that is free, or an error with the figures. */
bool th__train_fits(const th__train *settings, ptrdiff_t vocab, th_error *error);

/* Share of counted tokens whose target has a larger logit than any other token: not one of equals, and
 * not NaN. logits [B, T, V] f32, targets [B, T]; nothing counted gives 0. */
double th__train_accuracy(const th_tensor *logits, const th_tensor *targets);
/* Mean entropy in nats of the rows of the first sequence's weights [B, H, T, T], f32: one sequence, so
 * that it costs little. */
double th__train_entropy(const th_tensor *weights);

/* Describes the first tensor that is not finite: a parameter, or else the output of an operation on
 * the tape. Returns whether there is one. */
bool th__train_blame(const th_tape *tape, const th_params *params, char *text, size_t room);
/* The parameter with the largest |value|, which goes to *size. */
const th_tensor *th__train_largest(const th_params *params, double *size);

#endif
