/* train_settings.c: defaults, and whether the sizes fit into memory. */
#include <math.h>

#include "lab/machine.h"
#include "lab/train.h"
#include "tensor/error.h"

/* ---- defaults ---- */

typedef struct defaults {
  ptrdiff_t seq;
  long steps;
  double lr; /* of AdamW */
} defaults;

static const defaults task_defaults[TH_TASK_COUNT] = {[TH_TASK_COPY] = {32, 300, 3e-3},
                                                      [TH_TASK_REVERSE] = {32, 300, 3e-3},
                                                      [TH_TASK_SORT] = {32, 1000, 3e-3},
                                                      [TH_TASK_RECALL] = {32, 1500, 1e-3},
                                                      [TH_TASK_INDUCTION] = {24, 2000, 1e-3}};
static const defaults text_defaults = {64, 1000, 3e-3};

void th__train_complete(th__train *s) {
  const defaults *d = s->text != NULL ? &text_defaults : &task_defaults[s->task];
  if (s->layers == 0) s->layers = 2;
  if (s->heads == 0) s->heads = 4;
  if (s->d_model == 0) s->d_model = 64;
  if (s->dk == 0) s->dk = s->d_model / s->heads;
  if (s->seq == 0) s->seq = d->seq;
  if (s->batch == 0) s->batch = 32;
  if (s->steps == 0) s->steps = d->steps;
  if (s->lr == 0) s->lr = s->sgd ? 0.3 : d->lr;
}

/* ---- memory ---- */

th__train_need th__train_bytes(const th__train *s, ptrdiff_t vocab) {
  double width = (double)s->d_model, layers = (double)s->layers;
  double qkv =
      2 * (double)s->heads * (double)s->dk + width; /* queries, keys and values of a token */
  double tokens = (double)s->batch * (double)s->seq;
  double parameters = layers * (qkv * width + 9 * width * width) + width * (double)(vocab + s->seq);
  /* Per token and layer: two norms, q k v, the weights of each head, what attention and projection
   * give, two sums, the hidden layer before and after its activation, what comes out of it. Once:
   * embedding, its sum with the positions, last norm, logits. */
  double layer = 15 * width + qkv + (double)s->heads * (double)s->seq;
  double once = 3 * width + (double)vocab;
  /* Gradients are recycled within a step: of a layer's widest values, and of the logits. */
  double gradients = 10 * width + qkv + 2 * (double)vocab;
  return (th__train_need){.model = 4 * parameters * (s->sgd ? 2 : 4),
                          .step = 4 * tokens * (layers * layer + once + gradients),
                          .text = 2 * (double)s->text_bytes};
}

bool th__train_fits(const th__train *settings, ptrdiff_t vocab, th_error *error) {
  th__train_need need = th__train_bytes(settings, vocab);
  double have = th__machine_memory();
  if (need.model + need.step + need.text <= 0.9 * have) return true;
  bool model = need.model > need.step;
  th__error(error, TH_ERR_MEMORY,
            "these sizes need about %.3g GiB for the model and %.3g GiB for a step, but %.3g GiB are "
            "free; take %s",
            need.model / 0x1p30, need.step / 0x1p30, have / 0x1p30,
            model ? "a smaller d-model or dk, or fewer layers or heads"
                  : "a shorter seq, a smaller batch, or fewer layers");
  return false;
}
