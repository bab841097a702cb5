/* vocab.c: tables of symbols. Bytes and characters share one form, a sorted array of codes; numbers are
 * their own ids. */
#include "data/vocab.h"

#include <stdio.h>
#include <string.h>

#include "tensor/alloc.h"
#include "tensor/error.h"

enum { CODES = 0x110000, DIRECT = 256 };
#define MOST_NUMBERS ((ptrdiff_t)1 << 30)

struct th__vocab {
  th__vocab_kind kind;
  ptrdiff_t size;
  int32_t direct[DIRECT]; /* ids of the codes below DIRECT, -1: not there */
  uint32_t symbols[];     /* in increasing order; none for numbers */
};

static const char *const kind_names[] = {
    [TH__VOCAB_BYTES] = "bytes", [TH__VOCAB_CHARACTERS] = "characters", [TH__VOCAB_NUMBERS] = "numbers"};

const char *th__vocab_kind_name(th__vocab_kind kind) { return kind_names[kind]; }
th__vocab_kind th__vocab_kind_of(const th__vocab *vocab) { return vocab->kind; }
ptrdiff_t th__vocab_size(const th__vocab *vocab) { return vocab->size; }

uint32_t th__vocab_symbol(const th__vocab *vocab, ptrdiff_t id) {
  return vocab->kind == TH__VOCAB_NUMBERS ? (uint32_t)id : vocab->symbols[id];
}

static ptrdiff_t stored(const th__vocab *vocab) {
  return vocab->kind == TH__VOCAB_NUMBERS ? 0 : vocab->size;
}

size_t th__vocab_memory(const th__vocab *vocab) {
  return sizeof *vocab + (size_t)stored(vocab) * sizeof vocab->symbols[0];
}

/* ---- making ---- */

static th__vocab *allocate(th__vocab_kind kind, ptrdiff_t size, th_error *error) {
  size_t bytes = sizeof(th__vocab);
  if (kind != TH__VOCAB_NUMBERS) bytes += (size_t)size * sizeof(uint32_t);
  th__vocab *vocab = th__alloc(bytes);
  if (vocab == NULL) {
    th__error_memory(error, "vocabulary", bytes);
    return NULL;
  }
  vocab->kind = kind;
  vocab->size = size;
  return vocab;
}

/* When the symbols are in. */
static void index_direct(th__vocab *vocab) {
  for (int i = 0; i < DIRECT; i++) vocab->direct[i] = -1;
  for (ptrdiff_t i = 0; i < stored(vocab) && vocab->symbols[i] < DIRECT; i++)
    vocab->direct[vocab->symbols[i]] = (int32_t)i;
}

static th_status mark(th__vocab_kind kind, const th__source *source, uint8_t *occurs,
                      th_error *error) {
  if (source->count == 0)
    return th__error(error, TH_ERR_VALUE, "%s: the text is empty", source->name);
  const uint8_t *bytes = (const uint8_t *)source->bytes;
  if (kind == TH__VOCAB_BYTES) {
    for (size_t i = 0; i < source->count; i++) occurs[bytes[i]] = 1;
    return TH_OK;
  }
  for (size_t at = 0; at < source->count;) {
    int32_t code = th__utf8_next(source->bytes, source->count, &at);
    if (code < 0)
      return th__source_error(
          error, source, at,
          "byte 0x%02x begins no valid UTF-8 character; convert the text to UTF-8, "
          "or train on bytes",
          bytes[at]);
    occurs[code] = 1;
  }
  return TH_OK;
}

static th__vocab *collect(th__vocab_kind kind, const uint8_t *occurs, th_error *error) {
  ptrdiff_t size = 0;
  for (int i = 0; i < CODES; i++) size += occurs[i];
  th__vocab *vocab = allocate(kind, size, error);
  if (vocab == NULL) return NULL;
  ptrdiff_t next = 0;
  for (int i = 0; i < CODES; i++)
    if (occurs[i]) vocab->symbols[next++] = (uint32_t)i;
  index_direct(vocab);
  return vocab;
}

th__vocab *th__vocab_new(th__vocab_kind kind, const th__source *sources, int count,
                         th_error *error) {
  if (count < 1 || kind == TH__VOCAB_NUMBERS) {
    th__error(error, TH_ERR_VALUE,
              "a vocabulary is made from at least one text, of bytes or characters");
    return NULL;
  }
  uint8_t *occurs = th__alloc_zero(CODES);
  if (occurs == NULL) {
    th__error_memory(error, "vocabulary", CODES);
    return NULL;
  }
  th_status status = TH_OK;
  for (int i = 0; i < count && status == TH_OK; i++)
    status = mark(kind, &sources[i], occurs, error);
  th__vocab *vocab = status == TH_OK ? collect(kind, occurs, error) : NULL;
  th__free(occurs);
  return vocab;
}

