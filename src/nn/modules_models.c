/* modules_models.c: gradient checks of whole transformers. They have more tensors than a check has
 * inputs, so that several lie in one flat input, one after another, and are cut out of it as views. */
#include "nn/modules.h"
#include "nn/transformer.h"

typedef struct cutter {
  th_tape *tape;
  const th_gpt *config;
  th_tensor *const *in; /* the flat input at hand */
  ptrdiff_t at;         /* elements of it that are used up */
} cutter;

static void next_input(cutter *c) {
  c->in++;
  c->at = 0;
}

static th_tensor *cut(cutter *c, int ndim, const ptrdiff_t *shape) {
  ptrdiff_t count = 1, begin = c->at;
  for (int i = 0; i < ndim; i++) count *= shape[i];
  c->at += count;
  return th_reshape(c->tape, th_slice(c->tape, *c->in, 0, begin, c->at), ndim, shape);
}

static th_tensor *cut_table(cutter *c, ptrdiff_t rows) {
  return cut(c, TH_SHAPE(rows, c->config->width));
}

static th__affine cut_dense(cutter *c, ptrdiff_t out, ptrdiff_t in) {
  th__affine pair = {.weight = cut(c, TH_SHAPE(out, in))};
  if (!c->config->no_bias) pair.bias = cut(c, TH_SHAPE(out));
  return pair;
}

static th__affine cut_norm(cutter *c) {
  th__affine pair = {.weight = cut(c, TH_SHAPE(c->config->width))};
  if (c->config->norm == TH_NORM_LAYER && !c->config->no_bias)
    pair.bias = cut(c, TH_SHAPE(c->config->width));
  return pair;
}

/* Attention, attention to an encoder if `cross`, feed-forward: an input for each, or with `apart` for
 * each of their matrices and norms. */
static th__layer cut_layer(cutter *c, bool cross, bool apart) {
  const th_gpt *g = c->config;
  th__layer layer = {.ln_1 = cut_norm(c)};
  if (apart) next_input(c);
  layer.c_attn = cut_dense(c, th__qkv_rows(g), g->width);
  if (apart) next_input(c);
  layer.attn_proj = cut_dense(c, g->width, g->width);
  next_input(c);
  if (cross) {
    layer.ln_x = cut_norm(c);
    layer.c_q = cut_dense(c, g->heads * g->head_width, g->width);
    layer.c_kv = cut_dense(c, th__kv_rows(g), g->width);
    layer.cross_proj = cut_dense(c, g->width, g->width);
    next_input(c);
  }
  layer.ln_2 = cut_norm(c);
  if (apart) next_input(c);
  if (g->feed_forward == TH_FEED_FORWARD_SWIGLU) layer.c_gate = cut_dense(c, g->hidden, g->width);
  layer.c_fc = cut_dense(c, g->hidden, g->width);
  if (apart) next_input(c);
  layer.mlp_proj = cut_dense(c, g->width, g->hidden);
  next_input(c);
  return layer;
}

/* What is around a stack's layers, in one input. */
static void cut_ends(cutter *c, th__stack *stack) {
  if (c->config->positions == TH_POSITION_LEARNED) stack->wpe = cut_table(c, c->config->context);
  if (!c->config->post_norm) stack->ln_f = cut_norm(c);
}

static const th_pass training = {.training = true, .stream = {.seed = 1}};

/* ---- gpt: tokens, wte, the layer's matrices, ends with the output ---- */

/* One layer, run twice if the configuration says two: its weights then get both gradients. */
static th_tensor *gpt(th_tape *tape, th_tensor *const *in, const void *context) {
  th__transformer t = {.config = *(const th_gpt *)context, .wte = in[1]};
  cutter c = {tape, &t.config, in + 2, 0};
  th__layer layer = cut_layer(&c, false, true);
  t.decoder.layers = (th__layer[]){layer, layer};
  cut_ends(&c, &t.decoder);
  if (t.config.untied) t.head.weight = cut_table(&c, t.config.vocab);
  return th__gpt_logits(tape, &t, in[0], &training);
}

#define SIZES .heads = 2, .width = 4, .hidden = 6, .context = 4, .vocab = 5, .norm_eps = 1e-5
static const th_gpt tiny = {SIZES, .layers = 1, .kv_heads = 2, .head_width = 2};
static const th_gpt tied = {SIZES, .layers = 2, .kv_heads = 2, .head_width = 2, .dropout = 0.25};
static const th_gpt llama = {SIZES,         TH_LLAMA,        .layers = 2,
                             .kv_heads = 1, .head_width = 4, .rope_base = 100};
static const th_gpt vaswani = {SIZES,
                               .layers = 2,
                               .kv_heads = 2,
                               .head_width = 2,
                               .positions = TH_POSITION_SINUSOIDAL,
                               .feed_forward = TH_FEED_FORWARD_RELU,
                               .post_norm = true};

/* C = 4, hidden 6: a matrix [out, in] with and without its bias, a norm. */
#define DENSE(out, in) (out * in + out)
#define BARE(out, in) (out * in)
#define NORM (4 + 4)
#define FLAT(name, sd, count)                                                                      \
  {                                                                                                \
    name, TH_FILL_NORMAL, sd, 1, { count }                                                         \
  }
#define IDS(name, B, T)                                                                            \
  {                                                                                                \
    name, TH_FILL_IDS, 5, 2, { B, T }                                                              \
  }
#define WTE                                                                                        \
  {                                                                                                \
    "wte", TH_FILL_NORMAL, 1, 2, { 5, 4 }                                                          \
  }
