/* gpt.c: making a model of the GPT-2 layout: its configuration, parameters and first values. */
#include "nn/gpt.h"

#include <math.h>
#include <stdio.h>

#include "autograd/tape.h"
#include "tensor/alloc.h"
#include "tensor/error.h"
#include "tensor/purpose.h"

/* ---- configuration ---- */

/* Sizes up to here leave sums and products of two within 64 bits, and token numbers within 32. */
#define SIZE_LIMIT ((ptrdiff_t)1 << 30)
#define LAYER_LIMIT 10000 /* each has two dropout streams: blocks.c */

static th_status check_size(const char *name, ptrdiff_t value, ptrdiff_t limit, th_error *error) {
  if (value >= 1 && value <= limit) return TH_OK;
  return th__error(error, TH_ERR_VALUE, "th_gpt: %s is %td; 1 to %td is expected", name, value,
                   limit);
}

static th_status check_sizes(const th_gpt *c, th_error *error) {
  const struct {
    const char *name;
    ptrdiff_t value, limit;
  } sizes[] = {
      {"layers", c->layers, LAYER_LIMIT},    {"heads", c->heads, SIZE_LIMIT},
      {"width", c->width, SIZE_LIMIT},       {"context", c->context, SIZE_LIMIT},
      {"vocab", c->vocab, SIZE_LIMIT},       {"head_width", c->head_width, SIZE_LIMIT},
      {"hidden", c->hidden, 4 * SIZE_LIMIT},
  };
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    th_status status = check_size(sizes[i].name, sizes[i].value, sizes[i].limit, error);
    if (status != TH_OK) return status;
  }
  return TH_OK;
}

th_status th__gpt_complete(th_gpt *c, th_error *error) {
  bool divides = c->heads >= 1 && c->width >= 1 && c->width % c->heads == 0;
  if (c->head_width == 0) c->head_width = divides ? c->width / c->heads : 1;
  if (c->hidden == 0) c->hidden = c->width >= 1 && c->width <= SIZE_LIMIT ? 4 * c->width : 1;
  th_status status = check_sizes(c, error);
  if (status != TH_OK) return status;
  if (!divides)
    return th__error(error, TH_ERR_SHAPE,
                     "th_gpt: the width %td does not divide into %td heads; choose a number of heads "
                     "that divides it",
                     c->width, c->heads);
  if (!(c->dropout >= 0 && c->dropout < 1))
    return th__error(error, TH_ERR_VALUE, "th_gpt: dropout is %g; 0 <= dropout < 1 is expected",
                     c->dropout);
  if ((unsigned)c->init > TH_INIT_XAVIER)
    return th__error(error, TH_ERR_VALUE, "th_gpt: %d is no kind of init", (int)c->init);
  if ((unsigned)c->scale > TH_SCALE_FACTOR)
    return th__error(error, TH_ERR_VALUE, "th_gpt: %d is no kind of scale", (int)c->scale);
  if (c->scale == TH_SCALE_FACTOR && !isfinite(c->factor))
    return th__error(error, TH_ERR_VALUE, "th_gpt: factor is %g; a finite number is expected",
                     c->factor);
  if (c->dtype != TH_F32 && c->dtype != TH_F64)
    return th__error(error, TH_ERR_DTYPE, "th_gpt: dtype is %s; f32 or f64 is expected",
                     th_dtype_name(c->dtype));
  return TH_OK;
}

/* ---- parameters ---- */

/* Adds parameters one after another; after the first failure it does nothing more. */
typedef struct maker {
  th_params *params;
  th_dtype dtype;
  uint64_t seed;
  th_error *error;
  bool failed;
} maker;

static th_tensor *add(maker *m, const char *block, const char *name, int ndim,
                      const ptrdiff_t *shape) {
  char full[64];
  snprintf(full, sizeof full, "%s%s", block, name);
  th_tensor *tensor =
      m->failed ? NULL : th_params_add(m->params, full, m->dtype, ndim, shape, m->error);
  m->failed = tensor == NULL;
  return tensor;
}

/* Each parameter has a stream of its own, by its place in the list. */
static th_tensor *add_normal(maker *m, const char *block, const char *name, ptrdiff_t rows,
                             ptrdiff_t columns, double sd) {
  uint32_t purpose = TH__PURPOSE_INIT + (uint32_t)th_params_count(m->params);
  th_tensor *tensor = add(m, block, name, TH_SHAPE(rows, columns));
  if (tensor != NULL)
    th_init_normal(tensor, 0, sd, (th_random){.seed = m->seed, .purpose = purpose});
  return tensor;
}

static th__pair add_dense(maker *m, const char *block, const char *name, ptrdiff_t out,
                          ptrdiff_t in, double sd) {
  char weight[32], bias[32];
  snprintf(weight, sizeof weight, "%s.weight", name);
  snprintf(bias, sizeof bias, "%s.bias", name);
  th__pair pair;
  pair.weight = add_normal(m, block, weight, out, in, sd);
  pair.bias = add(m, block, bias, TH_SHAPE(out));
  return pair;
}

