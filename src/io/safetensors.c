/* safetensors.c: opening a file, and every check of its header. The data is read in stored.c. */
#include "io/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/stored.h"
#include "tensor/alloc.h"
#include "tensor/error.h"
#include "tensor/shape.h"

/* ---- element types ---- */

static const struct {
  const char *name;
  size_t size;
} types[] = {
#define X(name, bytes) {#name, bytes},
    TH__STORED_LIST(X)
#undef X
};
enum { TYPES = sizeof types / sizeof *types };

const char *th__stored_name(th__stored stored) { return types[stored].name; }
size_t th__stored_size(th__stored stored) { return types[stored].size; }

th__stored th__stored_of(th_dtype dtype) {
  static const th__stored stored[] = {
      [TH_F32] = TH__STORED_F32, [TH_F64] = TH__STORED_F64, [TH_I32] = TH__STORED_I32, [TH_BOOL] = TH__STORED_BOOL};
  return stored[dtype];
}

/* ---- messages ---- */

const char *th__printable(char buffer[TH__PRINTABLE], const char *text) {
  size_t length = strlen(text), most = TH__PRINTABLE - 4;
  size_t kept = length;
  if (length > most)
    for (kept = most; kept > 0 && ((unsigned char)text[kept] & 0xc0) == 0x80;) kept--;
  for (size_t i = 0; i < kept; i++)
    buffer[i] = (unsigned char)text[i] < ' ' || text[i] == 0x7f ? '?' : text[i];
  snprintf(buffer + kept, 4, "%s", kept < length ? "..." : "");
  return buffer;
}

th_status th__safetensors_fail(const th__safetensors *file, th_error *error, const char *format,
                               ...) {
  char text[232];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  size_t length = strlen(file->path), most = 72; /* the end of a path says more than its beginning */
  bool cut = length > most;
  return th__error(error, TH_ERR_IO, "%s%s: %s", cut ? "..." : "",
                   cut ? file->path + length - most : file->path, text);
}

#define FAIL(...) (th__safetensors_fail(file, error, __VA_ARGS__), false)

const char *th__entry_text(char buffer[TH__ENTRY_TEXT], const th__entry *entry) {
  char shape[TH__SHAPE_TEXT];
  snprintf(buffer, TH__ENTRY_TEXT, "%s %s", th__shape_text(shape, entry->ndim, entry->shape),
           th__stored_name(entry->stored));
  return buffer;
}

/* "a string", and numbers as they are. */
static const char *describe(char buffer[48], const json_t *value) {
  static const char *const kinds[] = {
      [JSON_OBJECT] = "an object", [JSON_ARRAY] = "an array", [JSON_STRING] = "a string",
      [JSON_INTEGER] = "a number", [JSON_REAL] = "a number",  [JSON_TRUE] = "true",
      [JSON_FALSE] = "false",      [JSON_NULL] = "null"};
  char real[32];
  snprintf(real, sizeof real, "%.17g", json_real_value(value));
  if (json_is_integer(value))
    snprintf(buffer, 48, "%lld", (long long)json_integer_value(value));
  else if (json_is_real(value))
    snprintf(buffer, 48, strchr(real, '.') == NULL && strchr(real, 'e') == NULL ? "%s.0" : "%s",
             real);
  else
    snprintf(buffer, 48, "%s", value == NULL ? "missing" : kinds[json_typeof(value)]);
  return buffer;
}

/* ---- one tensor of the header ---- */

/* A whole number of 0 or more. Where the header holds one beyond 2^63 all its numbers have been read
 * as reals (parse_header), so that the one at fault can be named. */
static bool take_whole(const th__safetensors *file, const char *tensor, const char *field, size_t i,
                       const json_t *value, uint64_t *number, th_error *error) {
  char text[48];
  if (json_is_integer(value) && json_integer_value(value) >= 0) {
    *number = (uint64_t)json_integer_value(value);
    return true;
  }
  if (file->as_reals && json_is_real(value) && json_real_value(value) >= 0 &&
      json_real_value(value) < 0x1p63) {
    *number = (uint64_t)json_real_value(value);
    return true;
  }
  return FAIL("tensor \"%s\": %s[%zu] is %s; a whole number from 0 to the file's size is expected",
              tensor, field, i, describe(text, value));
}

