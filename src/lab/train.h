/* train.h: training runs on a toy task or a text: one after another, or one that is kept in a folder and
 * taken up again. */
#ifndef TH_LAB_TRAIN_H
#define TH_LAB_TRAIN_H

#include "data/text.h"
#include "io/lines.h"
#include "lab/train_config.h"
#include "tapehead.h"

/* The files of a text, read once. */
typedef struct th__train_data {
  th__source *sources; /* those to train on, then those to validate on */
  int file_count, validation_count;
} th__train_data;
/* Reads what the configuration names; nothing for a task. */
th_status th__train_data_read(const th__train *config, th__train_data *data, th_error *error);
void th__train_data_free(th__train_data *data);
double th__train_data_bytes(const th__train_data *data);

/* One step, as it is logged. */
typedef struct th__train_step {
  long step;             /* 1, 2, ... */
  double loss, accuracy; /* of this step's batch, before its update; accuracy over counted tokens */
  double lr;             /* of its update */
  double grad_norm;      /* over all parameters, before clipping */
  double entropy;        /* of the attention weights of the batch's first sequence, nats, mean over
                            layers, heads and queries; NaN: the model has none */
  double tokens_per_second; /* steps only, without evaluations and reports */
  double seconds_left;      /* at the pace so far, all included */
} th__train_step;

typedef struct th__train_validation {
  long step;
  double loss, accuracy; /* over counted tokens of the same batches each time */
  bool best;             /* the lowest loss so far */
  bool final; /* after the last step, between two regular ones: does not count for `best` */
} th__train_validation;

/* What is told on the way; any may be NULL. */
typedef struct th__trainer th__trainer;
typedef struct th__train_watch {
  void *context;
  void (*begin)(void *context, const th__trainer *trainer); /* before the first step */
  bool (*step)(void *context, const th__train_step *step); /* after each; false ends the run there */
  void (*validated)(void *context, const th__train_validation *validation);
  void (*sampled)(void *context, long step, const char *text);
} th__train_watch;

struct th__run; /* run.h */

typedef struct th__train_job {
  const th__train *config;    /* complete and checked */
  const th__train_data *data; /* of a text */
  th__lines *log;             /* NULL: none */
  struct th__run *run;        /* NULL: nothing is kept. Its log is used */
  th__train_watch watch;
} th__train_job;

/* Why a run ended before its last step. */
typedef enum th__train_end { TH__END_STEPS, TH__END_STOPPED, TH__END_PATIENCE } th__train_end;

typedef struct th__train_run {
  uint64_t seed;
  long steps;                              /* done */
  double final_loss;                       /* mean over the last 20 steps */
  double train_accuracy, heldout_accuracy; /* after training, on 16 batches each; stopped: 2 */
  long steps_to_95; /* the first evaluation that found 95 % of held-out answers right; -1: none */
  double tokens_per_second;
  double validation_loss, best_loss; /* the last, and the lowest; NaN: none was made */
  long best_step;
  bool resumed, finished_before; /* nothing was left to do */
  th__train_end end;
} th__train_run;

/* Trains. TH_ERR_NONFINITE when a value is not finite or the loss runs away: names the step and the
 * tensor. TH_ERR_MEMORY before the first step, with the figures, when the sizes do not fit. TH_ERR_IO:
 * the log or a checkpoint could not be written; the last good ones stay. */
th_status th__train_run_one(const th__train_job *job, th__train_run *run, th_error *error);

/* Looks for steps_to_95 every so many steps; 0: never. For tests; 10. */
extern long th__train_look_every;

/* Bytes that a run needs, beside the program itself. */
typedef struct th__train_need {
  double model, step, text; /* parameters with gradients and moments; activations; the text */
} th__train_need;
th__train_need th__train_bytes(const th__train *config, double text, ptrdiff_t vocab);
/* Whether that is free, or an error with the figures. text: bytes of the files. */
bool th__train_fits(const th__train *config, double text, ptrdiff_t vocab, th_error *error);

/* Share of counted tokens whose target has a larger logit than any other token: not one of equals, and
 * not NaN. logits [B, T, V] f32, targets [B, T]; nothing counted gives 0. */
double th__train_accuracy(const th_tensor *logits, const th_tensor *targets);
/* Mean entropy in nats of the rows of the first sequence's weights [B, H, n_q, n_k], f32: one sequence,
 * so that it costs little. */
double th__train_entropy(const th_tensor *weights);

/* Describes the first tensor that is not finite: a parameter, or else the output of an operation on
 * the tape. Returns whether there is one. */
bool th__train_blame(const th_tape *tape, const th_params *params, char *text, size_t room);
/* The parameter with the largest |value|, which goes to *size. */
const th_tensor *th__train_largest(const th_params *params, double *size);

#endif
