/* classifier: a step against goldens, padding that changes no bit, lengths, head, what is refused. */
#include "step.h"

#include "golden/classifier.inc"
#include "tensor/alloc.h"

enum { PARAMS = sizeof golden_classifier_params / sizeof *golden_classifier_params, BATCH = 3 };

static const th_gpt golden_shape = {.layers = golden_classifier_step_layers,
                                    .heads = golden_classifier_step_heads,
                                    .width = golden_classifier_step_width,
                                    .hidden = golden_classifier_step_hidden,
                                    .context = golden_classifier_step_context,
                                    .vocab = golden_classifier_step_vocab,
                                    .positions = TH_POSITION_SINUSOIDAL,
                                    .feed_forward = TH_FEED_FORWARD_RELU,
                                    .post_norm = true};
static const th_gpt llama = {TH_LLAMA,      .layers = 2,      .heads = 4,
                             .kv_heads = 2, .width = 16,      .context = 6,
                             .vocab = 7,    .norm_eps = 1e-6, .dropout = 0.1};

typedef struct setup {
  th_model *model;
  th_tape *tape;
  th_tensor *tokens, *lengths, *targets;
} setup;

static setup set_up(th_gpt config, th_dtype dtype) {
  th_error error = {0};
  config.dtype = dtype;
  setup s = {.model = th_classifier_new(&config, golden_classifier_step_classes, 1, &error),
             .tape = th_tape_new()};
  cr_assert_not_null(s.model, "%s", error.message);
  s.tokens = th_tensor_from(TH_I32, 2, golden_classifier_step_tokens_shape,
                            golden_classifier_step_tokens, NULL);
  s.lengths = th_tensor_from(TH_I32, TH_SHAPE(BATCH), golden_classifier_step_lengths, NULL);
  s.targets = th_tensor_from(TH_I32, TH_SHAPE(BATCH), golden_classifier_step_targets, NULL);
  return s;
}

static void tear_down(setup s) {
  cr_assert_eq(th_tape_status(s.tape), TH_OK, "%s", th_tape_message(s.tape));
  th_tape_free(s.tape);
  th_tensor_free(s.tokens), th_tensor_free(s.lengths), th_tensor_free(s.targets);
  th_model_free(s.model);
}

TEST_BOTH(classifier, golden_step) {
  setup s = set_up(golden_shape, dtype);
  fill_params(s.model, golden_classifier_params, PARAMS);
  th_tensor *logits = th_classifier_forward(s.tape, s.model, s.tokens, s.lengths, NULL);
  expect_step(s.tape, s.model, logits, golden_classifier_step_logits, s.targets,
              *golden_classifier_step_loss, golden_classifier_params, PARAMS);
  tear_down(s);
}

/* Logits and, one after another, all gradients, of one training step with dropout. */
static double *step_values(setup s, ptrdiff_t *count) {
  th_params *params = th_model_params(s.model);
  th_params_zero_grad(params);
  th_pass pass = {.training = true, .stream = {.seed = 2, .step = 3}};
  th_tensor *logits = th_classifier_forward(s.tape, s.model, s.tokens, s.lengths, &pass);
  th_backward(s.tape, th_cross_entropy(s.tape, logits, s.targets));
  cr_assert_eq(th_tape_status(s.tape), TH_OK, "%s", th_tape_message(s.tape));
  *count = th_tensor_count(logits) + th_params_elements(params);
  double *values = malloc((size_t)*count * sizeof *values), *at = values;
  th_tensor_read(logits, at);
  at += th_tensor_count(logits);
  for (ptrdiff_t i = 0; i < th_params_count(params); i++) {
    th_tensor_read(th_tensor_grad(th_params_at(params, i)), at);
    at += th_tensor_count(th_params_at(params, i));
  }
  th_tape_reset(s.tape);
  return values;
}

/* Any tokens in the padding: the same bits, forward and backward. A token within the length: not. */
static void padding_changes_nothing(th_gpt config, th_dtype dtype) {
  setup s = set_up(config, dtype);
  ptrdiff_t count, length = th_tensor_dim(s.tokens, 1);
  double *first = step_values(s, &count);
  for (uint64_t round = 0; round < 5; round++) {
    for (ptrdiff_t i = 0; i < th_tensor_count(s.tokens); i++)
      if (i % length >= golden_classifier_step_lengths[i / length])
        th__set(s.tokens, i,
                (double)th_random_below((th_random){.seed = round}, (uint64_t)i,
                                        (uint64_t)config.vocab));
    double *again = step_values(s, &count);
    for (ptrdiff_t i = 0; i < count; i++)
      cr_assert_eq(first[i], again[i], "value %td of %td: %.17g, then %.17g", i, count, first[i],
                   again[i]);
    free(again);
  }
  th__set(s.tokens, length + 2, (int)(th__get(s.tokens, length + 2) + 1) % (int)config.vocab);
  double *other = step_values(s, &count);
  cr_assert_neq(first[golden_classifier_step_classes], other[golden_classifier_step_classes]);
  free(first), free(other);
  tear_down(s);
}

