#include "data/text.h"

#include "tensor/alloc.h"
#include "tensor/error.h"
#include "tensor/purpose.h"

#define LIMIT ((ptrdiff_t)1 << 30) /* of seq and batch */

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

static th_status check(const th__text_options *o, ptrdiff_t training, th_error *error) {
  if (o->seq < 1 || o->seq > LIMIT || o->batch < 1 || o->batch > LIMIT)
    return th__error(error, TH_ERR_VALUE, "%s: seq %td, batch %td; 1 to %td is possible", o->name,
                     o->seq, o->batch, LIMIT);
  if (o->count == 0) return th__error(error, TH_ERR_VALUE, "%s: the text is empty", o->name);
  ptrdiff_t heldout = (ptrdiff_t)o->count - training;
  if (training > o->seq && heldout > o->seq) return TH_OK;
  /* The held-out tenth is the shorter one. */
  return th__error(error, TH_ERR_VALUE,
                   "%s: %zu bytes are %td to train on and %td held out, but each part needs more "
                   "than seq = %td; take a shorter seq, or a text of at least %td bytes",
                   o->name, o->count, training, heldout, o->seq, 10 * (o->seq + 1));
}

static bool allocate(th__text *text, th_error *error) {
  const ptrdiff_t shape[] = {text->batch, text->seq};
  text->symbols = th__alloc((size_t)text->count);
  if (text->symbols == NULL) {
    th__error_memory(error, "text", (size_t)text->count);
    return false;
  }
  if ((text->tokens = th_tensor_new(TH_I32, 2, shape, error)) == NULL) return false;
  return (text->targets = th_tensor_new(TH_I32, 2, shape, error)) != NULL;
}

th__text *th__text_new(const th__text_options *options, th_error *error) {
  ptrdiff_t count = (ptrdiff_t)options->count, training = count - count / 10;
  if (check(options, training, error) != TH_OK) return NULL;
  th__text *text = th__alloc(sizeof *text);
  if (text == NULL) {
    th__error_memory(error, "text", sizeof *text);
    return NULL;
  }
  *text = (th__text){.count = count,
                     .training = training,
                     .seq = options->seq,
                     .batch = options->batch,
                     .seed = options->seed};
  if (allocate(text, error)) {
    encode(text, options->bytes);
    return text;
  }
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
