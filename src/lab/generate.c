/* generate.c: a prompt in chunks, then one token after another. */
#include "lab/generate.h"

#include <math.h>
#include <string.h>

#include "tensor/alloc.h"
#include "tensor/error.h"
#include "tensor/purpose.h"
#include "tensor/tensor.h"

enum { CHUNK = 64 };

struct th__generator {
  th_model *model;
  th_cache *cache;
  th_tape *tape;
  ptrdiff_t context; /* tokens, 0: no limit */
  int32_t *seen;     /* those that the cache holds, `context` at most */
};

static bool fill(th__generator *g, th_model *model, th_error *error) {
  if ((g->cache = th_cache_new(model, 1, 0, error)) == NULL) return false;
  const th_gpt *gpt = th_model_gpt(model);
  g->model = model;
  g->context = gpt != NULL ? gpt->context : 0;
  size_t bytes = (size_t)g->context * sizeof *g->seen;
  if (bytes > 0) g->seen = th__alloc(bytes);
  g->tape = th_tape_new();
  if (g->tape == NULL || (bytes > 0 && g->seen == NULL)) {
    th__error_memory(error, "generate", bytes);
    return false;
  }
  th_tape_set_recording(g->tape, false);
  return true;
}

th__generator *th__generator_new(th_model *model, th_error *error) {
  th__generator *g = th__alloc_zero(sizeof *g);
  if (g == NULL) {
    th__error_memory(error, "generate", sizeof *g);
    return NULL;
  }
  if (fill(g, model, error)) return g;
  th__generator_free(g);
  return NULL;
}

void th__generator_free(th__generator *generator) {
  if (generator == NULL) return;
  th_tape_free(generator->tape);
  th_cache_free(generator->cache);
  th__free(generator->seen);
  th__free(generator);
}

/* ---- one text ---- */

/* Feeds tokens and gives the logits [1, count, V], which stay until the next call. */
static th_tensor *feed(th__generator *g, const int32_t *ids, ptrdiff_t count, th_error *error) {
  if (g->context > 0 && th_cache_length(g->cache) + count <= g->context)
    memcpy(g->seen + th_cache_length(g->cache), ids, (size_t)count * sizeof *ids);
  th_tape_reset(g->tape);
  th_tensor *tokens = th_input(g->tape, TH_I32, TH_SHAPE(1, count), ids);
  th_tensor *logits = th_model_forward(g->tape, g->model, tokens, &(th_pass){.cache = g->cache});
  if (logits == NULL) {
    th__error(error, th_tape_status(g->tape), "%s", th_tape_message(g->tape));
    th_tape_clear_error(g->tape);
  }
  return logits;
}

static th_tensor *feed_prompt(th__generator *g, const int32_t *prompt, ptrdiff_t count,
                              ptrdiff_t chunk, th_error *error) {
  th_tensor *logits = NULL;
  for (ptrdiff_t at = 0; at < count; at += chunk) {
    ptrdiff_t size = count - at < chunk ? count - at : chunk;
    if ((logits = feed(g, prompt + at, size, error)) == NULL) break;
  }
  return logits;
}

/* Of a full context, the last half again, at positions 0 and on. What feed() writes to `seen` meanwhile
 * ends before that half. */
static bool slide(th__generator *g, ptrdiff_t chunk, th_error *error) {
  ptrdiff_t half = g->context / 2;
  th_cache_clear(g->cache);
  return half == 0 || feed_prompt(g, g->seen + g->context - half, half, chunk, error) != NULL;
}

static ptrdiff_t chunk_of(const th__generate *s) { return s->chunk > 0 ? s->chunk : CHUNK; }

/* Of the last row. */
static double log_probability(const th_tensor *logits, ptrdiff_t id) {
  ptrdiff_t vocab = th__dim(logits, -1), last = logits->count - vocab;
  double top = -(double)INFINITY, sum = 0;
  for (ptrdiff_t i = 0; i < vocab; i++) top = fmax(top, th__get(logits, last + i));
  for (ptrdiff_t i = 0; i < vocab; i++) sum += exp(th__get(logits, last + i) - top);
  return th__get(logits, last + id) - top - log(sum);
}

