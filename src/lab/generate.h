/* generate.h: text from a model, token by token, with a key-value cache. */
#ifndef TH_LAB_GENERATE_H
#define TH_LAB_GENERATE_H

#include "data/vocab.h"

/* A model's cache and a tape of its own, for one text after another. The model must outlive it; its
 * weights may change between two texts. */
typedef struct th__generator th__generator;
/* TH_ERR_VALUE for a model that does not continue a text: a classifier, an encoder and decoder. */
th__generator *th__generator_new(th_model *model, th_error *error);
void th__generator_free(th__generator *generator);

typedef struct th__generate {
  th_sampling sampling;
  ptrdiff_t tokens; /* new ones, at most */
  ptrdiff_t chunk;  /* prompt tokens per pass [64] */
  uint64_t seed;
  bool slide;      /* when the context is full, begin again with the last half of it, and go on */
  uint64_t sample; /* token `index` of sample k is drawn with random number (seed, k, index) */
} th__generate;

/* Called with every new token as soon as it is drawn, with the logarithm of its probability under the
 * model (at temperature 1, of all tokens). False ends the text there. */
typedef bool th__generate_token(void *context, int32_t id, double log_probability);

typedef enum th__generate_end {
  TH__GENERATE_TOKENS,  /* as many as were asked for */
  TH__GENERATE_CONTEXT, /* the context of the model is full */
  TH__GENERATE_STOPPED  /* by the function called */
} th__generate_end;

typedef struct th__generated {
  ptrdiff_t tokens; /* new ones */
  th__generate_end end;
} th__generated;

/* Continues a prompt of at least one token (th__generate_start for none). Knows nothing of texts before.
 * Errors: a prompt longer than the context, with both figures; an id out of range; logits that are not
 * finite; settings out of range; memory. */
th_status th__generate_text(th__generator *generator, const int32_t *prompt, ptrdiff_t count,
                            const th__generate *settings, th__generate_token *token, void *context,
                            th__generated *result, th_error *error);

/* Where a text begins that has no prompt: behind a line's end, or the first symbol if there is none. */
int32_t th__generate_start(const th__vocab *vocab);

/* Ids as the text they stand for, bytes that are not UTF-8 replaced by U+FFFD. ids: integers. NULL when
 * memory ends. */
json_t *th__generate_text_json(const th__vocab *vocab, const json_t *ids);

#endif
