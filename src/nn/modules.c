#include "nn/modules.h"

#include "nn/transformer.h"

/* ---- one block, its weights as inputs ---- */

/* Inputs: x, ln gain, ln bias, matrix, bias, projection, bias. */
static th_tensor *attention_block(th_tape *tape, th_tensor *const *in, const void *context) {
  th__layer layer = {.ln_1 = {in[1], in[2]}, .c_attn = {in[3], in[4]}, .attn_proj = {in[5], in[6]}};
  const th_gpt *c = context;
  return th__attention_block(tape, in[0], &layer, 0,
                             &(th__run){.config = c, .causal = !c->all_see_all});
}

static th_tensor *feed_forward(th_tape *tape, th_tensor *const *in, const void *context) {
  th__layer layer = {.ln_2 = {in[1], in[2]}, .c_fc = {in[3], in[4]}, .mlp_proj = {in[5], in[6]}};
  return th__feed_forward_block(tape, in[0], &layer, 0, &(th__run){.config = context});
}

#define NORMAL(name, sd, ndim, ...)                                                                \
  {                                                                                                \
    name, TH_FILL_NORMAL, sd, ndim, { __VA_ARGS__ }                                                \
  }
/* x [B, T, C], `rows` of the first matrix, `joined` columns of the projection. */
#define BLOCK_INPUTS(B, T, C, first, rows, joined)                                                 \
  .input_count = 7,                                                                                \
  .inputs = {                                                                                      \
      NORMAL("x", 1, 3, B, T, C),          NORMAL("ln.weight", 1, 1, C),                           \
      NORMAL("ln.bias", 0.5, 1, C),        NORMAL(first ".weight", 0.4, 2, rows, C),               \
      NORMAL(first ".bias", 0.5, 1, rows), NORMAL("c_proj.weight", 0.4, 2, C, joined),             \
      NORMAL("c_proj.bias", 0.5, 1, C),                                                            \
  }

static const th_gpt two_heads = {
    .heads = 2, .kv_heads = 2, .width = 4, .head_width = 2, .norm_eps = 1e-5};
static const th_gpt wide_heads = {
    .heads = 2, .kv_heads = 2, .width = 4, .head_width = 3, .norm_eps = 1e-5};
static const th_gpt unmasked = {.heads = 2,
                                .kv_heads = 2,
                                .width = 4,
                                .head_width = 2,
                                .norm_eps = 1e-5,
                                .all_see_all = true,
                                .scale = TH_SCALE_NONE};
static const th_gpt four_heads = {
    .heads = 4, .kv_heads = 4, .width = 32, .head_width = 8, .norm_eps = 1e-5};

static const th_check attention_checks[] = {
    {"", attention_block, &two_heads, BLOCK_INPUTS(2, 3, 4, "c_attn", 12, 4)},
    {"head_width", attention_block, &wide_heads, BLOCK_INPUTS(2, 3, 4, "c_attn", 16, 4)},
    {"all_see_all", attention_block, &unmasked, BLOCK_INPUTS(2, 3, 4, "c_attn", 12, 4)},
    {"large", attention_block, &four_heads, .large = true,
     BLOCK_INPUTS(2, 24, 32, "c_attn", 96, 32)},
    {0}};

static const th_check feed_forward_checks[] = {
    {"", feed_forward, &two_heads, BLOCK_INPUTS(2, 3, 4, "c_fc", 6, 6)},
    {"large", feed_forward, &four_heads, .large = true, BLOCK_INPUTS(2, 24, 32, "c_fc", 128, 128)},
    {0}};

/* ---- a whole gpt ---- */

/* It has more tensors than a check has inputs: a matrix and its bias lie in one flat input, the matrix
 * first, and so do gain and bias of a norm. This cuts the next one out, as a view. */
static th_tensor *cut(th_tape *tape, th_tensor *flat, ptrdiff_t *at, int ndim,
                      const ptrdiff_t *shape) {
  ptrdiff_t begin = *at;
  for (ptrdiff_t i = 0, count = 1; i < ndim; i++) *at = begin + (count *= shape[i]);
  return th_reshape(tape, th_slice(tape, flat, 0, begin, *at), ndim, shape);
}

