/* cases.c: small checks for the faults to be planted in. Square where a transpose would not show
 * otherwise, several rows where a sum could be forgotten, sizes that no two factors share. */
#include <math.h>
#include <string.h>

#include "autograd/power/faults.h"

static th_tensor *linear(th_tape *tape, th_tensor *const *in, const void *context) {
  return th_linear(tape, in[0], in[1], context != NULL ? in[2] : NULL);
}
static th_tensor *matmul(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  return th_matmul(tape, in[0], in[1], 0);
}
static th_tensor *softmax(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  return th_softmax(tape, in[0]);
}
static th_tensor *log_softmax(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  return th_log_softmax(tape, in[0]);
}
static th_tensor *cross_entropy(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  return th_cross_entropy(tape, in[0], in[1]);
}
static th_tensor *layer_norm(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  return th_layer_norm(tape, in[0], in[1], in[2], 1e-5);
}
static th_tensor *attention(th_tape *tape, th_tensor *const *in, const void *context) {
  const th_attention_options options = {.causal = context != NULL};
  return th_attention(tape, in[0], in[1], in[2], &options);
}
static th_tensor *multi_head(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  const th_mha_weights w = {in[1], in[2], in[3], in[4], NULL, NULL, NULL, NULL};
  return th_multi_head_attention(tape, in[0], in[0], &w, 2, NULL);
}
static th_tensor *embedding(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  return th_embedding(tape, in[0], in[1]);
}
static th_tensor *relu(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  return th_relu(tape, in[0]);
}
static th_tensor *gelu(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  return th_gelu(tape, in[0], TH_GELU_EXACT);
}
static th_tensor *dropout(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  return th_dropout(tape, in[0], 0.25, (th_random){5, 0, 0});
}
static th_tensor *add(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  return th_add(tape, in[0], in[1]);
}
static th_tensor *bias(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  return th_bias(tape, in[0], in[1]);
}
static th_tensor *mean(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  return th_mean(tape, in[0], -1);
}
static th_tensor *rope(th_tape *tape, th_tensor *const *in, const void *context) {
  return th_rope(tape, in[0], &(th_rope_options){.interleaved = context != NULL});
}
static th_tensor *rms_norm(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  return th_rms_norm(tape, in[0], in[1], 1e-5);
}
static th_tensor *tanh_of(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  return th_tanh(tape, in[0]);
}
static th_tensor *sigmoid_of(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  return th_sigmoid(tape, in[0]);
}
static th_tensor *silu(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  return th_silu(tape, in[0]);
}
static th_tensor *swiglu(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  return th_swiglu(tape, in[0], in[1]);
}
static th_tensor *logsumexp(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  return th_logsumexp(tape, in[0]);
}
static th_tensor *concat(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  return th_concat(tape, in, 2, -1);
}
static th_tensor *rnn(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  return th_rnn(tape, in[0], in[1], &(th_recurrent_weights){in[2], in[3], in[4]});
}
static th_tensor *lstm(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  return th_lstm(tape, in[0], in[1], in[5], &(th_recurrent_weights){in[2], in[3], in[4]}, NULL);
}
static th_tensor *twice(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context; /* x is used by two operations, so that overwriting loses one of them */
  return th_add(tape, th_linear(tape, in[0], in[1], NULL), th_softmax(tape, in[0]));
}

/* Rotary positions in small: pair (2i, 2i+1) of row t is turned by the angle t / 2^i. The operation is
 * the catalogue's own. */
static th_status rotate(th_node *node, const th_tensor *from, th_tensor *to, double sign) {
  ptrdiff_t n = th__dim(from, -1);
  double *in = th__values(node, from), *out = th__values(node, to);
  if (in == NULL || out == NULL) return TH_ERR_MEMORY;
  for (ptrdiff_t k = 0; k < from->count; k += 2) {
    double angle = sign * (double)(k / n) / ldexp(1, (int)(k % n / 2));
    out[k] += cos(angle) * in[k] - sin(angle) * in[k + 1];
    out[k + 1] += sin(angle) * in[k] + cos(angle) * in[k + 1];
  }
  th_tensor_write(to, out);
  return TH_OK;
}
static th_status rotate_backward(th_node *node) {
  return rotate(node, th_node_upstream(node), th_node_grad(node, 0), -1);
}
th_status th__spoil_rotation(th__spoiled *s) {
  const th_tensor *dy = th_node_upstream(s->node);
  th_tensor *turned = th_input(s->node->output->tape, dy->dtype, dy->ndim, dy->shape, NULL);
  if (turned == NULL || rotate(s->node, dy, turned, 1) != TH_OK) return TH_ERR_MEMORY;
  th_tensor_read(turned, s->delta);
  return TH_OK;
}
static th_tensor *rotated(th_tape *tape, th_tensor *const *in, const void *context) {
  static const th_op op = {.name = "rotate", .backward = rotate_backward};
  (void)context;
  th_tensor *x = th_contiguous(tape, in[0]);
  th_tensor *y = x != NULL ? th_input(tape, x->dtype, x->ndim, x->shape, NULL) : NULL;
  if (y == NULL) return NULL;
  struct th_node run = {.output = y};
  if (rotate(&run, x, y, 1) != TH_OK) return NULL;
  return th_record(tape, &op, y, &x, 1, NULL, 0);
}

static const char given = 1; /* a context that is not NULL: with bias, causal */

