/* model.h: what all kinds of models have in common: parameters, and a value per kind that says how it
 * is run and freed. */
#ifndef TH_NN_MODEL_H
#define TH_NN_MODEL_H

#include "tapehead.h"

/* One constant per kind of model, in that kind's file. */
typedef struct th__model_class {
  th_model_kind kind;
  const char *name; /* for messages: "gpt" */

  /* Frees model->as. The parameters are freed by th_model_free. */
  void (*free)(th_model *model);

  /* tokens, checked to be i32 [B, T], -> logits [B, T, V]; NULL if th_model_forward cannot run this
   * kind. With pass->cache, which is checked to fit (same model, same batch, room for T more) and not
   * to be recorded: goes on from th_cache_length(cache). It does not move the length, which
   * th_model_forward does once the pass has succeeded; what it stores in the cache must leave the first
   * `length` tokens' part as it was until nothing can fail any more. */
  th_tensor *(*forward)(th_tape *tape, th_model *model, const th_tensor *tokens,
                        const th_pass *pass);

  /* Makes the tensors of a cache (th__cache_add) whose model, batch and capacity are set. NULL if
   * this kind has no cache. */
  th_status (*cache)(const th_model *model, th_cache *cache, th_error *error);
} th__model_class;

struct th_model {
  const th__model_class *class;
  th_params *params;
  ptrdiff_t context; /* tokens that a sequence may have, 0: no limit */
  union {
    struct th__transformer *transformer;   /* gpt, classifier, seq2seq: transformer.h */
    struct th__recurrent_model *recurrent; /* recurrent.c */
  } as;
};

/* A model of this class with an empty list of parameters; th_model_free() releases it at any point of
 * its making, model->as NULL included. NULL with `error` when memory ends. */
th_model *th__model_new(const th__model_class *class, th_error *error);

/* True if tokens are i32 [B, T] and fit the model's context, or the pass's cache; otherwise leaves an
 * error on the tape that calls them `name`. */
bool th__pass_fits(th_tape *tape, const th_model *model, const char *name, const th_tensor *tokens,
                   const th_pass *pass);

#endif