th__vocab *th__vocab_numbers(ptrdiff_t size, th_error *error) {
  if (size < 1 || size > MOST_NUMBERS) {
    th__error(error, TH_ERR_VALUE, "a vocabulary of %td numbers; 1 to %td is possible", size,
              MOST_NUMBERS);
    return NULL;
  }
  th__vocab *vocab = allocate(TH__VOCAB_NUMBERS, size, error);
  if (vocab != NULL) index_direct(vocab);
  return vocab;
}

th__vocab *th__vocab_copy(const th__vocab *vocab, th_error *error) {
  th__vocab *copy = allocate(vocab->kind, vocab->size, error);
  if (copy != NULL) memcpy(copy, vocab, th__vocab_memory(vocab));
  return copy;
}

th__vocab *th__vocab_from_symbols(th__vocab_kind kind, const uint32_t *symbols, ptrdiff_t size,
                                  th_error *error) {
  uint32_t limit = kind == TH__VOCAB_BYTES ? DIRECT : CODES;
  for (ptrdiff_t i = 0; i < size; i++) {
    uint32_t s = symbols[i];
    if (s < limit && !(s >= 0xD800 && s < 0xE000) && (i == 0 || symbols[i - 1] < s)) continue;
    th__error(error, TH_ERR_VALUE, "vocabulary of %s: symbol %td is %lu, which is %s",
              kind_names[kind], i, (unsigned long)s,
              i > 0 && symbols[i - 1] >= s ? "not above the one before" : "none");
    return NULL;
  }
  if (size < 1) {
    th__error(error, TH_ERR_VALUE, "vocabulary of %s: it has no symbols", kind_names[kind]);
    return NULL;
  }
  th__vocab *vocab = allocate(kind, size, error);
  if (vocab == NULL) return NULL;
  memcpy(vocab->symbols, symbols, (size_t)size * sizeof *symbols);
  index_direct(vocab);
  return vocab;
}

void th__vocab_free(th__vocab *vocab) { th__free(vocab); }

/* ---- text to ids ---- */

ptrdiff_t th__vocab_find(const th__vocab *vocab, uint32_t symbol) {
  if (vocab->kind == TH__VOCAB_NUMBERS)
    return (ptrdiff_t)symbol < vocab->size ? (ptrdiff_t)symbol : -1;
  if (symbol < DIRECT) return vocab->direct[symbol];
  ptrdiff_t low = 0, high = vocab->size; /* the first symbol >= the one sought */
  while (low < high) {
    ptrdiff_t middle = low + (high - low) / 2;
    if (vocab->symbols[middle] < symbol)
      low = middle + 1;
    else
      high = middle;
  }
  return low < vocab->size && vocab->symbols[low] == symbol ? low : -1;
}

/* Neither control characters nor those that turn or hide their neighbours. */
static bool printable(th__vocab_kind kind, uint32_t code) {
  if (code < 0x20 || (code >= 0x7F && code < 0xA1)) return false;
  if (kind == TH__VOCAB_BYTES) return code < 0x7F;
  return code != 0xAD && !(code >= 0x0300 && code < 0x0370) && !(code >= 0x2000 && code < 0x2010) &&
         !(code >= 0x2028 && code < 0x2030) && !(code >= 0x205F && code < 0x2070) &&
         !(code >= 0xE000 && code < 0xF900) && !(code >= 0xFE00 && code < 0xFE10) &&
         code != 0xFEFF && code < 0xE0000;
}

static void label_of(th__vocab_kind kind, uint32_t code, char label[TH__VOCAB_LABEL]) {
  char shape[4], number[16];
  int length = th__utf8_put(code, shape);
  snprintf(number, sizeof number, kind == TH__VOCAB_BYTES ? "0x%02x" : "U+%04X", code);
  if (printable(kind, code))
    snprintf(label, TH__VOCAB_LABEL, "'%.*s' (%s)", length, shape, number);
  else
    snprintf(label, TH__VOCAB_LABEL, "%s", number);
}

static const char *singular(th__vocab_kind kind) {
  return kind == TH__VOCAB_BYTES ? "byte" : kind == TH__VOCAB_CHARACTERS ? "character" : "number";
}

static ptrdiff_t unknown(const th__vocab *vocab, const th__source *source, size_t at, uint32_t code,
                         th_error *error) {
  char label[TH__VOCAB_LABEL];
  label_of(vocab->kind, code, label);
  th__source_error(error, source, at, "%s %s is not in the vocabulary of %td %s",
                   singular(vocab->kind), label, vocab->size, kind_names[vocab->kind]);
  return -1;
}

static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

