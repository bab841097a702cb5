/* multi_head_attention: linear, split_heads, attention, merge_heads, linear.
 * Shapes    x (B, n_q, C)   memory (B, n_k, C_kv)   wq (H d_k, C)   wk (H d_k, C_kv)   wv (H d_v, C_kv)
 *           wo (C_out, H d_v)   biases (rows of their matrix) or NULL   y (B, n_q, C_out)
 * Forward   Q = x Wq^T + bq;  K = memory Wk^T + bk;  V = memory Wv^T + bv, each cut into H heads;
 *           head_h = softmax(scale Q_h K_h^T) V_h;  y = [head_1 .. head_H] Wo^T + bo
 *           H heads of width d_k cost as many multiplications as one head of width H d_k.
 * Saves     nothing of its own: its parts are recorded one by one.
 * Backward  that of its parts, in reverse. bk adds the same amount to all scores of a query, so its
 *           gradient is 0 on paper, and rounding in practice.
 * Writes    nothing of its own.
 * Checks    equal to its parts written out.   tests/ops/test_multi_head_attention.c */
#include "autograd/tape.h"

#define OP "multi_head_attention"

/* ---- shapes; whether x and memory have the matrices' widths is linear's business ---- */

static bool in_heads(th_tape *tape, const char *name, const th_tensor *w, ptrdiff_t heads) {
  if (w->ndim == 2 && w->shape[0] > 0 && w->shape[0] % heads == 0) return true;
  th_fail(tape, TH_ERR_SHAPE, OP,
          "%s is %s; [H*d, C] is expected, and its first axis must divide into %td heads: choose a "
          "number of heads that divides the width",
          name, TH__TEXT(w), heads);
  return false;
}

static bool weights_fit(th_tape *tape, const th_mha_weights *w, ptrdiff_t heads) {
  if (heads < 1) {
    th_fail(tape, TH_ERR_VALUE, OP, "heads is %td; at least 1 is expected", heads);
    return false;
  }
  if (!in_heads(tape, "wq", w->wq, heads) || !in_heads(tape, "wk", w->wk, heads) ||
      !in_heads(tape, "wv", w->wv, heads))
    return false;
  if (w->wk->shape[0] != w->wq->shape[0]) {
    th_fail(tape, TH_ERR_SHAPE, OP, "wq is %s but wk %s; their first axes, H*d_k, must be equal",
            TH__TEXT(w->wq), TH__TEXT(w->wk));
    return false;
  }
  if (w->wo->ndim != 2 || w->wo->shape[1] != w->wv->shape[0]) {
    th_fail(tape, TH_ERR_SHAPE, OP,
            "wo is %s but wv %s; [C_out, H*d_v] and [H*d_v, C_kv] are expected", TH__TEXT(w->wo),
            TH__TEXT(w->wv));
    return false;
  }
  return true;
}

/* ---- recording ---- */

static th_tensor *project(th_tape *tape, th_tensor *x, th_tensor *w, th_tensor *b, ptrdiff_t heads) {
  return th_split_heads(tape, th_linear(tape, x, w, b), heads);
}

th_tensor *th_multi_head_attention(th_tape *tape, th_tensor *x, th_tensor *memory,
                                   const th_mha_weights *weights, ptrdiff_t heads,
                                   const th_attention_options *options) {
  if (options != NULL && options->weights != NULL) *options->weights = NULL;
  const th_mha_weights *w = weights;
  if (w == NULL) return th_fail(tape, TH_ERR_VALUE, OP, "weights is NULL");
  if (!TH__READY(tape, OP, x, memory, w->wq, w->wk, w->wv, w->wo) || !weights_fit(tape, w, heads))
    return NULL;
  TH__REQUIRE(tape, x->ndim == 3 && memory->ndim == 3 && x->shape[0] == memory->shape[0],
              TH_ERR_SHAPE, OP, "x is %s and memory %s; [B, n_q, C] and [B, n_k, C_kv] are expected",
              TH__TEXT(x), TH__TEXT(memory));
  th_tensor *q = project(tape, x, w->wq, w->bq, heads);
  th_tensor *k = project(tape, memory, w->wk, w->bk, heads);
  th_tensor *v = project(tape, memory, w->wv, w->bv, heads);
  th_tensor *joined = th_merge_heads(tape, th_attention(tape, q, k, v, options));
  th_tensor *y = th_linear(tape, joined, w->wo, w->bo);
  if (y == NULL && options != NULL && options->weights != NULL) *options->weights = NULL;
  return y;
}

