/* train.c: trains a small transformer to copy a word, then tests it on words it has never seen. */
#include <stdio.h>

#include "tapehead.h"

/* The share of answers that are right, over one batch. */
static double accuracy(const th_tensor *logits, const th_tensor *targets) {
  const float *scores = th_tensor_data(logits);
  const int *answers = th_tensor_data(targets);
  ptrdiff_t vocab = th_tensor_dim(logits, -1);
  long right = 0, asked = 0;
  for (ptrdiff_t i = 0; i < th_tensor_count(targets); i++, scores += vocab) {
    if (answers[i] == TH_IGNORE) continue;
    ptrdiff_t best = 0;
    for (ptrdiff_t v = 1; v < vocab; v++)
      if (scores[v] > scores[best]) best = v;
    right += best == answers[i];
    asked++;
  }
  return (double)right / (double)asked;
}

/* 0 if it learned, 1 if not. Errors are left on the tape, where main() looks for them. */
static int train(th_tape *tape, th_task *task, th_model *model, th_optim *optim) {
  for (long step = 0; step < 300; step++) {
    th_batch batch = th_task_next(task);
    th_tensor *logits = th_gpt_forward(tape, model, batch.tokens, NULL);
    th_tensor *loss = th_cross_entropy(tape, logits, batch.targets);
    th_backward(tape, loss);
    if (th_optim_step(optim, NULL) != TH_OK) return 1; /* no gradient arrived: the tape says why */
    if (step % 50 == 0) printf("step %3ld  loss %.3f\n", step, th_tensor_item(loss));
    th_tape_reset(tape); /* activations and gradients go; parameters stay */
  }

  th_tape_set_recording(tape, false);
  th_batch test = th_task_batch(task, true, 0); /* held out: in no training batch of any seed */
  th_tensor *logits = th_gpt_forward(tape, model, test.tokens, NULL);
  if (logits == NULL) return 1;
  double right = accuracy(logits, test.targets);
  printf("held-out accuracy %.3f\n", right);
  return right >= 0.95 ? 0 : 1;
}

int main(void) {
  th_error error;
  int status = 1;
  th_model *model = NULL;
  th_optim *optim = NULL;
  th_tape *tape = th_tape_new();
  th_task *task = th_task_new(
      &(th_task_options){.kind = TH_TASK_COPY, .seq = 16, .batch = 32, .seed = 1}, &error);
  if (task != NULL)
    model = th_gpt_new(&(th_gpt){.layers = 2,
                                 .heads = 4,
                                 .width = 32,
                                 .context = 16,
                                 .vocab = th_task_vocab(task),
                                 .init = TH_INIT_WIDTH},
                       1, &error);
  if (model != NULL) optim = th_adamw_new(th_model_params(model), &(th_adamw){.lr = 3e-3}, &error);

  if (tape == NULL)
    fprintf(stderr, "out of memory\n");
  else if (optim == NULL)
    fprintf(stderr, "%s\n", error.message);
  else
    status = train(tape, task, model, optim);
  if (tape != NULL && th_tape_status(tape) != TH_OK) {
    fprintf(stderr, "%s\n", th_tape_message(tape));
    status = 1;
  }

  th_tape_free(tape);
  th_optim_free(optim);
  th_model_free(model);
  th_task_free(task);
  return status;
}
