/* train_step.c: one step: the batch in one or several parts, clipping, the update; and when a run is
 * lost. */
#include <math.h>
#include <string.h>

#include "lab/trainer.h"
#include "tensor/error.h"
#include "tensor/tensor.h"

enum {
  RUNAWAY_FACTOR = 3, /* a loss is far too high at this many times that of the first step */
  RUNAWAY_STEPS = 30  /* and the run is given up when so many more steps were than were not */
};

/* ---- forward ---- */

/* Rows and columns of a batch's tokens or targets, on the tape. */
static th_tensor *cut(th_tape *tape, const th_tensor *x, ptrdiff_t first, ptrdiff_t rows,
                      ptrdiff_t from, ptrdiff_t to) {
  ptrdiff_t seq = th_tensor_dim(x, 1), width = to - from;
  const ptrdiff_t shape[] = {rows, width};
  th_tensor *part = th_input(tape, TH_I32, 2, shape, NULL);
  if (part == NULL) return NULL;
  const int32_t *source = th_tensor_data(x);
  int32_t *target = th_tensor_data(part);
  for (ptrdiff_t i = 0; i < rows; i++)
    memcpy(target + i * width, source + (first + i) * seq + from, (size_t)width * sizeof *target);
  return part;
}

/* The first column with an answer in any sequence: what stands before it is the question. */
static ptrdiff_t question_length(const th_tensor *targets) {
  const int32_t *target = th_tensor_data(targets);
  ptrdiff_t rows = th_tensor_dim(targets, 0), seq = th_tensor_dim(targets, 1), first = seq;
  for (ptrdiff_t i = 0; i < rows; i++)
    for (ptrdiff_t j = 0; j < first; j++)
      if (target[i * seq + j] != TH_IGNORE) first = j;
  return first;
}

static th_tensor *seq2seq(th__trainer *t, th_batch batch, ptrdiff_t first, ptrdiff_t rows,
                          const th_pass *pass, const th_tensor **targets) {
  ptrdiff_t length = question_length(batch.targets), seq = th_tensor_dim(batch.tokens, 1);
  if (length == 0 || length == seq)
    return th_fail(t->tape, TH_ERR_VALUE, "train",
                   "a seq2seq needs a question before the answers, and answers; this batch has %td "
                   "columns before the first answer, of %td",
                   length, seq);
  th_tensor *source = cut(t->tape, batch.tokens, first, rows, 0, length);
  th_tensor *rest = cut(t->tape, batch.tokens, first, rows, length, seq);
  *targets = cut(t->tape, batch.targets, first, rows, length, seq);
  return th_seq2seq_forward(t->tape, t->model, source, NULL, rest, pass);
}

th_tensor *th__trainer_forward(th__trainer *t, th_batch batch, ptrdiff_t first, ptrdiff_t rows,
                               const th_pass *pass, const th_tensor **targets) {
  ptrdiff_t seq = th_tensor_dim(batch.tokens, 1);
  if (t->config->model == TH__MODEL_SEQ2SEQ) return seq2seq(t, batch, first, rows, pass, targets);
  const th_tensor *tokens = batch.tokens;
  *targets = batch.targets;
  if (rows < th_tensor_dim(batch.tokens, 0)) {
    tokens = cut(t->tape, batch.tokens, first, rows, 0, seq);
    *targets = cut(t->tape, batch.targets, first, rows, 0, seq);
  }
  return tokens == NULL ? NULL : th_model_forward(t->tape, t->model, tokens, pass);
}

/* ---- when a run is lost ---- */

static th_status not_finite(const th__trainer *t, long step, const char *what, th_error *error) {
  char tensor[128] = "the loss";
  th__train_blame(t->tape, th_model_params(t->model), tensor, sizeof tensor);
  return th__error(error, TH_ERR_NONFINITE,
                   "step %ld: %s; the first tensor that holds Inf or NaN is %s; lower the learning "
                   "rate%s",
                   step, what, tensor,
                   t->config->scale.kind == TH_SCALE_FACTOR ? " or the scale" : "");
}

th_status th__trainer_diverged(const th__trainer *t, long step, double loss, th_error *error) {
  double size;
  const th_tensor *largest = th__train_largest(th_model_params(t->model), &size);
  return th__error(error, TH_ERR_NONFINITE,
                   "step %ld: the run diverges: the loss is %.4g, mostly above %.4g by now, and "
                   "guessing costs %.4g; the largest parameter is %s with %.3g; lower the learning "
                   "rate",
                   step, loss, t->state.high_loss, log((double)t->vocab), th_tensor_name(largest),
                   size);
}