#define LENGTHS(B, T)                                                                              \
  {                                                                                                \
    "lengths", TH_FILL_LENGTHS, T, 1, { B }                                                        \
  }
#define LAYER                                                                                      \
  FLAT("ln_1", 1, NORM), FLAT("c_attn", 0.4, DENSE(12, 4)), FLAT("attn.c_proj", 0.4, DENSE(4, 4)), \
      FLAT("ln_2", 1, NORM), FLAT("c_fc", 0.4, DENSE(6, 4)), FLAT("mlp.c_proj", 0.4, DENSE(4, 6))
#define LLAMA_LAYER                                                                                \
  FLAT("ln_1", 1, 4), FLAT("c_attn", 0.4, BARE(14, 4)), FLAT("attn.c_proj", 0.4, BARE(4, 4)),      \
      FLAT("ln_2", 1, 4), FLAT("c_gate, c_fc", 0.4, 2 * BARE(6, 4)),                               \
      FLAT("mlp.c_proj", 0.4, BARE(4, 6))

#define GPT_INPUTS                                                                                 \
  .input_count = 9, .inputs = {IDS("tokens", 2, 3), WTE, LAYER, FLAT("wpe, ln_f", 1, 4 * 4 + NORM)}
static const th_check gpt_checks[] = {
    {"", gpt, &tiny, GPT_INPUTS},
    {"two_layers_dropout", gpt, &tied, GPT_INPUTS},
    {"llama", gpt, &llama, .input_count = 9,
     .inputs = {IDS("tokens", 2, 3), WTE, LLAMA_LAYER, FLAT("ln_f, lm_head", 1, 4 + 5 * 4)}},
    {"post_norm", gpt, &vaswani, .kinks = true, .input_count = 8,
     .inputs = {IDS("tokens", 2, 3), WTE, LAYER}},
    {0}};

/* ---- classifier: tokens, lengths, wte, the layer's matrices, ends with the head ---- */

enum { CLASSES = 3 };

static th_tensor *classifier(th_tape *tape, th_tensor *const *in, const void *context) {
  th__transformer t = {.config = *(const th_gpt *)context, .wte = in[2]};
  cutter c = {tape, &t.config, in + 3, 0};
  th__layer layer = cut_layer(&c, false, true);
  t.encoder.layers = (th__layer[]){layer, layer};
  cut_ends(&c, &t.encoder);
  t.head = cut_dense(&c, CLASSES, t.config.width);
  return th__classifier_logits(tape, &t, in[0], in[1], &training);
}

#define HEAD DENSE(CLASSES, 4)
static const th_check classifier_checks[] = {
    {"", classifier, &tied, .input_count = 10,
     .inputs = {IDS("tokens", 3, 4), LENGTHS(3, 4), WTE, LAYER,
                FLAT("wpe, ln_f, head", 1, 4 * 4 + NORM + HEAD)}},
    {"post_norm", classifier, &vaswani, .kinks = true, .input_count = 10,
     .inputs = {IDS("tokens", 3, 4), LENGTHS(3, 4), WTE, LAYER, FLAT("head", 1, HEAD)}},
    {0}};

/* ---- seq2seq: source, lengths, target, wte, the encoder's blocks and ends, the decoder's ---- */

static th_tensor *seq2seq(th_tape *tape, th_tensor *const *in, const void *context) {
  th__transformer t = {.config = *(const th_gpt *)context, .wte = in[3]};
  cutter c = {tape, &t.config, in + 4, 0};
  th__layer encoder = cut_layer(&c, false, false);
  t.encoder.layers = (th__layer[]){encoder, encoder};
  cut_ends(&c, &t.encoder);
  if (c.at > 0) next_input(&c);
  th__layer decoder = cut_layer(&c, true, false);
  t.decoder.layers = (th__layer[]){decoder, decoder};
  cut_ends(&c, &t.decoder);
  return th__seq2seq_logits(tape, &t, in[0], in[1], in[2], &training);
}

#define ATTENTION(side) FLAT(side "attn", 0.5, NORM + DENSE(12, 4) + DENSE(4, 4))
#define CROSS FLAT("dec.cross", 0.5, NORM + DENSE(4, 4) + DENSE(8, 4) + DENSE(4, 4))
#define FEED_FORWARD(side) FLAT(side "mlp", 0.5, NORM + DENSE(6, 4) + DENSE(4, 6))
#define ENDS(side) FLAT(side "wpe, ln_f", 1, 4 * 4 + NORM)
static const th_check seq2seq_checks[] = {
    {"", seq2seq, &tied, .input_count = 11,
     .inputs = {IDS("source", 2, 4), LENGTHS(2, 4), IDS("target", 2, 3), WTE, ATTENTION("enc."),
                FEED_FORWARD("enc."), ENDS("enc."), ATTENTION("dec."), CROSS, FEED_FORWARD("dec."),
                ENDS("dec.")}},
    {"post_norm", seq2seq, &vaswani, .kinks = true, .input_count = 9,
     .inputs = {IDS("source", 2, 4), LENGTHS(2, 4), IDS("target", 2, 3), WTE, ATTENTION("enc."),
                FEED_FORWARD("enc."), ATTENTION("dec."), CROSS, FEED_FORWARD("dec.")}},
    {0}};

const th_op th__module_gpt = {"gpt", NULL, gpt_checks};
const th_op th__module_classifier = {"classifier", NULL, classifier_checks};
const th_op th__module_seq2seq = {"seq2seq", NULL, seq2seq_checks};
