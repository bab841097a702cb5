#include "io/checkpoint.h"

#include <stdio.h>
#include <string.h>

#include "data/vocab.h"
#include "io/model_json.h"
#include "io/pairs.h"
#include "io/stored.h"
#include "tensor/alloc.h"
#include "tensor/error.h"
#include "tensor/shape.h"

struct th__checkpoint {
  th__safetensors *file;
};

/* ---- opening ---- */

th__checkpoint *th__checkpoint_open(const char *path, th_error *error) {
  th__checkpoint *checkpoint = th__alloc(sizeof *checkpoint);
  if (checkpoint == NULL) {
    th__error_memory(error, path, sizeof *checkpoint);
    return NULL;
  }
  checkpoint->file = th__safetensors_open(path, error);
  if (checkpoint->file != NULL) return checkpoint;
  th__free(checkpoint);
  return NULL;
}

void th__checkpoint_close(th__checkpoint *checkpoint) {
  if (checkpoint == NULL) return;
  th__safetensors_close(checkpoint->file);
  th__free(checkpoint);
}

th__safetensors *th__checkpoint_file(const th__checkpoint *checkpoint) { return checkpoint->file; }

const json_t *th__checkpoint_metadata(const th__checkpoint *checkpoint) {
  return th__safetensors_metadata(checkpoint->file);
}

json_t *th__checkpoint_json(const th__checkpoint *checkpoint, const char *key, th_error *error) {
  const json_t *text = json_object_get(th__checkpoint_metadata(checkpoint), key);
  if (text == NULL) {
    th__safetensors_fail(checkpoint->file, error, "no \"%s\" in its metadata", key);
    return NULL;
  }
  json_error_t why;
  json_t *json = json_loads(json_string_value(text), JSON_REJECT_DUPLICATES, &why);
  char reason[TH__PRINTABLE];
  if (json == NULL)
    th__safetensors_fail(checkpoint->file, error, "\"%s\" in its metadata is no valid JSON: %s",
                         key, th__printable(reason, why.text));
  return json;
}

/* ---- the model ---- */

/* A product of sizes from the file. False: one is negative, or the product is more than `most`. */
static bool within(uint64_t most, int count, const json_int_t *sizes) {
  json_int_t product = 1;
  for (int i = 0; i < count; i++)
    if (sizes[i] < 0 || __builtin_mul_overflow(product, sizes[i], &product)) return false;
  return (uint64_t)product <= most;
}

/* False: th__model_from_json will say what is wrong with it, before it makes anything. */
static bool sizes_are_numbers(const json_t *json) {
  static const char *const names[] = {"vocab", "width",      "layers", "context",
                                      "heads", "head_width", "hidden", "classes"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const json_t *size = json_object_get(json, names[i]);
    if (size != NULL && !json_is_integer(size)) return false;
  }
  return json_is_object(json);
}

/* Before memory is asked for: what the configuration says about sizes must fit what is in the file. */
static th_status check_sizes(const th__safetensors *file, const json_t *json, th_error *error) {
#define SIZE(name) json_integer_value(json_object_get(json, name))
  json_int_t vocab = SIZE("vocab"), width = SIZE("width"), layers = SIZE("layers");
  const th__entry *table = th__safetensors_find(file, "wte.weight");
  if (table == NULL)
    return th__safetensors_fail(file, error, "file: no wte.weight; model: [%lld, %lld]",
                                (long long)vocab, (long long)width);
  char text[TH__ENTRY_TEXT];
  if (table->ndim != 2 || table->shape[0] != vocab || table->shape[1] != width)
    return th__safetensors_fail(file, error, "file: wte.weight %s; model: [%lld, %lld]",
                                th__entry_text(text, table), (long long)vocab, (long long)width);
  const char *positions = json_string_value(json_object_get(json, "positions"));
  bool learned = positions == NULL || strcmp(positions, "learned") == 0;
  json_int_t context = learned ? SIZE("context") : 0, classes = SIZE("classes");
  json_int_t queries[] = {layers, SIZE("heads"), SIZE("head_width"), width};
  json_int_t hidden[] = {layers, SIZE("hidden"), width};
  const char *feed_forward = json_string_value(json_object_get(json, "feed_forward"));
  if (feed_forward != NULL && strcmp(feed_forward, "none") == 0) hidden[1] = 0;
  uint64_t most = th__safetensors_bytes(file) / sizeof(float);
#undef SIZE
  if (within(most, 3, (json_int_t[]){layers, width, width}) && within(most, 4, queries) &&
      within(most, 3, hidden) && within(most, 2, (json_int_t[]){context, width}) &&
      within(most, 2, (json_int_t[]){classes, width}))
    return TH_OK;
  return th__safetensors_fail(file, error,
                              "the model in its metadata is larger than the file (%llu bytes of "
                              "data)",
                              (unsigned long long)th__safetensors_bytes(file));
}

