/* gpt.c: the decoder-only transformer. */
#include "autograd/tape.h"
#include "nn/cache.h"
#include "nn/transformer.h"
#include "tensor/error.h"

th_tensor *th__gpt_logits(th_tape *tape, const th__transformer *t, const th_tensor *tokens,
                          const th_pass *pass) {
  th_cache *cache = pass != NULL ? pass->cache : NULL;
  const th__run run = {.config = &t->config,
                       .pass = pass,
                       .cache = cache,
                       .offset = th_cache_length(cache),
                       .causal = !t->config.all_see_all};
  th_tensor *x = th__stack_states(tape, t->wte, &t->decoder, tokens, &run);
  return th_linear(tape, x, t->head.weight != NULL ? t->head.weight : t->wte, NULL);
}

static th_tensor *forward(th_tape *tape, th_model *model, const th_tensor *tokens,
                          const th_pass *pass) {
  return th__gpt_logits(tape, model->as.transformer, tokens, pass);
}

/* Keys and values of each layer, of the heads that keys have. */
static th_status make_cache(const th_model *model, th_cache *cache, th_error *error) {
  const th_gpt *c = &model->as.transformer->config;
  if (c->all_see_all)
    return th__error(error, TH_ERR_VALUE,
                     "th_cache_new: with all_see_all, tokens see those behind them; such a model "
                     "cannot go on from what it has kept");
  const ptrdiff_t widths[] = {c->head_width, c->width / c->heads};
  for (ptrdiff_t i = 0; i < 2 * c->layers; i++) {
    th_status status =
        th__cache_add(cache, 2 * c->layers, c->dtype,
                      TH_SHAPE(cache->batch, c->kv_heads, cache->capacity, widths[i % 2]), error);
    if (status != TH_OK) return status;
  }
  return TH_OK;
}

static const th__model_class gpt_class = {TH_MODEL_GPT, "gpt", th__transformer_free, forward,
                                          make_cache};

th_model *th_gpt_new(const th_gpt *config, uint64_t seed, th_error *error) {
  th_model *model = th__transformer_new(&gpt_class, config, "th_gpt", false, true, error);
  if (model == NULL) return NULL;
  th__transformer *t = model->as.transformer;
  const th_gpt *c = &t->config;
  th__maker maker = {.params = model->params, .dtype = c->dtype, .seed = seed, .error = error};
  t->wte = th__make_table(&maker, c, "wte.weight", c->vocab);
  th__make_stack(&maker, &t->decoder, c, false, "h.", "");
  if (c->untied) t->head.weight = th__make_output(&maker, c);
  if (!maker.failed) return model;
  th_model_free(model);
  return NULL;
}
