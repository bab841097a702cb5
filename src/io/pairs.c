/* pairs.c: matching parameters with the tensors of a file, and th_params_save, th_params_load. */
#include "io/pairs.h"

#include <stdio.h>
#include <string.h>

#include "io/stored.h"
#include "tensor/alloc.h"
#include "tensor/error.h"
#include "tensor/shape.h"
#include "tensor/tensor.h"

th_status th__pairs_new(th__pairs *pairs, ptrdiff_t room, th_error *error) {
  size_t bytes = (size_t)(room > 0 ? room : 1) * sizeof(void *);
  *pairs = (th__pairs){.entries = th__alloc(bytes), .tensors = th__alloc(bytes), .room = room};
  if (pairs->entries != NULL && pairs->tensors != NULL) return TH_OK;
  th__pairs_free(pairs);
  return th__error_memory(error, "reading a file", bytes);
}

void th__pairs_free(th__pairs *pairs) {
  th__free(pairs->entries);
  th__free(pairs->tensors);
  *pairs = (th__pairs){0};
}

th_status th__pairs_add(th__pairs *pairs, const th__safetensors *file, const char *prefix,
                        const char *name, th_tensor *tensor, bool exact, th_error *error) {
  char full[TH__PRINTABLE + 16], here[TH__SHAPE_TEXT], there[TH__ENTRY_TEXT];
  snprintf(full, sizeof full, "%s%s", prefix, name);
  const th__entry *entry = th__safetensors_find(file, full);
  th__shape_text(here, tensor->ndim, tensor->shape);
  const char *dtype = th__stored_name(th__stored_of(tensor->dtype));
  if (entry == NULL)
    return th__safetensors_fail(file, error, "file: no %s; model: %s %s", full, here, dtype);
  bool same_type = exact ? entry->stored == th__stored_of(tensor->dtype)
                         : entry->stored == TH__STORED_F64 || entry->stored == TH__STORED_F32 ||
                               entry->stored == TH__STORED_F16 || entry->stored == TH__STORED_BF16;
  if (!same_type || !th__shape_equal(entry->ndim, entry->shape, tensor->ndim, tensor->shape))
    return th__safetensors_fail(file, error, "file: %s %s; model: %s %s", full,
                                th__entry_text(there, entry), here, dtype);
  pairs->entries[pairs->count] = entry;
  pairs->tensors[pairs->count++] = tensor;
  return TH_OK;
}

th_status th__pairs_add_params(th__pairs *pairs, const th__safetensors *file,
                               const th_params *params, bool exact, th_error *error) {
  th_status status = TH_OK;
  for (ptrdiff_t i = 0; i < th_params_count(params) && status == TH_OK; i++) {
    th_tensor *tensor = th_params_at(params, i);
    status = th__pairs_add(pairs, file, "", tensor->name, tensor, exact, error);
  }
  for (ptrdiff_t i = 0; i < th__safetensors_count(file) && status == TH_OK; i++) {
    const th__entry *entry = th__safetensors_at(file, i);
    char name[TH__PRINTABLE], text[TH__ENTRY_TEXT];
    if (strncmp(entry->name, "optim.", 6) != 0 && th_params_find(params, entry->name) == NULL)
      status = th__safetensors_fail(file, error, "file: %s %s; model: no such parameter",
                                    th__printable(name, entry->name), th__entry_text(text, entry));
  }
  return status;
}

th_status th__pairs_read(const th__pairs *pairs, th__safetensors *file, th_error *error) {
  return th__safetensors_read_all(file, pairs->entries, pairs->tensors, pairs->count, error);
}

/* ---- the public pair ---- */

th_status th_params_save(const th_params *params, const char *path, th_error *error) {
  if (params == NULL || path == NULL)
    return th__error(error, TH_ERR_VALUE, "th_params_save: the %s is NULL",
                     params == NULL ? "list of parameters" : "path");
  ptrdiff_t count = th_params_count(params);
  size_t bytes = (size_t)(count > 0 ? count : 1) * sizeof(th__item);
  th__item *items = th__alloc(bytes);
  if (items == NULL) return th__error_memory(error, "th_params_save", bytes);
  for (ptrdiff_t i = 0; i < count; i++) {
    const th_tensor *tensor = th_params_at(params, i);
    items[i] = (th__item){tensor->name, tensor};
  }
  th_status status = th__safetensors_write(path, items, count, NULL, error);
  th__free(items);
  return status;
}

th_status th_params_load(th_params *params, const char *path, th_error *error) {
  if (params == NULL || path == NULL)
    return th__error(error, TH_ERR_VALUE, "th_params_load: the %s is NULL",
                     params == NULL ? "list of parameters" : "path");
  th_error own = {0};
  th__safetensors *file = th__safetensors_open(path, &own);
  th__pairs pairs = {0};
  th_status status = file != NULL ? TH_OK : own.status;
  if (status == TH_OK) status = th__pairs_new(&pairs, th_params_count(params), &own);
  if (status == TH_OK) status = th__pairs_add_params(&pairs, file, params, false, &own);
  if (status == TH_OK) status = th__pairs_read(&pairs, file, &own);
  th__pairs_free(&pairs);
  th__safetensors_close(file);
  if (status != TH_OK && error != NULL) *error = own;
  return status;
}
