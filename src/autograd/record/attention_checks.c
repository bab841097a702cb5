/* The cases of attention for the gradient checker. */
#include "autograd/record/attention.h"

/* Options, and which inputs hold the masks (0: none given). */
typedef struct settings {
  th_attention_options options;
  int key_lengths, key_mask, mask;
} settings;

static th_tensor *run(th_tape *tape, th_tensor *const *in, const void *context) {
  const settings *s = context;
  th_attention_options options = s->options;
  if (s->key_lengths > 0) options.key_lengths = in[s->key_lengths];
  if (s->key_mask > 0) options.key_mask = in[s->key_mask];
  if (s->mask > 0) options.mask = in[s->mask];
  return th_attention(tape, in[0], in[1], in[2], &options);
}

static th_tensor *run_shared(th_tape *tape, th_tensor *const *in, const void *context) {
  return run(tape, (th_tensor *[]){in[0], in[0], in[0]}, context);
}

/* One projection [B, T, 3C] cut into q, k and v, the heads joined again. */
static th_tensor *run_fused(th_tape *tape, th_tensor *const *in, const void *context) {
  th_tensor *parts[3];
  ptrdiff_t width = th_tensor_dim(in[0], 2) / 3;
  for (int i = 0; i < 3; i++)
    parts[i] = th_split_heads(tape, th_slice(tape, in[0], 2, i * width, (i + 1) * width), 2);
  return th_merge_heads(tape, run(tape, parts, context));
}

static const settings defaults = {0};
static const settings none = {.options = {.scale = TH_SCALE_NONE}};
static const settings by_width = {.options = {.scale = TH_SCALE_DK}};
static const settings factor = {.options = {.scale = TH_SCALE_FACTOR, .factor = -0.6}};
static const settings plain = {.options = {.plain_backward = true}};
static const settings causal = {.options = {.causal = true}};
static const settings lengths = {.key_lengths = 3};
static const settings key_mask = {.key_mask = 3};
static const settings mask = {.mask = 3};
static const settings all = {
    .options = {.causal = true}, .key_lengths = 3, .key_mask = 4, .mask = 5};

#define NORMAL(name, ...)                                                                          \
  {                                                                                                \
    name, TH_FILL_NORMAL, 0, 4, { __VA_ARGS__ }                                                    \
  }
/* Inputs of batch B, H heads on Hk key heads, n_q queries of width d_k, n_k keys with values d_v. */
#define QKV(B, H, Hk, n_q, n_k, d_k, d_v)                                                          \
  NORMAL("q", B, H, n_q, d_k), NORMAL("k", B, Hk, n_k, d_k), NORMAL("v", B, Hk, n_k, d_v)
#define CASE(variant, settings, count, ...)                                                        \
  {                                                                                                \
    variant, run, &settings, .input_count = count, .inputs = { __VA_ARGS__ }                       \
  }

const th_check th__attention_checks[] = {
    CASE("", defaults, 3, QKV(2, 2, 2, 3, 4, 3, 3)),
    CASE("scale none", none, 3, QKV(1, 2, 2, 3, 4, 3, 2)),
    CASE("scale 1/d_k", by_width, 3, QKV(1, 2, 2, 3, 4, 3, 2)),
    CASE("scale factor", factor, 3, QKV(1, 2, 2, 3, 4, 3, 2)),
    CASE("plain backward", plain, 3, QKV(1, 2, 2, 3, 4, 3, 2)),
    CASE("cross", defaults, 3, QKV(2, 2, 2, 2, 5, 2, 4)),
    CASE("grouped", causal, 3, QKV(2, 4, 2, 3, 3, 2, 3)),
    CASE("multi-query", defaults, 3, QKV(1, 3, 1, 2, 4, 3, 2)),
    CASE("causal", causal, 3, QKV(1, 2, 2, 4, 4, 3, 2)),
    CASE("causal, more keys", causal, 3, QKV(1, 2, 2, 2, 5, 3, 2)),
    CASE("causal, fewer keys", causal, 3, QKV(1, 2, 2, 5, 3, 3, 2)),
    CASE("key lengths", lengths, 4, QKV(4, 1, 1, 2, 4, 3, 2),
         {"lengths", TH_FILL_LENGTHS, 4, 1, {4}}),
    CASE("key mask", key_mask, 4, QKV(3, 1, 1, 2, 4, 3, 2),
         {"key_mask", TH_FILL_MASK, 0, 2, {3, 4}}),
    CASE("mask", mask, 4, QKV(2, 2, 2, 3, 4, 3, 2), {"mask", TH_FILL_MASK, 0, 2, {3, 4}}),
    CASE("mask per sample", mask, 4, QKV(2, 2, 2, 3, 4, 3, 2),
         {"mask", TH_FILL_MASK, 0, 3, {2, 3, 4}}),
    CASE("mask per head", mask, 4, QKV(2, 2, 2, 3, 4, 3, 2),
         {"mask", TH_FILL_MASK, 0, 4, {2, 2, 3, 4}}),
    CASE("all masks, grouped", all, 6, QKV(3, 4, 2, 4, 6, 3, 2),
         {"lengths", TH_FILL_LENGTHS, 6, 1, {3}}, {"key_mask", TH_FILL_MASK, 0, 2, {3, 6}},
         {"mask", TH_FILL_MASK, 0, 4, {3, 4, 4, 6}}),
    {"q = k = v", run_shared, &causal, .input_count = 1, .inputs = {NORMAL("x", 2, 2, 4, 3)}},
    {"fused projection", run_fused, &causal, .input_count = 1,
     .inputs = {{"x", TH_FILL_NORMAL, 0, 3, {2, 3, 12}}}},
    {"large", run, &causal, .large = true, .input_count = 3,
     .inputs = {QKV(2, 4, 4, 80, 80, 64, 48)}},
    {"large, grouped", run, &defaults, .large = true, .input_count = 3,
     .inputs = {QKV(2, 4, 2, 70, 130, 32, 32)}},
    {0}};