TEST_BOTH(classifier, padding_changes_nothing) {
  padding_changes_nothing(golden_shape, dtype);
  padding_changes_nothing(llama, dtype);
}

/* A sequence gives the same answer alone, cut to its length, as padded among others; and without
 * lengths all tokens count. */
TEST_BOTH(classifier, padded_equals_alone) {
  th_gpt config = llama;
  setup s = set_up(config, dtype);
  double limit = dtype == TH_F32 ? 1e-5 : 1e-12;
  double together[BATCH * golden_classifier_step_classes];
  th_tensor_read(th_classifier_forward(s.tape, s.model, s.tokens, s.lengths, NULL), together);
  for (int b = 0; b < BATCH; b++) {
    th_tensor *row = th_slice(s.tape, s.tokens, 0, b, b + 1);
    th_tensor *alone = th_slice(s.tape, row, 1, 0, golden_classifier_step_lengths[b]);
    th_tensor *logits = th_classifier_forward(s.tape, s.model, alone, NULL, NULL);
    expect_values("alone", logits, together + b * golden_classifier_step_classes, limit);
  }
  tear_down(s);
}

Test(classifier, configuration) {
  th_gpt config = llama;
  th_model *model = th_classifier_new(&config, 5, 1, NULL);
  const th_gpt *c = th_model_gpt(model);
  cr_assert(c->all_see_all && !c->untied);
  th_params *params = th_model_params(model);
  cr_assert_eq(th_tensor_dim(th_params_find(params, "head.weight"), 0), 5);
  cr_assert_null(th_params_find(params, "head.bias")); /* no_bias */
  cr_assert_null(th_params_find(params, "lm_head.weight"));
  th_model *again = th_classifier_new(c, 5, 1, NULL);
  cr_assert_eq(memcmp(th_model_gpt(again), c, sizeof *c), 0);
  th_model_free(model), th_model_free(again);

  th_error error = {0};
  cr_assert_null(th_classifier_new(&config, 0, 1, &error));
  cr_assert_eq(error.status, TH_ERR_VALUE);
  cr_assert_not_null(strstr(error.message, "classes is 0"), "%s", error.message);
  config.kv_heads = 3;
  cr_assert_null(th_classifier_new(&config, 2, 1, &error));
  cr_assert_not_null(strstr(error.message, "th_classifier: "), "%s", error.message);
  cr_assert_null(th_classifier_new(NULL, 2, 1, &error));
  cr_assert_not_null(strstr(error.message, "configuration is NULL"), "%s", error.message);
}

Test(classifier, rejects) {
  setup s = set_up(golden_shape, TH_F32);
#define REFUSED(tokens, lengths, status, text)                                                     \
  do {                                                                                             \
    cr_assert_null(th_classifier_forward(s.tape, s.model, tokens, lengths, NULL));                 \
    expect_error(s.tape, status, text);                                                            \
  } while (0)
  th__set(s.lengths, 1, 0);
  REFUSED(s.tokens, s.lengths, TH_ERR_INDEX, "length 0 of sequence 1; 1 to 6");
  th__set(s.lengths, 1, 7);
  REFUSED(s.tokens, s.lengths, TH_ERR_INDEX, "length 7 of sequence 1");
  REFUSED(s.tokens, s.tokens, TH_ERR_SHAPE, "i32 [3] is expected");
  REFUSED(s.lengths, NULL, TH_ERR_SHAPE, "i32 [B, T]");
  REFUSED(NULL, NULL, TH_ERR_VALUE, "NULL");
  th_tensor *longer = th_tensor_new(TH_I32, TH_SHAPE(1, 7), NULL);
  REFUSED(longer, NULL, TH_ERR_STATE, "longer than the context of 6");
  th_tensor_free(longer);
  th_cache *foreign = NULL;
  th_model *gpt = th_gpt_new(&golden_shape, 1, NULL);
  foreign = th_cache_new(gpt, BATCH, 0, NULL);
  th_tape_set_recording(s.tape, false);
  cr_assert_null(
      th_classifier_forward(s.tape, s.model, s.tokens, NULL, &(th_pass){.cache = foreign}));
  expect_error(s.tape, TH_ERR_STATE, "another model");
  th_cache_free(foreign);
  th_model_free(gpt);
  cr_assert_null(th_classifier_forward(s.tape, NULL, s.tokens, NULL, NULL));
  expect_error(s.tape, TH_ERR_VALUE, "the model is NULL");
  tear_down(s);
}

Test(classifier, every_allocation_may_fail) {
  th_model *model = NULL;
  size_t n = 0;
  while (model == NULL) {
    th_error error = {0};
    th__alloc_fail_at(++n);
    model = th_classifier_new(&golden_shape, 2, 1, &error);
    th__alloc_fail_at(0);
    if (model == NULL) cr_assert_eq(error.status, TH_ERR_MEMORY, "%s", error.message);
  }
  cr_assert_gt(n, 5u * PARAMS);
  th_model_free(model);
}