static bool take_dtype(const th__safetensors *file, const char *tensor, const json_t *info,
                       th__entry *entry, th_error *error) {
  char text[TH__PRINTABLE];
  const json_t *dtype = json_object_get(info, "dtype");
  if (!json_is_string(dtype))
    return FAIL("tensor \"%s\": dtype is %s; a string is expected", tensor, describe(text, dtype));
  for (int i = 0; i < TYPES; i++)
    if (strcmp(json_string_value(dtype), types[i].name) == 0) {
      entry->stored = (th__stored)i;
      return true;
    }
  return FAIL("tensor \"%s\": dtype \"%s\" is unknown", tensor,
              th__printable(text, json_string_value(dtype)));
}

/* The product of the sizes is checked at each step: [2^32, 2^32] must not wrap round to 0. */
static bool take_shape(const th__safetensors *file, const char *tensor, const json_t *info,
                       th__entry *entry, th_error *error) {
  char text[48];
  const json_t *shape = json_object_get(info, "shape");
  if (!json_is_array(shape))
    return FAIL("tensor \"%s\": shape is %s; an array is expected", tensor, describe(text, shape));
  if (json_array_size(shape) > TH_MAX_DIMS)
    return FAIL("tensor \"%s\": shape has %zu dimensions; at most %d are expected", tensor,
                json_array_size(shape), TH_MAX_DIMS);
  ptrdiff_t count = 1, bytes = 0;
  for (size_t i = 0; i < json_array_size(shape); i++) {
    uint64_t size;
    if (!take_whole(file, tensor, "shape", i, json_array_get(shape, i), &size, error)) return false;
    if (size > PTRDIFF_MAX || __builtin_mul_overflow(count, (ptrdiff_t)size, &count))
      return FAIL("tensor \"%s\": shape: the product of the sizes overflows at shape[%zu] = %llu",
                  tensor, i, (unsigned long long)size);
    entry->shape[i] = (ptrdiff_t)size;
  }
  if (__builtin_mul_overflow(count, (ptrdiff_t)th__stored_size(entry->stored), &bytes))
    return FAIL("tensor \"%s\": shape: %td elements of %s overflow", tensor, count,
                th__stored_name(entry->stored));
  entry->ndim = (int)json_array_size(shape);
  entry->count = count;
  return true;
}

static bool take_offsets(const th__safetensors *file, const char *tensor, const json_t *info,
                         th__entry *entry, th_error *error) {
  char text[TH__ENTRY_TEXT];
  const json_t *offsets = json_object_get(info, "data_offsets");
  if (!json_is_array(offsets) || json_array_size(offsets) != 2)
    return FAIL("tensor \"%s\": data_offsets is %s; two numbers are expected", tensor,
                json_is_array(offsets) ? "of another length" : describe(text, offsets));
  if (!take_whole(file, tensor, "data_offsets", 0, json_array_get(offsets, 0), &entry->begin,
                  error) ||
      !take_whole(file, tensor, "data_offsets", 1, json_array_get(offsets, 1), &entry->end, error))
    return false;
  unsigned long long begin = entry->begin, end = entry->end, room = file->bytes;
  if (end < begin)
    return FAIL("tensor \"%s\": data_offsets [%llu, %llu] end before they begin", tensor, begin,
                end);
  if (end > room)
    return FAIL("tensor \"%s\": data_offsets [%llu, %llu] are out of the file, which has %llu bytes "
                "of data; is it cut?",
                tensor, begin, end, room);
  unsigned long long bytes = (uint64_t)entry->count * th__stored_size(entry->stored);
  if (end - begin != bytes)
    return FAIL("tensor \"%s\": data_offsets [%llu, %llu] hold %llu bytes, but shape %s is %llu",
                tensor, begin, end, end - begin, th__entry_text(text, entry), bytes);
  return true;
}

