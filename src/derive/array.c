#include "derive/array.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

const char *th__array_shape_text(char *buffer, int ndim, const ptrdiff_t *shape) {
  size_t used = (size_t)snprintf(buffer, TH__ARRAY_SHAPE_TEXT, "(");
  for (int axis = 0; axis < ndim && used < TH__ARRAY_SHAPE_TEXT; axis++)
    used += (size_t)snprintf(buffer + used, TH__ARRAY_SHAPE_TEXT - used, "%s%td",
                             axis > 0 ? ", " : "", shape[axis]);
  if (used < TH__ARRAY_SHAPE_TEXT)
    snprintf(buffer + used, TH__ARRAY_SHAPE_TEXT - used, ndim == 1 ? ",)" : ")");
  return buffer;
}

static bool has_zero(int ndim, const ptrdiff_t *shape) {
  for (int axis = 0; axis < ndim; axis++)
    if (shape[axis] == 0) return true;
  return false;
}

/* Counts the elements and charges them to the evaluation. -1 with a fault. */
static ptrdiff_t charge(th__calc *c, int ndim, const ptrdiff_t *shape) {
  if (ndim > TH_MAX_DIMS) {
    th__calc_fail(c, "%d axes; at most %d are possible", ndim, TH_MAX_DIMS);
    return -1;
  }
  if (has_zero(ndim, shape)) return 0;
  ptrdiff_t count = 1, left = c->limits.elements - c->elements;
  for (int axis = 0; axis < ndim; axis++) {
    if (count > left / shape[axis]) {
      char text[TH__ARRAY_SHAPE_TEXT];
      th__calc_fail(c,
                    "an array of shape %s is too large: one evaluation may hold %td numbers in "
                    "all; smaller sizes prove as much",
                    th__array_shape_text(text, ndim, shape), c->limits.elements);
      return -1;
    }
    count *= shape[axis];
  }
  c->elements += count;
  return count;
}

static th__array *header(th__calc *c, int ndim, const ptrdiff_t *shape, ptrdiff_t count) {
  th__array *x = th__calc_alloc(c, sizeof *x);
  if (x == NULL) return NULL;
  x->ndim = ndim;
  x->count = count;
  for (int axis = 0; axis < ndim; axis++) x->shape[axis] = shape[axis];
  return x;
}

th__array *th__array_new(th__calc *c, int ndim, const ptrdiff_t *shape) {
  ptrdiff_t count = charge(c, ndim, shape);
  if (count < 0 || !th__calc_spend(c, (double)count)) return NULL;
  th__array *x = header(c, ndim, shape, count);
  if (x == NULL) return NULL;
  x->v = th__calc_alloc(c, (size_t)count * sizeof *x->v);
  x->e = th__calc_alloc(c, (size_t)count * sizeof *x->e);
  if (x->v == NULL || x->e == NULL) return NULL;
  for (ptrdiff_t i = 0; i < count; i++) x->e[i] = 0;
  return x;
}

th__array *th__array_full(th__calc *c, int ndim, const ptrdiff_t *shape, th__number value) {
  th__array *x = th__array_new(c, ndim, shape);
  if (x == NULL) return NULL;
  for (ptrdiff_t i = 0; i < x->count; i++) x->v[i] = value;
  return x;
}

th__array *th__array_scalar(th__calc *c, th__number value) {
  return th__array_full(c, 0, NULL, value);
}

th__array *th__array_reshape(th__calc *c, const th__array *x, int ndim, const ptrdiff_t *shape) {
  if (x == NULL) return NULL;
  th__array *y = header(c, ndim, shape, x->count);
  if (y == NULL) return NULL;
  y->v = x->v;
  y->e = x->e;
  return y;
}

bool th__array_same_shape(const th__array *a, const th__array *b) {
  return a->ndim == b->ndim && memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof *a->shape) == 0;
}

bool th__array_broadcast(const th__array *a, const th__array *b, int *ndim, ptrdiff_t *shape) {
  *ndim = a->ndim > b->ndim ? a->ndim : b->ndim;
  for (int i = 1; i <= *ndim; i++) {
    ptrdiff_t p = i <= a->ndim ? a->shape[a->ndim - i] : 1;
    ptrdiff_t q = i <= b->ndim ? b->shape[b->ndim - i] : 1;
    if (p != q && p != 1 && q != 1) return false;
    shape[*ndim - i] = p == 1 ? q : p;
  }
  return true;
}

void th__array_strides(const th__array *x, int ndim, ptrdiff_t *stride) {
  ptrdiff_t step = 1;
  for (int axis = 0; axis < ndim; axis++) stride[axis] = 0;
  for (int axis = x->ndim - 1; axis >= 0; axis--) {
    if (x->shape[axis] != 1) stride[axis + ndim - x->ndim] = step;
    step *= x->shape[axis];
  }
}

/* Moves to the next position of a shape, keeping an offset with these strides. */
static ptrdiff_t next(int ndim, const ptrdiff_t *shape, const ptrdiff_t *stride, ptrdiff_t *index,
                      ptrdiff_t offset) {
  for (int axis = ndim - 1; axis >= 0; axis--) {
    offset += stride[axis];
    if (++index[axis] < shape[axis]) return offset;
    offset -= stride[axis] * shape[axis];
    index[axis] = 0;
  }
  return offset;
}

th__array *th__array_stretch(th__calc *c, const th__array *x, int ndim, const ptrdiff_t *shape) {
  if (x == NULL) return NULL;
  if (x->ndim == ndim && memcmp(x->shape, shape, (size_t)ndim * sizeof *shape) == 0)
    return th__array_reshape(c, x, ndim, shape);
  th__array *y = th__array_new(c, ndim, shape);
  if (y == NULL) return NULL;
  ptrdiff_t stride[TH_MAX_DIMS], index[TH_MAX_DIMS] = {0}, from = 0;
  th__array_strides(x, ndim, stride);
  for (ptrdiff_t i = 0; i < y->count; i++) {
    y->v[i] = x->v[from];
    y->e[i] = x->e[from];
    from = next(ndim, shape, stride, index, from);
  }
  return y;
}

th__array *th__array_sum_to(th__calc *c, const th__array *x, int ndim, const ptrdiff_t *shape) {
  if (x == NULL) return NULL;
  if (x->ndim == ndim && memcmp(x->shape, shape, (size_t)ndim * sizeof *shape) == 0)
    return th__array_reshape(c, x, ndim, shape);
  th__array *y = th__array_full(c, ndim, shape, 0);
  double *terms = y == NULL ? NULL : th__calc_alloc(c, (size_t)y->count * sizeof *terms);
  if (terms == NULL) return NULL;
  for (ptrdiff_t i = 0; i < y->count; i++) terms[i] = 0;
  ptrdiff_t stride[TH_MAX_DIMS], index[TH_MAX_DIMS] = {0}, to = 0;
  th__array_strides(y, x->ndim, stride);
  for (ptrdiff_t i = 0; i < x->count; i++) {
    y->v[to] += x->v[i];
    y->e[to] += x->e[i];
    terms[to] += (double)fabsl(x->v[i]);
    to = next(x->ndim, x->shape, stride, index, to);
  }
  double each = y->count > 0 ? (double)(x->count / y->count) : 0;
  for (ptrdiff_t i = 0; i < y->count; i++) y->e[i] += each * (double)LDBL_EPSILON * terms[i];
  return y;
}
