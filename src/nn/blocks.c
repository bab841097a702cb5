/* blocks.c: the layers of transformers, written in ops alone: the backward passes are theirs. */
#include "nn/cache.h"
#include "nn/transformer.h"
#include "tensor/tensor.h"

/* ---- norm, product, dropout, residual ---- */

static th_tensor *norm(th_tape *tape, th_tensor *x, th__affine p, const th_gpt *c) {
  if (c->norm == TH_NORM_RMS) return th_rms_norm(tape, x, p.weight, c->norm_eps);
  return th_layer_norm(tape, x, p.weight, p.bias, c->norm_eps);
}

static th_tensor *dense(th_tape *tape, th_tensor *x, th__affine p) {
  return th_linear(tape, x, p.weight, p.bias);
}

/* Each place that drops draws from a stream of its own: the upper half of the purpose tells them apart.
 * `place` counts within the stack: 0 is the embedding. */
static th_tensor *drop(th_tape *tape, th_tensor *x, const th__run *run, ptrdiff_t place) {
  if (run->pass == NULL || !run->pass->training || run->config->dropout == 0) return x;
  th_random stream = run->pass->stream;
  stream.purpose += (uint32_t)(run->site + place + 1) << 16;
  return th_dropout(tape, x, run->config->dropout, stream);
}

static ptrdiff_t branches(const th_gpt *c, bool cross) {
  return 1 + cross + (c->feed_forward != TH_FEED_FORWARD_NONE);
}

ptrdiff_t th__stack_sites(const th_gpt *config, bool cross) {
  return 1 + config->layers * branches(config, cross);
}

/* What a branch starts from, and how its result comes back: `branch` counts within the layer. */
static th_tensor *enter(th_tape *tape, th_tensor *x, th__affine ln, const th__run *run) {
  return run->config->post_norm ? x : norm(tape, x, ln, run->config);
}
static th_tensor *leave(th_tape *tape, th_tensor *x, th_tensor *y, th__affine ln,
                        const th__run *run, ptrdiff_t layer, ptrdiff_t branch) {
  ptrdiff_t place = 1 + layer * branches(run->config, run->memory != NULL) + branch;
  th_tensor *sum = th_add(tape, x, drop(tape, y, run, place));
  return run->config->post_norm ? norm(tape, sum, ln, run->config) : sum;
}

/* ---- attention ---- */

/* Columns begin .. end-1 as heads: [B, T, n] -> [B, H, T, n/H]. A view. */
static th_tensor *heads_of(th_tape *tape, th_tensor *x, ptrdiff_t begin, ptrdiff_t end,
                           ptrdiff_t heads) {
  return th_split_heads(tape, th_slice(tape, x, -1, begin, end), heads);
}

/* Writes x [B, Hk, T, D] behind the tokens that `kept` [B, Hk, capacity, D] holds, and returns the old
 * and the new: views. */
static th_tensor *extend(th_tape *tape, th_tensor *kept, th_tensor *x, ptrdiff_t length) {
  ptrdiff_t end = length + th_tensor_dim(x, 2);
  th_tensor *room = th_slice(tape, kept, 2, length, end);
  if (room == NULL || x == NULL) return NULL;
  th__tensor_copy(room, x);
  return th_slice(tape, kept, 2, 0, end);
}

static th_tensor *attend(th_tape *tape, th_tensor *q, th_tensor *k, th_tensor *v,
                         const th__run *run, ptrdiff_t layer, bool across) {
  bool shown = across || run->memory == NULL; /* of two attentions, th_pass shows the second */
  th_attention_options options = {.scale = run->config->scale,
                                  .factor = run->config->factor,
                                  .causal = run->causal && !across,
                                  .key_lengths = across ? run->memory_lengths : run->lengths};
  if (shown && run->pass != NULL && run->pass->weights != NULL)
    options.weights = &run->pass->weights[layer];
  return th_merge_heads(tape, th_attention(tape, q, k, v, &options));
}

