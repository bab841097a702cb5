/* model.c: a model's life, and passes through models of any kind. */
#include "nn/model.h"

#include "autograd/tape.h"
#include "nn/cache.h"
#include "tensor/alloc.h"
#include "tensor/error.h"

th_model *th__model_new(const th__model_class *class, th_error *error) {
  th_model *model = th__alloc_zero(sizeof *model);
  if (model == NULL) {
    th__error_memory(error, class->name, sizeof *model);
    return NULL;
  }
  model->class = class;
  model->params = th_params_new(error);
  if (model->params != NULL) return model;
  th_model_free(model);
  return NULL;
}

void th_model_free(th_model *model) {
  if (model == NULL) return;
  model->class->free(model);
  th_params_free(model->params);
  th__free(model);
}

th_params *th_model_params(const th_model *model) { return model == NULL ? NULL : model->params; }
th_model_kind th_model_kind_of(const th_model *model) { return model->class->kind; }

/* ---- a pass ---- */

static bool cache_fits(th_tape *tape, const th_model *model, const th_tensor *tokens,
                       const th_cache *cache) {
  const char *op = model->class->name;
  if (tape->recording)
    th_fail(tape, TH_ERR_STATE, op,
            "a cache holds no gradients; th_tape_set_recording(tape, false) first, or train without "
            "one");
  else if (cache->model != model)
    th_fail(tape, TH_ERR_STATE, op, "the cache was made for another model; make one for this");
  else if (cache->batch != tokens->shape[0])
    th_fail(tape, TH_ERR_SHAPE, op,
            "the tokens are %s but the cache holds %td sequences; make one for this batch",
            TH__TEXT(tokens), cache->batch);
  else if (cache->capacity > 0 && tokens->shape[1] > cache->capacity - cache->length)
    th_fail(tape, TH_ERR_STATE, op,
            "the cache has room for %td tokens and holds %td: %td more do not fit; start again with "
            "th_cache_clear()%s",
            cache->capacity, cache->length, tokens->shape[1],
            cache->capacity < model->context ? ", or make a larger one" : "");
  else
    return true;
  return false;
}

bool th__pass_fits(th_tape *tape, const th_model *model, const char *name, const th_tensor *tokens,
                   const th_pass *pass) {
  const char *op = model->class->name;
  if (tokens == NULL)
    th_fail(tape, TH_ERR_VALUE, op, "the %s are NULL", name);
  else if (tokens->dtype != TH_I32 || tokens->ndim != 2)
    th_fail(tape, TH_ERR_SHAPE, op, "the %s are %s %s; i32 [B, T] is expected", name,
            th_dtype_name(tokens->dtype), TH__TEXT(tokens));
  else if (pass != NULL && pass->cache != NULL)
    return cache_fits(tape, model, tokens, pass->cache);
  else if (model->context > 0 && tokens->shape[1] > model->context)
    th_fail(tape, TH_ERR_STATE, op,
            "%s: sequences of %td tokens are longer than the context of %td; use shorter ones, or a "
            "model with a larger context",
            name, tokens->shape[1], model->context);
  else
    return true;
  return false;
}

th_tensor *th_model_forward(th_tape *tape, th_model *model, const th_tensor *tokens,
                            const th_pass *pass) {
  if (tape == NULL || tape->error.status != TH_OK) return NULL;
  TH__REQUIRE(tape, model != NULL, TH_ERR_VALUE, "th_model_forward",
              "the model is NULL; did its making report an error?");
  TH__REQUIRE(tape, model->class->forward != NULL, TH_ERR_VALUE, "th_model_forward",
              "a %s takes more than tokens; call th_%s_forward()", model->class->name,
              model->class->name);
  if (!th__pass_fits(tape, model, "tokens", tokens, pass)) return NULL;
  th_tensor *logits = model->class->forward(tape, model, tokens, pass);
  if (logits != NULL && pass != NULL && pass->cache != NULL)
    pass->cache->length += tokens->shape[1];
  return logits;
}

th_tensor *th_gpt_forward(th_tape *tape, th_model *model, const th_tensor *tokens,
                          const th_pass *pass) {
  if (tape == NULL || tape->error.status != TH_OK) return NULL;
  TH__REQUIRE(tape, model != NULL, TH_ERR_VALUE, "gpt",
              "the model is NULL; did th_gpt_new() report an error?");
  TH__REQUIRE(tape, model->class->kind == TH_MODEL_GPT, TH_ERR_VALUE, "gpt",
              "the model is a %s; th_%s_forward() runs it", model->class->name,
              model->class->forward != NULL ? "model" : model->class->name);
  return th_model_forward(tape, model, tokens, pass);
}
