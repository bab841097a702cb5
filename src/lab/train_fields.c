/* train_fields.c: the list of settings as a table, and a field's value from and to text and JSON. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lab/train_config.h"
#include "tensor/alloc.h"
#include "tensor/error.h"

static const char *const task_words[] = {"copy", "reverse", "sort", "recall", "induction", NULL};
static const char *const symbol_words[] = {"bytes", "chars", NULL};
static const char *const preset_words[] = {"none", "tiny", "small", "gpt2-124m", NULL};
static const char *const model_words[] = {"gpt", "llama", "rnn", "lstm", "seq2seq", NULL};
static const char *const norm_words[] = {"layer", "rms", NULL};
static const char *const position_words[] = {"learned", "sinusoidal", "rope", "none", NULL};
static const char *const feed_forward_words[] = {"gelu-tanh", "gelu", "relu",
                                                 "swiglu",    "none", NULL};
static const char *const init_words[] = {"gpt2", "width", "xavier", NULL};
static const char *const optim_words[] = {"adamw", "sgd", NULL};
static const char *const schedule_words[] = {"constant", "linear", "cosine", NULL};

#define FIXED TH__USE_FIXED
#define FREE TH__USE_FREE
#define CALL TH__USE_CALL
#define TRANSFORMER TH__USE_TRANSFORMER
#define ADAMW TH__USE_ADAMW
#define TEXT TH__USE_TEXT

const th__train_field th__train_fields[TH__TRAIN_FIELDS] = {
#define GROUP(number, title)
#define FIELD(member, option, type, least, most, words, argument, use, group, help)                \
  {option,                                                                                         \
   #member,                                                                                        \
   TH__FIELD_##type,                                                                               \
   offsetof(th__train, member),                                                                    \
   (double)least,                                                                                  \
   (double)most,                                                                                   \
   words,                                                                                          \
   argument,                                                                                       \
   use,                                                                                            \
   group,                                                                                          \
   help},
#include "lab/train_fields.def"
#undef FIELD
#undef GROUP
};

const char *const th__train_groups[] = {
#define GROUP(number, title) title,
#define FIELD(...)
#include "lab/train_fields.def"
#undef FIELD
#undef GROUP
    NULL};

int th__train_field_find(const char *name) {
  for (int i = 0; i < TH__TRAIN_FIELDS; i++)
    if (strcmp(name, th__train_fields[i].key) == 0 || strcmp(name, th__train_fields[i].option) == 0)
      return i;
  return -1;
}

static void *place(th__train *config, int field) {
  return (char *)config + th__train_fields[field].offset;
}
static const void *look(const th__train *config, int field) {
  return (const char *)config + th__train_fields[field].offset;
}

/* ---- checked values ---- */

static th_status put_integer(th__train *c, int field, double value, const char *text,
                             const char *who, th_error *error) {
  const th__train_field *f = &th__train_fields[field];
  if (!(value >= f->least && value <= f->most))
    return th__error(error, TH_ERR_VALUE, "%s: %s is out of range; %.0f to %.0f is possible", who,
                     text, f->least, f->most);
  *(long *)place(c, field) = (long)value;
  return TH_OK;
}

static th_status put_number(th__train *c, int field, double value, const char *text,
                            const char *who, th_error *error) {
  const th__train_field *f = &th__train_fields[field];
  if (!(value >= f->least && value <= f->most))
    return th__error(error, TH_ERR_VALUE, "%s: %s is out of range; %.10g to %.10g is possible", who,
                     text, f->least, f->most);
  *(double *)place(c, field) = value;
  return TH_OK;
}

/* gelu_tanh, as files have it, is gelu-tanh. */
static bool same_word(const char *a, const char *b) {
  for (; *a != '\0' && (*a == *b || (*a == '-' && *b == '_')); a++) b++;
  return *a == *b;
}

static th_status put_choice(th__train *c, int field, const char *text, const char *who,
                            th_error *error) {
  const char *const *words = th__train_fields[field].words;
  char list[128] = "";
  for (int i = 0; words[i] != NULL; i++) {
    if (same_word(words[i], text)) {
      *(int *)place(c, field) = i;
      return TH_OK;
    }
    size_t used = strlen(list);
    snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", words[i]);
  }
  return th__error(error, TH_ERR_VALUE, "%s: '%.40s' is not one of %s", who, text, list);
}

