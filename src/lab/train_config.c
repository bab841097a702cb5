/* train_config.c: presets, defaults, which settings fit together, what a resumed run keeps; a
 * configuration from and to JSON. */
#include "lab/train_config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/file.h"
#include "tensor/alloc.h"
#include "tensor/error.h"

#define MOST_CONFIG ((size_t)1 << 20) /* bytes of a file */

/* ---- presets ---- */

/* tiny is over soon on a page of text; small is a character model of a book; gpt2-124m has the sizes of
 * the smallest GPT-2 (Radford et al. 2019) with the vocabulary of the text. */
static const char *const presets[] = {
    NULL,
    "{\"layers\": 2, \"heads\": 4, \"d_model\": 64, \"seq\": 32, \"batch\": 16, \"steps\": 400,"
    " \"lr\": 0.003, \"min_lr\": 0.0003, \"schedule\": \"cosine\", \"warmup\": 20, \"init\": \"width\","
    " \"eval_every\": 50}",
    "{\"layers\": 4, \"heads\": 4, \"d_model\": 128, \"seq\": 64, \"batch\": 12, \"steps\": 2000,"
    " \"lr\": 0.001, \"min_lr\": 0.0001, \"schedule\": \"cosine\", \"warmup\": 100, \"init\": \"gpt2\","
    " \"beta2\": 0.99, \"weight_decay\": 0.1, \"eval_every\": 250}",
    "{\"layers\": 12, \"heads\": 12, \"d_model\": 768, \"seq\": 1024, \"batch\": 8, \"accumulate\": 8,"
    " \"steps\": 1000, \"lr\": 0.0006, \"min_lr\": 0.00006, \"schedule\": \"cosine\", \"warmup\": 100,"
    " \"init\": \"gpt2\", \"beta2\": 0.95, \"weight_decay\": 0.1, \"eval_every\": 100}",
};

th_status th__train_apply_preset(th__train *config, th_error *error) {
  if (config->preset == TH__PRESET_NONE) return TH_OK;
  json_t *object = json_loads(presets[config->preset], 0, NULL);
  if (object == NULL) return th__error_memory(error, "train", strlen(presets[config->preset]));
  th_status status = th__train_from_json(config, object, "the preset's ", TH__FROM_PRESET, error);
  json_decref(object);
  return status;
}

void th__train_preset_text(int preset, char *text, size_t room) {
  th__train config = {.preset = preset};
  text[0] = '\0';
  if (th__train_apply_preset(&config, NULL) != TH_OK) return;
  for (int i = 0; i < TH__TRAIN_FIELDS; i++) {
    if (config.from[i] != TH__FROM_PRESET) continue;
    char value[64];
    size_t used = strlen(text);
    th__train_get_text(&config, i, value, sizeof value);
    snprintf(text + used, room - used, "%s%s %s", used > 0 ? ", " : "", th__train_fields[i].option,
             value);
  }
}

/* ---- JSON ---- */

/* Keys that differ in few letters; enough to find a typing mistake. */
static int distance(const char *a, const char *b) {
  int row[64], length = (int)strlen(b);
  if (strlen(a) >= 40 || length >= 60) return 99;
  for (int j = 0; j <= length; j++) row[j] = j;
  for (int i = 1; a[i - 1] != '\0'; i++) {
    int corner = row[0];
    row[0] = i;
    for (int j = 1; j <= length; j++) {
      int best = corner + (a[i - 1] != b[j - 1]);
      corner = row[j];
      if (row[j] + 1 < best) best = row[j] + 1;
      if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
      row[j] = best;
    }
  }
  return row[length];
}

static th_status unknown_key(const char *key, const char *where, th_error *error) {
  int nearest = 0, best = 99;
  for (int i = 0; i < TH__TRAIN_FIELDS; i++) {
    int d = distance(key, th__train_fields[i].key);
    if (d < best) best = d, nearest = i;
  }
  return best <= 3 && 2 * best <= (int)strlen(key)
             ? th__error(error, TH_ERR_VALUE,
                         "%sunknown key \"%.60s\"; did you mean \"%s\"? Keys are the options' "
                         "names, with _ for -",
                         where, key, th__train_fields[nearest].key)
             : th__error(error, TH_ERR_VALUE,
                         "%sunknown key \"%.60s\"; keys are the options' names (tapehead train "
                         "--help), with _ for -",
                         where, key);
}

static int find_key(const char *key) {
  int field = th__train_field_find(key);
  return field >= 0 && strcmp(th__train_fields[field].key, key) == 0 ? field : -1;
}

