/* model_json.h: a model's configuration as JSON: {"kind": "gpt", "layers": 4, ...}, in the words of
 * tapehead.h. It is what a file needs to make the model again. */
#ifndef TH_IO_MODEL_JSON_H
#define TH_IO_MODEL_JSON_H

#include <jansson.h>

#include "tapehead.h"

/* Every field, with zeros replaced by what they stood for. NULL when memory ends. */
json_t *th__model_to_json(const th_model *model);

/* The model, with weights from seed 0. Fields that are left out take their defaults; unknown fields,
 * wrong types and unknown words are errors that name the field. */
th_model *th__model_from_json(const json_t *json, th_error *error);

#endif
