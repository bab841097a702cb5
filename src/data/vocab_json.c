/* vocab_json.c: vocabularies in checkpoints. */
#include <string.h>

#include "data/vocab.h"
#include "tensor/alloc.h"
#include "tensor/error.h"

json_t *th__vocab_to_json(const th__vocab *vocab) {
  const char *kind = th__vocab_kind_name(th__vocab_kind_of(vocab));
  if (th__vocab_kind_of(vocab) == TH__VOCAB_NUMBERS)
    return json_pack("{s:s, s:I}", "kind", kind, "size", (json_int_t)th__vocab_size(vocab));
  json_t *symbols = json_array();
  for (ptrdiff_t i = 0; i < th__vocab_size(vocab) && symbols != NULL; i++)
    if (json_array_append_new(symbols, json_integer(th__vocab_symbol(vocab, i))) != 0) {
      json_decref(symbols);
      symbols = NULL;
    }
  return symbols != NULL ? json_pack("{s:s, s:o}", "kind", kind, "symbols", symbols) : NULL;
}

static th__vocab *refuse(th_error *error, const char *what) {
  th__error(error, TH_ERR_IO, "vocabulary: %s", what);
  return NULL;
}

static th__vocab *read_symbols(th__vocab_kind kind, const json_t *list, th_error *error) {
  if (!json_is_array(list)) return refuse(error, "\"symbols\" is not an array of integers");
  size_t count = json_array_size(list), bytes = (count + 1) * sizeof(uint32_t);
  uint32_t *symbols = th__alloc(bytes);
  if (symbols == NULL) {
    th__error_memory(error, "vocabulary", bytes);
    return NULL;
  }
  th__vocab *vocab = NULL;
  size_t i = 0;
  for (; i < count; i++) {
    const json_t *symbol = json_array_get(list, i);
    json_int_t value = json_integer_value(symbol);
    if (!json_is_integer(symbol) || value < 0 || value > UINT32_MAX) break;
    symbols[i] = (uint32_t)value;
  }
  if (i < count)
    refuse(error, "\"symbols\" holds something that is no code of a symbol");
  else {
    th_error local = {0};
    vocab = th__vocab_from_symbols(kind, symbols, (ptrdiff_t)count, &local);
    if (vocab == NULL)
      th__error(error, local.status == TH_ERR_VALUE ? TH_ERR_IO : local.status, "%s", local.message);
  }
  th__free(symbols);
  return vocab;
}

static th__vocab *read_size(const json_t *size, th_error *error) {
  json_int_t value = json_integer_value(size);
  if (!json_is_integer(size) || value < 1 || value > INT32_MAX)
    return refuse(error, "\"size\" is not a whole number of 1 or more");
  th_error local = {0};
  th__vocab *vocab = th__vocab_numbers((ptrdiff_t)value, &local);
  if (vocab == NULL)
    th__error(error, local.status == TH_ERR_VALUE ? TH_ERR_IO : local.status, "%s", local.message);
  return vocab;
}

th__vocab *th__vocab_from_json(const json_t *json, th_error *error) {
  if (!json_is_object(json)) return refuse(error, "no JSON object");
  const char *name = json_string_value(json_object_get(json, "kind"));
  if (name == NULL) return refuse(error, "\"kind\" is missing, or no text");
  if (json_object_size(json) != 2) return refuse(error, "other keys than \"kind\" and its table");
  if (strcmp(name, "numbers") == 0) return read_size(json_object_get(json, "size"), error);
  for (th__vocab_kind kind = TH__VOCAB_BYTES; kind <= TH__VOCAB_CHARACTERS; kind++)
    if (strcmp(name, th__vocab_kind_name(kind)) == 0)
      return read_symbols(kind, json_object_get(json, "symbols"), error);
  th__error(error, TH_ERR_IO,
            "vocabulary: kind is \"%.40s\"; bytes, characters or numbers is expected", name);
  return NULL;
}
