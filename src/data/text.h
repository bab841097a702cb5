/* text.h: batches of a text, to predict each next byte. */
#ifndef TH_DATA_TEXT_H
#define TH_DATA_TEXT_H

#include "tapehead.h"

/* A symbol is a byte, so any file is a text; the vocabulary is the bytes that occur, in order. The
 * first nine tenths are for training, the rest is held out. */
typedef struct th__text th__text;

/* Keeps no reference to `bytes`. Errors: an empty text, a part shorter than seq + 1, memory. */
th__text *th__text_new(const void *bytes, size_t count, ptrdiff_t seq, ptrdiff_t batch,
                       uint64_t seed, th_error *error);
void th__text_free(th__text *text);
ptrdiff_t th__text_vocab(const th__text *text);

/* Passages from random places of the part, and as targets their next bytes. Batch `number` of a part
 * depends on nothing but the seed. Valid until the next call. */
th_batch th__text_batch(th__text *text, bool heldout, uint64_t number);

#endif