/* A vocabulary that travels with the model has one symbol for each row of the token table. */
static th_status check_vocab(const th__checkpoint *checkpoint, const th_params *params,
                             th_error *error) {
  static const char key[] = "tapehead.vocab";
  if (json_object_get(th__checkpoint_metadata(checkpoint), key) == NULL) return TH_OK;
  th_error own = {0};
  json_t *json = th__checkpoint_json(checkpoint, key, error);
  th__vocab *vocab = json != NULL ? th__vocab_from_json(json, &own) : NULL;
  ptrdiff_t rows = th_tensor_dim(th_params_find(params, "wte.weight"), 0);
  th_status status = TH_OK;
  if (json == NULL)
    status = TH_ERR_IO;
  else if (vocab == NULL)
    status = th__safetensors_fail(checkpoint->file, error, "%s: %.140s", key, own.message);
  else if (th__vocab_size(vocab) != rows)
    status = th__safetensors_fail(checkpoint->file, error,
                                  "its vocabulary has %td entries, but wte.weight has %td rows",
                                  th__vocab_size(vocab), rows);
  th__vocab_free(vocab);
  json_decref(json);
  return status;
}

/* Makes the model that the file describes. Its weights are those of a new one. */
static th_model *make_model(const th__checkpoint *checkpoint, th_error *error) {
  json_t *json = th__checkpoint_json(checkpoint, "tapehead.model", error);
  if (json == NULL) return NULL;
  th_model *model = NULL;
  th_error own = {0};
  if (!sizes_are_numbers(json) || check_sizes(checkpoint->file, json, error) == TH_OK) {
    model = th__model_from_json(json, &own);
    if (model == NULL && own.status == TH_ERR_MEMORY)
      th__error(error, own.status, "%s", own.message);
    else if (model == NULL)
      th__safetensors_fail(checkpoint->file, error, "%.160s", own.message);
  }
  json_decref(json);
  return model;
}

/* What must agree before weights are read. */
static th_status match(th__checkpoint *checkpoint, const th_model *model, th__pairs *pairs,
                       th_error *error) {
  const th_params *params = th_model_params(model);
  th_status status = th__pairs_new(pairs, th_params_count(params), error);
  if (status == TH_OK) status = th__pairs_add_params(pairs, checkpoint->file, params, true, error);
  return status == TH_OK ? check_vocab(checkpoint, params, error) : status;
}

th_model *th__checkpoint_model(th__checkpoint *checkpoint, th_error *error) {
  th_model *model = make_model(checkpoint, error);
  if (model == NULL) return NULL;
  th__pairs pairs;
  th_status status = match(checkpoint, model, &pairs, error);
  for (ptrdiff_t i = 0; i < pairs.count && status == TH_OK; i++)
    status = th__safetensors_read(checkpoint->file, pairs.entries[i], pairs.tensors[i], error);
  th__pairs_free(&pairs);
  if (status == TH_OK) return model;
  th_model_free(model);
  return NULL;
}

th_status th__checkpoint_weights(th__checkpoint *checkpoint, th_model *model, th_error *error) {
  th__pairs pairs;
  th_status status = match(checkpoint, model, &pairs, error);
  if (status == TH_OK) status = th__pairs_read(&pairs, checkpoint->file, error);
  th__pairs_free(&pairs);
  return status;
}

/* ---- the public pair ---- */

th_model *th_model_load(const char *path, th_error *error) {
  if (path == NULL) {
    th__error(error, TH_ERR_VALUE, "th_model_load: the path is NULL");
    return NULL;
  }
  th__checkpoint *checkpoint = th__checkpoint_open(path, error);
  th_model *model = checkpoint != NULL ? th__checkpoint_model(checkpoint, error) : NULL;
  th__checkpoint_close(checkpoint);
  return model;
}

th_status th_model_save(const th_model *model, const char *path, th_error *error) {
  if (model == NULL || path == NULL)
    return th__error(error, TH_ERR_VALUE, "th_model_save: the %s is NULL",
                     model == NULL ? "model" : "path");
  return th__checkpoint_save(path, model, NULL, NULL, error);
}