th_tensor *th__attention_block(th_tape *tape, th_tensor *x, const th__layer *layer, ptrdiff_t index,
                               const th__run *run) {
  const th_gpt *c = run->config;
  ptrdiff_t rows = (c->heads + c->kv_heads) * c->head_width; /* of queries and keys */

  /* One product makes queries, keys and values. Queries and keys are turned together. */
  th_tensor *qkv = dense(tape, enter(tape, x, layer->ln_1, run), layer->c_attn);
  th_tensor *qk = heads_of(tape, qkv, 0, rows, c->heads + c->kv_heads);
  if (c->positions == TH_POSITION_ROPE)
    qk = th_rope(tape, qk, &(th_rope_options){.base = c->rope_base, .offset = run->offset});
  th_tensor *q = th_slice(tape, qk, 1, 0, c->heads);
  th_tensor *k = th_slice(tape, qk, 1, c->heads, c->heads + c->kv_heads);
  th_tensor *v = heads_of(tape, qkv, rows, th__qkv_rows(c), c->kv_heads);
  if (run->cache != NULL) {
    k = extend(tape, run->cache->tensors[2 * index], k, run->offset);
    v = extend(tape, run->cache->tensors[2 * index + 1], v, run->offset);
  }
  th_tensor *y = dense(tape, attend(tape, q, k, v, run, index, false), layer->attn_proj);
  return leave(tape, x, y, layer->ln_1, run, index, 0);
}

/* Queries from x, keys and values from the encoder. Rotary positions are of one sequence: none here. */
th_tensor *th__cross_block(th_tape *tape, th_tensor *x, const th__layer *layer, ptrdiff_t index,
                           const th__run *run) {
  const th_gpt *c = run->config;
  ptrdiff_t keys = c->kv_heads * c->head_width;
  th_tensor *q = dense(tape, enter(tape, x, layer->ln_x, run), layer->c_q);
  th_tensor *kv = dense(tape, run->memory, layer->c_kv);
  th_tensor *k = heads_of(tape, kv, 0, keys, c->kv_heads);
  th_tensor *v = heads_of(tape, kv, keys, th__kv_rows(c), c->kv_heads);
  q = th_split_heads(tape, q, c->heads);
  th_tensor *y = dense(tape, attend(tape, q, k, v, run, index, true), layer->cross_proj);
  return leave(tape, x, y, layer->ln_x, run, index, 1);
}

/* ---- feed-forward ---- */

static th_tensor *hidden(th_tape *tape, th_tensor *x, const th__layer *layer, const th_gpt *c) {
  th_tensor *y = dense(tape, x, layer->c_fc);
  switch (c->feed_forward) {
  case TH_FEED_FORWARD_GELU_TANH: return th_gelu(tape, y, TH_GELU_TANH);
  case TH_FEED_FORWARD_GELU: return th_gelu(tape, y, TH_GELU_EXACT);
  case TH_FEED_FORWARD_RELU: return th_relu(tape, y);
  case TH_FEED_FORWARD_SWIGLU: return th_swiglu(tape, dense(tape, x, layer->c_gate), y);
  case TH_FEED_FORWARD_NONE: break;
  }
  return y;
}

th_tensor *th__feed_forward_block(th_tape *tape, th_tensor *x, const th__layer *layer,
                                  ptrdiff_t index, const th__run *run) {
  th_tensor *inside = hidden(tape, enter(tape, x, layer->ln_2, run), layer, run->config);
  th_tensor *y = dense(tape, inside, layer->mlp_proj);
  return leave(tape, x, y, layer->ln_2, run, index, branches(run->config, run->memory != NULL) - 1);
}

/* ---- a stack ---- */

static th_tensor *embed(th_tape *tape, th_tensor *wte, const th__stack *stack,
                        const th_tensor *tokens, const th__run *run) {
  const th_gpt *c = run->config;
  ptrdiff_t begin = run->offset, length = th_tensor_dim(tokens, 1);
  th_tensor *x = th_embedding(tape, wte, tokens);
  if (x == NULL) return NULL;
  if (c->positions == TH_POSITION_LEARNED)
    x = th_add(tape, x, th_slice(tape, stack->wpe, 0, begin, begin + length));
  else if (c->positions == TH_POSITION_SINUSOIDAL)
    x = th_add(tape, x, th_sinusoidal(tape, x->dtype, begin, length, c->width));
  return drop(tape, x, run, 0);
}

th_tensor *th__stack_states(th_tape *tape, th_tensor *wte, const th__stack *stack,
                            const th_tensor *tokens, const th__run *run) {
  const th_gpt *c = run->config;
  th_tensor *x = embed(tape, wte, stack, tokens, run);
  for (ptrdiff_t l = 0; l < c->layers && x != NULL; l++) {
    const th__layer *layer = &stack->layers[l];
    x = th__attention_block(tape, x, layer, l, run);
    if (run->memory != NULL) x = th__cross_block(tape, x, layer, l, run);
    if (c->feed_forward != TH_FEED_FORWARD_NONE) x = th__feed_forward_block(tape, x, layer, l, run);
  }
  return c->post_norm ? x : norm(tape, x, stack->ln_f, c);
}
