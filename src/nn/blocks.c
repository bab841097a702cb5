/* blocks.c: the forward pass of the GPT-2 layout, written in ops alone: the backward passes are
 * theirs. */
#include "nn/gpt.h"

#define NORM_EPS 1e-5 /* GPT-2's */

static th_tensor *norm(th_tape *tape, th_tensor *x, th__pair p) {
  return th_layer_norm(tape, x, p.weight, p.bias, NORM_EPS);
}

static th_tensor *dense(th_tape *tape, th_tensor *x, th__pair p) {
  return th_linear(tape, x, p.weight, p.bias);
}

/* Site 0 is the embedding, 1 + 2 l and 2 + 2 l are attention and feed-forward of layer l. Each draws
 * from a stream of its own: the upper half of the purpose tells them apart. */
static th_tensor *drop(th_tape *tape, th_tensor *x, const th_gpt *config, const th_pass *pass,
                       ptrdiff_t site) {
  if (pass == NULL || !pass->training || config->dropout == 0) return x;
  th_random stream = pass->stream;
  stream.purpose += (uint32_t)(site + 1) << 16;
  return th_dropout(tape, x, config->dropout, stream);
}

/* Columns begin .. end-1 as heads: [B, T, n] -> [B, H, T, n/H]. A view. */
static th_tensor *heads_of(th_tape *tape, th_tensor *qkv, ptrdiff_t begin, ptrdiff_t end,
                           ptrdiff_t heads) {
  return th_split_heads(tape, th_slice(tape, qkv, -1, begin, end), heads);
}

th_tensor *th__attention_block(th_tape *tape, th_tensor *x, const th__layer *layer, ptrdiff_t index,
                               const th_gpt *config, const th_pass *pass) {
  ptrdiff_t heads = config->heads, n = heads * config->head_width;
  th_attention_options options = {
      .scale = config->scale, .factor = config->factor, .causal = !config->all_see_all};
  if (pass != NULL && pass->weights != NULL) options.weights = &pass->weights[index];

  /* One product makes queries, keys and values. */
  th_tensor *qkv = dense(tape, norm(tape, x, layer->ln_1), layer->c_attn);
  th_tensor *q = heads_of(tape, qkv, 0, n, heads);
  th_tensor *k = heads_of(tape, qkv, n, 2 * n, heads);
  th_tensor *v = heads_of(tape, qkv, 2 * n, 2 * n + config->width, heads);
  th_tensor *joined = th_merge_heads(tape, th_attention(tape, q, k, v, &options));
  th_tensor *y = dense(tape, joined, layer->attn_proj);
  return th_add(tape, x, drop(tape, y, config, pass, 1 + 2 * index));
}

th_tensor *th__feed_forward_block(th_tape *tape, th_tensor *x, const th__layer *layer,
                                  ptrdiff_t index, const th_gpt *config, const th_pass *pass) {
  th_tensor *hidden = dense(tape, norm(tape, x, layer->ln_2), layer->c_fc);
  th_tensor *y = dense(tape, th_gelu(tape, hidden, TH_GELU_TANH), layer->mlp_proj);
  return th_add(tape, x, drop(tape, y, config, pass, 2 + 2 * index));
}

th_tensor *th__gpt_logits(th_tape *tape, const th__gpt_weights *weights, const th_gpt *config,
                          const th_tensor *tokens, const th_pass *pass) {
  th_tensor *positions = th_slice(tape, weights->wpe, 0, 0, th_tensor_dim(tokens, 1));
  th_tensor *x = th_add(tape, th_embedding(tape, weights->wte, tokens), positions);
  x = drop(tape, x, config, pass, 0);
  for (ptrdiff_t l = 0; l < config->layers; l++) {
    x = th__attention_block(tape, x, &weights->layers[l], l, config, pass);
    if (config->feed_forward != TH_FEED_FORWARD_NONE)
      x = th__feed_forward_block(tape, x, &weights->layers[l], l, config, pass);
  }
  return th_linear(tape, norm(tape, x, weights->ln_f), weights->wte, NULL);
}
