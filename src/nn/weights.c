/* weights.c: a transformer's parameters and their first values. */
#include <math.h>
#include <stdio.h>

#include "nn/transformer.h"
#include "tensor/alloc.h"
#include "tensor/error.h"

/* ---- first values ---- */

static double normal_sd(const th_gpt *c) {
  return c->init == TH_INIT_GPT2 ? 0.02 : 1 / sqrt((double)c->width);
}

/* `branches`: how many branches end in the residual that this matrix ends in; 1 for any other. */
static th_tensor *matrix(th__maker *m, const th_gpt *c, const char *block, const char *name,
                         ptrdiff_t out, ptrdiff_t in, ptrdiff_t branches) {
  if (c->init == TH_INIT_XAVIER)
    return th__make_uniform(m, block, name, out, in, sqrt(6 / ((double)out + (double)in)));
  return th__make_normal(m, block, name, out, in, normal_sd(c) / sqrt((double)branches));
}

static th__affine dense(th__maker *m, const th_gpt *c, const char *block, const char *name,
                        ptrdiff_t out, ptrdiff_t in, ptrdiff_t branches) {
  char full[48];
  th__affine pair = {0};
  snprintf(full, sizeof full, "%s.weight", name);
  pair.weight = matrix(m, c, block, full, out, in, branches);
  snprintf(full, sizeof full, "%s.bias", name);
  if (!c->no_bias) pair.bias = th__make_zeros(m, block, full, TH_SHAPE(out));
  return pair;
}

th__affine th__make_dense(th__maker *m, const th_gpt *c, const char *block, const char *name,
                          ptrdiff_t out, ptrdiff_t in) {
  return dense(m, c, block, name, out, in, 1);
}

th_tensor *th__make_output(th__maker *m, const th_gpt *c) {
  return matrix(m, c, "", "lm_head.weight", c->vocab, c->width, 1);
}

th_tensor *th__make_table(th__maker *m, const th_gpt *c, const char *name, ptrdiff_t rows) {
  return th__make_normal(m, "", name, rows, c->width, normal_sd(c));
}

static th__affine norm(th__maker *m, const th_gpt *c, const char *block, const char *name) {
  return th__make_norm(m, block, name, c->width, c->norm == TH_NORM_LAYER && !c->no_bias);
}

/* ---- layers ---- */

static th__layer make_layer(th__maker *m, const th_gpt *c, bool cross, const char *block) {
  bool feed_forward = c->feed_forward != TH_FEED_FORWARD_NONE;
  ptrdiff_t width = c->width, branches = c->layers * (1 + cross + feed_forward);
  th__layer layer = {0};
  layer.ln_1 = norm(m, c, block, "ln_1");
  layer.c_attn = dense(m, c, block, "attn.c_attn", th__qkv_rows(c), width, 1);
  layer.attn_proj = dense(m, c, block, "attn.c_proj", width, width, branches);
  if (cross) {
    layer.ln_x = norm(m, c, block, "ln_x");
    layer.c_q = dense(m, c, block, "cross.c_q", c->heads * c->head_width, width, 1);
    layer.c_kv = dense(m, c, block, "cross.c_kv", th__kv_rows(c), width, 1);
    layer.cross_proj = dense(m, c, block, "cross.c_proj", width, width, branches);
  }
  if (!feed_forward) return layer;
  layer.ln_2 = norm(m, c, block, "ln_2");
  if (c->feed_forward == TH_FEED_FORWARD_SWIGLU)
    layer.c_gate = dense(m, c, block, "mlp.c_gate", c->hidden, width, 1);
  layer.c_fc = dense(m, c, block, "mlp.c_fc", c->hidden, width, 1);
  layer.mlp_proj = dense(m, c, block, "mlp.c_proj", width, c->hidden, branches);
  return layer;
}

void th__make_stack(th__maker *m, th__stack *stack, const th_gpt *c, bool cross, const char *prefix,
                    const char *ends) {
  char name[32];
  snprintf(name, sizeof name, "%swpe.weight", ends);
  if (c->positions == TH_POSITION_LEARNED) stack->wpe = th__make_table(m, c, name, c->context);
  for (ptrdiff_t l = 0; l < c->layers && !m->failed; l++) {
    snprintf(name, sizeof name, "%s%td.", prefix, l);
    stack->layers[l] = make_layer(m, c, cross, name);
  }
  if (!c->post_norm) stack->ln_f = norm(m, c, ends, "ln_f");
}

/* ---- the model around them ---- */

th_model *th__transformer_new(const th__model_class *class, const th_gpt *config, const char *who,
                              bool encoder, bool decoder, th_error *error) {
  if (config == NULL) {
    th__error(error, TH_ERR_VALUE, "%s_new: the configuration is NULL", who);
    return NULL;
  }
  th_gpt complete = *config;
  if (th__gpt_complete(&complete, who, error) != TH_OK) return NULL;
  th_model *model = th__model_new(class, error);
  if (model == NULL) return NULL;
  model->context = complete.context;
  th__transformer *t = model->as.transformer = th__alloc_zero(sizeof *t);
  size_t bytes = (size_t)complete.layers * sizeof(th__layer);
  if (t != NULL) {
    t->config = complete;
    if (encoder) t->encoder.layers = th__alloc_zero(bytes);
    if (decoder) t->decoder.layers = th__alloc_zero(bytes);
    if ((!encoder || t->encoder.layers != NULL) && (!decoder || t->decoder.layers != NULL))
      return model;
  }
  th__error_memory(error, who, bytes);
  th_model_free(model);
  return NULL;
}

void th__transformer_free(th_model *model) {
  th__transformer *t = model->as.transformer;
  if (t == NULL) return;
  th__free(t->encoder.layers);
  th__free(t->decoder.layers);
  th__free(t);
}

const th_gpt *th_model_gpt(const th_model *model) {
  if (model == NULL || model->class->kind == TH_MODEL_RECURRENT) return NULL;
  return &model->as.transformer->config;
}