static th_status check_loss(th__trainer *t, long step, double loss, th_error *error) {
  th__train_state *s = &t->state;
  if (step == 1) s->high_loss = RUNAWAY_FACTOR * fmax(loss, log((double)t->vocab));
  s->high_steps += loss > s->high_loss ? 1 : s->high_steps > 0 ? -1 : 0;
  return s->high_steps < RUNAWAY_STEPS ? TH_OK : th__trainer_diverged(t, step, loss, error);
}

/* ---- forward and backward ---- */

static double entropy_of(const th__trainer *t) {
  if (t->weights == NULL) return (double)NAN;
  double entropy = 0;
  for (long i = 0; i < t->config->layers; i++)
    entropy += th__train_entropy(t->weights[i]) / (double)t->config->layers;
  return entropy;
}

/* One part. With several, each loss is a sum over its answers, divided by the answers of the whole
 * batch: the gradients add up to that of the whole batch, however the answers are spread. */
static th_status pass_part(th__trainer *t, th_batch batch, long part, ptrdiff_t total,
                           th__train_step *out, th_error *error) {
  ptrdiff_t rows = th_tensor_dim(batch.tokens, 0), parts = t->config->accumulate;
  ptrdiff_t first = part * rows / parts, count = (part + 1) * rows / parts - first;
  const th_pass pass = {
      .training = true,
      .stream = {.seed = t->config->seed, .purpose = (uint32_t)part, .step = (uint64_t)out->step},
      .weights = part == 0 ? t->weights : NULL};
  const th_tensor *targets = NULL;
  th_tensor *logits = th__trainer_forward(t, batch, first, count, &pass, &targets);
  th_tensor *loss = NULL;
  if (logits != NULL && parts == 1)
    loss = th_cross_entropy(t->tape, logits, targets);
  else if (logits != NULL)
    loss = th_scale(t->tape, th_cross_entropy_sum(t->tape, logits, targets), 1 / (double)total);
  th_backward(t->tape, loss);
  th_status status = th_tape_status(t->tape);
  if (status != TH_OK)
    return th__error(error, status, "step %ld: %s", out->step, th_tape_message(t->tape));
  double value = th_tensor_item(loss);
  if (!isfinite(value)) return not_finite(t, out->step, "the loss is not finite", error);
  out->loss += value;
  out->accuracy += round(th__train_accuracy(logits, targets) * (double)th_counted_targets(targets));
  if (part == 0) out->entropy = entropy_of(t);
  return TH_OK;
}

/* ---- the update ---- */

static th_status update(th__trainer *t, th__train_step *out, th_error *error) {
  th_error local;
  th_params *params = th_model_params(t->model);
  double limit = t->config->clip > 0 ? t->config->clip : (double)INFINITY;
  th_status status = th_clip_grad_norm(params, limit, &out->grad_norm, &local);
  if (status != TH_OK) return th__error(error, status, "step %ld: %s", out->step, local.message);
  out->lr = th_schedule_lr(&t->schedule, out->step);
  status = th_optim_set_lr(t->optim, out->lr);
  if (status == TH_OK) status = th_optim_step(t->optim, error);
  /* Nothing after the last update would show what it did. */
  char tensor[128];
  if (status == TH_OK && out->step == t->config->steps &&
      th__train_blame(t->tape, params, tensor, sizeof tensor))
    return not_finite(t, out->step, "the update went beyond the largest number", error);
  return status;
}

th_status th__trainer_step(th__trainer *t, th__train_step *out, th_error *error) {
  th_batch batch = th__trainer_batch(t, false, (uint64_t)out->step - 1);
  ptrdiff_t counted = th_counted_targets(batch.targets);
  if (counted == 0) counted = 1; /* loss and gradient are 0 then */
  long parts = t->config->accumulate;
  th_status status = TH_OK;
  for (long part = 0; part < parts && status == TH_OK; part++) {
    if (part > 0) th_tape_reset(t->tape);
    status = pass_part(t, batch, part, counted, out, error);
  }
  out->accuracy /= (double)counted;
  if (status == TH_OK) status = check_loss(t, out->step, out->loss, error);
  if (status == TH_OK) status = update(t, out, error);
  if (status == TH_OK) t->state.step = out->step;
  th_tape_reset(t->tape);
  return status;
}
