#include "data/text.h"

#include "tensor/alloc.h"
#include "tensor/error.h"
#include "tensor/purpose.h"

struct th__text {
  uint8_t *symbols;          /* numbers in the vocabulary, one per byte of the text */
  ptrdiff_t count, training; /* symbols in all, and in the training part */
  ptrdiff_t seq, batch, vocab;
  uint64_t seed;
  th_tensor *tokens, *targets;
};

/* Numbers the bytes that occur and translates the text. */
static void encode(th__text *text, const uint8_t *bytes) {
  bool occurs[256] = {0};
  uint8_t number[256];
  for (ptrdiff_t i = 0; i < text->count; i++) occurs[bytes[i]] = true;
  for (int byte = 0; byte < 256; byte++) {
    number[byte] = (uint8_t)text->vocab;
    text->vocab += occurs[byte];
  }
  for (ptrdiff_t i = 0; i < text->count; i++) text->symbols[i] = number[bytes[i]];
}

static bool long_enough(ptrdiff_t count, ptrdiff_t training, ptrdiff_t seq, th_error *error) {
  if (count == 0) {
    th__error(error, TH_ERR_VALUE, "the text is empty");
    return false;
  }
  ptrdiff_t heldout = count - training;
  if (training > seq && heldout > seq) return true;
  /* The held-out tenth is the shorter one. */
  th__error(error, TH_ERR_VALUE,
            "the text has %td bytes: %td to train on and %td held out, but each part needs more than "
            "seq = %td; take a shorter seq or a text of at least %td bytes",
            count, training, heldout, seq, 10 * (seq + 1));
  return false;
}

th__text *th__text_new(const void *bytes, size_t count, ptrdiff_t seq, ptrdiff_t batch,
                       uint64_t seed, th_error *error) {
  ptrdiff_t training = (ptrdiff_t)(count - count / 10);
  if (!long_enough((ptrdiff_t)count, training, seq, error)) return NULL;
  th__text *text = th__alloc_zero(sizeof *text);
  uint8_t *symbols = th__alloc(count);
  if (text == NULL || symbols == NULL) {
    th__error_memory(error, "text", count);
    th__free(text);
    th__free(symbols);
    return NULL;
  }
  *text = (th__text){.symbols = symbols,
                     .count = (ptrdiff_t)count,
                     .training = training,
                     .seq = seq,
                     .batch = batch,
                     .seed = seed};
  encode(text, bytes);
  text->tokens = th_tensor_new(TH_I32, TH_SHAPE(batch, seq), error);
  text->targets = th_tensor_new(TH_I32, TH_SHAPE(batch, seq), error);
  if (text->tokens != NULL && text->targets != NULL) return text;
  th__text_free(text);
  return NULL;
}

void th__text_free(th__text *text) {
  if (text == NULL) return;
  th_tensor_free(text->tokens);
  th_tensor_free(text->targets);
  th__free(text->symbols);
  th__free(text);
}

ptrdiff_t th__text_vocab(const th__text *text) { return text->vocab; }

th_batch th__text_batch(th__text *text, bool heldout, uint64_t number) {
  th_random stream = {text->seed, heldout ? TH__PURPOSE_TEXT_HELDOUT : TH__PURPOSE_TEXT_TRAINING,
                      number};
  ptrdiff_t first = heldout ? text->training : 0;
  ptrdiff_t length = heldout ? text->count - text->training : text->training;
  int32_t *tokens = th_tensor_data(text->tokens), *targets = th_tensor_data(text->targets);
  for (ptrdiff_t row = 0; row < text->batch; row++) {
    uint64_t places = (uint64_t)(length - text->seq);
    const uint8_t *passage = text->symbols + first + th_random_below(stream, (uint64_t)row, places);
    for (ptrdiff_t i = 0; i < text->seq; i++) {
      tokens[row * text->seq + i] = passage[i];
      targets[row * text->seq + i] = passage[i + 1];
    }
  }
  return (th_batch){text->tokens, text->targets};
}
