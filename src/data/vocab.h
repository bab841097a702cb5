/* vocab.h: the symbols of a text and their numbers (ids). */
#ifndef TH_DATA_VOCAB_H
#define TH_DATA_VOCAB_H

#include "data/source.h"

/* Symbols are numbered in increasing order.
 *   bytes       the bytes that occur: any file is a text
 *   characters  the Unicode code points that occur in valid UTF-8
 *   numbers     0 .. size-1, written in decimal and separated by white space: tokens of toy tasks */
typedef enum th__vocab_kind {
  TH__VOCAB_BYTES,
  TH__VOCAB_CHARACTERS,
  TH__VOCAB_NUMBERS
} th__vocab_kind;

typedef struct th__vocab th__vocab;

/* Of bytes or characters: those that occur in the sources. TH_ERR_VALUE names file, line and offset of
 * bytes that are not UTF-8 (characters), and a source that is empty. */
th__vocab *th__vocab_new(th__vocab_kind kind, const th__source *sources, int count, th_error *error);
th__vocab *th__vocab_numbers(ptrdiff_t size, th_error *error);
/* From `size` symbols in increasing order. */
th__vocab *th__vocab_from_symbols(th__vocab_kind kind, const uint32_t *symbols, ptrdiff_t size,
                                  th_error *error);
th__vocab *th__vocab_copy(const th__vocab *vocab, th_error *error);
void th__vocab_free(th__vocab *vocab);

th__vocab_kind th__vocab_kind_of(const th__vocab *vocab);
const char *th__vocab_kind_name(th__vocab_kind kind); /* "bytes", "characters", "numbers" */
ptrdiff_t th__vocab_size(const th__vocab *vocab);
size_t th__vocab_memory(const th__vocab *vocab); /* bytes */

uint32_t th__vocab_symbol(const th__vocab *vocab, ptrdiff_t id); /* its byte, code point or number */
/* The id of a byte, code point or number; -1 if it is not there. */
ptrdiff_t th__vocab_find(const th__vocab *vocab, uint32_t symbol);

/* Steps through a source, from *at = 0: the next id, and *at behind it; -1 at the end (error untouched,
 * *at = count) or with TH_ERR_VALUE for a symbol that the vocabulary lacks, named with file, line,
 * offset and the vocabulary's size. */
ptrdiff_t th__vocab_next(const th__vocab *vocab, const th__source *source, size_t *at,
                         th_error *error);
/* All ids of a source, *count of them. Free with th__free. NULL on error; an empty source gives an
 * array of none. */
int32_t *th__vocab_encode(const th__vocab *vocab, const th__source *source, ptrdiff_t *count,
                          th_error *error);

/* Writes a symbol (UTF-8, a raw byte, or decimal digits) without a 0 behind it; returns its length. An
 * id outside 0 .. size-1 has length 0. */
#define TH__VOCAB_SYMBOL 12
int th__vocab_decode(const th__vocab *vocab, ptrdiff_t id, char bytes[TH__VOCAB_SYMBOL]);
/* What stands between two symbols of a text: "" or, for numbers, " ". */
const char *th__vocab_separator(const th__vocab *vocab);
/* A symbol for people: 'x' (U+0078), U+000A, 'x' (0x78), 0x0a, 17. */
#define TH__VOCAB_LABEL 32
void th__vocab_label(const th__vocab *vocab, ptrdiff_t id, char label[TH__VOCAB_LABEL]);

/* {"kind": "characters", "symbols": [10, 32, ...]}, or {"kind": "numbers", "size": 17}. NULL when
 * memory ends. Reading checks everything: known kind, symbols in range, increasing, at least one, no
 * other keys; TH_ERR_IO otherwise. */
json_t *th__vocab_to_json(const th__vocab *vocab);
th__vocab *th__vocab_from_json(const json_t *json, th_error *error);

/* Whether two vocabularies are the same table. TH_ERR_VALUE otherwise: "the vocabulary of a has 3
 * characters, that of b 4; the first difference: id 3 is nothing in the former and 'd' (U+0064) in the latter". */
th_status th__vocab_same(const char *a_name, const th__vocab *a, const char *b_name,
                         const th__vocab *b, th_error *error);

#endif
