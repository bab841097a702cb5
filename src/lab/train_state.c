/* train_state.c: a run in a checkpoint: beside weights and moments the configuration, the counters, the
 * vocabulary, and which texts these were. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lab/trainer.h"
#include "tensor/alloc.h"
#include "tensor/error.h"

/* Names in the file's metadata; docs/training.md and docs/files.md list them. */
#define KEY_CONFIG "tapehead.train"
#define KEY_STATE "tapehead.state"
#define KEY_VOCAB "tapehead.vocab"
#define KEY_TEXTS "tapehead.texts"

/* ---- saving ---- */

static json_t *state_json(const th__train_state *s) {
  json_t *recent = json_array();
  for (int i = 0; i < TH__LOSS_WINDOW; i++) json_array_append_new(recent, json_real(s->recent[i]));
  json_t *best = isnan(s->best_loss) ? json_null() : json_real(s->best_loss);
  return json_pack("{s:I, s:o, s:f, s:I, s:I, s:o, s:I, s:I}", "step", (json_int_t)s->step, "recent",
                   recent, "high_loss", s->high_loss, "high_steps", (json_int_t)s->high_steps,
                   "steps_to_95", (json_int_t)s->steps_to_95, "best_loss", best, "best_step",
                   (json_int_t)s->best_step, "stale", (json_int_t)s->stale);
}

/* Adds `value`, which it takes over, as a text. */
static bool put(json_t *metadata, const char *key, json_t *value) {
  char *text = value == NULL ? NULL : json_dumps(value, JSON_COMPACT | JSON_REAL_PRECISION(17));
  json_decref(value);
  bool good = text != NULL && json_object_set_new(metadata, key, json_string(text)) == 0;
  th__free(text);
  return good;
}

th_status th__trainer_save(const th__trainer *t, const char *path, bool with_optim,
                           th_error *error) {
  const th__train_data *data = t->data;
  json_t *metadata = json_object();
  bool good = metadata != NULL && put(metadata, KEY_CONFIG, th__train_to_json(t->config)) &&
              put(metadata, KEY_STATE, state_json(&t->state)) &&
              put(metadata, KEY_VOCAB, th__vocab_to_json(th__trainer_vocab(t)));
  if (good && t->text != NULL) {
    int count = data->file_count + data->validation_count;
    good = put(metadata, KEY_TEXTS, th__sources_to_json(data->sources, count));
  }
  th_status status =
      good ? th__checkpoint_save(path, t->model, with_optim ? t->optim : NULL, metadata, error)
           : th__error_memory(error, path, 1);
  json_decref(metadata);
  return status;
}

/* ---- restoring ---- */

static th_status missing(th_error *error, const char *what) {
  return th__error(error, TH_ERR_IO,
                   "the checkpoint has no valid %s: it was not written by `tapehead train`, or has "
                   "been changed",
                   what);
}

static json_t *get(const th__checkpoint *checkpoint, const char *key) {
  const json_t *text = json_object_get(th__checkpoint_metadata(checkpoint), key);
  return json_is_string(text) ? json_loads(json_string_value(text), 0, NULL) : NULL;
}

static bool get_count(const json_t *json, const char *key, long least, long *value) {
  const json_t *number = json_object_get(json, key);
  *value = (long)json_integer_value(number);
  return json_is_integer(number) && *value >= least;
}

static bool state_from(const json_t *json, th__train_state *s) {
  const json_t *recent = json_object_get(json, "recent"), *best = json_object_get(json, "best_loss");
  const json_t *high = json_object_get(json, "high_loss");
  if (!get_count(json, "step", 0, &s->step) || !get_count(json, "high_steps", 0, &s->high_steps) ||
      !get_count(json, "steps_to_95", -1, &s->steps_to_95) ||
      !get_count(json, "best_step", 0, &s->best_step) || !get_count(json, "stale", 0, &s->stale) ||
      json_array_size(recent) != TH__LOSS_WINDOW || !json_is_number(high) ||
      !(json_is_null(best) || json_is_number(best)))
    return false;
  for (size_t i = 0; i < TH__LOSS_WINDOW; i++)
    s->recent[i] = json_number_value(json_array_get(recent, i));
  s->high_loss = json_number_value(high);
  s->best_loss = json_is_null(best) ? (double)NAN : json_number_value(best);
  return true;
}

static th_status check_texts(const th__trainer *t, const th__checkpoint *checkpoint,
                             th_error *error) {
  if (t->text == NULL) return TH_OK;
  json_t *texts = get(checkpoint, KEY_TEXTS);
  int count = t->data->file_count + t->data->validation_count;
  th_status status = texts == NULL ? missing(error, "list of texts")
                                   : th__sources_check(texts, t->data->sources, count, error);
  json_decref(texts);
  return status;
}

static th_status check_vocab(const th__trainer *t, const th__checkpoint *checkpoint,
                             th_error *error) {
  json_t *json = get(checkpoint, KEY_VOCAB);
  if (json == NULL) return missing(error, "vocabulary");
  th__vocab *stored = th__vocab_from_json(json, error);
  json_decref(json);
  if (stored == NULL) return TH_ERR_IO;
  th_status status =
      th__vocab_same("the checkpoint", stored, t->text != NULL ? "the text" : "the task",
                     th__trainer_vocab(t), error);
  th__vocab_free(stored);
  return status;
}

th_status th__trainer_restore(th__trainer *t, th__checkpoint *checkpoint, th_error *error) {
  th__train_state state = {0};
  json_t *json = get(checkpoint, KEY_STATE);
  bool good = state_from(json, &state);
  json_decref(json);
  if (!good) return missing(error, "state of the run");
  th_status status = check_texts(t, checkpoint, error);
  if (status == TH_OK) status = check_vocab(t, checkpoint, error);
  if (status == TH_OK) status = th__checkpoint_weights(checkpoint, t->model, error);
  if (status == TH_OK) status = th__checkpoint_optim(checkpoint, t->optim, error);
  if (status == TH_OK) t->state = state;
  return status;
}

th_status th__trainer_stored_config(const th__checkpoint *checkpoint, const char *path,
                                    th__train *config, th_error *error) {
  char where[128];
  size_t length = strlen(path);
  snprintf(where, sizeof where, "%s: ", path + (length > 100 ? length - 100 : 0));
  json_t *json = get(checkpoint, KEY_CONFIG);
  if (json == NULL) return missing(error, "configuration");
  th_status status = th__train_from_json(config, json, where, TH__FROM_FILE, error);
  json_decref(json);
  return status;
}