static th_status check(const th__generator *g, ptrdiff_t count, const th__generate *s,
                       th_error *error) {
  if (count < 1)
    return th__error(error, TH_ERR_VALUE,
                     "generate: the prompt is empty; at least 1 token is needed");
  if (g->context > 0 && count > g->context)
    return th__error(error, TH_ERR_VALUE,
                     "the prompt has %td tokens, but the context of the model holds %td; give a "
                     "shorter one",
                     count, g->context);
  if (s->tokens < 0 || s->chunk < 0)
    return th__error(error, TH_ERR_VALUE,
                     "generate: tokens is %td and chunk %td; 0 or more is expected", s->tokens,
                     s->chunk);
  return TH_OK;
}

static th_status go_on(th__generator *g, const th_tensor *logits, const th__generate *s,
                       th__generate_token *token, void *context, th__generated *result,
                       th_error *error) {
  const th_random stream = {s->seed, TH__PURPOSE_GENERATE, s->sample};
  while (result->tokens < s->tokens) {
    double uniform = th_random_uniform(stream, (uint64_t)result->tokens);
    int32_t id = (int32_t)th_sample(logits, &s->sampling, uniform, error);
    if (id < 0) return TH_ERR_VALUE;
    result->tokens++;
    if (!token(context, id, log_probability(logits, id))) {
      result->end = TH__GENERATE_STOPPED;
      return TH_OK;
    }
    if (result->tokens == s->tokens) break;
    if (g->context > 0 && th_cache_length(g->cache) == g->context) {
      if (!s->slide) {
        result->end = TH__GENERATE_CONTEXT;
        return TH_OK;
      }
      if (!slide(g, chunk_of(s), error)) return TH_ERR_VALUE;
    }
    if ((logits = feed(g, &id, 1, error)) == NULL) return TH_ERR_VALUE;
  }
  result->end = TH__GENERATE_TOKENS;
  return TH_OK;
}

th_status th__generate_text(th__generator *generator, const int32_t *prompt, ptrdiff_t count,
                            const th__generate *settings, th__generate_token *token, void *context,
                            th__generated *result, th_error *error) {
  th_error local = {0};
  *result = (th__generated){.end = TH__GENERATE_TOKENS};
  th_status status = check(generator, count, settings, error);
  if (status != TH_OK || settings->tokens == 0) return status;
  th_cache_clear(generator->cache);
  const th_tensor *logits = feed_prompt(generator, prompt, count, chunk_of(settings), &local);
  if (logits != NULL && go_on(generator, logits, settings, token, context, result, &local) == TH_OK)
    return TH_OK;
  if (error != NULL) *error = local;
  return local.status;
}

int32_t th__generate_start(const th__vocab *vocab) {
  ptrdiff_t line_end =
      th__vocab_kind_of(vocab) == TH__VOCAB_NUMBERS ? -1 : th__vocab_find(vocab, '\n');
  return line_end >= 0 ? (int32_t)line_end : 0;
}

/* ---- JSON ---- */

/* Copies what is UTF-8 and replaces each other byte. `out` has room for three times `count`. */
static size_t clean(const char *bytes, size_t count, char *out) {
  size_t used = 0;
  for (size_t at = 0; at < count;) {
    size_t begin = at;
    if (th__utf8_next(bytes, count, &at) < 0) {
      used += (size_t)th__utf8_put(0xFFFD, out + used);
      at++;
    } else {
      memcpy(out + used, bytes + begin, at - begin);
      used += at - begin;
    }
  }
  return used;
}

json_t *th__generate_text_json(const th__vocab *vocab, const json_t *ids) {
  size_t room = (json_array_size(ids) + 1) * (TH__VOCAB_SYMBOL + 1), used = 0;
  char *bytes = th__alloc(4 * room), *cleaned = bytes + room;
  if (bytes == NULL) return NULL;
  const char *separator = th__vocab_separator(vocab);
  for (size_t i = 0; i < json_array_size(ids); i++) {
    if (i > 0 && separator[0] != '\0') bytes[used++] = separator[0];
    ptrdiff_t id = (ptrdiff_t)json_integer_value(json_array_get(ids, i));
    used += (size_t)th__vocab_decode(vocab, id, bytes + used);
  }
  json_t *text = json_stringn(cleaned, clean(bytes, used, cleaned));
  th__free(bytes);
  return text;
}
