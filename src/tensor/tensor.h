/* tensor.h: the tensor itself, for the floors above.
 *
 * Three kinds of tensor share the struct: one that the user owns (heap, tape == NULL), a value on a
 * tape (arena), and a view (base != NULL), which owns neither data nor gradient: its gradient is the
 * same strided window into its base's gradient. */
#ifndef TH_TENSOR_TENSOR_H
#define TH_TENSOR_TENSOR_H

#include "tapehead.h"

struct th_tensor {
  th_dtype dtype;
  int ndim;
  bool wants_grad;   /* a gradient is wanted here or behind it */
  bool keeps_grad;   /* backward must not recycle it: a leaf, or asked for */
  bool grad_arrived; /* leaf: backward has added something since the gradient was last zeroed */
  bool grad_broken;  /* leaf: a backward that failed half-way added something */
  ptrdiff_t count;
  ptrdiff_t *shape, *strides; /* ndim entries each, strides in elements; behind this struct */
  void *data;
  th_tensor *grad; /* same shape and strides; NULL until needed */
  th_tensor *base; /* not NULL: a view of it (never of another view) */
  th_tape *tape;   /* not NULL: lives in that tape's arena */
  const char *name;
};

/* Bytes for the struct with its shape and strides. */
size_t th__tensor_size(int ndim);
/* Fills a struct in memory of th__tensor_size(ndim); strides row-major, no data yet. */
th_tensor *th__tensor_init(void *memory, th_dtype dtype, int ndim, const ptrdiff_t *shape,
                           ptrdiff_t count);

/* Address of element `offset` (in elements from the first). */
static inline void *th__at(const th_tensor *tensor, ptrdiff_t offset) {
  return (char *)tensor->data + offset * (ptrdiff_t)th_dtype_size(tensor->dtype);
}
static inline ptrdiff_t th__dim(const th_tensor *tensor, int axis) {
  return tensor->shape[axis < 0 ? axis + tensor->ndim : axis];
}
static inline ptrdiff_t th__stride(const th_tensor *tensor, int axis) {
  return tensor->strides[axis < 0 ? axis + tensor->ndim : axis];
}
static inline bool th__is_float(const th_tensor *tensor) {
  return tensor->dtype == TH_F32 || tensor->dtype == TH_F64;
}
static inline bool th__same_shape(const th_tensor *a, const th_tensor *b) {
  if (a->ndim != b->ndim) return false;
  for (int i = 0; i < a->ndim; i++)
    if (a->shape[i] != b->shape[i]) return false;
  return true;
}

/* Steps through all elements of a strided tensor in row-major order: `index` (zeroed by the caller)
 * counts, the result is the element offset of the next position. */
ptrdiff_t th__next_offset(const th_tensor *tensor, ptrdiff_t *index, ptrdiff_t offset);
/* The element offset of position i in that order. */
ptrdiff_t th__offset(const th_tensor *tensor, ptrdiff_t i);
/* False if two tensors of one shape and type may have an element in common: both may be windows into one.
 * True for windows whose memory lies apart, and for columns of one matrix, such as halves of a projection;
 * their last axis must be contiguous. */
bool th__apart(const th_tensor *a, const th_tensor *b);

/* Reads and writes one element as double. */
double th__get(const th_tensor *tensor, ptrdiff_t offset);
void th__set(th_tensor *tensor, ptrdiff_t offset, double value);

/* dst += src, element by element, both of the same shape and float type, any strides, on several
 * threads (copy.c). */
void th__tensor_add(th_tensor *dst, const th_tensor *src);
/* dst = src, the same way, any type. */
void th__tensor_copy(th_tensor *dst, const th_tensor *src);

#endif
