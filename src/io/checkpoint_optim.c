/* checkpoint_optim.c: saving a checkpoint, and the optimiser's part of loading one. */
#include <stdio.h>
#include <string.h>

#include "io/checkpoint.h"
#include "io/model_json.h"
#include "io/pairs.h"
#include "io/stored.h"
#include "optim/optim.h"
#include "tensor/alloc.h"
#include "tensor/error.h"

#define PREFIX_M "optim.m."
#define PREFIX_V "optim.v."
enum { NAME_ROOM = 80 }; /* a prefix and a parameter's name */

/* "th_adamw" -> "adamw" */
static const char *kind_of(const th_optim *optim) { return optim->name + strlen("th_"); }

/* ---- saving ---- */

/* {"kind": "adamw", "steps": 10, "parameter_steps": {NAME: 10, ...}} */
static json_t *describe_optim(const th_optim *optim) {
  json_t *steps = json_object();
  for (ptrdiff_t i = 0; i < optim->slot_count; i++)
    if (json_object_set_new(steps, th_params_at(optim->params, i)->name,
                            json_integer(optim->slots[i].steps)) != 0) {
      json_decref(steps);
      return NULL;
    }
  return json_pack("{s:s, s:I, s:o}", "kind", kind_of(optim), "steps", (json_int_t)optim->steps,
                   "parameter_steps", steps);
}

/* Sets a key to the text of `value`, which is given up. */
static bool put_text(json_t *metadata, const char *key, json_t *value) {
  char *text = value != NULL ? json_dumps(value, JSON_COMPACT) : NULL;
  bool good = text != NULL && json_object_set_new(metadata, key, json_string(text)) == 0;
  th__free(text);
  json_decref(value);
  return good;
}

/* "format" is what some readers in Python ask for before they look at anything else. */
static json_t *all_metadata(const th_model *model, const th_optim *optim, const json_t *given) {
  json_t *metadata = json_pack("{s:s, s:s}", "format", "pt", "tapehead.version", th_version());
  bool good = metadata != NULL && put_text(metadata, "tapehead.model", th__model_to_json(model));
  if (good && optim != NULL) good = put_text(metadata, "tapehead.optim", describe_optim(optim));
  if (good && given != NULL)
    good = json_object_update_missing(metadata, (json_t *)(uintptr_t)given) == 0;
  if (good) return metadata;
  json_decref(metadata);
  return NULL;
}

/* Weights, then first moments, then second ones. names: room for those of two moments each. */
static ptrdiff_t list_items(const th_params *params, const th_optim *optim, th__item *items,
                            char (*names)[NAME_ROOM]) {
  ptrdiff_t params_count = th_params_count(params), count = 0;
  for (ptrdiff_t i = 0; i < params_count; i++)
    items[count++] = (th__item){th_params_at(params, i)->name, th_params_at(params, i)};
  for (int moment = 0; moment < 2 && optim != NULL; moment++)
    for (ptrdiff_t i = 0; i < params_count; i++) {
      const th_tensor *tensor = moment == 0 ? optim->slots[i].m : optim->slots[i].v;
      if (tensor == NULL) continue;
      char *name = names[moment * params_count + i];
      snprintf(name, NAME_ROOM, "%s%s", moment == 0 ? PREFIX_M : PREFIX_V,
               th_params_at(params, i)->name);
      items[count++] = (th__item){name, tensor};
    }
  return count;
}

/* An optimiser's slots are those of the model's parameters. */
static th_status check_owner(const th_params *params, const th_optim *optim, th_error *error) {
  if (optim->params == params && optim->slot_count == th_params_count(params)) return TH_OK;
  return th__error(error, TH_ERR_VALUE,
                   "checkpoint: the optimiser (%s) does not step this model's parameters",
                   kind_of(optim));
}