static th_status put_scale(th__train *c, int field, const char *text, const char *who,
                           th_error *error) {
  static const char *const words[] = {
      [TH_SCALE_SQRT] = "sqrt", [TH_SCALE_NONE] = "none", [TH_SCALE_DK] = "dk"};
  th__scale *scale = place(c, field);
  for (int i = 0; i < TH_SCALE_FACTOR; i++)
    if (strcmp(text, words[i]) == 0) {
      *scale = (th__scale){(th_scale_kind)i, 0};
      return TH_OK;
    }
  char *end;
  double factor = strtod(text, &end);
  if (end == text || *end != '\0' || !isfinite(factor))
    return th__error(error, TH_ERR_VALUE, "%s: '%.40s' is not none, sqrt, dk or a number", who,
                     text);
  *scale = (th__scale){TH_SCALE_FACTOR, factor};
  return TH_OK;
}

static th_status put_seed(th__train *c, int field, const char *text, const char *who,
                          th_error *error) {
  char *end;
  errno = 0;
  unsigned long long value = strtoull(text, &end, 10);
  if (end == text || *end != '\0' || text[0] == '-' || errno == ERANGE)
    return th__error(error, TH_ERR_VALUE,
                     "%s: '%.40s' is not a whole number from 0 to 18446744073709551615", who, text);
  *(uint64_t *)place(c, field) = value;
  return TH_OK;
}

static void clear_names(th__names *names) {
  for (int i = 0; i < names->count; i++) th__free(names->at[i]);
  *names = (th__names){0};
}

static bool add_name(th__names *names, const char *name) {
  size_t size = strlen(name) + 1;
  char *copy = names->count < TH__TRAIN_NAMES ? th__alloc(size) : NULL;
  if (copy == NULL) return false;
  names->at[names->count++] = memcpy(copy, name, size);
  return true;
}

static th_status put_name(th__train *c, int field, const char *text, th__train_from from,
                          const char *who, th_error *error) {
  const th__train_field *f = &th__train_fields[field];
  th__names *names = place(c, field);
  bool dash = strcmp(text, "-") == 0 && field != TH__TRAIN_json;
  if (text[0] == '\0' || dash)
    return th__error(error, TH_ERR_VALUE,
                     "%s: '%s' is no file name; give a path, /dev/stdin and the like included", who,
                     text);
  if (f->type == TH__FIELD_NAME || c->from[field] != from) clear_names(names);
  if (names->count == TH__TRAIN_NAMES)
    return th__error(error, TH_ERR_VALUE, "%s: more than %d files; join them (cat)", who,
                     TH__TRAIN_NAMES);
  return add_name(names, text) ? TH_OK : th__error_memory(error, who, strlen(text));
}

/* ---- from an option ---- */

static th_status set_integer_text(th__train *c, int field, const char *text, const char *who,
                                  th_error *error) {
  char *end;
  errno = 0;
  long value = strtol(text, &end, 10);
  if (end == text || *end != '\0')
    return th__error(error, TH_ERR_VALUE, "%s: '%.40s' is not a whole number", who, text);
  return put_integer(c, field, errno == ERANGE ? (double)NAN : (double)value, text, who, error);
}

static th_status set_number_text(th__train *c, int field, const char *text, const char *who,
                                 th_error *error) {
  char *end;
  double value = strtod(text, &end);
  if (end == text || *end != '\0')
    return th__error(error, TH_ERR_VALUE, "%s: '%.40s' is not a number", who, text);
  return put_number(c, field, value, text, who, error);
}

th_status th__train_set_text(th__train *c, int field, const char *text, th_error *error) {
  const th__train_field *f = &th__train_fields[field];
  char who[32];
  snprintf(who, sizeof who, "--%s", f->option);
  th_status status = TH_OK;
  switch (f->type) {
  case TH__FIELD_INTEGER: status = set_integer_text(c, field, text, who, error); break;
  case TH__FIELD_NUMBER: status = set_number_text(c, field, text, who, error); break;
  case TH__FIELD_CHOICE: status = put_choice(c, field, text, who, error); break;
  case TH__FIELD_FLAG: *(bool *)place(c, field) = true; break;
  case TH__FIELD_SEED: status = put_seed(c, field, text, who, error); break;
  case TH__FIELD_SCALE: status = put_scale(c, field, text, who, error); break;
  case TH__FIELD_NAME:
  case TH__FIELD_NAMES: status = put_name(c, field, text, TH__FROM_OPTION, who, error); break;
  }
  if (status == TH_OK) c->from[field] = TH__FROM_OPTION;
  return status;
}

