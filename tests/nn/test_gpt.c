/* gpt: one training step against goldens (every gradient), training against goldens, configuration,
 * initialisation, dropout, weights on request, errors. */
#include <stdio.h>

#include "../support.h"

#include "golden/gpt.inc"
#include "tensor/alloc.h"

enum { PARAMS = sizeof golden_gpt_params / sizeof *golden_gpt_params };

static const th_gpt golden_shape = {.layers = golden_gpt_step_layers,
                                    .heads = golden_gpt_step_heads,
                                    .width = golden_gpt_step_width,
                                    .context = golden_gpt_step_context,
                                    .vocab = golden_gpt_step_vocab};

static th_model *golden_model(th_dtype dtype) {
  th_gpt config = golden_shape;
  config.dtype = dtype;
  th_error error = {0};
  th_model *model = th_gpt_new(&config, 1, &error);
  cr_assert_not_null(model, "%s", error.message);
  th_params *params = th_model_params(model);
  cr_assert_eq(th_params_count(params), PARAMS);
  for (int i = 0; i < PARAMS; i++) {
    th_tensor *w = th_params_at(params, i);
    cr_assert_str_eq(th_tensor_name(w), golden_gpt_params[i].name);
    cr_assert_eq(th_tensor_ndim(w), golden_gpt_params[i].ndim);
    for (int axis = 0; axis < th_tensor_ndim(w); axis++)
      cr_assert_eq(th_tensor_dim(w, axis), golden_gpt_params[i].shape[axis]);
    th_tensor_write(w, golden_gpt_params[i].value);
  }
  return model;
}

static th_tensor *tokens_of(const int32_t *values) {
  return th_tensor_from(TH_I32, 2, golden_gpt_step_tokens_shape, values, NULL);
}

TEST_BOTH(gpt, golden_step) {
  double limit = dtype == TH_F32 ? 5e-5 : 1e-9;
  th_model *model = golden_model(dtype);
  th_tensor *tokens = tokens_of(golden_gpt_step_tokens);
  th_tensor *targets = tokens_of(golden_gpt_step_targets);
  th_tape *tape = th_tape_new();
  th_tensor *logits = th_gpt_forward(tape, model, tokens, NULL);
  expect_values("logits", logits, golden_gpt_step_logits, limit);
  th_tensor *loss = th_cross_entropy(tape, logits, targets);
  expect_values("loss", loss, golden_gpt_step_loss, limit);
  cr_assert_eq(th_backward(tape, loss), TH_OK, "%s", th_tape_message(tape));
  for (int i = 0; i < PARAMS; i++)
    expect_values(golden_gpt_params[i].name, th_tensor_grad(th_params_at(th_model_params(model), i)),
                  golden_gpt_params[i].gradient, limit);
  th_tape_free(tape);
  th_tensor_free(tokens);
  th_tensor_free(targets);
  th_model_free(model);
}

static void golden_training(th_dtype dtype, double decay, const double *losses) {
  th_model *model = golden_model(dtype);
  th_tensor *tokens = tokens_of(golden_gpt_step_tokens);
  th_tensor *targets = tokens_of(golden_gpt_step_targets);
  th_optim *optim =
      th_adamw_new(th_model_params(model), &(th_adamw){.lr = 0.01, .weight_decay = decay}, NULL);
  th_tape *tape = th_tape_new();
  for (int step = 0; step < 5; step++) {
    th_tensor *loss = th_cross_entropy(tape, th_gpt_forward(tape, model, tokens, NULL), targets);
    expect_values("loss", loss, losses + step, dtype == TH_F32 ? 1e-3 : 1e-8);
    th_backward(tape, loss);
    cr_assert_eq(th_optim_step(optim, NULL), TH_OK, "%s", th_tape_message(tape));
    th_tape_reset(tape);
  }
  th_tape_free(tape);
  th_optim_free(optim);
  th_tensor_free(tokens);
  th_tensor_free(targets);
  th_model_free(model);
}

TEST_BOTH(gpt, golden_training) {
  golden_training(dtype, 0, golden_gpt_step_losses);
  golden_training(dtype, 0.1, golden_gpt_step_losses_decay);
}

/* ---- configuration and first values ---- */

static double read_sd(const th_tensor *w, double *mean) {
  ptrdiff_t n = th_tensor_count(w);
  double *values = malloc((size_t)n * sizeof *values), sum = 0, squares = 0;
  th_tensor_read(w, values);
  for (ptrdiff_t i = 0; i < n; i++) sum += values[i], squares += values[i] * values[i];
  free(values);
  *mean = sum / (double)n;
  return sqrt(squares / (double)n - *mean * *mean);
}

