/* modules.c: gradient checks of single blocks, their weights as inputs. */
#include "nn/modules.h"

#include "nn/transformer.h"

/* ---- functions of their inputs ---- */

/* Takes the next weight, and its bias if the configuration has biases. */
static th__affine next(th_tensor *const **in, const th_gpt *c) {
  th__affine pair = {.weight = *(*in)++};
  if (!c->no_bias) pair.bias = *(*in)++;
  return pair;
}

/* Inputs: x, then ln, c_attn and c_proj. */
static th_tensor *attention_block(th_tape *tape, th_tensor *const *in, const void *context) {
  const th_gpt *c = context;
  th_tensor *x = *in++;
  th__layer layer = {.ln_1 = next(&in, c)};
  layer.c_attn = next(&in, c);
  layer.attn_proj = next(&in, c);
  return th__attention_block(tape, x, &layer, 0,
                             &(th__run){.config = c, .causal = !c->all_see_all, .offset = 3});
}

/* Inputs: x, memory, lengths, then ln, c_q, c_kv and c_proj. */
static th_tensor *cross_attention_block(th_tape *tape, th_tensor *const *in, const void *context) {
  const th_gpt *c = context;
  th_tensor *x = in[0];
  th__run run = {.config = c, .memory = in[1], .memory_lengths = in[2]};
  in += 3;
  th__layer layer = {.ln_x = next(&in, c)};
  layer.c_q = next(&in, c);
  layer.c_kv = next(&in, c);
  layer.cross_proj = next(&in, c);
  return th__cross_block(tape, x, &layer, 0, &run);
}

/* Inputs: x, then ln, c_gate with SwiGLU, c_fc and c_proj. */
static th_tensor *feed_forward(th_tape *tape, th_tensor *const *in, const void *context) {
  const th_gpt *c = context;
  th_tensor *x = *in++;
  th__layer layer = {.ln_2 = next(&in, c)};
  if (c->feed_forward == TH_FEED_FORWARD_SWIGLU) layer.c_gate = next(&in, c);
  layer.c_fc = next(&in, c);
  layer.mlp_proj = next(&in, c);
  return th__feed_forward_block(tape, x, &layer, 0, &(th__run){.config = c});
}

/* ---- cases ---- */

#define HEADS(all, of_keys, c, d_k)                                                                \
  .heads = all, .kv_heads = of_keys, .width = c, .head_width = d_k, .norm_eps = 1e-5
static const th_gpt two_heads = {HEADS(2, 2, 4, 2)};
static const th_gpt wide_heads = {HEADS(2, 2, 4, 3)};
static const th_gpt unmasked = {HEADS(2, 2, 4, 2), .all_see_all = true, .scale = TH_SCALE_NONE};
static const th_gpt four_heads = {HEADS(4, 4, 32, 8)};
static const th_gpt grouped = {HEADS(4, 2, 8, 3)};
static const th_gpt post_norm = {HEADS(2, 2, 4, 2), .post_norm = true};
#define LLAMA TH_LLAMA, .rope_base = 100
static const th_gpt llama = {HEADS(4, 2, 8, 4), LLAMA};
static const th_gpt large_llama = {HEADS(4, 2, 32, 8), LLAMA};
static const th_gpt gelu = {HEADS(2, 2, 4, 2), .feed_forward = TH_FEED_FORWARD_GELU};
static const th_gpt relu = {HEADS(2, 2, 4, 2), .feed_forward = TH_FEED_FORWARD_RELU,
                            .post_norm = true};

#define NORMAL(name, sd, ndim, ...)                                                                \
  {                                                                                                \
    name, TH_FILL_NORMAL, sd, ndim, { __VA_ARGS__ }                                                \
  }
#define X(name, B, T, C) NORMAL(name, 1, 3, B, T, C)
#define LN(C) NORMAL("ln.weight", 1, 1, C)
#define MATRIX(name, out, in) NORMAL(name ".weight", 0.4, 2, out, in)
#define BIAS(name, out) NORMAL(name ".bias", 0.5, 1, out)
#define DENSE(name, out, in) MATRIX(name, out, in), BIAS(name, out)

