/* recall_model.c: parameters, data and forward pass of slot-coded recall. */
#include "lab/recall_model.h"

#include <math.h>

#include "tensor/purpose.h"
#include "tensor/tensor.h"

/* ---- parameters ---- */

static th_tensor *matrix(th_params *params, const char *name, th_dtype dtype, ptrdiff_t rows,
                         double sd, uint64_t seed, th_error *error) {
  th_random stream = {seed, TH__PURPOSE_INIT + (uint32_t)th_params_count(params), 0};
  th_tensor *w = th_params_add(params, name, dtype, TH_SHAPE(rows, TH__RECALL_WIDTH), error);
  if (w == NULL) return NULL;
  th_init_normal(w, 0, sd, stream);
  if (dtype == TH_F64) /* the numbers an f32 model would hold */
    for (ptrdiff_t i = 0; i < th_tensor_count(w); i++) th__set(w, i, (double)(float)th__get(w, i));
  return w;
}

bool th__recall_model_new(th__recall_model *model, const th__recall *settings, th_dtype dtype,
                          th_error *error) {
  const double fan_in = 1 / sqrt(TH__RECALL_WIDTH);
  uint64_t seed = settings->seed;
  th_params *p = th_params_new(error);
  *model = (th__recall_model){.params = p};
  return p != NULL &&
         (model->keys = matrix(p, "keys", dtype, TH__RECALL_SLOTS, 1, seed, error)) != NULL &&
         (model->values = matrix(p, "values", dtype, TH__RECALL_VALUES, 1, seed, error)) != NULL &&
         (model->wq = matrix(p, "wq", dtype, settings->dk, fan_in, seed, error)) != NULL &&
         (model->wk = matrix(p, "wk", dtype, settings->dk, fan_in, seed, error)) != NULL &&
         (model->wv = matrix(p, "wv", dtype, TH__RECALL_WIDTH, fan_in, seed, error)) != NULL &&
         (model->wo = matrix(p, "wo", dtype, TH__RECALL_WIDTH, fan_in, seed, error)) != NULL &&
         (model->out = matrix(p, "out", dtype, TH__RECALL_VALUES, fan_in, seed, error)) != NULL;
}

void th__recall_model_free(th__recall_model *model) { th_params_free(model->params); }

/* ---- data ---- */

bool th__recall_batch_new(th__recall_batch *batch, th_error *error) {
  *batch = (th__recall_batch){0};
  th_tensor **slots[] = {&batch->slot_keys, &batch->slot_values};
  th_tensor **queries[] = {&batch->query_keys, &batch->answers, &batch->slots};
  for (int i = 0; i < 2; i++)
    *slots[i] = th_tensor_new(TH_I32, TH_SHAPE(TH__RECALL_BATCH, TH__RECALL_SLOTS), error);
  for (int i = 0; i < 3; i++)
    *queries[i] = th_tensor_new(TH_I32, TH_SHAPE(TH__RECALL_BATCH, TH__RECALL_QUERIES), error);
  return batch->slot_keys != NULL && batch->slot_values != NULL && batch->query_keys != NULL &&
         batch->answers != NULL && batch->slots != NULL;
}

void th__recall_batch_free(th__recall_batch *batch) {
  th_tensor_free(batch->slot_keys);
  th_tensor_free(batch->slot_values);
  th_tensor_free(batch->query_keys);
  th_tensor_free(batch->answers);
  th_tensor_free(batch->slots);
}

