#include "data/text.h"

#include <math.h>

#include "tensor/alloc.h"
#include "tensor/error.h"
#include "tensor/purpose.h"

#define LIMIT ((ptrdiff_t)1 << 30) /* of seq and batch */

struct th__text {
  th__vocab *vocab;
  /* Ids, the training part first, in the narrowest type that holds them all. */
  union {
    void *any;
    uint8_t *w1;
    uint16_t *w2;
    int32_t *w4;
  } ids;
  int width;                 /* bytes per id */
  ptrdiff_t count, training; /* symbols in all, and in the training part */
  ptrdiff_t seq, batch;
  uint64_t seed;
  th_tensor *tokens, *targets;
};

static int width_of(ptrdiff_t vocab) { return vocab <= 256 ? 1 : vocab <= 65536 ? 2 : 4; }

double th__text_bytes(double symbols, ptrdiff_t vocab) { return symbols * width_of(vocab); }

/* ---- checks ---- */

/* Upper bound of the symbols; exact for valid text: each character has one byte that begins it. */
static ptrdiff_t count_symbols(th__vocab_kind kind, const th__source *sources, int count) {
  ptrdiff_t symbols = 0;
  for (int i = 0; i < count; i++) {
    if (kind == TH__VOCAB_BYTES)
      symbols += (ptrdiff_t)sources[i].count;
    else
      for (size_t j = 0; j < sources[i].count; j++)
        symbols += ((uint8_t)sources[i].bytes[j] & 0xC0) != 0x80;
  }
  return symbols;
}

static th_status check_empty(const th__source *sources, int count, th_error *error) {
  for (int i = 0; i < count; i++)
    if (sources[i].count == 0)
      return th__error(error, TH_ERR_VALUE, "%s: the text is empty", sources[i].name);
  return TH_OK;
}

static th_status check(const th__text_options *o, th_error *error) {
  const char *name = o->file_count > 0 ? o->files[0].name : "text";
  if (o->seq < 1 || o->seq > LIMIT || o->batch < 1 || o->batch > LIMIT)
    return th__error(error, TH_ERR_VALUE, "%s: seq %td, batch %td; 1 to %td is possible", name,
                     o->seq, o->batch, LIMIT);
  if (o->file_count < 1)
    return th__error(error, TH_ERR_VALUE, "text: no file is given to train on");
  if (!(o->heldout > 0 && o->heldout < 1))
    return th__error(error, TH_ERR_VALUE, "%s: the part held out is %g; 0 < part < 1 is expected",
                     name, o->heldout);
  th_status status = check_empty(o->files, o->file_count, error);
  return status == TH_OK ? check_empty(o->validation, o->validation_count, error) : status;
}

static th_status check_lengths(const th__text_options *o, const char *unit, ptrdiff_t training,
                               ptrdiff_t heldout, th_error *error) {
  if (training > o->seq && heldout > o->seq) return TH_OK;
  const char *name = o->files[0].name, *more = o->file_count > 1 ? " and the files after it" : "";
  double least = ceil((double)(o->seq + 1) / fmin(o->heldout, 1 - o->heldout));
  if (o->validation_count == 0)
    return th__error(error, TH_ERR_VALUE,
                     "%.60s%s: %td %s are %td to train on and %td held out, but each part needs more "
                     "than seq = %td; take a shorter seq, or a text of at least %.0f %s",
                     name, more, training + heldout, unit, training, heldout, o->seq, least, unit);
  bool first = training <= o->seq;
  return th__error(
      error, TH_ERR_VALUE,
      "%.60s%s: %td %s are too few to %s, which needs more than seq = %td; take a shorter "
      "seq, or a longer text",
      first ? name : o->validation[0].name, first ? more : "", first ? training : heldout, unit,
      first ? "train on" : "validate on", o->seq);
}

/* ---- making ---- */

static th_status encode_one(th__text *text, const th__source *source, ptrdiff_t *next,
                            th_error *error) {
  size_t at = 0;
  ptrdiff_t id, i = *next;
  while ((id = th__vocab_next(text->vocab, source, &at, error)) >= 0) switch (text->width) {
    case 1: text->ids.w1[i++] = (uint8_t)id; break;
    case 2: text->ids.w2[i++] = (uint16_t)id; break;
    default: text->ids.w4[i++] = (int32_t)id; break;
    }
  *next = i;
  return at == source->count ? TH_OK : TH_ERR_VALUE;
}

static th_status encode(th__text *text, const th__text_options *o, th_error *error) {
  size_t bytes = (size_t)text->count * (size_t)text->width;
  text->ids.any = th__alloc(bytes);
  if (text->ids.any == NULL) return th__error_memory(error, "text", bytes);
  ptrdiff_t next = 0;
  th_status status = TH_OK;
  for (int i = 0; i < o->file_count && status == TH_OK; i++)
    status = encode_one(text, &o->files[i], &next, error);
  for (int i = 0; i < o->validation_count && status == TH_OK; i++)
    status = encode_one(text, &o->validation[i], &next, error);
  return status;
}