/* x [B, T, C], `rows` of the first matrix, `joined` columns of the projection. */
#define BLOCK_INPUTS(B, T, C, first, rows, joined)                                                 \
  .input_count = 7, .inputs = {X("x", B, T, C), LN(C), BIAS("ln", C), DENSE(first, rows, C),       \
                               DENSE("c_proj", C, joined)}
#define BARE_ATTENTION(B, T, C, rows)                                                              \
  .input_count = 4,                                                                                \
  .inputs = {X("x", B, T, C), LN(C), MATRIX("c_attn", rows, C), MATRIX("c_proj", C, C)}
#define GATED_INPUTS(B, T, C, hidden)                                                              \
  .input_count = 5, .inputs = {X("x", B, T, C), LN(C), MATRIX("c_gate", hidden, C),                \
                               MATRIX("c_fc", hidden, C), MATRIX("c_proj", C, hidden)}
#define CROSS_INPUTS(B, T, S, C, q_rows, kv_rows)                                                  \
  .input_count = 11, .inputs = {X("x", B, T, C),                                                   \
                                X("memory", B, S, C),                                              \
                                {"lengths", TH_FILL_LENGTHS, S, 1, {B}},                           \
                                LN(C),                                                             \
                                BIAS("ln", C),                                                     \
                                DENSE("c_q", q_rows, C),                                           \
                                DENSE("c_kv", kv_rows, C),                                         \
                                DENSE("c_proj", C, C)}

static const th_check attention_checks[] = {
    {"", attention_block, &two_heads, BLOCK_INPUTS(2, 3, 4, "c_attn", 12, 4)},
    {"head_width", attention_block, &wide_heads, BLOCK_INPUTS(2, 3, 4, "c_attn", 16, 4)},
    {"all_see_all", attention_block, &unmasked, BLOCK_INPUTS(2, 3, 4, "c_attn", 12, 4)},
    {"grouped", attention_block, &grouped, BLOCK_INPUTS(2, 3, 8, "c_attn", 22, 8)},
    {"post_norm", attention_block, &post_norm, BLOCK_INPUTS(2, 3, 4, "c_attn", 12, 4)},
    {"llama", attention_block, &llama, BARE_ATTENTION(2, 3, 8, 28)},
    {"large", attention_block, &four_heads, .large = true,
     BLOCK_INPUTS(2, 24, 32, "c_attn", 96, 32)},
    {"large_llama", attention_block, &large_llama, .large = true, BARE_ATTENTION(2, 24, 32, 64)},
    {0}};

static const th_check cross_checks[] = {
    {"", cross_attention_block, &two_heads, CROSS_INPUTS(2, 3, 4, 4, 4, 8)},
    {"grouped", cross_attention_block, &grouped, CROSS_INPUTS(2, 2, 3, 8, 12, 14)},
    {"post_norm", cross_attention_block, &post_norm, CROSS_INPUTS(3, 2, 4, 4, 4, 8)},
    {"large", cross_attention_block, &four_heads, .large = true,
     CROSS_INPUTS(2, 20, 24, 32, 32, 64)},
    {0}};

static const th_check feed_forward_checks[] = {
    {"", feed_forward, &two_heads, BLOCK_INPUTS(2, 3, 4, "c_fc", 6, 6)},
    {"gelu", feed_forward, &gelu, BLOCK_INPUTS(2, 3, 4, "c_fc", 6, 6)},
    {"relu, post_norm", feed_forward, &relu, .kinks = true, BLOCK_INPUTS(2, 3, 4, "c_fc", 6, 6)},
    {"swiglu", feed_forward, &llama, GATED_INPUTS(2, 3, 8, 6)},
    {"large", feed_forward, &four_heads, .large = true, BLOCK_INPUTS(2, 24, 32, "c_fc", 128, 128)},
    {"large_swiglu", feed_forward, &large_llama, .large = true, GATED_INPUTS(2, 24, 32, 88)},
    {0}};

/* ---- the list ---- */

static const th_op module_attention = {"attention_block", NULL, attention_checks};
static const th_op module_cross = {"cross_attention_block", NULL, cross_checks};
static const th_op module_feed_forward = {"feed_forward", NULL, feed_forward_checks};

const th_op *const th__modules[] = {&module_attention,
                                    &module_cross,
                                    &module_feed_forward,
                                    &th__module_gpt,
                                    &th__module_classifier,
                                    &th__module_seq2seq,
                                    NULL};
