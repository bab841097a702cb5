/* gpt.h: the inside of the GPT-2 layout: its weights, and its blocks as functions of them, so that the
 * gradient checks can call the same code with weights of their own. */
#ifndef TH_NN_GPT_H
#define TH_NN_GPT_H

#include "tapehead.h"

/* A matrix [out, in] and its bias [out], or the gain and bias [n] of a norm. */
typedef struct th__pair {
  th_tensor *weight, *bias;
} th__pair;

typedef struct th__layer {
  th__pair ln_1, c_attn, attn_proj; /* c_attn: the rows of W_q, then of W_k, then of W_v */
  th__pair ln_2, c_fc, mlp_proj;    /* NULL without feed-forward */
} th__layer;

typedef struct th__gpt_weights {
  th_tensor *wte, *wpe; /* token table [V, C], which also makes the logits; positions [context, C] */
  th__layer *layers;
  th__pair ln_f;
} th__gpt_weights;

struct th_model {
  th_params *params;
  th_gpt config; /* zeros replaced by what they stand for */
  th__gpt_weights weights;
};

/* Replaces zeros by what they stand for and checks the rest. */
th_status th__gpt_complete(th_gpt *config, th_error *error);

/* Rows of c_attn: queries, keys, values. */
static inline ptrdiff_t th__gpt_qkv(const th_gpt *config) {
  return 2 * config->heads * config->head_width + config->width;
}

/* x + dropout(projection(attention(norm(x)))) and x + dropout(feed-forward(norm(x))), [B, T, C]. */
th_tensor *th__attention_block(th_tape *tape, th_tensor *x, const th__layer *layer, ptrdiff_t index,
                               const th_gpt *config, const th_pass *pass);
th_tensor *th__feed_forward_block(th_tape *tape, th_tensor *x, const th__layer *layer,
                                  ptrdiff_t index, const th_gpt *config, const th_pass *pass);
/* The whole model: tokens [B, T] -> logits [B, T, V]. */
th_tensor *th__gpt_logits(th_tape *tape, const th__gpt_weights *weights, const th_gpt *config,
                          const th_tensor *tokens, const th_pass *pass);

#endif