Test(gpt, first_values) {
  th_gpt config = {.layers = 2, .heads = 4, .width = 64, .context = 64, .vocab = 100};
  th_model *model = th_gpt_new(&config, 3, NULL), *same = th_gpt_new(&config, 3, NULL);
  th_model *other = th_gpt_new(&config, 4, NULL);
  th_params *params = th_model_params(model);
  for (ptrdiff_t i = 0; i < th_params_count(params); i++) {
    th_tensor *w = th_params_at(params, i), *twin = th_params_at(th_model_params(same), i);
    const char *name = th_tensor_name(w);
    double mean, sd = read_sd(w, &mean), want_mean = 0, want_sd = 0.02;
    size_t bytes = (size_t)th_tensor_count(w) * sizeof(float);
    if (th_tensor_ndim(w) == 1) want_sd = 0;
    if (strstr(name, "c_proj.weight") != NULL) want_sd = 0.02 / 2; /* sqrt(2 layers) */
    if (strstr(name, "ln_") != NULL && strstr(name, "weight") != NULL) want_mean = 1;
    cr_assert(fabs(sd - want_sd) <= 0.05 * want_sd, "%s: sd %g, expected %g", name, sd, want_sd);
    cr_assert(fabs(mean - want_mean) <= 4 * want_sd / 64, "%s: mean %g", name, mean);
    cr_assert_eq(memcmp(th_tensor_data(w), th_tensor_data(twin), bytes), 0, "%s", name);
    twin = th_params_at(th_model_params(other), i);
    cr_assert_eq(memcmp(th_tensor_data(w), th_tensor_data(twin), bytes) != 0, want_sd > 0, "%s",
                 name);
  }
  /* Two parameters of one shape are not the same numbers. */
  const th_tensor *q = th_params_find(params, "h.0.attn.c_attn.weight");
  const th_tensor *next = th_params_find(params, "h.1.attn.c_attn.weight");
  cr_assert_neq(memcmp(th_tensor_data(q), th_tensor_data(next), 64 * sizeof(float)), 0);
  th_model_free(model), th_model_free(same), th_model_free(other);
}

Test(gpt, gpt2_has_124439808_parameters_by_count) {
  /* A fortieth of its vocabulary and one layer of twelve: the sizes add up the same way. */
  th_gpt config = {.layers = 1, .heads = 12, .width = 768, .context = 1024, .vocab = 1256};
  th_model *model = th_gpt_new(&config, 1, NULL);
  ptrdiff_t layer = 4 * 768 + 3 * 768 * 769 + 768 * 769 + 3072 * 769 + 768 * 3073;
  ptrdiff_t tables = (1256 + 1024) * 768 + 2 * 768;
  cr_assert_eq(th_params_elements(th_model_params(model)), layer + tables);
  cr_assert_eq(12 * layer + (50257 + 1024) * 768 + 2 * 768, 124439808);
  th_model_free(model);
}

Test(gpt, configuration) {
  th_gpt config = {.layers = 1, .heads = 2, .width = 6, .context = 4, .vocab = 5, .head_width = 7};
  th_model *model = th_gpt_new(&config, 1, NULL);
  cr_assert_eq(th_model_gpt(model)->hidden, 24);
  cr_assert_eq(th_model_gpt(model)->head_width, 7);
  const th_tensor *qkv = th_params_find(th_model_params(model), "h.0.attn.c_attn.weight");
  cr_assert_eq(th_tensor_dim(qkv, 0), 2 * 2 * 7 + 6);
  th_model_free(model);
  config = (th_gpt){.layers = 2,
                    .heads = 2,
                    .width = 6,
                    .context = 4,
                    .vocab = 5,
                    .feed_forward = TH_FEED_FORWARD_NONE};
  model = th_gpt_new(&config, 1, NULL);
  cr_assert_eq(th_model_gpt(model)->head_width, 3);
  cr_assert_null(th_params_find(th_model_params(model), "h.0.mlp.c_fc.weight"));
  cr_assert_eq(th_params_count(th_model_params(model)), 2 + 2 * 6 + 2);
  th_model_free(model);
  cr_assert_null(th_model_params(NULL));
  cr_assert_null(th_model_gpt(NULL));
  th_model_free(NULL);
}

/* ---- passes ---- */

typedef struct setup {
  th_model *model;
  th_tape *tape;
  th_tensor *tokens;
} setup;

