#include <float.h>
#include <math.h>

#include "derive/array.h"

th__array *th__array_gather(th__calc *c, const th__array *x, const ptrdiff_t *map, int ndim,
                            const ptrdiff_t *shape) {
  if (x == NULL || map == NULL) return NULL;
  th__array *y = th__array_new(c, ndim, shape);
  if (y == NULL) return NULL;
  for (ptrdiff_t i = 0; i < y->count; i++) {
    y->v[i] = map[i] < 0 ? 0 : x->v[map[i]];
    y->e[i] = map[i] < 0 ? 0 : x->e[map[i]];
  }
  return y;
}

th__array *th__array_scatter(th__calc *c, const th__array *y, const ptrdiff_t *map, int ndim,
                             const ptrdiff_t *shape) {
  if (y == NULL || map == NULL) return NULL;
  th__array *x = th__array_full(c, ndim, shape, 0);
  if (x == NULL) return NULL;
  for (ptrdiff_t i = 0; i < y->count; i++) {
    if (map[i] < 0) continue;
    bool first = x->v[map[i]] == 0 && x->e[map[i]] == 0;
    x->v[map[i]] += y->v[i];
    x->e[map[i]] += y->e[i];
    if (!first) x->e[map[i]] += (double)LDBL_EPSILON * (double)fabsl(x->v[map[i]]);
  }
  return x;
}

ptrdiff_t *th__map_transpose(th__calc *c, const th__array *x, const int *order, ptrdiff_t *shape) {
  ptrdiff_t *map = th__calc_alloc(c, (size_t)x->count * sizeof *map);
  if (map == NULL) return NULL;
  ptrdiff_t own[TH_MAX_DIMS], stride[TH_MAX_DIMS], index[TH_MAX_DIMS] = {0}, from = 0, step = 1;
  for (int axis = x->ndim - 1; axis >= 0; axis--) {
    own[axis] = step;
    step *= x->shape[axis];
  }
  for (int axis = 0; axis < x->ndim; axis++) {
    shape[axis] = x->shape[order[axis]];
    stride[axis] = own[order[axis]];
  }
  for (ptrdiff_t i = 0; i < x->count; i++) {
    map[i] = from;
    for (int axis = x->ndim - 1; axis >= 0; axis--) {
      from += stride[axis];
      if (++index[axis] < shape[axis]) break;
      from -= stride[axis] * shape[axis];
      index[axis] = 0;
    }
  }
  return map;
}

ptrdiff_t *th__map_triangle(th__calc *c, const th__array *x, ptrdiff_t diagonal, bool upper) {
  ptrdiff_t *map = th__calc_alloc(c, (size_t)x->count * sizeof *map);
  if (map == NULL) return NULL;
  ptrdiff_t rows = x->shape[x->ndim - 2], columns = x->shape[x->ndim - 1];
  for (ptrdiff_t i = 0; i < x->count; i++) {
    ptrdiff_t right_of = i % columns - i / columns % rows;
    map[i] = (upper ? right_of >= diagonal : right_of <= diagonal) ? i : -1;
  }
  return map;
}

th__array *th__array_concat(th__calc *c, const th__array *const *parts, int count, int axis) {
  ptrdiff_t shape[TH_MAX_DIMS], outer = 1, inner = 1;
  const th__array *first = parts[0];
  for (int i = 0; i < first->ndim; i++) {
    shape[i] = first->shape[i];
    *(i < axis ? &outer : &inner) *= i == axis ? 1 : first->shape[i];
  }
  shape[axis] = 0;
  for (int p = 0; p < count; p++) shape[axis] += parts[p]->shape[axis];
  th__array *y = th__array_new(c, first->ndim, shape);
  if (y == NULL) return NULL;
  ptrdiff_t at = 0;
  for (int p = 0; p < count; p++) {
    ptrdiff_t block = parts[p]->shape[axis] * inner;
    for (ptrdiff_t o = 0; o < outer; o++)
      for (ptrdiff_t i = 0; i < block; i++) {
        y->v[o * shape[axis] * inner + at + i] = parts[p]->v[o * block + i];
        y->e[o * shape[axis] * inner + at + i] = parts[p]->e[o * block + i];
      }
    at += block;
  }
  return y;
}
