/* source.c: contents and places of texts; UTF-8. */
#include "data/source.h"

#include <stdio.h>
#include <string.h>

#include "tensor/error.h"

uint64_t th__source_hash(const th__source *source) {
  uint64_t hash = UINT64_C(14695981039346656037);
  for (size_t i = 0; i < source->count; i++)
    hash = (hash ^ (uint8_t)source->bytes[i]) * UINT64_C(1099511628211);
  return hash;
}

static void hash_text(const th__source *source, char text[17]) {
  snprintf(text, 17, "%016llx", (unsigned long long)th__source_hash(source));
}

/* ---- in a checkpoint ---- */

/* A path is any bytes; JSON is UTF-8. */
static json_t *name_to_json(const char *name) {
  json_t *text = json_string(name);
  return text != NULL ? text : json_string("(a name that is not UTF-8)");
}

json_t *th__sources_to_json(const th__source *sources, int count) {
  json_t *list = json_array();
  for (int i = 0; i < count && list != NULL; i++) {
    char hash[17];
    hash_text(&sources[i], hash);
    json_t *entry = json_pack("{s:o, s:I, s:s}", "file", name_to_json(sources[i].name), "bytes",
                              (json_int_t)sources[i].count, "hash", hash);
    if (entry != NULL && json_array_append_new(list, entry) == 0) continue;
    json_decref(list);
    list = NULL;
  }
  return list;
}

/* The end of a long name, at the beginning of a character. */
static const char *short_name(const char *name, const char **dots) {
  enum { MOST = 100 };
  size_t length = strlen(name);
  *dots = length > MOST ? "..." : "";
  if (length <= MOST) return name;
  name += length - MOST;
  while (((uint8_t)*name & 0xC0) == 0x80) name++;
  return name;
}

static th_status check_one(const json_t *entry, const th__source *source, th_error *error) {
  const char *name, *hash, *dots, *shown = short_name(source->name, &dots);
  json_int_t bytes;
  /* json_unpack wants a json_t that it may change; it only reads here. */
  if (json_unpack((json_t *)(uintptr_t)entry, "{s:s, s:I, s:s !}", "file", &name, "bytes", &bytes,
                  "hash", &hash) != 0)
    return th__error(error, TH_ERR_IO,
                     "the stored list of texts: an entry is not {\"file\", \"bytes\", \"hash\"}");
  char now[17];
  hash_text(source, now);
  if ((json_int_t)source->count == bytes && strcmp(now, hash) == 0) return TH_OK;
  return th__error(error, TH_ERR_VALUE,
                   "%s%s has changed since the run began: it had %lld bytes (hash %.16s) and has %zu "
                   "(hash %s); go on with the text as it was, or start a new run",
                   dots, shown, (long long)bytes, hash, source->count, now);
}

th_status th__sources_check(const json_t *stored, const th__source *sources, int count,
                            th_error *error) {
  if (!json_is_array(stored))
    return th__error(error, TH_ERR_IO, "the stored list of texts is no JSON array");
  if (json_array_size(stored) != (size_t)count)
    return th__error(error, TH_ERR_VALUE,
                     "the run began with %zu text files and is given %d; give the same ones, in the "
                     "same order",
                     json_array_size(stored), count);
  for (int i = 0; i < count; i++) {
    th_status status = check_one(json_array_get(stored, (size_t)i), &sources[i], error);
    if (status != TH_OK) return status;
  }
  return TH_OK;
}

/* ---- UTF-8 (RFC 3629) ---- */

int32_t th__utf8_next(const char *bytes, size_t count, size_t *at) {
  static const int32_t least[] = {0, 0, 0x80, 0x800, 0x10000}; /* shorter would do below these */
  const uint8_t *b = (const uint8_t *)bytes + *at;
  if (*at >= count) return -1;
  if (b[0] < 0x80) {
    ++*at;
    return b[0];
  }
  size_t length = b[0] < 0xC2 ? 0 : b[0] < 0xE0 ? 2 : b[0] < 0xF0 ? 3 : b[0] < 0xF5 ? 4 : 0;
  if (length == 0 || count - *at < length) return -1;
  int32_t code = b[0] & (0x7F >> length);
  for (size_t i = 1; i < length; i++) {
    if ((b[i] & 0xC0) != 0x80) return -1;
    code = code << 6 | (b[i] & 0x3F);
  }
  if (code < least[length] || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return -1;
  *at += length;
  return code;
}

int th__utf8_put(uint32_t code, char bytes[4]) {
  if (code < 0x80) {
    bytes[0] = (char)code;
    return 1;
  }
  int length = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
  for (int i = length - 1; i > 0; i--, code >>= 6) bytes[i] = (char)(0x80 | (code & 0x3F));
  bytes[0] = (char)((0xF00U >> length & 0xF0) | code);
  return length;
}

/* ---- places ---- */

th_status th__source_error(th_error *error, const th__source *source, size_t at, const char *format,
                           ...) {
  if (error == NULL) return TH_ERR_VALUE;
  size_t line = 1;
  for (size_t i = 0; i < at && i < source->count; i++) line += source->bytes[i] == '\n';
  char sentence[sizeof error->message];
  va_list args;
  va_start(args, format);
  vsnprintf(sentence, sizeof sentence, format, args);
  va_end(args);
  const char *dots, *name = short_name(source->name, &dots);
  return th__error(error, TH_ERR_VALUE, "%s%s:%zu: byte offset %zu: %s", dots, name, line, at,
                   sentence);
}