/* ---- from JSON ---- */

static const char *json_type_name(const json_t *value) {
  switch (json_typeof(value)) {
  case JSON_OBJECT: return "an object";
  case JSON_ARRAY: return "an array";
  case JSON_STRING: return "a text";
  case JSON_INTEGER: return "a whole number";
  case JSON_REAL: return "a number with a fraction";
  case JSON_NULL: return "null";
  default: return "true or false";
  }
}

static th_status wrong_type(const char *who, const json_t *value, const char *want,
                            th_error *error) {
  return th__error(error, TH_ERR_VALUE, "%s: this is %s; %s is expected", who,
                   json_type_name(value), want);
}

static th_status set_names_json(th__train *c, int field, const json_t *value, th__train_from from,
                                const char *who, th_error *error) {
  if (json_is_string(value)) return put_name(c, field, json_string_value(value), from, who, error);
  bool several = th__train_fields[field].type == TH__FIELD_NAMES;
  if (!several || !json_is_array(value) || json_array_size(value) == 0)
    return wrong_type(who, value, several ? "a file name, or an array of them," : "a name", error);
  for (size_t i = 0; i < json_array_size(value); i++) {
    const json_t *name = json_array_get(value, i);
    if (!json_is_string(name)) return wrong_type(who, name, "a file name", error);
    th_status status = put_name(c, field, json_string_value(name), from, who, error);
    if (status != TH_OK) return status;
    c->from[field] = (unsigned char)from;
  }
  return TH_OK;
}

static th_status set_json(th__train *c, int field, const json_t *v, th__train_from from,
                          const char *who, th_error *error) {
  char text[32];
  snprintf(text, sizeof text, json_is_integer(v) ? "%.0f" : "%.17g", json_number_value(v));
  bool string = json_is_string(v);
  switch (th__train_fields[field].type) {
  case TH__FIELD_INTEGER:
    if (!json_is_integer(v)) return wrong_type(who, v, "a whole number", error);
    return put_integer(c, field, (double)json_integer_value(v), text, who, error);
  case TH__FIELD_NUMBER:
    if (!json_is_number(v)) return wrong_type(who, v, "a number", error);
    return put_number(c, field, json_number_value(v), text, who, error);
  case TH__FIELD_CHOICE:
    if (!string) return wrong_type(who, v, "a word in quotes", error);
    return put_choice(c, field, json_string_value(v), who, error);
  case TH__FIELD_FLAG:
    if (!json_is_boolean(v)) return wrong_type(who, v, "true or false", error);
    *(bool *)place(c, field) = json_is_true(v);
    return TH_OK;
  case TH__FIELD_SEED:
    if (!string && !json_is_integer(v)) return wrong_type(who, v, "a whole number", error);
    snprintf(text, sizeof text, "%" PRId64, (int64_t)json_integer_value(v));
    return put_seed(c, field, string ? json_string_value(v) : text, who, error);
  case TH__FIELD_SCALE:
    if (!string && !json_is_number(v)) return wrong_type(who, v, "a word or a number", error);
    return put_scale(c, field, string ? json_string_value(v) : text, who, error);
  default: return set_names_json(c, field, v, from, who, error);
  }
}

th_status th__train_set_json(th__train *c, int field, const json_t *value, const char *where,
                             th__train_from from, th_error *error) {
  char who[160];
  snprintf(who, sizeof who, "%s\"%s\"", where, th__train_fields[field].key);
  th_status status = set_json(c, field, value, from, who, error);
  if (status == TH_OK) c->from[field] = (unsigned char)from;
  return status;
}

/* ---- to JSON and text ---- */

static json_t *names_json(const th__names *names, bool several) {
  if (names->count == 0) return json_null();
  if (!several) return json_string(names->at[0]);
  json_t *list = json_array();
  for (int i = 0; list != NULL && i < names->count; i++)
    if (json_array_append_new(list, json_string(names->at[i])) != 0) {
      json_decref(list);
      return NULL; /* memory, or a name that is not UTF-8 */
    }
  return list;
}

