/* params.c: the list of named parameters. It owns them, and holds each once: a layer that shares a
 * tensor with another uses the same pointer, so sums over the list count it once. */
#include <string.h>

#include "tensor/alloc.h"
#include "tensor/error.h"
#include "tensor/tensor.h"

#define NAME_LIMIT 63 /* bytes a tensor's name keeps: a longer one could not be told apart */

struct th_params {
  th_tensor **items;
  ptrdiff_t count, capacity;
  ptrdiff_t elements;
};

th_params *th_params_new(th_error *error) {
  th_params *params = th__alloc_zero(sizeof *params);
  if (params == NULL) th__error_memory(error, "th_params_new", sizeof *params);
  return params;
}

void th_params_free(th_params *params) {
  if (params == NULL) return;
  for (ptrdiff_t i = 0; i < params->count; i++) th_tensor_free(params->items[i]);
  th__free(params->items);
  th__free(params);
}

static bool grow(th_params *params, th_error *error) {
  if (params->count < params->capacity) return true;
  ptrdiff_t capacity = params->capacity > 0 ? 2 * params->capacity : 16;
  size_t bytes = (size_t)capacity * sizeof(th_tensor *);
  th_tensor **items = th__alloc(bytes);
  if (items == NULL) {
    th__error_memory(error, "th_params_add", bytes);
    return false;
  }
  if (params->count > 0) memcpy(items, params->items, (size_t)params->count * sizeof *items);
  th__free(params->items);
  params->items = items;
  params->capacity = capacity;
  return true;
}

static th_status check_name(const th_params *params, const char *name, th_error *error) {
  if (name == NULL || name[0] == '\0')
    return th__error(error, TH_ERR_VALUE, "th_params_add: a parameter needs a name");
  if (strlen(name) > NAME_LIMIT)
    return th__error(error, TH_ERR_VALUE,
                     "th_params_add: the name \"%.40s...\" has %zu bytes; at most %d are kept",
                     name, strlen(name), NAME_LIMIT);
  if (th_params_find(params, name) != NULL)
    return th__error(error, TH_ERR_VALUE,
                     "th_params_add: there is a parameter \"%s\" already; use another name, or its "
                     "tensor again for tied weights",
                     name);
  return TH_OK;
}

/* A named tensor with a gradient, or NULL and nothing left behind. */
static th_tensor *make(const char *name, th_dtype dtype, int ndim, const ptrdiff_t *shape,
                       th_error *error) {
  th_tensor *tensor = th_tensor_new(dtype, ndim, shape, error);
  if (tensor == NULL) return NULL;
  if (th_tensor_require_grad(tensor, error) == TH_OK) {
    th_tensor_set_name(tensor, name);
    if (strcmp(tensor->name, name) == 0) return tensor;
    th__error_memory(error, "th_params_add", strlen(name) + 1);
  }
  th_tensor_free(tensor);
  return NULL;
}

th_tensor *th_params_add(th_params *params, const char *name, th_dtype dtype, int ndim,
                         const ptrdiff_t *shape, th_error *error) {
  if (params == NULL) {
    th__error(error, TH_ERR_VALUE, "th_params_add: the list is NULL");
    return NULL;
  }
  if (check_name(params, name, error) != TH_OK || !grow(params, error)) return NULL;
  th_tensor *tensor = make(name, dtype, ndim, shape, error);
  if (tensor == NULL) return NULL;
  params->items[params->count++] = tensor;
  params->elements += tensor->count;
  return tensor;
}

ptrdiff_t th_params_count(const th_params *params) { return params == NULL ? 0 : params->count; }
ptrdiff_t th_params_elements(const th_params *params) {
  return params == NULL ? 0 : params->elements;
}

th_tensor *th_params_at(const th_params *params, ptrdiff_t i) {
  return i >= 0 && i < th_params_count(params) ? params->items[i] : NULL;
}

th_tensor *th_params_find(const th_params *params, const char *name) {
  for (ptrdiff_t i = 0; i < th_params_count(params); i++)
    if (strcmp(params->items[i]->name, name) == 0) return params->items[i];
  return NULL;
}

void th_params_zero_grad(th_params *params) {
  for (ptrdiff_t i = 0; i < th_params_count(params); i++) th_tensor_zero_grad(params->items[i]);
}
