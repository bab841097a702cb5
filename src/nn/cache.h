/* cache.h: what a model keeps of the tokens it has seen. The tensors are on the heap and are made once;
 * a pass reads and writes windows of them. */
#ifndef TH_NN_CACHE_H
#define TH_NN_CACHE_H

#include "tapehead.h"

struct th_cache {
  const th_model *model;
  ptrdiff_t batch;
  ptrdiff_t capacity; /* in tokens, 0: no limit (recurrent models) */
  bool states;        /* clearing it zeroes the tensors: recurrent models */
  ptrdiff_t length;   /* tokens seen: moved by th_model_forward alone */
  ptrdiff_t count;    /* tensors */
  /* A transformer: keys [B, Hk, capacity, D] and values of layer l at 2 l and 2 l + 1, of which the
   * first `length` tokens count. A recurrent model: the states of each layer, zeros at first. */
  th_tensor **tensors;
};

/* Adds a tensor of zeros, for th__model_class.cache. `count` says how many there will be in all. */
th_status th__cache_add(th_cache *cache, ptrdiff_t count, th_dtype dtype, int ndim,
                        const ptrdiff_t *shape, th_error *error);

#endif