th_status th__train_from_json(th__train *config, const json_t *object, const char *where,
                              th__train_from from, th_error *error) {
  if (!json_is_object(object))
    return th__error(error, TH_ERR_VALUE, "%sa configuration is an object: {\"layers\": 2, ...}",
                     where);
  const char *key;
  json_t *value;
  json_object_foreach((json_t *)(uintptr_t)object, key, value) {
    int field = find_key(key);
    if (field < 0) return unknown_key(key, where, error);
    th__train scratch = {0};
    th_status status = th__train_set_json(&scratch, field, value, where, from, error);
    if (status == TH_OK && config->from[field] < from &&
        !th__train_field_copy(config, &scratch, field))
      status = th__error_memory(error, "train", sizeof scratch);
    th__train_free(&scratch);
    if (status != TH_OK) return status;
  }
  return TH_OK;
}

th_status th__train_read(th__train *config, const char *path, th_error *error) {
  size_t count;
  char *text = th__read_file_upto(path, MOST_CONFIG, &count, error), where[128];
  if (text == NULL) return TH_ERR_IO;
  json_error_t reason;
  json_t *object = json_loadb(text, count, JSON_REJECT_DUPLICATES, &reason);
  th__free(text);
  size_t length = strlen(path);
  const char *name = path + (length > 100 ? length - 100 : 0);
  if (object == NULL)
    return th__error(error, TH_ERR_VALUE, "%s:%d:%d: no valid JSON: %.80s", name, reason.line,
                     reason.column, reason.text);
  snprintf(where, sizeof where, "%s: ", name);
  th_status status = th__train_from_json(config, object, where, TH__FROM_FILE, error);
  json_decref(object);
  return status;
}

bool th__train_is_recurrent(const th__train *c) {
  return c->model == TH__MODEL_RNN || c->model == TH__MODEL_LSTM;
}

bool th__train_field_counts(const th__train *c, int field) {
  int use = th__train_fields[field].use;
  if ((use & TH__USE_TRANSFORMER) && th__train_is_recurrent(c)) return false;
  if ((use & TH__USE_ADAMW) && c->optim == TH__OPTIM_SGD) return false;
  if ((use & TH__USE_TEXT) && c->text.count == 0) return false;
  if (field == TH__TRAIN_task) return c->text.count == 0;
  if (field == TH__TRAIN_val_fraction) return c->validation.count == 0;
  return true;
}

json_t *th__train_to_json(const th__train *c) {
  json_t *object = json_object();
  for (int i = 0; i < TH__TRAIN_FIELDS; i++) {
    if ((th__train_fields[i].use & TH__USE_KIND) == TH__USE_CALL || !th__train_field_counts(c, i))
      continue;
    json_t *value = th__train_get_json(c, i);
    bool none = json_is_null(value);
    if (none) json_decref(value);
    if (!none && json_object_set_new(object, th__train_fields[i].key, value) != 0) {
      json_decref(object);
      return NULL;
    }
  }
  return object;
}

/* ---- defaults ---- */

typedef struct defaults {
  long seq, steps;
  double lr; /* of AdamW */
} defaults;

static const defaults task_defaults[TH_TASK_COUNT] = {[TH_TASK_COPY] = {32, 300, 3e-3},
                                                      [TH_TASK_REVERSE] = {32, 300, 3e-3},
                                                      [TH_TASK_SORT] = {32, 1000, 3e-3},
                                                      [TH_TASK_RECALL] = {32, 1500, 1e-3},
                                                      [TH_TASK_INDUCTION] = {24, 2000, 1e-3}};
static const defaults text_defaults = {64, 1000, 3e-3};

#define UNSET(member) (c->from[TH__TRAIN_##member] == TH__FROM_DEFAULT && c->member == 0)
#define DEFAULT(member, value)                                                                     \
  if (UNSET(member)) c->member = value

static void complete_model(th__train *c) {
  if (c->model == TH__MODEL_LLAMA) {
    DEFAULT(norm, TH_NORM_RMS);
    DEFAULT(positions, TH_POSITION_ROPE);
    DEFAULT(feed_forward, TH_FEED_FORWARD_SWIGLU);
    DEFAULT(no_bias, true);
    DEFAULT(untied, true);
  }
  DEFAULT(layers, 2);
  DEFAULT(d_model, 64);
  DEFAULT(heads, 4);
  DEFAULT(kv_heads, c->heads);
  DEFAULT(dk, c->d_model / c->heads > 0 ? c->d_model / c->heads : 1);
  DEFAULT(hidden, c->feed_forward == TH_FEED_FORWARD_SWIGLU ? (8 * c->d_model / 3 + 7) / 8 * 8
                                                            : 4 * c->d_model);
  /* Toy tasks are learnt sooner from larger weights. */
  if (c->from[TH__TRAIN_init] == TH__FROM_DEFAULT)
    c->init = c->text.count > 0 ? TH_INIT_GPT2 : TH_INIT_WIDTH;
}

