/* loop.h: a training run as users write it, for the tests that look at what a step does to memory,
 * bits and random streams. */
#ifndef TESTS_NN_LOOP_H
#define TESTS_NN_LOOP_H

#include "../support.h"

typedef struct loop {
  th_model *model;
  th_optim *optim;
  th_task *task;
  th_tape *tape;
  uint64_t seed, step;
} loop;

/* `config` needs no vocab and no context: the task says. */
static inline loop loop_new(th_task_options task, th_gpt config, double lr) {
  th_error error = {0};
  loop l = {.task = th_task_new(&task, &error), .tape = th_tape_new(), .seed = task.seed};
  cr_assert_not_null(l.task, "%s", error.message);
  config.vocab = th_task_vocab(l.task);
  config.context = task.seq;
  l.model = th_gpt_new(&config, task.seed, &error);
  cr_assert_not_null(l.model, "%s", error.message);
  l.optim =
      th_adamw_new(th_model_params(l.model), &(th_adamw){.lr = lr, .weight_decay = 0.01}, &error);
  cr_assert_not_null(l.optim, "%s", error.message);
  return l;
}

static inline void loop_free(loop *l) {
  th_tape_free(l->tape);
  th_optim_free(l->optim);
  th_model_free(l->model);
  th_task_free(l->task);
}

/* Forward, backward, clipping, AdamW, reset; returns the loss. */
static inline double loop_step(loop *l) {
  th_pass pass = {.training = true, .stream = {.seed = l->seed, .step = l->step}};
  th_batch batch = th_task_batch(l->task, false, l->step++);
  th_tensor *logits = th_gpt_forward(l->tape, l->model, batch.tokens, &pass);
  th_tensor *loss = th_cross_entropy(l->tape, logits, batch.targets);
  cr_assert_eq(th_backward(l->tape, loss), TH_OK, "%s", th_tape_message(l->tape));
  th_error error = {0};
  cr_assert_eq(th_clip_grad_norm(th_model_params(l->model), 1, NULL, &error), TH_OK, "%s",
               error.message);
  cr_assert_eq(th_optim_step(l->optim, &error), TH_OK, "%s", error.message);
  double value = th_tensor_item(loss);
  th_tape_reset(l->tape);
  return value;
}

/* Share of answers in held-out batch `number` that have the largest logit. */
static inline double loop_accuracy(loop *l, uint64_t number) {
  bool before = th_tape_set_recording(l->tape, false);
  th_batch batch = th_task_batch(l->task, true, number);
  th_tensor *logits = th_gpt_forward(l->tape, l->model, batch.tokens, NULL);
  cr_assert_not_null(logits, "%s", th_tape_message(l->tape));
  const float *z = th_tensor_data(logits);
  const int32_t *targets = th_tensor_data(batch.targets);
  ptrdiff_t vocab = th_tensor_dim(logits, -1), right = 0, counted = 0;
  for (ptrdiff_t i = 0; i < th_tensor_count(batch.targets); i++) {
    if (targets[i] == TH_IGNORE) continue;
    ptrdiff_t top = 0;
    for (ptrdiff_t j = 1; j < vocab; j++)
      if (z[i * vocab + j] > z[i * vocab + top]) top = j;
    right += top == targets[i];
    counted++;
  }
  th_tape_reset(l->tape);
  th_tape_set_recording(l->tape, before);
  return (double)right / (double)counted;
}

#endif
