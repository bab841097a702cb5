/* text.h: batches of texts, to predict each next symbol. */
#ifndef TH_DATA_TEXT_H
#define TH_DATA_TEXT_H

#include "data/vocab.h"

/* Files are joined as they are. Without validation files the end of the joined text is held out for
 * validation, and the vocabulary is that of all of it. With them the vocabulary is that of the training
 * files, and a symbol of a validation file that it lacks is an error. */
typedef struct th__text th__text;

typedef struct th__text_options {
  const th__source *files; /* none of these is kept */
  int file_count;
  const th__source *validation; /* NULL: a part of the files */
  int validation_count;
  double heldout;         /* that part, 0 < heldout < 1 [0.1] */
  th__vocab_kind kind;    /* bytes or characters */
  const th__vocab *vocab; /* not NULL: this one (copied), and other symbols are errors */
  ptrdiff_t seq, batch;
  uint64_t seed;
} th__text_options;

/* Errors, all with figures and names: an empty file, a part shorter than seq + 1 symbols, text that is
 * not UTF-8 (characters), an unknown symbol, seq or batch below 1 or beyond 2^30, memory. */
th__text *th__text_new(const th__text_options *options, th_error *error);
void th__text_free(th__text *text);
ptrdiff_t th__text_vocab(const th__text *text);
const th__vocab *th__text_symbols(const th__text *text);       /* belongs to the text */
ptrdiff_t th__text_length(const th__text *text, bool heldout); /* symbols of a part */
/* Bytes that th__text_new will hold for `symbols` symbols of a vocabulary of that size. */
double th__text_bytes(double symbols, ptrdiff_t vocab);

/* Passages from random places of the part, and as targets their next symbols. Batch `number` of a part
 * depends on nothing but the seed. Valid until the next call. */
th_batch th__text_batch(th__text *text, bool heldout, uint64_t number);

/* A part as a fixed set of windows of seq symbols, one behind another, so that each symbol but the first
 * is a target once (the last window is moved back to end with the part; targets it shares with the one
 * before are TH_IGNORE). Of these, `most` evenly spaced ones, the first included, or all: most = 0.
 * th__text_windows says how many there are; batch `number` holds the windows number*batch ... and, where
 * there are no more, rows whose targets are all TH_IGNORE. Take the sum over counted targets. */
ptrdiff_t th__text_windows(const th__text *text, bool heldout, ptrdiff_t most);
th_batch th__text_window_batch(th__text *text, bool heldout, ptrdiff_t most, ptrdiff_t number);

#endif