static th_status fill(th__text *text, const th__text_options *o, th_error *error) {
  const ptrdiff_t shape[] = {o->batch, o->seq};
  th__vocab_kind kind = o->vocab != NULL ? th__vocab_kind_of(o->vocab) : o->kind;
  if (kind == TH__VOCAB_NUMBERS)
    return th__error(error, TH_ERR_VALUE,
                     "%s: the vocabulary is of numbers; bytes or characters is expected",
                     o->files[0].name);
  ptrdiff_t heldout = count_symbols(kind, o->validation, o->validation_count);
  text->training = count_symbols(kind, o->files, o->file_count);
  if (o->validation_count == 0) {
    heldout = (ptrdiff_t)((double)text->training * o->heldout);
    text->training -= heldout;
  }
  text->count = text->training + heldout;
  text->vocab = o->vocab != NULL ? th__vocab_copy(o->vocab, error)
                                 : th__vocab_new(kind, o->files, o->file_count, error);
  /* Whoever sees NULL here gave an error; its status is the caller's to read. */
  if (text->vocab == NULL) return TH_ERR_VALUE;
  th_status status = check_lengths(o, th__vocab_kind_name(kind), text->training, heldout, error);
  if (status != TH_OK) return status;
  text->width = width_of(th__vocab_size(text->vocab));
  if ((status = encode(text, o, error)) != TH_OK) return status;
  if ((text->tokens = th_tensor_new(TH_I32, 2, shape, error)) == NULL) return TH_ERR_MEMORY;
  text->targets = th_tensor_new(TH_I32, 2, shape, error);
  return text->targets != NULL ? TH_OK : TH_ERR_MEMORY;
}

th__text *th__text_new(const th__text_options *options, th_error *error) {
  th__text_options o = *options;
  if (o.heldout == 0) o.heldout = 0.1;
  if (check(&o, error) != TH_OK) return NULL;
  th__text *text = th__alloc_zero(sizeof *text);
  if (text == NULL) {
    th__error_memory(error, "text", sizeof *text);
    return NULL;
  }
  text->seq = o.seq;
  text->batch = o.batch;
  text->seed = o.seed;
  if (fill(text, &o, error) == TH_OK) return text;
  th__text_free(text);
  return NULL;
}

void th__text_free(th__text *text) {
  if (text == NULL) return;
  th_tensor_free(text->tokens);
  th_tensor_free(text->targets);
  th__free(text->ids.any);
  th__vocab_free(text->vocab);
  th__free(text);
}

ptrdiff_t th__text_vocab(const th__text *text) { return th__vocab_size(text->vocab); }
const th__vocab *th__text_symbols(const th__text *text) { return text->vocab; }

ptrdiff_t th__text_length(const th__text *text, bool heldout) {
  return heldout ? text->count - text->training : text->training;
}

/* ---- batches ---- */

static void widen(const th__text *text, ptrdiff_t from, ptrdiff_t count, int32_t *out) {
  switch (text->width) {
  case 1:
    for (ptrdiff_t i = 0; i < count; i++) out[i] = text->ids.w1[from + i];
    break;
  case 2:
    for (ptrdiff_t i = 0; i < count; i++) out[i] = text->ids.w2[from + i];
    break;
  default:
    for (ptrdiff_t i = 0; i < count; i++) out[i] = text->ids.w4[from + i];
    break;
  }
}

/* Row `row` of the batch: the passage that begins at `from` of a part. */
static void fill_row(th__text *text, bool heldout, ptrdiff_t from, ptrdiff_t row) {
  if (heldout) from += text->training;
  widen(text, from, text->seq, (int32_t *)th_tensor_data(text->tokens) + row * text->seq);
  widen(text, from + 1, text->seq, (int32_t *)th_tensor_data(text->targets) + row * text->seq);
}

th_batch th__text_batch(th__text *text, bool heldout, uint64_t number) {
  th_random stream = {text->seed, heldout ? TH__PURPOSE_TEXT_HELDOUT : TH__PURPOSE_TEXT_TRAINING,
                      number};
  uint64_t places = (uint64_t)(th__text_length(text, heldout) - text->seq);
  for (ptrdiff_t row = 0; row < text->batch; row++)
    fill_row(text, heldout, (ptrdiff_t)th_random_below(stream, (uint64_t)row, places), row);
  return (th_batch){text->tokens, text->targets};
}

/* ---- windows ---- */

/* A part of n symbols has n - 1 targets. */
static ptrdiff_t all_windows(const th__text *text, bool heldout) {
  return (th__text_length(text, heldout) - 1 + text->seq - 1) / text->seq;
}

ptrdiff_t th__text_windows(const th__text *text, bool heldout, ptrdiff_t most) {
  ptrdiff_t all = all_windows(text, heldout);
  return most > 0 && most < all ? most : all;
}

/* Window `index`: from where, and how many of its targets belong to the one before. */
static ptrdiff_t window_start(const th__text *text, bool heldout, ptrdiff_t index,
                              ptrdiff_t *shared) {
  ptrdiff_t start = index * text->seq, last = th__text_length(text, heldout) - 1 - text->seq;
  *shared = start > last ? start - last : 0;
  return start - *shared;
}

th_batch th__text_window_batch(th__text *text, bool heldout, ptrdiff_t most, ptrdiff_t number) {
  ptrdiff_t all = all_windows(text, heldout), count = th__text_windows(text, heldout, most);
  for (ptrdiff_t row = 0; row < text->batch; row++) {
    ptrdiff_t k = number * text->batch + row, shared = text->seq, start = 0;
    /* floor(k * all / count) without the large product */
    if (k < count)
      start = window_start(text, heldout, k * (all / count) + k * (all % count) / count, &shared);
    fill_row(text, heldout, start, row);
    int32_t *targets = (int32_t *)th_tensor_data(text->targets) + row * text->seq;
    for (ptrdiff_t i = 0; i < shared; i++) targets[i] = TH_IGNORE;
  }
  return (th_batch){text->tokens, text->targets};
}
