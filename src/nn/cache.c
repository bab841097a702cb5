/* cache.c: making and clearing a cache. Its meaning is in cache.h, its use in blocks.c. */
#include "nn/cache.h"

#include <string.h>

#include "nn/model.h"
#include "tensor/alloc.h"
#include "tensor/error.h"
#include "tensor/tensor.h"

static th_status check(const th_model *model, ptrdiff_t batch, ptrdiff_t capacity, th_error *error) {
  if (model == NULL)
    return th__error(error, TH_ERR_VALUE,
                     "th_cache_new: the model is NULL; did its making report an error?");
  if (model->class->cache == NULL)
    return th__error(error, TH_ERR_VALUE,
                     "th_cache_new: a %s has no cache; gpts and recurrent models have",
                     model->class->name);
  if (batch < 1 || capacity < 0)
    return th__error(error, TH_ERR_VALUE,
                     "th_cache_new: batch is %td and capacity %td; at least 1 and 0 are expected",
                     batch, capacity);
  if (model->context > 0 && capacity > model->context)
    return th__error(error, TH_ERR_VALUE,
                     "th_cache_new: the capacity %td is beyond the model's context of %td; at most "
                     "that, or 0 for all of it, is expected",
                     capacity, model->context);
  return TH_OK;
}

th_cache *th_cache_new(const th_model *model, ptrdiff_t batch, ptrdiff_t capacity, th_error *error) {
  if (check(model, batch, capacity, error) != TH_OK) return NULL;
  th_cache *cache = th__alloc_zero(sizeof *cache);
  if (cache == NULL) {
    th__error_memory(error, "th_cache_new", sizeof *cache);
    return NULL;
  }
  cache->model = model;
  cache->batch = batch;
  cache->capacity = capacity > 0 ? capacity : model->context;
  cache->states = model->context == 0;
  if (model->class->cache(model, cache, error) == TH_OK) return cache;
  th_cache_free(cache);
  return NULL;
}

th_status th__cache_add(th_cache *cache, ptrdiff_t count, th_dtype dtype, int ndim,
                        const ptrdiff_t *shape, th_error *error) {
  if (cache->tensors == NULL) {
    size_t bytes = (size_t)count * sizeof *cache->tensors;
    cache->tensors = th__alloc_zero(bytes);
    if (cache->tensors == NULL) return th__error_memory(error, "th_cache_new", bytes);
  }
  th_error made = {0};
  th_tensor *tensor = th_tensor_new(dtype, ndim, shape, &made);
  if (tensor == NULL) return th__error(error, made.status, "th_cache_new: %s", made.message);
  cache->tensors[cache->count++] = tensor;
  return TH_OK;
}

void th_cache_free(th_cache *cache) {
  if (cache == NULL) return;
  for (ptrdiff_t i = 0; i < cache->count; i++) th_tensor_free(cache->tensors[i]);
  th__free(cache->tensors);
  th__free(cache);
}

/* States start from zeros; keys and values beyond the length are not read. */
void th_cache_clear(th_cache *cache) {
  if (cache == NULL) return;
  cache->length = 0;
  if (!cache->states) return;
  for (ptrdiff_t i = 0; i < cache->count; i++) {
    th_tensor *state = cache->tensors[i];
    memset(state->data, 0, (size_t)state->count * th_dtype_size(state->dtype));
  }
}

ptrdiff_t th_cache_length(const th_cache *cache) { return cache == NULL ? 0 : cache->length; }

size_t th_cache_bytes(const th_cache *cache) {
  size_t bytes = 0;
  for (ptrdiff_t i = 0; cache != NULL && i < cache->count; i++)
    bytes += (size_t)cache->tensors[i]->count * th_dtype_size(cache->tensors[i]->dtype);
  return bytes;
}
