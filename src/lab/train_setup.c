/* train_setup.c: from a configuration to data, model and optimiser. */
#include <math.h>
#include <string.h>

#include "io/file.h"
#include "lab/machine.h"
#include "lab/trainer.h"
#include "tensor/alloc.h"
#include "tensor/error.h"

#define MOST_TEXT 0x1p30 /* bytes, of all files together */

/* ---- files ---- */

static th_status read_files(const th__names *names, th__source *sources, int *count, double *room,
                            th_error *error) {
  for (int i = 0; i < names->count; i++) {
    size_t bytes;
    char *text = th__read_file_upto(names->at[i], (size_t)*room, &bytes, error);
    if (text == NULL) return TH_ERR_IO;
    sources[(*count)++] = (th__source){names->at[i], text, bytes};
    *room -= (double)bytes;
    if (bytes == 0) return th__error(error, TH_ERR_VALUE, "%s: the text is empty", names->at[i]);
  }
  return TH_OK;
}

th_status th__train_data_read(const th__train *c, th__train_data *data, th_error *error) {
  *data = (th__train_data){0};
  if (c->text.count == 0) return TH_OK;
  size_t size = (size_t)(c->text.count + c->validation.count) * sizeof *data->sources;
  data->sources = th__alloc(size);
  if (data->sources == NULL) return th__error_memory(error, "text", size);
  /* It is held twice, as bytes and as symbols, and once more while it is read. */
  double room = fmin(th__machine_memory() / 8, MOST_TEXT);
  int count = 0;
  th_error local = {0};
  th_status status = read_files(&c->text, data->sources, &count, &room, &local);
  data->file_count = count;
  if (status == TH_OK) status = read_files(&c->validation, data->sources, &count, &room, &local);
  data->validation_count = count - data->file_count;
  if (status == TH_OK) return TH_OK;
  th__train_data_free(data);
  return th__error(error, local.status, "%s", local.message);
}

void th__train_data_free(th__train_data *data) {
  for (int i = 0; i < data->file_count + data->validation_count; i++)
    th__free((void *)(uintptr_t)data->sources[i].bytes);
  th__free(data->sources);
  *data = (th__train_data){0};
}

double th__train_data_bytes(const th__train_data *data) {
  double bytes = 0;
  for (int i = 0; data != NULL && i < data->file_count + data->validation_count; i++)
    bytes += (double)data->sources[i].count;
  return bytes;
}

/* ---- data ---- */

static bool text_new(th__trainer *t, th_error *error) {
  const th__train *c = t->config;
  const th__train_data *data = t->data;
  const th__text_options options = {
      .files = data->sources,
      .file_count = data->file_count,
      .validation = data->validation_count > 0 ? data->sources + data->file_count : NULL,
      .validation_count = data->validation_count,
      .heldout = c->val_fraction,
      .kind = c->symbols == TH__SYMBOLS_CHARS ? TH__VOCAB_CHARACTERS : TH__VOCAB_BYTES,
      .seq = c->seq,
      .batch = c->batch,
      .seed = c->seed};
  t->text = th__text_new(&options, error);
  if (t->text != NULL) t->vocab = th__text_vocab(t->text);
  return t->text != NULL;
}

static bool task_new(th__trainer *t, th_error *error) {
  const th__train *c = t->config;
  const th_task_options options = {
      .kind = (th_task_kind)c->task, .seq = c->seq, .batch = c->batch, .seed = c->seed};
  t->task = th_task_new(&options, error);
  if (t->task == NULL) return false;
  t->vocab = th_task_vocab(t->task);
  return (t->numbers = th__vocab_numbers(t->vocab, error)) != NULL;
}

const th__vocab *th__trainer_vocab(const th__trainer *t) {
  return t->text != NULL ? th__text_symbols(t->text) : t->numbers;
}

th_batch th__trainer_batch(th__trainer *t, bool heldout, uint64_t number) {
  return t->text != NULL ? th__text_batch(t->text, heldout, number)
                         : th_task_batch(t->task, heldout, number);
}

/* ---- model and optimiser ---- */

static th_model *model_new(const th__train *c, ptrdiff_t vocab, th_error *error) {
  if (th__train_is_recurrent(c)) {
    const th_recurrent config = {.layers = c->layers,
                                 .width = c->d_model,
                                 .vocab = vocab,
                                 .lstm = c->model == TH__MODEL_LSTM,
                                 .untied = c->untied,
                                 .dropout = c->dropout};
    return th_recurrent_new(&config, c->seed, error);
  }
  const th_gpt config = {.layers = c->layers,
                         .heads = c->heads,
                         .width = c->d_model,
                         .context = c->seq,
                         .vocab = vocab,
                         .kv_heads = c->kv_heads,
                         .head_width = c->dk,
                         .hidden = c->feed_forward == TH_FEED_FORWARD_NONE ? 0 : c->hidden,
                         .norm = (th_norm_kind)c->norm,
                         .positions = (th_position_kind)c->positions,
                         .feed_forward = (th_feed_forward_kind)c->feed_forward,
                         .post_norm = c->post_norm,
                         .no_bias = c->no_bias,
                         .untied = c->untied,
                         .scale = c->scale.kind,
                         .factor = c->scale.factor,
                         .dropout = c->dropout,
                         .init = (th_init_kind)c->init};
  return c->model == TH__MODEL_SEQ2SEQ ? th_seq2seq_new(&config, c->seed, error)
                                       : th_gpt_new(&config, c->seed, error);
}

static th_optim *optim_new(th_params *params, const th__train *c, th_error *error) {
  if (c->optim == TH__OPTIM_SGD) return th_sgd_new(params, &(th_sgd){.lr = c->lr}, error);
  return th_adamw_new(
      params,
      &(th_adamw){.lr = c->lr, .beta1 = c->beta1, .beta2 = c->beta2, .weight_decay = c->weight_decay},
      error);
}

bool th__trainer_new(th__trainer *t, const th__train_job *job, th_error *error) {
  const th__train *c = job->config;
  *t = (th__trainer){.config = c, .data = job->data};
  t->state = (th__train_state){.steps_to_95 = -1, .best_loss = (double)NAN};
  t->schedule = (th_schedule){.kind = (th_schedule_kind)c->schedule,
                              .peak = c->lr,
                              .floor = c->min_lr,
                              .warmup = c->warmup,
                              .steps = c->schedule_steps};
  double text = th__train_data_bytes(job->data);
  /* The vocabulary is known once there is data, which needs memory, too: hence twice. */
  if (th_schedule_check(&t->schedule, error) != TH_OK || !th__train_fits(c, text, 1, error) ||
      !(c->text.count > 0 ? text_new(t, error) : task_new(t, error)) ||
      !th__train_fits(c, text, t->vocab, error))
    return false;
  t->model = model_new(c, t->vocab, error);
  if (t->model == NULL) return false;
  t->optim = optim_new(th_model_params(t->model), c, error);
  if (t->optim == NULL) return false;
  t->tape = th_tape_new();
  size_t size = (size_t)c->layers * sizeof(th_tensor *);
  if (!th__train_is_recurrent(c)) t->weights = th__alloc(size);
  if (t->tape == NULL || (t->weights == NULL && !th__train_is_recurrent(c)))
    return th__error_memory(error, "train", size) == TH_OK;
  return true;
}

void th__trainer_free(th__trainer *t) {
  th__free(t->weights);
  th_tape_free(t->tape);
  th_optim_free(t->optim);
  th_model_free(t->model);
  th_task_free(t->task);
  th__text_free(t->text);
  th__vocab_free(t->numbers);
}