th_status th__checkpoint_save(const char *path, const th_model *model, const th_optim *optim,
                              const json_t *metadata, th_error *error) {
  const th_params *params = th_model_params(model);
  th_status status = optim != NULL ? check_owner(params, optim, error) : TH_OK;
  if (status != TH_OK) return status;
  size_t count = (size_t)th_params_count(params) + 1;
  th__item *items = th__alloc(3 * count * sizeof *items);
  char(*names)[NAME_ROOM] = th__alloc(2 * count * NAME_ROOM);
  json_t *all = all_metadata(model, optim, metadata);
  if (items == NULL || names == NULL || all == NULL)
    status = th__error_memory(error, path, 3 * count * sizeof *items);
  else
    status = th__safetensors_write(path, items, list_items(params, optim, items, names), all, error);
  json_decref(all);
  th__free(items);
  th__free(names);
  return status;
}

/* ---- loading ---- */

/* The moments of all parameters; a moment of the file that has no place here is an error. */
static th_status match_moments(const th__safetensors *file, const th_optim *optim, th__pairs *pairs,
                               th_error *error) {
  th_status status = th__pairs_new(pairs, 2 * optim->slot_count, error);
  for (ptrdiff_t i = 0; i < optim->slot_count && status == TH_OK; i++) {
    const char *name = th_params_at(optim->params, i)->name;
    const th__slot *slot = &optim->slots[i];
    if (slot->m != NULL) status = th__pairs_add(pairs, file, PREFIX_M, name, slot->m, true, error);
    if (slot->v != NULL && status == TH_OK)
      status = th__pairs_add(pairs, file, PREFIX_V, name, slot->v, true, error);
  }
  ptrdiff_t stored = 0;
  for (ptrdiff_t i = 0; i < th__safetensors_count(file); i++)
    stored += strncmp(th__safetensors_at(file, i)->name, "optim.", 6) == 0;
  if (status == TH_OK && stored != pairs->count)
    status = th__safetensors_fail(file, error, "file: %td moments; optimiser (%s): %td", stored,
                                  kind_of(optim), pairs->count);
  return status;
}

/* A count of steps. */
static th_status take_steps(const th__safetensors *file, const json_t *value, const char *name,
                            long *steps, th_error *error) {
  json_int_t number = json_integer_value(value);
  if (!json_is_integer(value) || number < 0 || number > INT32_MAX)
    return th__safetensors_fail(file, error,
                                "tapehead.optim: the steps of %s are no number from 0 to %d", name,
                                (int)INT32_MAX);
  *steps = (long)number;
  return TH_OK;
}

/* Kind and steps; steps[i] of each parameter, and behind them the optimiser's own. */
static th_status take_state(const th__safetensors *file, const json_t *json, const th_optim *optim,
                            long *steps, th_error *error) {
  const char *kind = json_string_value(json_object_get(json, "kind"));
  if (kind == NULL || strcmp(kind, kind_of(optim)) != 0)
    return th__safetensors_fail(file, error, "file: optimiser %.40s; here: %s",
                                kind != NULL ? kind : "without a kind", kind_of(optim));
  const json_t *each = json_object_get(json, "parameter_steps");
  th_status status = take_steps(file, json_object_get(json, "steps"), "the optimiser",
                                &steps[optim->slot_count], error);
  for (ptrdiff_t i = 0; i < optim->slot_count && status == TH_OK; i++) {
    const char *name = th_params_at(optim->params, i)->name;
    status = take_steps(file, json_object_get(each, name), name, &steps[i], error);
  }
  return status;
}

th_status th__checkpoint_optim(th__checkpoint *checkpoint, th_optim *optim, th_error *error) {
  th__safetensors *file = th__checkpoint_file(checkpoint);
  json_t *json = th__checkpoint_json(checkpoint, "tapehead.optim", error);
  if (json == NULL) return TH_ERR_IO;
  size_t bytes = ((size_t)optim->slot_count + 1) * sizeof(long);
  long *steps = th__alloc(bytes);
  th__pairs pairs = {0};
  th_status status = steps == NULL ? th__error_memory(error, "reading a checkpoint", bytes)
                                   : take_state(file, json, optim, steps, error);
  if (status == TH_OK) status = match_moments(file, optim, &pairs, error);
  if (status == TH_OK) status = th__pairs_read(&pairs, file, error);
  if (status == TH_OK) {
    for (ptrdiff_t i = 0; i < optim->slot_count; i++) optim->slots[i].steps = steps[i];
    optim->steps = steps[optim->slot_count];
  }
  th__pairs_free(&pairs);
  th__free(steps);
  json_decref(json);
  return status;
}