static ptrdiff_t next_number(const th__vocab *vocab, const th__source *source, size_t *at,
                             th_error *error) {
  size_t i = *at;
  while (i < source->count && is_space(source->bytes[i])) i++;
  if (i == source->count) {
    *at = i;
    return -1;
  }
  size_t begin = i;
  ptrdiff_t value = 0;
  while (i < source->count && source->bytes[i] >= '0' && source->bytes[i] <= '9' &&
         value <= MOST_NUMBERS)
    value = 10 * value + (source->bytes[i++] - '0');
  bool whole = i > begin && (i == source->count || is_space(source->bytes[i]));
  if (whole && value < vocab->size) {
    *at = i;
    return value;
  }
  for (i = begin; i < source->count && i - begin < 20 && !is_space(source->bytes[i]); i++) continue;
  th__source_error(error, source, begin,
                   "'%.*s' is none of the numbers 0 to %td, which are the vocabulary of %td numbers",
                   (int)(i - begin), source->bytes + begin, vocab->size - 1, vocab->size);
  return -1;
}

ptrdiff_t th__vocab_next(const th__vocab *vocab, const th__source *source, size_t *at,
                         th_error *error) {
  if (vocab->kind == TH__VOCAB_NUMBERS) return next_number(vocab, source, at, error);
  if (*at >= source->count) return -1;
  size_t behind = *at;
  int32_t code;
  if (vocab->kind == TH__VOCAB_BYTES)
    code = (uint8_t)source->bytes[behind++];
  else
    code = th__utf8_next(source->bytes, source->count, &behind);
  if (code < 0) {
    th__source_error(error, source, *at, "byte 0x%02x begins no valid UTF-8 character",
                     (uint8_t)source->bytes[*at]);
    return -1;
  }
  ptrdiff_t id = th__vocab_find(vocab, (uint32_t)code);
  if (id < 0) return unknown(vocab, source, *at, (uint32_t)code, error);
  *at = behind;
  return id;
}

int32_t *th__vocab_encode(const th__vocab *vocab, const th__source *source, ptrdiff_t *count,
                          th_error *error) {
  /* No symbol is shorter than a byte. */
  size_t bytes = (source->count + 1) * sizeof(int32_t), at = 0;
  int32_t *ids = th__alloc(bytes);
  if (ids == NULL) {
    th__error_memory(error, source->name, bytes);
    return NULL;
  }
  *count = 0;
  ptrdiff_t id;
  while ((id = th__vocab_next(vocab, source, &at, error)) >= 0) ids[(*count)++] = (int32_t)id;
  if (at == source->count) return ids;
  th__free(ids);
  return NULL;
}

/* ---- ids to text ---- */

int th__vocab_decode(const th__vocab *vocab, ptrdiff_t id, char bytes[TH__VOCAB_SYMBOL]) {
  if (id < 0 || id >= vocab->size) return 0;
  switch (vocab->kind) {
  case TH__VOCAB_BYTES: bytes[0] = (char)vocab->symbols[id]; return 1;
  case TH__VOCAB_CHARACTERS: return th__utf8_put(vocab->symbols[id], bytes);
  default: return snprintf(bytes, TH__VOCAB_SYMBOL, "%td", id);
  }
}

const char *th__vocab_separator(const th__vocab *vocab) {
  return vocab->kind == TH__VOCAB_NUMBERS ? " " : "";
}

void th__vocab_label(const th__vocab *vocab, ptrdiff_t id, char label[TH__VOCAB_LABEL]) {
  if (id < 0 || id >= vocab->size || vocab->kind == TH__VOCAB_NUMBERS)
    snprintf(label, TH__VOCAB_LABEL, "%td", id);
  else
    label_of(vocab->kind, vocab->symbols[id], label);
}

/* ---- comparing ---- */

th_status th__vocab_same(const char *a_name, const th__vocab *a, const char *b_name,
                         const th__vocab *b, th_error *error) {
  if (a->kind != b->kind)
    return th__error(error, TH_ERR_VALUE, "the vocabulary of %.60s is %s, that of %.60s is %s",
                     a_name, kind_names[a->kind], b_name, kind_names[b->kind]);
  ptrdiff_t shorter = a->size < b->size ? a->size : b->size, i = 0;
  if (a->kind == TH__VOCAB_NUMBERS) i = shorter;
  while (i < shorter && a->symbols[i] == b->symbols[i]) i++;
  if (i == shorter && a->size == b->size) return TH_OK;
  char x[TH__VOCAB_LABEL] = "nothing", y[TH__VOCAB_LABEL] = "nothing";
  if (i < a->size) th__vocab_label(a, i, x);
  if (i < b->size) th__vocab_label(b, i, y);
  return th__error(error, TH_ERR_VALUE,
                   "the vocabulary of %.60s has %td %s, that of %.60s %td; the first difference: id "
                   "%td is %s in the former and %s in the latter",
                   a_name, a->size, kind_names[a->kind], b_name, b->size, i, x, y);
}
