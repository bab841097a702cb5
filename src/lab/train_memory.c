/* train_memory.c: whether the sizes fit into memory. */
#include <math.h>

#include "lab/machine.h"
#include "lab/train.h"
#include "tensor/error.h"

/* Numbers per token of a batch, and parameters. */
typedef struct count {
  double parameters, layer, once, gradients;
} count;

static count count_transformer(const th__train *c, double vocab) {
  double width = (double)c->d_model, heads = (double)c->heads, hidden = (double)c->hidden;
  double shared = (double)c->kv_heads / heads;
  double qk = heads * (double)c->dk * (1 + shared);
  double qkv = qk + width * shared; /* queries, keys and values of a token */
  bool none = c->feed_forward == TH_FEED_FORWARD_NONE;
  double matrices = none ? 0 : c->feed_forward == TH_FEED_FORWARD_SWIGLU ? 3 : 2;
  double layer = qkv * width + width * width + matrices * hidden * width;
  /* Per token and layer: two norms, q k v, the weights of each head, what attention and projection
   * give, two sums, the hidden layer before and after its activation, what comes out of it. Once:
   * embedding, its sum with the positions, last norm, logits. */
  double kept = (none ? 4 : 7) * width + matrices * hidden + qkv + heads * (double)c->seq;
  if (c->positions == TH_POSITION_ROPE) kept += 2 * qk + width;
  if (c->dropout > 0) kept += 2 * width;
  double tables = width * (vocab * (c->untied ? 2 : 1) +
                           (c->positions == TH_POSITION_LEARNED ? (double)c->seq : 0));
  /* Gradients are recycled within a step: of a layer's widest values, and of the logits. */
  count n = {.parameters = (double)c->layers * layer + tables,
             .layer = (double)c->layers * kept,
             .once = 3 * width + vocab,
             .gradients = 2 * width + 2 * hidden + qkv + 2 * vocab};
  if (c->model == TH__MODEL_SEQ2SEQ) {
    /* Encoder and decoder, and cross-attention in the latter; half the tokens go through each, and are
     * half as many keys. */
    double weights = heads * (double)c->seq / 2;
    n.parameters += (double)c->layers * (layer + qkv * width + width * width);
    n.layer += (double)c->layers * ((5 * width + qkv + weights) / 2 - weights);
  }
  return n;
}

static count count_recurrent(const th__train *c, double vocab) {
  bool lstm = c->model == TH__MODEL_LSTM;
  double width = (double)c->d_model, gates = lstm ? 4 : 1;
  /* Per token and layer: gates (backward: an RNN's sums), states, states before, an LSTM's cells. Once: the
   * embedding, logits. */
  return (count){.parameters = (double)c->layers * gates * width * (2 * width + 1) +
                               width * vocab * (c->untied ? 2 : 1),
                 .layer = (double)c->layers * (gates + (lstm ? 3 : 2) + (c->dropout > 0)) * width,
                 .once = width + vocab,
                 .gradients = width + 2 * vocab};
}

th__train_need th__train_bytes(const th__train *c, double text, ptrdiff_t vocab) {
  count n = th__train_is_recurrent(c) ? count_recurrent(c, (double)vocab)
                                      : count_transformer(c, (double)vocab);
  double rows = ceil((double)c->batch / (double)c->accumulate);
  double tokens = rows * (double)c->seq;
  return (th__train_need){.model = 4 * n.parameters * (c->optim == TH__OPTIM_SGD ? 2 : 4),
                          .step = 4 * tokens * (n.layer + n.once + n.gradients),
                          .text = text > 0 ? text + th__text_bytes(text, vocab) : 0};
}

bool th__train_fits(const th__train *c, double text, ptrdiff_t vocab, th_error *error) {
  th__train_need need = th__train_bytes(c, text, vocab);
  double have = th__machine_memory();
  if (need.model + need.step + need.text <= 0.9 * have) return true;
  bool model = need.model > need.step;
  th__error(error, TH_ERR_MEMORY,
            "these sizes need about %.3g GiB for the model and %.3g GiB for a step, but %.3g GiB are "
            "free; take %s",
            need.model / 0x1p30, need.step / 0x1p30, have / 0x1p30,
            model ? "a smaller d-model or dk, or fewer layers or heads"
                  : "a shorter seq, a smaller batch (or --accumulate), or fewer layers");
  return false;
}
