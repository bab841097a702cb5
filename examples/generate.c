/* generate.c: a small Llama learns to count in steps (3 5 7 9 ..., modulo 17), then goes on from a prompt
 * token by token, with a cache. */
#include <stdio.h>

#include "tapehead.h"

enum { BATCH = 32, LENGTH = 12, VOCAB = 17, STEPS = 300, PROMPT = 3 };

/* Sequence i of a step: where it starts and by how much it counts. */
static void draw(th_tensor *tokens, th_tensor *targets, uint64_t number) {
  th_random stream = {.seed = 1, .step = number};
  int *x = th_tensor_data(tokens), *y = th_tensor_data(targets);
  for (uint64_t s = 0; s < BATCH; s++, x += LENGTH, y += LENGTH) {
    uint64_t start = th_random_below(stream, 2 * s, VOCAB);
    uint64_t by = th_random_below(stream, 2 * s + 1, VOCAB);
    for (uint64_t t = 0; t < LENGTH; t++) {
      x[t] = (int)((start + t * by) % VOCAB);
      y[t] = t == 0 ? TH_IGNORE : (int)((start + (t + 1) * by) % VOCAB);
    }
  }
}

static bool train(th_tape *tape, th_model *model, th_optim *optim, th_tensor *x, th_tensor *y) {
  for (uint64_t step = 0; step < STEPS; step++) {
    draw(x, y, step);
    th_tensor *loss = th_cross_entropy(tape, th_model_forward(tape, model, x, NULL), y);
    th_backward(tape, loss);
    if (th_optim_step(optim, NULL) != TH_OK) return false; /* the tape says why */
    if (step % 50 == 0) printf("step %3d  loss %.3f\n", (int)step, th_tensor_item(loss));
    th_tape_reset(tape);
  }
  return true;
}

/* Prompt first, then one token after another; returns how many of them are right. */
static int generate(th_tape *tape, th_model *model, th_cache *cache, int start, int by) {
  int ids[LENGTH], right = 0;
  for (int t = 0; t < PROMPT; t++) ids[t] = (start + t * by) % VOCAB;
  th_cache_clear(cache);
  for (int t = PROMPT; t < LENGTH; t++) {
    int begin = t == PROMPT ? 0 : t - 1; /* what the cache does not hold yet */
    th_tensor *next = th_input(tape, TH_I32, TH_SHAPE(1, t - begin), ids + begin);
    th_tensor *logits = th_model_forward(tape, model, next, &(th_pass){.cache = cache});
    if (logits == NULL) return 0;
    ids[t] = (int)th_sample(logits, &(th_sampling){.temperature = 0}, 0, NULL);
    right += ids[t] == (start + t * by) % VOCAB;
    th_tape_reset(tape);
  }
  for (int t = 0; t < LENGTH; t++) printf(t == PROMPT ? " -> %d" : " %d", ids[t]);
  printf("\n");
  return right;
}

int main(void) {
  th_error error = {0};
  const th_gpt config = {TH_LLAMA,    .layers = 2,       .heads = 4,     .kv_heads = 2,
                         .width = 32, .context = LENGTH, .vocab = VOCAB, .init = TH_INIT_WIDTH};
  th_model *model = th_gpt_new(&config, 1, &error);
  th_optim *optim = th_adamw_new(th_model_params(model), &(th_adamw){.lr = 5e-3}, &error);
  th_cache *cache = th_cache_new(model, 1, 0, &error);
  th_tensor *x = th_tensor_new(TH_I32, TH_SHAPE(BATCH, LENGTH), &error);
  th_tensor *y = th_tensor_new(TH_I32, TH_SHAPE(BATCH, LENGTH), &error);
  th_tape *tape = th_tape_new();
  int right = 0;
  if (error.status == TH_OK && tape != NULL && train(tape, model, optim, x, y)) {
    th_tape_set_recording(tape, false);
    for (int i = 0; i < 5; i++) right += generate(tape, model, cache, 2 + 3 * i, 1 + 2 * i);
  }
  printf("%d of %d right\n", right, 5 * (LENGTH - PROMPT));
  if (right == 0) fprintf(stderr, "%s%s\n", error.message, th_tape_message(tape));

  th_tape_free(tape);
  th_tensor_free(x), th_tensor_free(y);
  th_cache_free(cache);
  th_optim_free(optim);
  th_model_free(model);
  return right >= 40 ? 0 : 1;
}