static th__affine cut_dense(th_tape *tape, th_tensor *flat, ptrdiff_t out, ptrdiff_t in) {
  ptrdiff_t at = 0;
  th__affine pair;
  pair.weight = cut(tape, flat, &at, TH_SHAPE(out, in));
  pair.bias = cut(tape, flat, &at, TH_SHAPE(out));
  return pair;
}

static th__affine cut_norm(th_tape *tape, th_tensor *flat, ptrdiff_t n) {
  ptrdiff_t at = 0;
  th__affine pair;
  pair.weight = cut(tape, flat, &at, TH_SHAPE(n));
  pair.bias = cut(tape, flat, &at, TH_SHAPE(n));
  return pair;
}

/* One layer, run twice if the configuration says two: its weights then get both gradients. */
static th_tensor *gpt(th_tape *tape, th_tensor *const *in, const void *context) {
  const th_gpt *c = context;
  th__layer layer = {.ln_1 = cut_norm(tape, in[3], c->width),
                     .c_attn = cut_dense(tape, in[4], th__qkv_rows(c), c->width),
                     .attn_proj = cut_dense(tape, in[5], c->width, c->width),
                     .ln_2 = cut_norm(tape, in[6], c->width),
                     .c_fc = cut_dense(tape, in[7], c->hidden, c->width),
                     .mlp_proj = cut_dense(tape, in[8], c->width, c->hidden)};
  th__transformer t = {.config = *c,
                       .wte = in[1],
                       .decoder = {.wpe = in[2],
                                   .layers = (th__layer[]){layer, layer},
                                   .ln_f = cut_norm(tape, in[9], c->width)}};
  th_pass pass = {.training = true, .stream = {.seed = 1}};
  return th__gpt_logits(tape, &t, in[0], &pass);
}

static const th_gpt tiny = {.layers = 1,
                            .heads = 2,
                            .kv_heads = 2,
                            .width = 4,
                            .head_width = 2,
                            .norm_eps = 1e-5,
                            .hidden = 6,
                            .context = 4,
                            .vocab = 5};
static const th_gpt tied = {.layers = 2,
                            .heads = 2,
                            .kv_heads = 2,
                            .width = 4,
                            .head_width = 2,
                            .norm_eps = 1e-5,
                            .hidden = 6,
                            .context = 4,
                            .vocab = 5,
                            .dropout = 0.25};

/* Widths as in `tiny`: C = 4, c_attn [12, 4], hidden 6. */
#define GPT_INPUTS                                                                                 \
  .input_count = 10, .inputs = {                                                                   \
                         {"tokens", TH_FILL_IDS, 5, 2, {2, 3}},                                    \
                         NORMAL("wte", 1, 2, 5, 4),                                                \
                         NORMAL("wpe", 1, 2, 4, 4),                                                \
                         NORMAL("ln_1", 1, 1, 4 + 4),                                              \
                         NORMAL("c_attn", 0.4, 1, 12 * 4 + 12),                                    \
                         NORMAL("attn.c_proj", 0.4, 1, 4 * 4 + 4),                                 \
                         NORMAL("ln_2", 1, 1, 4 + 4),                                              \
                         NORMAL("c_fc", 0.4, 1, 6 * 4 + 6),                                        \
                         NORMAL("mlp.c_proj", 0.4, 1, 4 * 6 + 4),                                  \
                         NORMAL("ln_f", 1, 1, 4 + 4),                                              \
  }

static const th_check gpt_checks[] = {
    {"", gpt, &tiny, GPT_INPUTS}, {"two_layers_dropout", gpt, &tied, GPT_INPUTS}, {0}};

/* ---- the list ---- */

static const th_op module_attention = {"attention_block", NULL, attention_checks};
static const th_op module_feed_forward = {"feed_forward", NULL, feed_forward_checks};
static const th_op module_gpt = {"gpt", NULL, gpt_checks};

const th_op *const th__modules[] = {&module_attention, &module_feed_forward, &module_gpt, NULL};