/* clang-format off */
#define N(name, param, ...) {name, TH_FILL_NORMAL, param, __VA_ARGS__}
static const th_check cases[] = {
    {"linear", linear, .input_count = 2, .inputs = {N("x", 0, 2, {7, 5}), N("weight", 0, 2, {5, 5})}},
    {"linear with bias", linear, &given, .input_count = 3, .inputs = {N("x", 0, 3, {2, 3, 4}), N("weight", 0, 2, {5, 4}), N("bias", 0, 1, {5})}},
    {"matmul", matmul, .input_count = 2, .inputs = {N("a", 0, 2, {6, 6}), N("b", 0, 2, {6, 4})}},
    {"softmax", softmax, .input_count = 1, .inputs = {N("x", 0, 2, {4, 6})}},
    {"log_softmax", log_softmax, .input_count = 1, .inputs = {N("x", 0, 2, {4, 6})}},
    {"cross_entropy", cross_entropy, .input_count = 2, .inputs = {N("logits", 0, 2, {7, 5}), {"targets", TH_FILL_LABELS, 5, 1, {7}}}},
    {"layer_norm", layer_norm, .input_count = 3, .inputs = {N("x", 0, 2, {5, 7}), N("gain", 0, 1, {7}), N("bias", 0, 1, {7})}},
    {"attention", attention, .input_count = 3, .inputs = {N("q", 0, 4, {2, 2, 4, 3}), N("k", 0, 4, {2, 2, 4, 3}), N("v", 0, 4, {2, 2, 4, 3})}},
    {"attention, causal", attention, &given, .input_count = 3, .inputs = {N("q", 0, 4, {1, 2, 5, 3}), N("k", 0, 4, {1, 2, 5, 3}), N("v", 0, 4, {1, 2, 5, 3})}},
    {"attention, grouped", attention, .input_count = 3, .inputs = {N("q", 0, 4, {1, 6, 4, 5}), N("k", 0, 4, {1, 2, 4, 5}), N("v", 0, 4, {1, 2, 4, 3})}},
    {"multi_head_attention", multi_head, .input_count = 5, .inputs = {N("x", 0, 3, {2, 4, 6}), N("wq", 0.5, 2, {6, 6}), N("wk", 0.5, 2, {6, 6}), N("wv", 0.5, 2, {6, 6}), N("wo", 0.5, 2, {6, 6})}},
    {"embedding", embedding, .input_count = 2, .inputs = {N("table", 0, 2, {4, 3}), {"ids", TH_FILL_IDS, 4, 1, {9}}}},
    {"relu", relu, .input_count = 1, .inputs = {N("x", 0, 2, {4, 6})}},
    {"gelu", gelu, .input_count = 1, .inputs = {N("x", 0, 2, {4, 6})}},
    {"dropout", dropout, .input_count = 1, .inputs = {N("x", 0, 2, {5, 6})}},
    {"add", add, .input_count = 2, .inputs = {N("a", 0, 2, {4, 5}), N("b", 0, 1, {5})}},
    {"bias", bias, .input_count = 2, .inputs = {N("x", 0, 3, {2, 3, 5}), N("bias", 0, 1, {5})}},
    {"mean", mean, .input_count = 1, .inputs = {N("x", 0, 2, {4, 7})}},
    {"rotate", rotated, .input_count = 1, .inputs = {N("x", 0, 2, {5, 4})}},
    {"rope", rope, .input_count = 1, .inputs = {N("x", 0, 3, {2, 5, 6})}},
    {"rope, interleaved", rope, &given, .input_count = 1, .inputs = {N("x", 0, 3, {2, 5, 6})}},
    {"rms_norm", rms_norm, .input_count = 2, .inputs = {N("x", 0, 2, {5, 7}), N("gain", 0, 1, {7})}},
    {"tanh", tanh_of, .input_count = 1, .inputs = {N("x", 0, 2, {4, 6})}},
    {"sigmoid", sigmoid_of, .input_count = 1, .inputs = {N("x", 0, 2, {4, 6})}},
    {"silu", silu, .input_count = 1, .inputs = {N("x", 0, 2, {4, 6})}},
    {"swiglu", swiglu, .input_count = 2, .inputs = {N("gate", 0, 2, {4, 6}), N("up", 0, 2, {4, 6})}},
    {"logsumexp", logsumexp, .input_count = 1, .inputs = {N("x", 0, 2, {4, 6})}},
    {"concat", concat, .input_count = 2, .inputs = {N("a", 0, 2, {4, 3}), N("b", 0, 2, {4, 3})}},
    {"rnn", rnn, .input_count = 5, .inputs = {N("x", 0, 3, {2, 4, 3}), N("h0", 0, 2, {2, 5}), N("w_x", 0.5, 2, {5, 3}), N("w_h", 0.5, 2, {5, 5}), N("bias", 0, 1, {5})}},
    {"lstm", lstm, .input_count = 6, .inputs = {N("x", 0, 3, {2, 3, 2}), N("h0", 0, 2, {2, 3}), N("w_x", 0.5, 2, {12, 2}), N("w_h", 0.5, 2, {12, 3}), N("bias", 0, 1, {12}), N("c0", 0, 2, {2, 3})}},
    {"two uses", twice, .input_count = 2, .inputs = {N("x", 0, 2, {4, 6}), N("weight", 0, 2, {6, 6})}},
    {0}};
/* clang-format on */

const th_check *th__fault_case(const char *name) {
  for (const th_check *check = cases; check->forward != NULL; check++)
    if (strcmp(check->variant, name) == 0) return check;
  return NULL;
}
