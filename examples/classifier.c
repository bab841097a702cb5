/* classifier.c: sequences of unequal length, padded to one batch: does the first token occur again? */
#include <stdio.h>

#include "tapehead.h"

enum { BATCH = 64, LONGEST = 12, VOCAB = 16, STEPS = 800 };

typedef struct batch {
  th_tensor *tokens, *lengths, *answers;
} batch;

static void draw(batch b, uint64_t number) {
  th_random stream = {.seed = 1, .step = number};
  int *tokens = th_tensor_data(b.tokens), *lengths = th_tensor_data(b.lengths);
  int *answers = th_tensor_data(b.answers);
  uint64_t i = 0;
  for (int s = 0; s < BATCH; s++, tokens += LONGEST) {
    lengths[s] = 4 + (int)th_random_below(stream, i++, LONGEST - 3);
    answers[s] = 0;
    for (int t = 0; t < LONGEST; t++) { /* the padding is of any tokens: nobody looks at it */
      tokens[t] = (int)th_random_below(stream, i++, VOCAB);
      if (t > 0 && t < lengths[s] && tokens[t] == tokens[0]) answers[s] = 1;
    }
  }
}

/* Trains, then returns the share of right answers over ten new batches; 0 on an error. */
static double train(th_tape *tape, th_model *model, th_optim *optim, batch b) {
  for (uint64_t step = 0; step < STEPS; step++) {
    draw(b, step);
    th_tensor *logits = th_classifier_forward(tape, model, b.tokens, b.lengths, NULL);
    th_tensor *loss = th_cross_entropy(tape, logits, b.answers);
    th_backward(tape, loss);
    if (th_optim_step(optim, NULL) != TH_OK) return 0; /* the tape says why */
    if (step % 100 == 0) printf("step %3d  loss %.3f\n", (int)step, th_tensor_item(loss));
    th_tape_reset(tape);
  }
  th_tape_set_recording(tape, false);
  int right = 0;
  for (uint64_t test = STEPS; test < STEPS + 10; test++) {
    draw(b, test);
    th_tensor *logits = th_classifier_forward(tape, model, b.tokens, b.lengths, NULL);
    if (logits == NULL) return 0;
    const float *z = th_tensor_data(logits);
    for (int s = 0; s < BATCH; s++)
      right += (z[2 * s + 1] > z[2 * s]) == ((int *)th_tensor_data(b.answers))[s];
    th_tape_reset(tape);
  }
  return right / (10.0 * BATCH);
}

int main(void) {
  th_error error = {0};
  batch b = {th_tensor_new(TH_I32, TH_SHAPE(BATCH, LONGEST), &error),
             th_tensor_new(TH_I32, TH_SHAPE(BATCH), &error),
             th_tensor_new(TH_I32, TH_SHAPE(BATCH), &error)};
  const th_gpt config = {.layers = 2,
                         .heads = 4,
                         .width = 32,
                         .context = LONGEST,
                         .vocab = VOCAB,
                         .init = TH_INIT_WIDTH};
  th_model *model = th_classifier_new(&config, 2, 1, &error);
  th_optim *optim = th_adamw_new(th_model_params(model), &(th_adamw){.lr = 3e-3}, &error);
  th_tape *tape = th_tape_new();
  double right = 0;
  if (error.status == TH_OK && tape != NULL) right = train(tape, model, optim, b);
  printf("right: %.3f\n", right);
  if (right == 0) fprintf(stderr, "%s%s\n", error.message, th_tape_message(tape));

  th_tape_free(tape);
  th_optim_free(optim);
  th_model_free(model);
  th_tensor_free(b.tokens), th_tensor_free(b.lengths), th_tensor_free(b.answers);
  return right >= 0.9 ? 0 : 1;
}
