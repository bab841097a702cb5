/* safetensors_write.c: writing a safetensors file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/file.h"
#include "io/stored.h"
#include "tensor/alloc.h"
#include "tensor/error.h"
#include "tensor/tensor.h"

/* Larger elements stand first, so that with a header of whole 8 bytes every tensor is aligned. */
static int by_size(const void *a, const void *b) {
  const th__item *x = *(const th__item *const *)a, *y = *(const th__item *const *)b;
  size_t x_size = th_dtype_size(x->tensor->dtype), y_size = th_dtype_size(y->tensor->dtype);
  if (x_size != y_size) return x_size > y_size ? -1 : 1;
  return x < y ? -1 : x > y; /* as they were given */
}

static size_t bytes_of(const th_tensor *tensor) {
  return (size_t)tensor->count * th_dtype_size(tensor->dtype);
}

/* {"dtype": ..., "shape": ..., "data_offsets": ...} */
static json_t *describe(const th_tensor *tensor, size_t begin) {
  json_t *shape = json_array();
  for (int i = 0; i < tensor->ndim; i++)
    if (json_array_append_new(shape, json_integer(tensor->shape[i])) != 0) {
      json_decref(shape);
      return NULL;
    }
  return json_pack("{s:s, s:o, s:[I, I]}", "dtype", th__stored_name(th__stored_of(tensor->dtype)),
                   "shape", shape, "data_offsets", (json_int_t)begin,
                   (json_int_t)(begin + bytes_of(tensor)));
}

static th_status check_item(const char *path, const json_t *header, const th__item *item,
                            th_error *error) {
  json_t *text = json_string(item->name); /* NULL where it is no UTF-8 */
  json_decref(text);
  const char *why = text == NULL                                  ? "is no valid UTF-8"
                    : strcmp(item->name, "__metadata__") == 0     ? "is taken by the format"
                    : json_object_get(header, item->name) != NULL ? "stands for two tensors"
                    : !th_tensor_is_contiguous(item->tensor)
                        ? "is a strided view; write th_contiguous() of it"
                        : NULL;
  if (why == NULL) return TH_OK;
  return th__error(error, TH_ERR_VALUE, "%.72s: the name \"%.63s\" %s", path, item->name, why);
}

static th_status check_metadata(const char *path, const json_t *metadata, th_error *error) {
  const char *key;
  json_t *value;
  if (metadata != NULL && !json_is_object(metadata))
    return th__error(error, TH_ERR_VALUE, "%.72s: metadata is no object", path);
  json_object_foreach(
      (json_t *)(uintptr_t)metadata, key,
      value) if (!json_is_string(value)) return th__error(error, TH_ERR_VALUE,
                                                          "%.72s: metadata \"%.63s\" is no string",
                                                          path, key);
  return TH_OK;
}

/* Describes all items in the header. */
static th_status list_items(const char *path, json_t *header, const th__item *const *items,
                            ptrdiff_t count, th_error *error) {
  size_t begin = 0;
  for (ptrdiff_t i = 0; i < count; i++) {
    th_status status = check_item(path, header, items[i], error);
    if (status != TH_OK) return status;
    json_t *info = describe(items[i]->tensor, begin);
    if (info == NULL || json_object_set_new(header, items[i]->name, info) != 0)
      return th__error_memory(error, path, (size_t)count * 128);
    begin += bytes_of(items[i]->tensor);
  }
  return TH_OK;
}

/* The header's text, padded with spaces so that the data begins at a multiple of 8. */
static th_status put_header(th__output *output, const json_t *header, th_error *error) {
  char *text = json_dumps(header, JSON_COMPACT);
  if (text == NULL) {
    th__output_abandon(output);
    return th__error_memory(error, output->path, json_object_size(header) * 128);
  }
  size_t length = strlen(text), padding = (8 - length % 8) % 8;
  uint64_t total = length + padding;
  unsigned char first[8];
  for (int i = 0; i < 8; i++) first[i] = (unsigned char)(total >> 8 * i);
  th_status status = TH_OK;
  if (total > TH__HEADER_LIMIT) {
    th__output_abandon(output);
    status = th__error(error, TH_ERR_VALUE, "%.72s: the header has %zu bytes; %llu are the limit",
                       output->path, length, (unsigned long long)TH__HEADER_LIMIT);
  }
  if (status == TH_OK) status = th__output_put(output, first, sizeof first, error);
  if (status == TH_OK) status = th__output_put(output, text, length, error);
  if (status == TH_OK) status = th__output_put(output, "        ", padding, error);
  th__free(text);
  return status;
}

static th_status put_file(const char *path, const json_t *header, const th__item *const *items,
                          ptrdiff_t count, th_error *error) {
  th__output output;
  th_status status = th__output_open(&output, path, error);
  if (status == TH_OK) status = put_header(&output, header, error);
  for (ptrdiff_t i = 0; i < count && status == TH_OK; i++)
    status = th__output_put(&output, items[i]->tensor->data, bytes_of(items[i]->tensor), error);
  return status == TH_OK ? th__output_commit(&output, error) : status;
}

th_status th__safetensors_write(const char *path, const th__item *items, ptrdiff_t count,
                                const json_t *metadata, th_error *error) {
  if (!th__little_endian())
    return th__error(error, TH_ERR_STATE,
                     "%.72s: this machine stores numbers in the other byte order than the format",
                     path);
  th_status status = check_metadata(path, metadata, error);
  if (status != TH_OK) return status;
  size_t bytes = (size_t)(count > 0 ? count : 1) * sizeof(th__item *);
  const th__item **sorted = th__alloc(bytes);
  json_t *header = json_object();
  if (sorted == NULL || header == NULL ||
      (metadata != NULL && json_object_size(metadata) > 0 &&
       json_object_set(header, "__metadata__", (json_t *)(uintptr_t)metadata) != 0)) {
    status = th__error_memory(error, path, bytes);
  } else {
    for (ptrdiff_t i = 0; i < count; i++) sorted[i] = &items[i];
    qsort(sorted, (size_t)count, sizeof *sorted, by_size);
    status = list_items(path, header, sorted, count, error);
    if (status == TH_OK) status = put_file(path, header, sorted, count, error);
  }
  json_decref(header);
  th__free(sorted);
  return status;
}