static bool take_tensor(const th__safetensors *file, const char *name, const json_t *info,
                        th__entry *entry, th_error *error) {
  char tensor[TH__PRINTABLE], text[48];
  th__printable(tensor, name);
  *entry = (th__entry){.name = name};
  if (!json_is_object(info))
    return FAIL("tensor \"%s\" is %s; an object is expected", tensor, describe(text, info));
  return take_dtype(file, tensor, info, entry, error) &&
         take_shape(file, tensor, info, entry, error) &&
         take_offsets(file, tensor, info, entry, error);
}

/* ---- all of them ---- */

static int by_place(const void *a, const void *b) {
  const th__entry *x = a, *y = b;
  if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
  if (x->end != y->end) return x->end < y->end ? -1 : 1;
  return strcmp(x->name, y->name);
}

/* Side by side, the tensors fill the data: no byte belongs to two of them, none to nobody. */
static bool check_places(th__safetensors *file, th_error *error) {
  char name[TH__PRINTABLE], before[TH__PRINTABLE] = "";
  uint64_t end = 0;
  if (file->count > 0) qsort(file->entries, (size_t)file->count, sizeof *file->entries, by_place);
  for (ptrdiff_t i = 0; i < file->count; i++) {
    const th__entry *entry = &file->entries[i];
    unsigned long long here = entry->begin, there = end;
    th__printable(name, entry->name);
    if (here < there)
      return FAIL("tensor \"%s\": data_offsets begin at %llu, inside of \"%s\", which ends at %llu",
                  name, here, before, there);
    if (here > there)
      return FAIL("tensor \"%s\": data_offsets begin at %llu and leave a gap behind %llu", name,
                  here, there);
    end = entry->end;
    memcpy(before, name, sizeof before);
  }
  if (end == file->bytes) return true;
  return FAIL("the tensors end at %llu, but there are %llu bytes of data: %llu trailing bytes",
              (unsigned long long)end, (unsigned long long)file->bytes,
              (unsigned long long)(file->bytes - end));
}

static bool take_metadata(th__safetensors *file, th_error *error) {
  char text[48], name[TH__PRINTABLE];
  json_t *given = json_object_get(file->header, "__metadata__"), *value;
  const char *key;
  file->metadata = given != NULL ? json_incref(given) : json_object();
  if (file->metadata == NULL) return th__error_memory(error, file->path, 64), false;
  if (!json_is_object(file->metadata))
    return FAIL("__metadata__ is %s; an object is expected", describe(text, given));
  json_object_foreach(file->metadata, key, value) if (!json_is_string(value)) return FAIL(
      "__metadata__: \"%s\" is %s; a string is expected", th__printable(name, key),
      describe(text, value));
  return true;
}

static bool take_header(th__safetensors *file, th_error *error) {
  if (!take_metadata(file, error)) return false;
  size_t bytes = json_object_size(file->header) * sizeof *file->entries;
  file->entries = th__alloc(bytes > 0 ? bytes : 1);
  if (file->entries == NULL) return th__error_memory(error, file->path, bytes), false;
  const char *name;
  json_t *info;
  json_object_foreach(file->header, name, info) {
    if (strcmp(name, "__metadata__") == 0) continue;
    if (!take_tensor(file, name, info, &file->entries[file->count], error)) return false;
    file->count++;
  }
  return check_places(file, error);
}

/* ---- opening ---- */

static bool parse_header(th__safetensors *file, const char *text, size_t length, th_error *error) {
  json_error_t why;
  if (length == 0 || text[0] != '{')
    return FAIL("the header is no JSON object: it must begin with {");
  file->header = json_loadb(text, length, JSON_REJECT_DUPLICATES, &why);
  if (file->header == NULL && json_error_code(&why) == json_error_numeric_overflow) {
    json_error_t again;
    file->as_reals = true;
    file->header =
        json_loadb(text, length, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, &again);
    if (file->header != NULL && !take_header(file, error)) return false;
  }
  if (file->header != NULL && !file->as_reals) return take_header(file, error);
  char reason[TH__PRINTABLE];
  if (json_error_code(&why) == json_error_out_of_memory)
    return th__error_memory(error, file->path, length), false;
  return FAIL("the header is no valid JSON: %s (byte %d of it)", th__printable(reason, why.text),
              why.position);
}