#define PRESET(member) (c->from[TH__TRAIN_##member] == TH__FROM_PRESET)

/* What a preset says of its own steps, rate and batch fits others, too, if these were asked for. */
static void fit_preset(th__train *c) {
  if (PRESET(warmup) && c->warmup > c->schedule_steps / 2) c->warmup = c->schedule_steps / 2;
  if (PRESET(min_lr) && c->min_lr > c->lr) c->min_lr = c->lr / 10;
  if (PRESET(accumulate) && c->accumulate > c->batch) c->accumulate = c->batch;
}

void th__train_complete(th__train *c) {
  const defaults *d = c->text.count > 0 ? &text_defaults : &task_defaults[c->task];
  complete_model(c);
  DEFAULT(val_fraction, 0.1);
  DEFAULT(seq, d->seq);
  DEFAULT(batch, 32);
  DEFAULT(accumulate, 1);
  DEFAULT(steps, d->steps);
  DEFAULT(lr, c->optim == TH__OPTIM_SGD ? 0.3 : d->lr);
  if (c->schedule == TH_SCHEDULE_CONSTANT && UNSET(min_lr)) c->min_lr = c->lr;
  DEFAULT(schedule_steps, c->steps);
  DEFAULT(clip, 1);
  DEFAULT(weight_decay, 0.01);
  DEFAULT(beta1, 0.9);
  DEFAULT(beta2, 0.999);
  DEFAULT(seeds, 1);
  DEFAULT(eval_every, c->out.count > 0 ? 100 : 0);
  DEFAULT(eval_batches, 16);
  DEFAULT(sample_tokens, 100);
  DEFAULT(save_every, 100);
  DEFAULT(log_every, 1);
  fit_preset(c);
}

/* ---- what fits together ---- */

/* A setting that was asked for and would do nothing. */
static th_status check_idle(const th__train *c, th_error *error) {
  for (int i = 0; i < TH__TRAIN_FIELDS; i++) {
    if (c->from[i] < TH__FROM_FILE || th__train_field_counts(c, i) || i == TH__TRAIN_task) continue;
    const th__train_field *f = &th__train_fields[i];
    /* A file's settings for another model give way to the command line's choice of this one. */
    int choice = f->use & TH__USE_TEXT          ? TH__TRAIN_task
                 : f->use & TH__USE_TRANSFORMER ? TH__TRAIN_model
                                                : TH__TRAIN_optim;
    if (c->from[choice] > c->from[i]) continue;
    if ((f->use & TH__USE_TEXT) && c->text.count == 0)
      return th__error(error, TH_ERR_VALUE, "--%s is for a text; a task has none", f->option);
    if (i == TH__TRAIN_val_fraction)
      return th__error(error, TH_ERR_VALUE,
                       "--val-fraction: the validation files given are the validation part; give one "
                       "of the two");
    bool model = (f->use & TH__USE_TRANSFORMER) != 0;
    return th__error(error, TH_ERR_VALUE, "--%s means nothing to --%s %s", f->option,
                     model ? "model" : "optim",
                     th__train_word(c, model ? TH__TRAIN_model : TH__TRAIN_optim));
  }
  return TH_OK;
}

static th_status check_model(const th__train *c, th_error *error) {
  if (th__train_is_recurrent(c)) return TH_OK;
  if (c->d_model % c->heads != 0)
    return th__error(error, TH_ERR_VALUE,
                     "--d-model %ld does not divide into --heads %ld; choose a number of heads that "
                     "divides it",
                     c->d_model, c->heads);
  if (c->heads % c->kv_heads != 0)
    return th__error(error, TH_ERR_VALUE,
                     "--heads %ld cannot share --kv-heads %ld; choose a divisor of the heads",
                     c->heads, c->kv_heads);
  if (c->positions == TH_POSITION_ROPE && c->dk % 2 != 0)
    return th__error(error, TH_ERR_VALUE, "--positions rope turns pairs; --dk %ld is odd", c->dk);
  if (c->positions == TH_POSITION_SINUSOIDAL && c->d_model % 2 != 0)
    return th__error(error, TH_ERR_VALUE, "--positions sinusoidal needs an even --d-model, not %ld",
                     c->d_model);
  if (c->model == TH__MODEL_SEQ2SEQ && c->text.count > 0)
    return th__error(error, TH_ERR_VALUE,
                     "--model seq2seq answers a question, which a text does not ask; take a task, or "
                     "another model");
  if (c->model == TH__MODEL_SEQ2SEQ && c->sample_every > 0)
    return th__error(error, TH_ERR_VALUE, "--sample-every: a seq2seq writes no text of its own");
  return TH_OK;
}

