/* inspect: figures of attention where they are known, and of parameters that are not finite. */
#include <math.h>
#include <string.h>

#include "lab/inspect.h"
#include "support.h"
#include "tensor/alloc.h"

enum { LAYERS = 2, HEADS = 2, CONTEXT = 6, VOCAB = 5 };
static const int32_t tokens[] = {3, 1, 4, 1, 0};

static th_model *model_of(th_gpt config) {
  config.layers = LAYERS;
  config.heads = HEADS;
  config.width = 8;
  config.context = CONTEXT;
  config.vocab = VOCAB;
  th_error error = {0};
  th_model *model = th_gpt_new(&config, 1, &error);
  cr_assert_not_null(model, "%s", error.message);
  return model;
}

/* All weights 0: every logit of attention is 0, query i looks at i + 1 keys alike; every next token costs
 * ln(vocab). Token 0 receives most of all attention, then 1, then 2. */
Test(inspect, uniform_attention) {
  th_model *model = model_of((th_gpt){0});
  th_params *params = th_model_params(model);
  for (ptrdiff_t i = 0; i < th_params_count(params); i++)
    th_init_uniform(th_params_at(params, i), 0, 0, (th_random){0});
  th__inspection in;
  th_error error = {0};
  const ptrdiff_t n = 5;
  cr_assert_eq(th__inspect(model, tokens, n, &in, &error), TH_OK, "%s", error.message);
  double entropy = 0, effective = 0, first = 0;
  for (ptrdiff_t i = 1; i <= n; i++) {
    entropy += log((double)i) / (double)n;
    effective += (double)i / (double)n;
    first += 1 / (double)i / (double)n;
  }
  cr_assert_eq(in.layers, LAYERS);
  cr_assert_eq(in.heads, HEADS);
  for (ptrdiff_t i = 0; i < LAYERS * HEADS; i++) {
    const th__inspect_head *head = &in.head[i];
    cr_expect_eq(head->layer, i / HEADS);
    cr_expect_eq(head->head, i % HEADS);
    cr_expect_float_eq(head->entropy, entropy, 1e-6);
    cr_expect_float_eq(head->effective, effective, 1e-6);
    cr_expect_float_eq(head->saturated, 0.2, 1e-12, "only the first query, which sees one key");
    for (int k = 0; k < TH__INSPECT_TOP; k++) cr_expect_eq(head->top[k], k);
    cr_expect_float_eq(head->top_share[0], first, 1e-6);
  }
  cr_expect_float_eq(in.loss, log(VOCAB), 1e-6);
  cr_expect_eq(in.weights[1], 0, "query 0 does not see key 1");
  th__inspection_free(&in);
  th_model_free(model);
}

Test(inspect, classifier) {
  const th_gpt config = {
      .layers = LAYERS, .heads = HEADS, .width = 8, .context = CONTEXT, .vocab = VOCAB};
  th_model *model = th_classifier_new(&config, 3, 1, NULL);
  th__inspection in;
  cr_assert_eq(th__inspect(model, tokens, 5, &in, NULL), TH_OK);
  cr_expect(in.weights[1] > 0, "an encoder's query 0 sees key 1");
  cr_expect(isnan(in.loss));
  th__inspection_free(&in);
  th_model_free(model);
}

static void refused(th_model *model, ptrdiff_t count, const char *text) {
  static const int32_t many[64] = {0};
  th__inspection in;
  th_error error = {0};
  cr_expect_neq(th__inspect(model, many, count, &in, &error), TH_OK);
  cr_expect_not_null(strstr(error.message, text), "%s", error.message);
  cr_expect_null(in.weights);
  th_model_free(model);
}

Test(inspect, refuses_what_has_no_maps) {
  const th_gpt config = {.layers = 1, .heads = 1, .width = 4, .context = 8, .vocab = VOCAB};
  refused(model_of((th_gpt){0}), CONTEXT + 1, "the model's context is 6");
  refused(model_of((th_gpt){0}), 0, "empty");
  refused(th_seq2seq_new(&config, 1, NULL), 3, "encoder-decoder");
  refused(th_recurrent_new(&(th_recurrent){.layers = 1, .width = 4, .vocab = VOCAB}, 1, NULL), 3,
          "recurrent");
}

Test(inspect, parameters) {
  const double values[] = {1, -3, 2, (double)INFINITY, (double)NAN, 0};
  th_tensor *tensor = th_tensor_from(TH_F64, TH_SHAPE(2, 3), values, NULL);
  th__inspect_tensor f;
  cr_assert_eq(th__inspect_parameter(tensor, &f, NULL), TH_OK);
  cr_expect_eq(f.mean, 0);
  cr_expect_float_eq(f.sd, sqrt(14.0 / 4), 1e-15);
  cr_expect_eq(f.largest, 3);
  cr_expect_eq(f.broken, 2);
  th_tensor_free(tensor);
}
