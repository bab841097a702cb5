/* text.h: batches of a text, to predict each next byte. */
#ifndef TH_DATA_TEXT_H
#define TH_DATA_TEXT_H

#include "tapehead.h"

/* A symbol is a byte, so any file is a text; the vocabulary is the bytes that occur, in order. The
 * first nine tenths are for training, the rest is held out. */
typedef struct th__text th__text;

typedef struct th__text_options {
  const void *bytes; /* not kept */
  size_t count;
  const char *name; /* for messages; not kept */
  ptrdiff_t seq, batch;
  uint64_t seed;
} th__text_options;

/* Errors: an empty text, a part shorter than seq + 1, seq or batch below 1 or beyond 2^30, memory. */
th__text *th__text_new(const th__text_options *options, th_error *error);
void th__text_free(th__text *text);
ptrdiff_t th__text_vocab(const th__text *text);

/* Passages from random places of the part, and as targets their next bytes. Batch `number` of a part
 * depends on nothing but the seed. Valid until the next call. */
th_batch th__text_batch(th__text *text, bool heldout, uint64_t number);

#endif