static setup set_up(th_gpt config) {
  setup s = {th_gpt_new(&config, 1, NULL), th_tape_new(), tokens_of(golden_gpt_step_tokens)};
  cr_assert_not_null(s.model);
  /* Attention that is not nearly uniform, so that who sees whom shows. */
  for (ptrdiff_t i = 0; i < th_params_count(th_model_params(s.model)); i++)
    th_init_normal(th_params_at(th_model_params(s.model), i), 0, 0.7,
                   (th_random){.seed = 9, .purpose = (uint32_t)i});
  return s;
}

static void tear_down(setup s) {
  cr_assert_eq(th_tape_status(s.tape), TH_OK, "%s", th_tape_message(s.tape));
  th_tape_free(s.tape);
  th_tensor_free(s.tokens);
  th_model_free(s.model);
}

/* Logits of row 0, position 0, after the last token of the row changed. */
static bool first_logit_moves(th_gpt config) {
  setup s = set_up(config);
  float before = ((const float *)th_tensor_data(th_gpt_forward(s.tape, s.model, s.tokens, NULL)))[0];
  int32_t *last = (int32_t *)th_tensor_data(s.tokens) + 4;
  *last = (*last + 1) % 7;
  float after = ((const float *)th_tensor_data(th_gpt_forward(s.tape, s.model, s.tokens, NULL)))[0];
  tear_down(s);
  return before != after;
}

Test(gpt, causal_unless_all_see_all) {
  th_gpt config = golden_shape;
  cr_assert_not(first_logit_moves(config));
  config.all_see_all = true;
  cr_assert(first_logit_moves(config));
}

/* The weights of every layer: rows sum to 1 and the future is exactly 0. */
Test(gpt, weights_on_request) {
  setup s = set_up(golden_shape);
  th_tensor *weights[golden_gpt_step_layers] = {NULL};
  th_gpt_forward(s.tape, s.model, s.tokens, &(th_pass){.weights = weights});
  for (int l = 0; l < golden_gpt_step_layers; l++) {
    cr_assert_eq(th_tensor_count(weights[l]), 2 * 2 * 5 * 5);
    double p[2 * 2 * 5 * 5];
    th_tensor_read(weights[l], p);
    for (int row = 0; row < 2 * 2 * 5; row++) {
      double sum = 0;
      for (int j = 0; j < 5; j++) {
        sum += p[5 * row + j];
        if (j > row % 5) cr_assert_eq(p[5 * row + j], 0);
      }
      cr_assert_float_eq(sum, 1, 1e-6);
    }
  }
  tear_down(s);
}

/* The scale reaches every layer's attention: factor 1/sqrt(d_k) given as a number is the default. */
Test(gpt, scale) {
  double logits[3][2 * 5 * 7];
  for (int i = 0; i < 3; i++) {
    th_gpt config = golden_shape;
    config.dtype = TH_F64;
    config.scale = (th_scale_kind[]){TH_SCALE_SQRT, TH_SCALE_FACTOR, TH_SCALE_NONE}[i];
    config.factor = 0.5; /* d_k = 4 */
    setup s = set_up(config);
    th_tensor_read(th_gpt_forward(s.tape, s.model, s.tokens, NULL), logits[i]);
    tear_down(s);
  }
  cr_assert_eq(memcmp(logits[0], logits[1], sizeof logits[0]), 0);
  cr_assert(fabs(logits[0][20] - logits[2][20]) > 1e-3);
}

static double logit_change(setup s, const th_pass *a, const th_pass *b) {
  double first[70], second[70], change = 0;
  th_tensor_read(th_gpt_forward(s.tape, s.model, s.tokens, a), first);
  th_tensor_read(th_gpt_forward(s.tape, s.model, s.tokens, b), second);
  for (int i = 0; i < 70; i++) change = fmax(change, fabs(first[i] - second[i]));
  return change;
}

Test(gpt, dropout) {
  th_gpt config = golden_shape;
  config.dropout = 0.3;
  setup s = set_up(config);
  th_pass one = {.training = true, .stream = {.seed = 5, .step = 1}};
  th_pass two = {.training = true, .stream = {.seed = 5, .step = 2}};
  th_pass off = {.stream = {.seed = 5, .step = 1}};
  cr_assert_eq(logit_change(s, &one, &one), 0);
  cr_assert_gt(logit_change(s, &one, &two), 1e-3);
  cr_assert_gt(logit_change(s, &one, &off), 1e-3);
  cr_assert_eq(logit_change(s, NULL, &off), 0);
  tear_down(s);
}

/* ---- errors ---- */

static void refused(th_gpt config, th_status status, const char *text) {
  th_error error = {0};
  cr_assert_null(th_gpt_new(&config, 1, &error));
  cr_assert_eq(error.status, status, "%s", error.message);
  cr_assert_not_null(strstr(error.message, text), "\"%s\" does not contain \"%s\"", error.message,
                     text);
}