static th_status check_training(const th__train *c, th_error *error) {
  if (c->accumulate > c->batch)
    return th__error(error, TH_ERR_VALUE, "--accumulate %ld: a batch of %ld has fewer sequences",
                     c->accumulate, c->batch);
  if (c->min_lr > c->lr)
    return th__error(error, TH_ERR_VALUE, "--min-lr %g is above --lr %g", c->min_lr, c->lr);
  bool constant = c->schedule == TH_SCHEDULE_CONSTANT;
  if (c->warmup > c->schedule_steps || (c->warmup == c->schedule_steps && !constant))
    return th__error(error, TH_ERR_VALUE,
                     "--warmup %ld leaves nothing of the schedule's %ld steps; take fewer",
                     c->warmup, c->schedule_steps);
  if (c->patience > 0 && c->eval_every == 0)
    return th__error(error, TH_ERR_VALUE, "--patience counts validations; give --eval-every");
  return TH_OK;
}

static th_status check_results(const th__train *c, th_error *error) {
  bool out = c->out.count > 0;
  if (out && c->seeds > 1)
    return th__error(error, TH_ERR_VALUE,
                     "--out holds one run; with --seeds %ld give each seed a folder of its own",
                     c->seeds);
  if (out && c->log.count > 0)
    return th__error(error, TH_ERR_VALUE, "--log: with --out the log is %.100s/log.jsonl",
                     c->out.at[0]);
  if (!out && c->plot_terminal)
    return th__error(error, TH_ERR_VALUE, "--plot-terminal draws a run's log; give --out DIR");
  if (!out && c->from[TH__TRAIN_save_every] >= TH__FROM_OPTION)
    return th__error(error, TH_ERR_VALUE, "--save-every: checkpoints need a place; give --out DIR");
  if (c->log.count > 0 && c->json.count > 0 && strcmp(c->log.at[0], c->json.at[0]) == 0)
    return th__error(error, TH_ERR_VALUE, "'%.100s' is given for two outputs", c->log.at[0]);
  return TH_OK;
}

th_status th__train_check(const th__train *c, th_error *error) {
  if (c->from[TH__TRAIN_task] == TH__FROM_DEFAULT && c->text.count == 0)
    return th__error(error, TH_ERR_VALUE,
                     "give either --task (copy, reverse, sort, recall, induction) or --text FILE");
  if (c->from[TH__TRAIN_task] != TH__FROM_DEFAULT && c->text.count > 0)
    return th__error(error, TH_ERR_VALUE,
                     "give either --task or --text, not both: one run learns one thing");
  th_status status = check_idle(c, error);
  if (status == TH_OK) status = check_model(c, error);
  if (status == TH_OK) status = check_training(c, error);
  return status == TH_OK ? check_results(c, error) : status;
}

/* ---- resuming ---- */

th_status th__train_merge_resume(th__train *stored, const th__train *asked, const char *folder,
                                 th_error *error) {
  for (int i = 0; i < TH__TRAIN_FIELDS; i++) {
    const th__train_field *f = &th__train_fields[i];
    bool files = i == TH__TRAIN_text || i == TH__TRAIN_validation; /* their contents are compared */
    bool call = (f->use & TH__USE_KIND) == TH__USE_CALL;
    if (!call && asked->from[i] < TH__FROM_FILE && i != TH__TRAIN_preset) continue;
    if (i == TH__TRAIN_preset && asked->preset == TH__PRESET_NONE) continue;
    if ((files && stored->text.count > 0) || (f->use & TH__USE_KIND) != TH__USE_FIXED) {
      if (!th__train_field_copy(stored, asked, i)) return th__error_memory(error, "train", 1);
      continue;
    }
    if (th__train_field_counts(stored, i) && th__train_field_same(stored, asked, i)) continue;
    char want[64], have[64] = "none";
    th__train_get_text(asked, i, want, sizeof want);
    if (th__train_field_counts(stored, i)) th__train_get_text(stored, i, have, sizeof have);
    return th__error(error, TH_ERR_VALUE,
                     "--%s %s was asked for, but the run in %.80s has %s; a resumed run keeps its "
                     "configuration: leave the option out, or begin another run",
                     f->option, want, folder, have[0] != '\0' ? have : "none");
  }
  return TH_OK;
}

/* ---- words ---- */

const char *th__train_word(const th__train *c, int field) {
  const th__train_field *f = &th__train_fields[field];
  return f->words[*(const int *)((const char *)c + f->offset)];
}

const char *th__train_task_name(const th__train *c) {
  return c->text.count > 0 ? "text" : th__train_word(c, TH__TRAIN_task);
}
