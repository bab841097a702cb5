/* trainer.h: the inside of a training run, shared by its parts. */
#ifndef TH_LAB_TRAINER_H
#define TH_LAB_TRAINER_H

#include "io/checkpoint.h"
#include "lab/train.h"

enum { TH__LOSS_WINDOW = 20 };

/* What a run needs to go on, beside weights and moments. Everything random is a function of the seed and
 * the step. */
typedef struct th__train_state {
  long step;                      /* steps done */
  double recent[TH__LOSS_WINDOW]; /* losses of the last steps, a ring */
  double high_loss;
  long high_steps; /* steps with a loss above that, less those below, at least 0 */
  long steps_to_95;
  double best_loss; /* of validation; NaN: none yet */
  long best_step;
  long stale; /* validations since */
} th__train_state;

struct th__trainer {
  const th__train *config;
  const th__train_data *data;
  th_task *task; /* one of these two is NULL */
  th__text *text;
  th__vocab *numbers; /* of a task */
  ptrdiff_t vocab;
  th_model *model;
  th_optim *optim;
  th_tape *tape;
  th_tensor **weights; /* of attention, one per layer, of the last step; NULL: the model has none */
  th_schedule schedule;
  th__train_state state;
  double seconds; /* spent in steps */
  long timed;     /* how many */
};

/* train_setup.c */
bool th__trainer_new(th__trainer *t, const th__train_job *job, th_error *error);
void th__trainer_free(th__trainer *t);
const th__vocab *th__trainer_vocab(const th__trainer *t);
th_batch th__trainer_batch(th__trainer *t, bool heldout, uint64_t number);

/* train_step.c: rows first .. first + rows - 1 of a batch through the model. *targets gets those that
 * belong to the logits. NULL on error. */
th_tensor *th__trainer_forward(th__trainer *t, th_batch batch, ptrdiff_t first, ptrdiff_t rows,
                               const th_pass *pass, const th_tensor **targets);
th_status th__trainer_step(th__trainer *t, th__train_step *out, th_error *error);
th_status th__trainer_diverged(const th__trainer *t, long step, double loss, th_error *error);

/* train_evaluate.c: leave no trace: no random number is drawn in order, and the tape is empty afterwards.
 * Mean accuracy per batch; and loss and accuracy of the validation part. */
th_status th__trainer_accuracy(th__trainer *t, bool heldout, uint64_t first, int batches,
                               double *accuracy, th_error *error);
th_status th__trainer_validate(th__trainer *t, th__train_validation *out, th_error *error);

/* train_sample.c: what the model writes now, as valid UTF-8. Free with th__free. */
char *th__trainer_sample(th__trainer *t, th_error *error);

/* train_state.c */
th_status th__trainer_save(const th__trainer *t, const char *path, bool with_optim, th_error *error);
th_status th__trainer_restore(th__trainer *t, th__checkpoint *checkpoint, th_error *error);
/* The configuration that a checkpoint was made with. */
th_status th__trainer_stored_config(const th__checkpoint *checkpoint, const char *path,
                                    th__train *config, th_error *error);

#endif
