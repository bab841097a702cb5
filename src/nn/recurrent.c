/* recurrent.c: RNN and LSTM language models: token table, layers of cells, logits. What a cache keeps of
 * the tokens seen is each layer's last state: h, and of an LSTM the cell, too. */
#include <math.h>
#include <stdio.h>

#include "autograd/tape.h"
#include "nn/cache.h"
#include "nn/maker.h"
#include "nn/model.h"
#include "tensor/alloc.h"
#include "tensor/error.h"

#define SIZE_LIMIT ((ptrdiff_t)1 << 28) /* four times the width still is a size that BLAS takes */
#define LAYER_LIMIT 5000                /* one dropout stream each, of the 32767 that there are */

struct th__recurrent_model {
  th_recurrent config;
  th_tensor *wte, *head;         /* head NULL: tied */
  th_recurrent_weights layers[]; /* config.layers entries */
};

static int states_of(const th_recurrent *c) { return c->lstm ? 2 : 1; }

/* ---- a pass ---- */

/* Each place that drops draws from a stream of its own: 0 is the embedding, l follows layer l. */
static th_tensor *drop(th_tape *tape, th_tensor *x, const th_recurrent *c, const th_pass *pass,
                       ptrdiff_t place) {
  if (pass == NULL || !pass->training || c->dropout == 0) return x;
  th_random stream = pass->stream;
  stream.purpose += (uint32_t)(place + 1) << 16;
  return th_dropout(tape, x, c->dropout, stream);
}

/* The last step of [B, T, width] as [B, width]. */
static th_tensor *last_step(th_tape *tape, th_tensor *h) {
  ptrdiff_t steps = th_tensor_dim(h, 1);
  th_tensor *last = th_slice(tape, h, 1, steps - 1, steps);
  return th_reshape(tape, last, TH_SHAPE(th_tensor_dim(h, 0), th_tensor_dim(h, 2)));
}

/* One layer; with a cache it starts from *state (and, of an LSTM, the next one), and `after` receives
 * what they become: the cache itself stays until the whole pass has succeeded. */
static th_tensor *layer(th_tape *tape, const struct th__recurrent_model *m, ptrdiff_t l,
                        th_tensor *x, th_tensor **state, th_tensor **after) {
  bool kept = state != NULL;
  th_tensor *cells, *h0 = kept ? state[0] : NULL, *h;
  if (m->config.lstm)
    h = th_lstm(tape, x, h0, kept ? state[1] : NULL, &m->layers[l], kept ? &cells : NULL);
  else
    h = th_rnn(tape, x, h0, &m->layers[l]);
  if (!kept || h == NULL) return h;
  after[0] = last_step(tape, h);
  if (m->config.lstm) after[1] = last_step(tape, cells);
  return h;
}

static th_tensor *logits_of(th_tape *tape, const struct th__recurrent_model *m,
                            const th_tensor *tokens, const th_pass *pass, th_tensor **before,
                            th_tensor **after) {
  const th_recurrent *c = &m->config;
  th_tensor *x = drop(tape, th_embedding(tape, m->wte, tokens), c, pass, 0);
  for (ptrdiff_t l = 0; l < c->layers; l++) {
    ptrdiff_t at = l * states_of(c);
    bool kept = before != NULL;
    x = layer(tape, m, l, x, kept ? before + at : NULL, kept ? after + at : NULL);
    if (l + 1 < c->layers) x = drop(tape, x, c, pass, l + 1);
  }
  return th_linear(tape, x, m->head != NULL ? m->head : m->wte, NULL);
}

static th_tensor *forward(th_tape *tape, th_model *model, const th_tensor *tokens,
                          const th_pass *pass) {
  const struct th__recurrent_model *m = model->as.recurrent;
  th_cache *cache = pass != NULL ? pass->cache : NULL;
  if (cache == NULL || th_tensor_dim(tokens, 1) == 0)
    return logits_of(tape, m, tokens, pass, NULL, NULL); /* no tokens leave the states alone */
  th_tensor **after = th_tape_alloc(tape, (size_t)cache->count * sizeof(th_tensor *));
  if (after == NULL) return NULL;
  th_tensor *logits = logits_of(tape, m, tokens, pass, cache->tensors, after);
  if (logits == NULL || th_tape_status(tape) != TH_OK) return NULL;
  for (ptrdiff_t i = 0; i < cache->count; i++) th__tensor_copy(cache->tensors[i], after[i]);
  return logits;
}

