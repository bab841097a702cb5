/* classifier.c: an encoder and a mean over each sequence's tokens. */
#include "autograd/tape.h"
#include "nn/transformer.h"
#include "tensor/error.h"

bool th__lengths_fit(th_tape *tape, const char *op, const th_tensor *tokens,
                     const th_tensor *lengths) {
  if (lengths == NULL) return true;
  ptrdiff_t batch = tokens->shape[0], longest = tokens->shape[1];
  if (lengths->dtype != TH_I32 || lengths->ndim != 1 || lengths->shape[0] != batch) {
    th_fail(tape, TH_ERR_SHAPE, op, "the lengths are %s %s; i32 [%td] is expected for tokens %s",
            th_dtype_name(lengths->dtype), TH__TEXT(lengths), batch, TH__TEXT(tokens));
    return false;
  }
  for (ptrdiff_t i = 0; i < batch; i++) {
    int length = (int)th__get(lengths, i * lengths->strides[0]);
    if (length >= 1 && length <= longest) continue;
    th_fail(tape, TH_ERR_INDEX, op, "length %d of sequence %td; 1 to %td is expected for tokens %s",
            length, i, longest, TH__TEXT(tokens));
    return false;
  }
  return true;
}

/* Attention whose scores are all 0 is the mean over the keys that may be seen: x [B, T, C] -> [B, C].
 * So the padding is skipped, not multiplied by 0. */
static th_tensor *mean_over_tokens(th_tape *tape, th_tensor *x, const th_tensor *lengths) {
  if (x == NULL) return NULL;
  ptrdiff_t batch = x->shape[0], length = x->shape[1], width = x->shape[2];
  th_tensor *q = th_input(tape, x->dtype, TH_SHAPE(batch, 1, 1, 1), NULL);
  th_tensor *k = th_input(tape, x->dtype, TH_SHAPE(batch, 1, length, 1), NULL);
  th_tensor *v = th_reshape(tape, x, TH_SHAPE(batch, 1, length, width));
  th_tensor *mean = th_attention(tape, q, k, v, &(th_attention_options){.key_lengths = lengths});
  return th_reshape(tape, mean, TH_SHAPE(batch, width));
}

th_tensor *th__classifier_logits(th_tape *tape, const th__transformer *t, const th_tensor *tokens,
                                 const th_tensor *lengths, const th_pass *pass) {
  const th__run run = {.config = &t->config, .pass = pass, .lengths = lengths};
  th_tensor *x = th__stack_states(tape, t->wte, &t->encoder, tokens, &run);
  return th_linear(tape, mean_over_tokens(tape, x, lengths), t->head.weight, t->head.bias);
}

static const th__model_class classifier_class = {TH_MODEL_CLASSIFIER, "classifier",
                                                 th__transformer_free, NULL, NULL};

th_model *th_classifier_new(const th_gpt *config, ptrdiff_t classes, uint64_t seed,
                            th_error *error) {
  if (classes < 1 || classes > INT32_MAX) {
    th__error(error, TH_ERR_VALUE, "th_classifier: classes is %td; at least 1 is expected", classes);
    return NULL;
  }
  th_model *model =
      th__transformer_new(&classifier_class, config, "th_classifier", true, false, error);
  if (model == NULL) return NULL;
  th__transformer *t = model->as.transformer;
  th_gpt *c = &t->config;
  c->all_see_all = true;
  c->untied = false;
  th__maker maker = {.params = model->params, .dtype = c->dtype, .seed = seed, .error = error};
  t->wte = th__make_table(&maker, c, "wte.weight", c->vocab);
  th__make_stack(&maker, &t->encoder, c, false, "h.", "");
  t->head = th__make_dense(&maker, c, "", "head", classes, c->width);
  if (!maker.failed) return model;
  th_model_free(model);
  return NULL;
}

th_tensor *th_classifier_forward(th_tape *tape, th_model *model, const th_tensor *tokens,
                                 const th_tensor *lengths, const th_pass *pass) {
  if (tape == NULL || tape->error.status != TH_OK) return NULL;
  TH__REQUIRE(tape, model != NULL && model->class == &classifier_class, TH_ERR_VALUE, "classifier",
              "the model is %s; one of th_classifier_new() is expected",
              model == NULL ? "NULL" : model->class->name);
  if (!th__pass_fits(tape, model, "tokens", tokens, pass) ||
      !th__lengths_fit(tape, "classifier", tokens, lengths))
    return NULL;
  return th__classifier_logits(tape, model->as.transformer, tokens, lengths, pass);
}