static json_t *scale_json(const th__scale *scale) {
  switch (scale->kind) {
  case TH_SCALE_SQRT: return json_string("sqrt");
  case TH_SCALE_NONE: return json_string("none");
  case TH_SCALE_DK: return json_string("dk");
  default: return json_real(scale->factor);
  }
}

json_t *th__train_get_json(const th__train *c, int field) {
  const th__train_field *f = &th__train_fields[field];
  const void *at = look(c, field);
  switch (f->type) {
  case TH__FIELD_INTEGER: return json_integer(*(const long *)at);
  case TH__FIELD_NUMBER: return json_real(*(const double *)at);
  case TH__FIELD_CHOICE: return json_string(f->words[*(const int *)at]);
  case TH__FIELD_FLAG: return json_boolean(*(const bool *)at);
  case TH__FIELD_SEED: {
    uint64_t seed = *(const uint64_t *)at; /* jansson knows signed numbers only */
    return seed <= INT64_MAX ? json_integer((json_int_t)seed) : json_sprintf("%" PRIu64, seed);
  }
  case TH__FIELD_SCALE: return scale_json(at);
  default: return names_json(at, f->type == TH__FIELD_NAMES);
  }
}

/* As few digits as bring the number back. */
static void number_text(double value, char *text, size_t room) {
  for (int digits = 1; digits <= 17; digits++) {
    snprintf(text, room, "%.*g", digits, value);
    if (strtod(text, NULL) == value) return;
  }
}

void th__train_get_text(const th__train *c, int field, char *text, size_t room) {
  const th__train_field *f = &th__train_fields[field];
  const void *at = look(c, field);
  const th__names *names = at;
  const th__scale *scale = at;
  text[0] = '\0';
  switch (f->type) {
  case TH__FIELD_INTEGER: snprintf(text, room, "%ld", *(const long *)at); break;
  case TH__FIELD_NUMBER: number_text(*(const double *)at, text, room); break;
  case TH__FIELD_CHOICE: snprintf(text, room, "%s", f->words[*(const int *)at]); break;
  case TH__FIELD_FLAG: snprintf(text, room, "%s", *(const bool *)at ? "yes" : "no"); break;
  case TH__FIELD_SEED: snprintf(text, room, "%" PRIu64, *(const uint64_t *)at); break;
  case TH__FIELD_SCALE:
    if (scale->kind == TH_SCALE_FACTOR)
      number_text(scale->factor, text, room);
    else
      snprintf(text, room, "%s",
               scale->kind == TH_SCALE_SQRT   ? "sqrt"
               : scale->kind == TH_SCALE_NONE ? "none"
                                              : "dk");
    break;
  default:
    for (int i = 0; i < names->count; i++) {
      size_t used = strlen(text);
      snprintf(text + used, room - used, "%s%s", i ? ", " : "", names->at[i]);
    }
  }
}

bool th__train_field_same(const th__train *a, const th__train *b, int field) {
  json_t *x = th__train_get_json(a, field), *y = th__train_get_json(b, field);
  bool same = x != NULL && y != NULL && json_equal(x, y);
  json_decref(x);
  json_decref(y);
  return same;
}

bool th__train_field_copy(th__train *to, const th__train *from, int field) {
  static const size_t sizes[] = {
      [TH__FIELD_INTEGER] = sizeof(long),  [TH__FIELD_NUMBER] = sizeof(double),
      [TH__FIELD_CHOICE] = sizeof(int),    [TH__FIELD_FLAG] = sizeof(bool),
      [TH__FIELD_SEED] = sizeof(uint64_t), [TH__FIELD_SCALE] = sizeof(th__scale)};
  th__field_type type = th__train_fields[field].type;
  to->from[field] = from->from[field];
  if (type < TH__FIELD_NAME) {
    memcpy(place(to, field), look(from, field), sizes[type]);
    return true;
  }
  const th__names *names = look(from, field);
  clear_names(place(to, field));
  for (int i = 0; i < names->count; i++)
    if (!add_name(place(to, field), names->at[i])) return false;
  return true;
}

void th__train_free(th__train *config) {
  for (int i = 0; i < TH__TRAIN_FIELDS; i++)
    if (th__train_fields[i].type >= TH__FIELD_NAME) clear_names(place(config, i));
}