static th_status make_cache(const th_model *model, th_cache *cache, th_error *error) {
  const th_recurrent *c = &model->as.recurrent->config;
  ptrdiff_t count = c->layers * states_of(c);
  for (ptrdiff_t i = 0; i < count; i++) {
    th_status status =
        th__cache_add(cache, count, c->dtype, TH_SHAPE(cache->batch, c->width), error);
    if (status != TH_OK) return status;
  }
  return TH_OK;
}

/* ---- life ---- */

static void free_model(th_model *model) { th__free(model->as.recurrent); }

static const th__model_class recurrent_class = {TH_MODEL_RECURRENT, "recurrent", free_model,
                                                forward, make_cache};

static th_status check(const th_recurrent *c, th_error *error) {
  const struct {
    const char *name;
    ptrdiff_t value, limit;
  } sizes[] = {{"layers", c->layers, LAYER_LIMIT},
               {"width", c->width, SIZE_LIMIT},
               {"vocab", c->vocab, SIZE_LIMIT}};
  for (int i = 0; i < 3; i++)
    if (sizes[i].value < 1 || sizes[i].value > sizes[i].limit)
      return th__error(error, TH_ERR_VALUE, "th_recurrent: %s is %td; 1 to %td is expected",
                       sizes[i].name, sizes[i].value, sizes[i].limit);
  if (!(c->dropout >= 0 && c->dropout < 1))
    return th__error(error, TH_ERR_VALUE,
                     "th_recurrent: dropout is %g; 0 <= dropout < 1 is expected", c->dropout);
  if (c->dtype != TH_F32 && c->dtype != TH_F64)
    return th__error(error, TH_ERR_DTYPE, "th_recurrent: dtype is %s; f32 or f64 is expected",
                     th_dtype_name(c->dtype));
  return TH_OK;
}

static th_recurrent_weights make_layer(th__maker *maker, const th_recurrent *c, ptrdiff_t l) {
  char block[32];
  snprintf(block, sizeof block, "h.%td.", l);
  ptrdiff_t rows = (c->lstm ? 4 : 1) * c->width;
  double limit = 1 / sqrt((double)c->width);
  th_recurrent_weights w;
  w.w_x = th__make_uniform(maker, block, "w_x", rows, c->width, limit);
  w.w_h = th__make_uniform(maker, block, "w_h", rows, c->width, limit);
  w.bias = th__make_zeros(maker, block, "bias", TH_SHAPE(rows));
  for (ptrdiff_t i = 0; c->lstm && i < c->width && !maker->failed; i++)
    th__set(w.bias, c->width + i, 1.0); /* the forget gates */
  return w;
}

th_model *th_recurrent_new(const th_recurrent *config, uint64_t seed, th_error *error) {
  if (config == NULL) {
    th__error(error, TH_ERR_VALUE, "th_recurrent_new: the configuration is NULL");
    return NULL;
  }
  if (check(config, error) != TH_OK) return NULL;
  th_model *model = th__model_new(&recurrent_class, error);
  if (model == NULL) return NULL;
  size_t bytes =
      sizeof(struct th__recurrent_model) + (size_t)config->layers * sizeof(th_recurrent_weights);
  struct th__recurrent_model *m = model->as.recurrent = th__alloc_zero(bytes);
  if (m == NULL) {
    th__error_memory(error, "th_recurrent", bytes);
    th_model_free(model);
    return NULL;
  }
  m->config = *config;
  th__maker maker = {.params = model->params, .dtype = config->dtype, .seed = seed, .error = error};
  m->wte = th__make_normal(&maker, "", "wte.weight", config->vocab, config->width, 0.02);
  for (ptrdiff_t l = 0; l < config->layers && !maker.failed; l++)
    m->layers[l] = make_layer(&maker, config, l);
  if (config->untied)
    m->head = th__make_normal(&maker, "", "lm_head.weight", config->vocab, config->width, 0.02);
  if (!maker.failed) return model;
  th_model_free(model);
  return NULL;
}

const th_recurrent *th_model_recurrent(const th_model *model) {
  bool recurrent = model != NULL && model->class->kind == TH_MODEL_RECURRENT;
  return recurrent ? &model->as.recurrent->config : NULL;
}