/* One sequence: a random order of the keys, a value for each slot, and four slots to ask for. */
static void fill_sequence(th__recall_batch *batch, ptrdiff_t row, th_random stream, uint64_t *draw) {
  int32_t *keys = (int32_t *)th_tensor_data(batch->slot_keys) + row * TH__RECALL_SLOTS;
  int32_t *values = (int32_t *)th_tensor_data(batch->slot_values) + row * TH__RECALL_SLOTS;
  for (int32_t j = 0; j < TH__RECALL_SLOTS; j++) { /* Fisher and Yates, inside out */
    int32_t i = (int32_t)th_random_below(stream, (*draw)++, (uint64_t)j + 1);
    keys[j] = keys[i];
    keys[i] = j;
    values[j] = (int32_t)th_random_below(stream, (*draw)++, TH__RECALL_VALUES);
  }
  for (ptrdiff_t i = row * TH__RECALL_QUERIES; i < (row + 1) * TH__RECALL_QUERIES; i++) {
    int32_t slot = (int32_t)th_random_below(stream, (*draw)++, TH__RECALL_SLOTS);
    ((int32_t *)th_tensor_data(batch->slots))[i] = slot;
    ((int32_t *)th_tensor_data(batch->query_keys))[i] = keys[slot];
    ((int32_t *)th_tensor_data(batch->answers))[i] = values[slot];
  }
}

void th__recall_batch_fill(th__recall_batch *batch, uint64_t seed, bool heldout, uint64_t number) {
  th_random stream = {seed, heldout ? TH__PURPOSE_RECALL_HELDOUT : TH__PURPOSE_RECALL_TRAINING,
                      number};
  uint64_t draw = 0;
  for (ptrdiff_t row = 0; row < TH__RECALL_BATCH; row++) fill_sequence(batch, row, stream, &draw);
}

/* ---- the pass ---- */

static th_tensor *norm(th_tape *tape, th_tensor *x) {
  return th_layer_norm(tape, x, NULL, NULL, 1e-5);
}

th__recall_pass th__recall_forward(th_tape *tape, const th__recall_model *m,
                                   const th__recall *settings, const th__recall_batch *batch) {
  th__recall_pass pass = {0};
  th_tensor *x = th_embedding(tape, m->keys, batch->query_keys);
  th_tensor *memory = norm(tape, th_add(tape, th_embedding(tape, m->keys, batch->slot_keys),
                                        th_embedding(tape, m->values, batch->slot_values)));
  pass.q = th_linear(tape, norm(tape, x), m->wq, NULL);
  pass.k = th_linear(tape, memory, m->wk, NULL);
  if (pass.q != NULL && pass.q->wants_grad) th_retain_grad(tape, pass.q);
  th_tensor *v = th_linear(tape, memory, m->wv, NULL);
  th_tensor *read = th_attention(tape, th_split_heads(tape, pass.q, 1),
                                 th_split_heads(tape, pass.k, 1), th_split_heads(tape, v, 1),
                                 &(th_attention_options){.scale = settings->scale,
                                                         .factor = settings->factor,
                                                         .weights = &pass.weights});
  x = th_add(tape, x, th_linear(tape, th_merge_heads(tape, read), m->wo, NULL));
  pass.logits = th_linear(tape, norm(tape, x), m->out, NULL);
  pass.loss = th_cross_entropy(tape, pass.logits, batch->answers);
  return pass;
}

double th__recall_scale(const th__recall *settings) {
  switch (settings->scale) {
  case TH_SCALE_SQRT: return 1 / sqrt((double)settings->dk);
  case TH_SCALE_NONE: return 1;
  case TH_SCALE_DK: return 1 / (double)settings->dk;
  case TH_SCALE_FACTOR: return settings->factor;
  }
  return (double)NAN;
}

double th__recall_accuracy(const th__recall_pass *pass, const th__recall_batch *batch) {
  const int32_t *answers = th_tensor_data(batch->answers);
  ptrdiff_t right = 0;
  for (ptrdiff_t i = 0; i < TH__RECALL_ROWS; i++) {
    ptrdiff_t best = 0, row = i * TH__RECALL_VALUES;
    for (ptrdiff_t j = 1; j < TH__RECALL_VALUES; j++)
      if (th__get(pass->logits, row + j) > th__get(pass->logits, row + best)) best = j;
    right += best == answers[i];
  }
  return (double)right / TH__RECALL_ROWS;
}
