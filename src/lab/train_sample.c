/* train_sample.c: what the model writes now. Its random numbers are a stream of their own, so that a
 * sample changes nothing in the training. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/trainer.h"
#include "tensor/alloc.h"
#include "tensor/error.h"
#include "tensor/purpose.h"

/* The sample's symbols so far, with room for all. A text begins at a line's end, or with the first symbol
 * where there is none; a task with a held-out question. */
static ptrdiff_t begin(th__trainer *t, int32_t *ids) {
  if (t->text != NULL) {
    ptrdiff_t line_end = th__vocab_find(th__trainer_vocab(t), '\n');
    ids[0] = (int32_t)(line_end < 0 ? 0 : line_end);
    return 1;
  }
  th_batch batch = th_task_batch(t->task, true, (uint64_t)t->state.step);
  const int32_t *tokens = th_tensor_data(batch.tokens), *targets = th_tensor_data(batch.targets);
  ptrdiff_t seq = t->config->seq, count = 0;
  do {
    ids[count] = tokens[count];
  } while (targets[count] == TH_IGNORE && ++count < seq);
  return count < seq ? count + 1 : seq;
}

/* One more symbol; -1 on error. The model sees as many as it was trained on. */
static ptrdiff_t next(th__trainer *t, const int32_t *ids, ptrdiff_t count, th_error *error) {
  ptrdiff_t seen = count < t->config->seq ? count : t->config->seq;
  const ptrdiff_t shape[] = {1, seen};
  th_tensor *tokens = th_input(t->tape, TH_I32, 2, shape, ids + count - seen);
  th_tensor *logits = tokens == NULL ? NULL : th_model_forward(t->tape, t->model, tokens, NULL);
  ptrdiff_t id = -1;
  if (logits != NULL) {
    th_random stream = {t->config->seed, TH__PURPOSE_TRAIN_SAMPLE, (uint64_t)t->state.step};
    double uniform = th_random_uniform(stream, (uint64_t)count);
    id = th_sample(logits, &(th_sampling){.temperature = 1}, uniform, error);
  } else
    th__error(error, th_tape_status(t->tape), "%s", th_tape_message(t->tape));
  th_tape_reset(t->tape);
  return id;
}

/* Bytes that are no UTF-8 (a model of bytes may write such) become U+FFFD. */
static char *as_utf8(const char *bytes, size_t count) {
  char *text = th__alloc(3 * count + 1);
  size_t used = 0;
  for (size_t at = 0; text != NULL && at < count;) {
    int32_t code = th__utf8_next(bytes, count, &at);
    if (code < 0) at++;
    used += (size_t)th__utf8_put(code <= 0 ? 0xFFFD : (uint32_t)code, text + used);
  }
  if (text != NULL) text[used] = '\0';
  return text;
}

static char *decode(const th__trainer *t, const int32_t *ids, ptrdiff_t count) {
  const th__vocab *vocab = th__trainer_vocab(t);
  char *bytes = NULL, symbol[TH__VOCAB_SYMBOL];
  size_t size = 0;
  FILE *stream = open_memstream(&bytes, &size);
  if (stream == NULL) return NULL;
  for (ptrdiff_t i = 0; i < count; i++) {
    if (i > 0) fputs(th__vocab_separator(vocab), stream);
    fwrite(symbol, 1, (size_t)th__vocab_decode(vocab, ids[i], symbol), stream);
  }
  bool good = !ferror(stream);
  if (fclose(stream) != 0) good = false;
  char *text = good ? as_utf8(bytes, size) : NULL;
  th__free(bytes);
  return text;
}

char *th__trainer_sample(th__trainer *t, th_error *error) {
  ptrdiff_t seq = t->config->seq, most = t->config->sample_tokens + seq;
  size_t size = (size_t)most * sizeof(int32_t);
  int32_t *ids = th__alloc(size);
  if (ids == NULL) {
    th__error_memory(error, "sample", size);
    return NULL;
  }
  ptrdiff_t first = begin(t, ids), count = first;
  /* A task ends with its sequence; a text's own first symbol is not shown. */
  ptrdiff_t end = t->text != NULL ? first + t->config->sample_tokens : seq;
  ptrdiff_t id = 0;
  th_tape_set_recording(t->tape, false);
  while (count < end && (id = next(t, ids, count, error)) >= 0) ids[count++] = (int32_t)id;
  th_tape_set_recording(t->tape, true);
  ptrdiff_t shown = t->text != NULL ? first : 0;
  char *text = id < 0 ? NULL : decode(t, ids + shown, count - shown);
  if (text == NULL && id >= 0) th__error_memory(error, "sample", size);
  th__free(ids);
  return text;
}
