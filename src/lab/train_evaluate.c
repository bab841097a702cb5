/* train_evaluate.c: how well a model does, without a trace in its training. */
#include <math.h>

#include "lab/trainer.h"
#include "tensor/error.h"
#include "tensor/tensor.h"

/* Held-out batches of tasks that nothing else uses. */
#define VALIDATION_FIRST ((uint64_t)1 << 33)

static ptrdiff_t right_answers(const th_tensor *logits, const th_tensor *targets,
                               ptrdiff_t *counted) {
  const float *x = th_tensor_data(logits);
  const int32_t *target = th_tensor_data(targets);
  ptrdiff_t vocab = th__dim(logits, -1), right = 0;
  for (ptrdiff_t i = 0; i < th_tensor_count(targets); i++, x += vocab) {
    if (target[i] == TH_IGNORE) continue;
    ptrdiff_t below = 0;
    for (ptrdiff_t j = 0; j < vocab; j++) below += x[j] < x[target[i]];
    right += below == vocab - 1;
    ++*counted;
  }
  return right;
}

double th__train_accuracy(const th_tensor *logits, const th_tensor *targets) {
  ptrdiff_t counted = 0, right = right_answers(logits, targets, &counted);
  return counted > 0 ? (double)right / (double)counted : 0;
}

double th__train_entropy(const th_tensor *weights) {
  const float *p = th_tensor_data(weights);
  ptrdiff_t rows = th__dim(weights, 1) * th__dim(weights, 2), n = th__dim(weights, 3);
  double entropy = 0;
  for (ptrdiff_t i = 0; i < rows * n; i++)
    if (p[i] > 0) entropy -= (double)(p[i] * logf(p[i]));
  return entropy / (double)rows;
}

typedef struct score {
  double accuracies; /* of batches, added up */
  double loss;       /* of targets, added up */
  ptrdiff_t right, counted;
} score;

/* A batch in as many parts as a step has, so that it needs no more memory. */
static void score_batch(th__trainer *t, th_batch batch, bool with_loss, score *sum) {
  ptrdiff_t rows = th_tensor_dim(batch.tokens, 0), parts = t->config->accumulate;
  ptrdiff_t counted = 0, right = 0;
  for (ptrdiff_t i = 0; i < parts; i++) {
    ptrdiff_t first = i * rows / parts, count = (i + 1) * rows / parts - first;
    const th_tensor *targets;
    th_tensor *logits = th__trainer_forward(t, batch, first, count, NULL, &targets);
    if (logits != NULL) {
      ptrdiff_t here = 0;
      right += right_answers(logits, targets, &here);
      if (with_loss) /* the mean; NaN if it failed, which the tape tells */
        sum->loss += th_tensor_item(th_cross_entropy(t->tape, logits, targets)) * (double)here;
      counted += here;
    }
    th_tape_reset(t->tape);
  }
  sum->accuracies += counted > 0 ? (double)right / (double)counted : 0;
  sum->right += right;
  sum->counted += counted;
}

static th_status tape_status(const th__trainer *t, th_error *error) {
  th_status status = th_tape_status(t->tape);
  return status == TH_OK ? TH_OK : th__error(error, status, "%s", th_tape_message(t->tape));
}

th_status th__trainer_accuracy(th__trainer *t, bool heldout, uint64_t first, int batches,
                               double *accuracy, th_error *error) {
  score sum = {0};
  th_tape_set_recording(t->tape, false);
  for (int i = 0; i < batches; i++)
    score_batch(t, th__trainer_batch(t, heldout, first + (uint64_t)i), false, &sum);
  th_tape_set_recording(t->tape, true);
  *accuracy = sum.accuracies / batches;
  return tape_status(t, error);
}

th_status th__trainer_validate(th__trainer *t, th__train_validation *out, th_error *error) {
  ptrdiff_t batches = t->config->eval_batches, rows = t->config->batch, most = batches * rows;
  score sum = {0};
  if (t->text != NULL) {
    ptrdiff_t windows = th__text_windows(t->text, true, most);
    batches = (windows + rows - 1) / rows;
  }
  th_tape_set_recording(t->tape, false);
  for (ptrdiff_t i = 0; i < batches; i++)
    score_batch(t,
                t->text != NULL ? th__text_window_batch(t->text, true, most, i)
                                : th_task_batch(t->task, true, VALIDATION_FIRST + (uint64_t)i),
                true, &sum);
  th_tape_set_recording(t->tape, true);
  double counted = sum.counted > 0 ? (double)sum.counted : 1;
  out->loss = sum.loss / counted;
  out->accuracy = (double)sum.right / counted;
  return tape_status(t, error);
}
