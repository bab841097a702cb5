/* seq2seq.c: an encoder, and a decoder that attends to it. */
#include "autograd/tape.h"
#include "nn/transformer.h"

th_tensor *th__seq2seq_logits(th_tape *tape, const th__transformer *t, const th_tensor *source,
                              const th_tensor *lengths, const th_tensor *target,
                              const th_pass *pass) {
  th_pass quiet = pass != NULL ? *pass : (th_pass){0};
  quiet.weights = NULL; /* those asked for are the decoder's */
  const th__run encoder = {.config = &t->config, .pass = &quiet, .lengths = lengths};
  th_tensor *memory = th__stack_states(tape, t->wte, &t->encoder, source, &encoder);
  if (memory == NULL) return NULL;
  const th__run decoder = {.config = &t->config,
                           .pass = pass,
                           .causal = true,
                           .memory = memory,
                           .memory_lengths = lengths,
                           .site = th__stack_sites(&t->config, false)};
  th_tensor *x = th__stack_states(tape, t->wte, &t->decoder, target, &decoder);
  return th_linear(tape, x, t->head.weight != NULL ? t->head.weight : t->wte, NULL);
}

static const th__model_class seq2seq_class = {TH_MODEL_SEQ2SEQ, "seq2seq", th__transformer_free,
                                              NULL, NULL};

th_model *th_seq2seq_new(const th_gpt *config, uint64_t seed, th_error *error) {
  th_model *model = th__transformer_new(&seq2seq_class, config, "th_seq2seq", true, true, error);
  if (model == NULL) return NULL;
  th__transformer *t = model->as.transformer;
  th_gpt *c = &t->config;
  c->all_see_all = false;
  th__maker maker = {.params = model->params, .dtype = c->dtype, .seed = seed, .error = error};
  t->wte = th__make_table(&maker, c, "wte.weight", c->vocab);
  th__make_stack(&maker, &t->encoder, c, false, "enc.", "enc.");
  th__make_stack(&maker, &t->decoder, c, true, "dec.", "dec.");
  if (c->untied) t->head.weight = th__make_output(&maker, c);
  if (!maker.failed) return model;
  th_model_free(model);
  return NULL;
}

th_tensor *th_seq2seq_forward(th_tape *tape, th_model *model, const th_tensor *source,
                              const th_tensor *lengths, const th_tensor *target,
                              const th_pass *pass) {
  if (tape == NULL || tape->error.status != TH_OK) return NULL;
  TH__REQUIRE(tape, model != NULL && model->class == &seq2seq_class, TH_ERR_VALUE, "seq2seq",
              "the model is %s; one of th_seq2seq_new() is expected",
              model == NULL ? "NULL" : model->class->name);
  if (!th__pass_fits(tape, model, "source", source, pass) ||
      !th__pass_fits(tape, model, "target", target, pass) ||
      !th__lengths_fit(tape, "seq2seq", source, lengths))
    return NULL;
  TH__REQUIRE(tape, source->shape[0] == target->shape[0], TH_ERR_SHAPE, "seq2seq",
              "the source is %s but the target %s; the batch (axis 0) must be one",
              TH__TEXT(source), TH__TEXT(target));
  return th__seq2seq_logits(tape, model->as.transformer, source, lengths, target, pass);
}
