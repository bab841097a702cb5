/* cached.h: what the tests of models with a cache share: a model, a cache, and the logits of a pass over all
 * tokens without one. */
#ifndef TESTS_NN_CACHED_H
#define TESTS_NN_CACHED_H

#include "../support.h"
#include "nn/cache.h"

typedef struct setup {
  th_model *model;
  th_tape *tape;
  th_cache *cache;
  th_tensor *tokens;
  double *logits; /* of the uncached pass over all tokens */
} setup;

static inline th_tensor *random_below(ptrdiff_t vocab, ptrdiff_t batch, ptrdiff_t length,
                                      uint64_t seed) {
  th_tensor *tokens = th_tensor_new(TH_I32, TH_SHAPE(batch, length), NULL);
  for (ptrdiff_t i = 0; i < batch * length; i++)
    th__set(tokens, i,
            (double)th_random_below((th_random){.seed = seed}, (uint64_t)i, (uint64_t)vocab));
  return tokens;
}

/* Takes model and tokens. Weights of deviation sd: so that nothing is nearly uniform, and it shows who sees
 * whom. */
static inline setup set_up_cached(th_model *model, double sd, th_tensor *tokens) {
  th_error error = {0};
  setup s = {.model = model, .tape = th_tape_new(), .tokens = tokens};
  th_params *params = th_model_params(model);
  for (ptrdiff_t i = 0; i < th_params_count(params); i++)
    th_init_normal(th_params_at(params, i), 0, sd, (th_random){.seed = 9, .purpose = (uint32_t)i});
  th_tape_set_recording(s.tape, false);
  s.cache = th_cache_new(model, th_tensor_dim(tokens, 0), 0, &error);
  cr_assert_not_null(s.cache, "%s", error.message);
  th_tensor *logits = th_model_forward(s.tape, model, tokens, NULL);
  cr_assert_not_null(logits, "%s", th_tape_message(s.tape));
  s.logits = malloc((size_t)th_tensor_count(logits) * sizeof *s.logits);
  th_tensor_read(logits, s.logits);
  th_tape_reset(s.tape);
  return s;
}

static inline void tear_down(setup s) {
  cr_assert_eq(th_tape_status(s.tape), TH_OK, "%s", th_tape_message(s.tape));
  free(s.logits);
  th_tensor_free(s.tokens);
  th_cache_free(s.cache);
  th_tape_free(s.tape);
  th_model_free(s.model);
}

#endif