static th__pair add_norm(maker *m, const char *block, const char *name, ptrdiff_t n) {
  char weight[32], bias[32];
  snprintf(weight, sizeof weight, "%s.weight", name);
  snprintf(bias, sizeof bias, "%s.bias", name);
  th__pair pair;
  pair.weight = add(m, block, weight, TH_SHAPE(n));
  pair.bias = add(m, block, bias, TH_SHAPE(n));
  for (ptrdiff_t i = 0; i < n && !m->failed; i++) th__set(pair.weight, i, 1.0);
  return pair;
}

static double init_sd(const th_gpt *c) {
  return c->init == TH_INIT_GPT2 ? 0.02 : 1 / sqrt((double)c->width);
}

static th__layer add_layer(maker *m, ptrdiff_t index, const th_gpt *c) {
  char block[24];
  snprintf(block, sizeof block, "h.%td.", index);
  ptrdiff_t branches = c->layers * (c->feed_forward == TH_FEED_FORWARD_NONE ? 1 : 2);
  double residual_sd = init_sd(c) / sqrt((double)branches);
  th__layer layer = {0};
  layer.ln_1 = add_norm(m, block, "ln_1", c->width);
  layer.c_attn = add_dense(m, block, "attn.c_attn", th__gpt_qkv(c), c->width, init_sd(c));
  layer.attn_proj = add_dense(m, block, "attn.c_proj", c->width, c->width, residual_sd);
  if (c->feed_forward == TH_FEED_FORWARD_NONE) return layer;
  layer.ln_2 = add_norm(m, block, "ln_2", c->width);
  layer.c_fc = add_dense(m, block, "mlp.c_fc", c->hidden, c->width, init_sd(c));
  layer.mlp_proj = add_dense(m, block, "mlp.c_proj", c->width, c->hidden, residual_sd);
  return layer;
}

static bool add_weights(th_model *model, uint64_t seed, th_error *error) {
  const th_gpt *c = &model->config;
  th__gpt_weights *w = &model->weights;
  maker m = {.params = model->params, .dtype = c->dtype, .seed = seed, .error = error};
  w->wte = add_normal(&m, "", "wte.weight", c->vocab, c->width, init_sd(c));
  w->wpe = add_normal(&m, "", "wpe.weight", c->context, c->width, init_sd(c));
  for (ptrdiff_t l = 0; l < c->layers && !m.failed; l++) w->layers[l] = add_layer(&m, l, c);
  w->ln_f = add_norm(&m, "", "ln_f", c->width);
  return !m.failed;
}

/* ---- the model ---- */

th_model *th_gpt_new(const th_gpt *config, uint64_t seed, th_error *error) {
  if (config == NULL) {
    th__error(error, TH_ERR_VALUE, "th_gpt_new: the configuration is NULL");
    return NULL;
  }
  th_gpt complete = *config;
  if (th__gpt_complete(&complete, error) != TH_OK) return NULL;
  size_t bytes = (size_t)complete.layers * sizeof(th__layer);
  th_model *model = th__alloc_zero(sizeof *model);
  if (model != NULL) {
    model->config = complete;
    model->weights.layers = th__alloc_zero(bytes);
    model->params = th_params_new(NULL);
  }
  if (model == NULL || model->weights.layers == NULL || model->params == NULL) {
    th__error_memory(error, "th_gpt_new", bytes);
    th_model_free(model);
    return NULL;
  }
  if (add_weights(model, seed, error)) return model;
  th_model_free(model);
  return NULL;
}

void th_model_free(th_model *model) {
  if (model == NULL) return;
  th_params_free(model->params);
  th__free(model->weights.layers);
  th__free(model);
}

th_params *th_model_params(const th_model *model) { return model == NULL ? NULL : model->params; }
const th_gpt *th_model_gpt(const th_model *model) { return model == NULL ? NULL : &model->config; }

th_tensor *th_gpt_forward(th_tape *tape, th_model *model, const th_tensor *tokens,
                          const th_pass *pass) {
  if (tape == NULL || tape->error.status != TH_OK) return NULL;
  TH__REQUIRE(tape, model != NULL, TH_ERR_VALUE, "gpt",
              "the model is NULL; did th_gpt_new() report an error?");
  TH__REQUIRE(tape, tokens != NULL, TH_ERR_VALUE, "gpt", "the tokens are NULL");
  TH__REQUIRE(tape, tokens->dtype == TH_I32 && tokens->ndim == 2, TH_ERR_SHAPE, "gpt",
              "tokens are %s %s; i32 [B, T] is expected", th_dtype_name(tokens->dtype),
              TH__TEXT(tokens));
  TH__REQUIRE(tape, tokens->shape[1] <= model->config.context, TH_ERR_SHAPE, "gpt",
              "the sequence of %td tokens is longer than the position table of %td; use shorter "
              "sequences, or a model with a larger context",
              tokens->shape[1], model->config.context);
  return th__gpt_logits(tape, &model->weights, &model->config, tokens, pass);
}