/* ---- checks ---- */

typedef struct settings {
  th_attention_options options;
  ptrdiff_t heads;
  bool cross, bias;
  int key_lengths; /* index of the input, 0: none */
} settings;

/* Inputs: x, memory if `cross`, the four matrices, the four biases if `bias`, lengths if given. */
static th_tensor *run(th_tape *tape, th_tensor *const *in, const void *context) {
  const settings *s = context;
  th_attention_options options = s->options;
  if (s->key_lengths > 0) options.key_lengths = in[s->key_lengths];
  th_tensor *const *w = in + (s->cross ? 2 : 1);
  th_mha_weights weights = {.wq = w[0], .wk = w[1], .wv = w[2], .wo = w[3]};
  if (s->bias) {
    weights.bq = w[4];
    weights.bk = w[5];
    weights.bv = w[6];
    weights.bo = w[7];
  }
  return th_multi_head_attention(tape, in[0], in[s->cross ? 1 : 0], &weights, s->heads, &options);
}

static const settings self = {.heads = 2};
static const settings self_bias = {.heads = 2, .bias = true};
static const settings causal = {.heads = 2, .bias = true, .options = {.causal = true}};
static const settings cross = {.heads = 2, .cross = true};
static const settings widths = {.heads = 3, .cross = true, .bias = true, .key_lengths = 10};
static const settings large = {.heads = 4, .options = {.causal = true}};

/* clang-format off */
#define X(B, T, C) {"x", TH_FILL_NORMAL, 0, 3, {B, T, C}}
#define MEMORY(B, T, C) {"memory", TH_FILL_NORMAL, 0, 3, {B, T, C}}
#define SCALED(name, sd, out, in) {name, TH_FILL_NORMAL, sd, 2, {out, in}}
#define MATRIX(name, out, in) SCALED(name, 0.5, out, in)
#define BIAS(name, out) {name, TH_FILL_NORMAL, 0.5, 1, {out}}
#define MATRICES(C) MATRIX("wq", C, C), MATRIX("wk", C, C), MATRIX("wv", C, C), MATRIX("wo", C, C)
#define BIASES(C) BIAS("bq", C), BIAS("bk", C), BIAS("bv", C), BIAS("bo", C)

static const th_check checks[] = {
    {"", run, &self, .input_count = 5, .inputs = {X(2, 3, 4), MATRICES(4)}},
    {"bias", run, &self_bias, .input_count = 9, .inputs = {X(2, 3, 4), MATRICES(4), BIASES(4)}},
    {"causal", run, &causal, .input_count = 9, .inputs = {X(2, 4, 4), MATRICES(4), BIASES(4)}},
    {"cross", run, &cross, .input_count = 6, .inputs = {X(2, 2, 4), MEMORY(2, 5, 4), MATRICES(4)}},
    {"cross, other widths, lengths", run, &widths, .input_count = 11, .inputs = {
        X(2, 2, 4), MEMORY(2, 4, 5), MATRIX("wq", 6, 4), MATRIX("wk", 6, 5), MATRIX("wv", 9, 5), MATRIX("wo", 3, 9),
        BIAS("bq", 6), BIAS("bk", 6), BIAS("bv", 9), BIAS("bo", 3), {"lengths", TH_FILL_LENGTHS, 4, 1, {2}}}},
    {"large", run, &large, .large = true, .input_count = 5, .inputs = {
        X(2, 40, 64), SCALED("wq", 0.125, 64, 64), SCALED("wk", 0.125, 64, 64), SCALED("wv", 0.125, 64, 64),
        SCALED("wo", 0.125, 64, 64)}},
    {0}};
/* clang-format on */

const th_op th__op_multi_head_attention = {OP, NULL, checks};
