#include "io/model_json.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "tensor/alloc.h"
#include "tensor/error.h"

/* ---- words for enums, in their order ---- */

static const char *const kinds[] = {"gpt", "recurrent", "classifier", "seq2seq", NULL};
static const char *const norms[] = {"layer", "rms", NULL};
static const char *const positions[] = {"learned", "sinusoidal", "rope", "none", NULL};
static const char *const feed_forwards[] = {"gelu_tanh", "gelu", "relu", "swiglu", "none", NULL};
static const char *const scales[] = {"sqrt", "none", "d_k", "factor", NULL};
static const char *const inits[] = {"gpt2", "width", "xavier", NULL};
static const char *const dtypes[] = {"f32", "f64", NULL};

/* ---- the fields of a configuration ---- */

typedef enum field_type { SIZE, NUMBER, FLAG, WORD } field_type;

typedef struct field {
  const char *name;
  size_t offset;
  field_type type;
  const char *const *words; /* of a WORD, which is an enum */
} field;

#define GPT(name, type, words)                                                                     \
  { #name, offsetof(th_gpt, name), type, words }
static const field gpt_fields[] = {GPT(layers, SIZE, NULL),
                                   GPT(heads, SIZE, NULL),
                                   GPT(width, SIZE, NULL),
                                   GPT(context, SIZE, NULL),
                                   GPT(vocab, SIZE, NULL),
                                   GPT(kv_heads, SIZE, NULL),
                                   GPT(head_width, SIZE, NULL),
                                   GPT(hidden, SIZE, NULL),
                                   GPT(norm, WORD, norms),
                                   GPT(positions, WORD, positions),
                                   GPT(feed_forward, WORD, feed_forwards),
                                   GPT(post_norm, FLAG, NULL),
                                   GPT(no_bias, FLAG, NULL),
                                   GPT(untied, FLAG, NULL),
                                   GPT(norm_eps, NUMBER, NULL),
                                   GPT(rope_base, NUMBER, NULL),
                                   GPT(scale, WORD, scales),
                                   GPT(factor, NUMBER, NULL),
                                   GPT(dropout, NUMBER, NULL),
                                   GPT(init, WORD, inits),
                                   GPT(all_see_all, FLAG, NULL),
                                   GPT(dtype, WORD, dtypes),
                                   {NULL, 0, SIZE, NULL}};

#define RECURRENT(name, type, words)                                                               \
  { #name, offsetof(th_recurrent, name), type, words }
static const field recurrent_fields[] = {
    RECURRENT(layers, SIZE, NULL),  RECURRENT(width, SIZE, NULL),  RECURRENT(vocab, SIZE, NULL),
    RECURRENT(lstm, FLAG, NULL),    RECURRENT(untied, FLAG, NULL), RECURRENT(dropout, NUMBER, NULL),
    RECURRENT(dtype, WORD, dtypes), {NULL, 0, SIZE, NULL}};

/* All enums of a configuration are read and written as this one. */
_Static_assert(sizeof(th_norm_kind) == sizeof(unsigned) && sizeof(th_dtype) == sizeof(unsigned) &&
                   sizeof(th_scale_kind) == sizeof(unsigned),
               "an enum is stored as unsigned");

/* ---- to JSON ---- */

static json_t *to_json(const field *f, const void *config) {
  const char *at = (const char *)config + f->offset;
  ptrdiff_t size;
  double number;
  bool flag;
  unsigned word;
  switch (f->type) {
  case SIZE: memcpy(&size, at, sizeof size); return json_integer(size);
  case NUMBER: memcpy(&number, at, sizeof number); return json_real(number);
  case FLAG: memcpy(&flag, at, sizeof flag); return json_boolean(flag);
  default: memcpy(&word, at, sizeof word); return json_string(f->words[word]);
  }
}

static bool put(json_t *object, const char *name, json_t *value) {
  return json_object_set_new(object, name, value) == 0;
}

json_t *th__model_to_json(const th_model *model) {
  th_model_kind kind = th_model_kind_of(model);
  const void *config = th_model_gpt(model);
  const field *fields = gpt_fields;
  if (kind == TH_MODEL_RECURRENT) {
    config = th_model_recurrent(model);
    fields = recurrent_fields;
  }
  json_t *object = json_object();
  bool good = put(object, "kind", json_string(kinds[kind]));
  for (const field *f = fields; f->name != NULL && good; f++)
    good = put(object, f->name, to_json(f, config));
  if (kind == TH_MODEL_CLASSIFIER && good) {
    const th_tensor *head = th_params_find(th_model_params(model), "head.weight");
    good = put(object, "classes", json_integer(th_tensor_dim(head, 0)));
  }
  if (good) return object;
  json_decref(object);
  return NULL;
}

/* ---- from JSON ---- */

static bool wrong(const char *name, const char *expected, const json_t *value, th_error *error) {
  char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
  th__error(error, TH_ERR_VALUE, "model: \"%s\" is %.80s; %s is expected", name,
            text != NULL ? text : "?", expected);
  th__free(text);
  return false;
}

/* The place of a word in its list; -1 if it is another. */
static int find_word(const char *const *words, const json_t *value) {
  for (int i = 0; json_is_string(value) && words[i] != NULL; i++)
    if (strcmp(words[i], json_string_value(value)) == 0) return i;
  return -1;
}

static bool no_such_word(const char *name, const char *const *words, const json_t *value,
                         th_error *error) {
  char text[96] = "one of";
  for (int i = 0; words[i] != NULL; i++) {
    size_t used = strlen(text);
    snprintf(text + used, sizeof text - used, "%s \"%s\"", i > 0 ? "," : "", words[i]);
  }
  return wrong(name, text, value, error);
}

static bool take_size(const char *name, const json_t *value, ptrdiff_t *size, th_error *error) {
  if (!json_is_integer(value)) return wrong(name, "a whole number", value, error);
  *size = (ptrdiff_t)json_integer_value(value);
  return true;
}

static bool from_json(const field *f, const json_t *value, void *config, th_error *error) {
  char *at = (char *)config + f->offset;
  ptrdiff_t size = 0;
  double number;
  bool flag;
  int found;
  switch (f->type) {
  case SIZE:
    if (!take_size(f->name, value, &size, error)) return false;
    memcpy(at, &size, sizeof size);
    return true;
  case NUMBER:
    if (!json_is_number(value)) return wrong(f->name, "a number", value, error);
    number = json_number_value(value);
    memcpy(at, &number, sizeof number);
    return true;
  case FLAG:
    if (!json_is_boolean(value)) return wrong(f->name, "true or false", value, error);
    flag = json_is_true(value);
    memcpy(at, &flag, sizeof flag);
    return true;
  default:
    found = find_word(f->words, value);
    if (found < 0) return no_such_word(f->name, f->words, value, error);
    unsigned word = (unsigned)found;
    memcpy(at, &word, sizeof word);
    return true;
  }
}

/* Every key must be a field, "kind", or, of a classifier, "classes". */
static bool take_fields(const json_t *json, const char *kind, const field *fields, void *config,
                        ptrdiff_t *classes, th_error *error) {
  const char *key;
  json_t *value;
  json_object_foreach((json_t *)(uintptr_t)json, key, value) {
    const field *f = fields;
    while (f->name != NULL && strcmp(f->name, key) != 0) f++;
    bool good = true;
    if (f->name != NULL)
      good = from_json(f, value, config, error);
    else if (classes != NULL && strcmp(key, "classes") == 0)
      good = take_size(key, value, classes, error);
    else if (strcmp(key, "kind") != 0)
      good = (th__error(error, TH_ERR_VALUE, "model: \"%.48s\" is no field of a %s", key, kind),
              false);
    if (!good) return false;
  }
  return true;
}

th_model *th__model_from_json(const json_t *json, th_error *error) {
  if (!json_is_object(json)) {
    th__error(error, TH_ERR_VALUE, "model: an object with \"kind\" is expected");
    return NULL;
  }
  const json_t *word = json_object_get(json, "kind");
  int kind = find_word(kinds, word);
  if (kind < 0) {
    if (word == NULL)
      th__error(error, TH_ERR_VALUE, "model: \"kind\" is missing");
    else
      no_such_word("kind", kinds, word, error);
    return NULL;
  }
  th_gpt gpt = {0};
  th_recurrent recurrent = {0};
  ptrdiff_t classes = 0;
  bool is_recurrent = kind == TH_MODEL_RECURRENT;
  if (!take_fields(json, kinds[kind], is_recurrent ? recurrent_fields : gpt_fields,
                   is_recurrent ? (void *)&recurrent : (void *)&gpt,
                   kind == TH_MODEL_CLASSIFIER ? &classes : NULL, error))
    return NULL;
  switch (kind) {
  case TH_MODEL_RECURRENT: return th_recurrent_new(&recurrent, 0, error);
  case TH_MODEL_CLASSIFIER: return th_classifier_new(&gpt, classes, 0, error);
  case TH_MODEL_SEQ2SEQ: return th_seq2seq_new(&gpt, 0, error);
  default: return th_gpt_new(&gpt, 0, error);
  }
}