/* The header's length comes from the file and is believed only within the file's own size. */
static bool read_header(th__safetensors *file, uint64_t size, th_error *error) {
  unsigned char first[8];
  if (size < sizeof first)
    return FAIL("it has %llu bytes; a safetensors file begins with 8 bytes for the header's length",
                (unsigned long long)size);
  if (!th__safetensors_fetch(file, 0, first, sizeof first, error)) return false;
  uint64_t length = 0;
  for (int i = 7; i >= 0; i--) length = length << 8 | first[i];
  if (length > TH__HEADER_LIMIT || length > size - sizeof first)
    return FAIL("the header's length is %llu, but %llu bytes follow, and %llu are the limit; is this "
                "a safetensors file, and whole?",
                (unsigned long long)length, (unsigned long long)(size - sizeof first),
                (unsigned long long)TH__HEADER_LIMIT);
  file->start = sizeof first + length;
  file->bytes = size - file->start;
  char *text = th__alloc((size_t)length + 1);
  if (text == NULL) return th__error_memory(error, file->path, (size_t)length), false;
  bool good = th__safetensors_fetch(file, sizeof first, text, (size_t)length, error) &&
              parse_header(file, text, (size_t)length, error);
  th__free(text);
  return good;
}

static th__safetensors *begin(const char *path, th_error *error) {
  th__safetensors *file = th__alloc_zero(sizeof *file);
  size_t length = strlen(path) + 1;
  char *name = th__alloc(length);
  if (file == NULL || name == NULL) {
    th__error_memory(error, path, length);
    th__free(file);
    th__free(name);
    return NULL;
  }
  memcpy(name, path, length);
  file->path = name;
  file->file = -1;
  return file;
}

static th__safetensors *finish(th__safetensors *file, bool good) {
  if (good) return file;
  th__safetensors_close(file);
  return NULL;
}

bool th__little_endian(void) {
  const uint16_t one = 1;
  unsigned char first;
  memcpy(&first, &one, 1);
  return first == 1;
}

static bool check_machine(const th__safetensors *file, th_error *error) {
  return th__little_endian() ||
         FAIL("this machine stores numbers in the other byte order than the file");
}

static bool open_file(th__safetensors *file, th_error *error) {
  struct stat status;
  if (stat(file->path, &status) != 0) return FAIL("cannot open: %s", strerror(errno));
  if (!S_ISREG(status.st_mode)) return FAIL("cannot open: it is no regular file");
  file->file = open(file->path, O_RDONLY | O_CLOEXEC);
  if (file->file < 0 || fstat(file->file, &status) != 0)
    return FAIL("cannot open: %s", strerror(errno));
  return check_machine(file, error) && read_header(file, (uint64_t)status.st_size, error);
}

th__safetensors *th__safetensors_open(const char *path, th_error *error) {
  th__safetensors *file = begin(path, error);
  return file != NULL ? finish(file, open_file(file, error)) : NULL;
}

th__safetensors *th__safetensors_parse(const char *name, const void *bytes, size_t count,
                                       th_error *error) {
  th__safetensors *file = begin(name, error);
  if (file == NULL) return NULL;
  file->memory = bytes;
  file->size = count;
  return finish(file, check_machine(file, error) && read_header(file, count, error));
}

void th__safetensors_close(th__safetensors *file) {
  if (file == NULL) return;
  if (file->file >= 0) close(file->file);
  json_decref(file->header);
  json_decref(file->metadata);
  th__free(file->entries);
  th__free(file->path);
  th__free(file);
}

/* ---- looking ---- */

const char *th__safetensors_path(const th__safetensors *file) { return file->path; }
ptrdiff_t th__safetensors_count(const th__safetensors *file) { return file->count; }
uint64_t th__safetensors_bytes(const th__safetensors *file) { return file->bytes; }
const json_t *th__safetensors_metadata(const th__safetensors *file) { return file->metadata; }

const th__entry *th__safetensors_at(const th__safetensors *file, ptrdiff_t i) {
  return i >= 0 && i < file->count ? &file->entries[i] : NULL;
}

const th__entry *th__safetensors_find(const th__safetensors *file, const char *name) {
  for (ptrdiff_t i = 0; i < file->count; i++)
    if (strcmp(file->entries[i].name, name) == 0) return &file->entries[i];
  return NULL;
}