Test(gpt, rejects_configurations) {
#define WITH(field, value)                                                                         \
  (th_gpt) {                                                                                       \
    .layers = field != 1 ? 1 : value, .heads = field != 2 ? 2 : value,                             \
    .width = field != 3 ? 8 : value, .context = field != 4 ? 4 : value,                            \
    .vocab = field != 5 ? 5 : value, .head_width = field != 6 ? 0 : value,                         \
    .hidden = field != 7 ? 0 : value                                                               \
  }
  static const char *const names[] = {"layers", "heads",      "width", "context",
                                      "vocab",  "head_width", "hidden"};
  for (int field = 1; field <= 7; field++) {
    char text[64];
    for (ptrdiff_t value = -1; value <= (field <= 5 ? 0 : -1); value++) {
      snprintf(text, sizeof text, "%s is %td", names[field - 1], value);
      refused(WITH(field, value), TH_ERR_VALUE, text);
    }
    snprintf(text, sizeof text, "%s is %td", names[field - 1], PTRDIFF_MAX);
    refused(WITH(field, PTRDIFF_MAX), TH_ERR_VALUE, text);
  }
  refused(WITH(2, 3), TH_ERR_SHAPE, "width 8 does not divide into 3 heads");
  th_gpt c = WITH(0, 0);
  c.dropout = 1;
  refused(c, TH_ERR_VALUE, "dropout is 1");
  c.dropout = (double)NAN;
  refused(c, TH_ERR_VALUE, "dropout is nan");
  c = WITH(0, 0);
  c.init = (th_init_kind)7;
  refused(c, TH_ERR_VALUE, "7 is no kind of init");
  c = WITH(0, 0);
  c.scale = TH_SCALE_FACTOR;
  c.factor = (double)INFINITY;
  refused(c, TH_ERR_VALUE, "factor is inf");
  c.scale = (th_scale_kind)9;
  refused(c, TH_ERR_VALUE, "scale");
  c = WITH(0, 0);
  c.dtype = TH_I32;
  refused(c, TH_ERR_DTYPE, "i32");
  th_error error = {0};
  cr_assert_null(th_gpt_new(NULL, 1, &error));
  cr_assert_eq(error.status, TH_ERR_VALUE);
}

Test(gpt, rejects_tokens) {
  setup s = set_up(golden_shape);
  th_tensor *longer = th_tensor_new(TH_I32, TH_SHAPE(1, 7), NULL);
  cr_assert_null(th_gpt_forward(s.tape, s.model, longer, NULL));
  expect_error(s.tape, TH_ERR_STATE,
               "tokens: sequences of 7 tokens are longer than the context of 6");
  th_tensor *flat = th_tensor_new(TH_I32, TH_SHAPE(4), NULL);
  cr_assert_null(th_gpt_forward(s.tape, s.model, flat, NULL));
  expect_error(s.tape, TH_ERR_SHAPE, "[4]");
  th_tensor *numbers = th_tensor_new(TH_F32, TH_SHAPE(1, 4), NULL);
  cr_assert_null(th_gpt_forward(s.tape, s.model, numbers, NULL));
  expect_error(s.tape, TH_ERR_SHAPE, "f32");
  ((int32_t *)th_tensor_data(s.tokens))[3] = 7; /* C07: the table ends at 6 */
  cr_assert_null(th_gpt_forward(s.tape, s.model, s.tokens, NULL));
  expect_error(s.tape, TH_ERR_INDEX, "7");
  cr_assert_null(th_gpt_forward(s.tape, NULL, s.tokens, NULL));
  expect_error(s.tape, TH_ERR_VALUE, "model is NULL");
  cr_assert_null(th_gpt_forward(s.tape, s.model, NULL, NULL));
  expect_error(s.tape, TH_ERR_VALUE, "tokens are NULL");
  cr_assert_null(th_gpt_forward(NULL, s.model, s.tokens, NULL));
  th_tensor_free(longer), th_tensor_free(flat), th_tensor_free(numbers);
  tear_down(s);
}

Test(gpt, every_allocation_may_fail) {
  th_model *model = NULL;
  size_t n = 0;
  while (model == NULL) {
    th_error error = {0};
    th__alloc_fail_at(++n);
    model = th_gpt_new(&golden_shape, 1, &error);
    th__alloc_fail_at(0);
    if (model == NULL) cr_assert_eq(error.status, TH_ERR_MEMORY, "%s", error.message);
  }
  cr_assert_gt(n, 5u * PARAMS); /* tensor, data, gradient, its data, name */
  th_model_free(model);
}
