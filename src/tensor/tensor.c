#include "tensor/tensor.h"

#include <math.h>
#include <string.h>

#include "tensor/alloc.h"
#include "tensor/error.h"
#include "tensor/shape.h"

const char *th_dtype_name(th_dtype dtype) {
  static const char *const names[] = {"f32", "f64", "i32", "bool"};
  return (unsigned)dtype <= TH_BOOL ? names[dtype] : "unknown";
}

size_t th_dtype_size(th_dtype dtype) {
  static const size_t sizes[] = {4, 8, 4, 1};
  return (unsigned)dtype <= TH_BOOL ? sizes[dtype] : 0;
}

/* ---- making and freeing ---- */

size_t th__tensor_size(int ndim) {
  return sizeof(th_tensor) + 2 * (size_t)ndim * sizeof(ptrdiff_t);
}

th_tensor *th__tensor_init(void *memory, th_dtype dtype, int ndim, const ptrdiff_t *shape,
                           ptrdiff_t count) {
  th_tensor *tensor = memory;
  *tensor = (th_tensor){.dtype = dtype, .ndim = ndim, .count = count, .name = ""};
  tensor->shape = (ptrdiff_t *)(tensor + 1);
  tensor->strides = tensor->shape + ndim;
  for (int i = 0; i < ndim; i++) tensor->shape[i] = shape[i];
  th__shape_strides(ndim, shape, tensor->strides);
  return tensor;
}

th_tensor *th_tensor_new(th_dtype dtype, int ndim, const ptrdiff_t *shape, th_error *error) {
  ptrdiff_t count;
  if (th__shape_count("th_tensor_new", dtype, ndim, shape, &count, error) != TH_OK) return NULL;
  size_t bytes = (size_t)count * th_dtype_size(dtype);
  void *memory = th__alloc(th__tensor_size(ndim));
  void *data = memory == NULL ? NULL : th__alloc_zero(bytes);
  if (data == NULL) {
    th__free(memory);
    th__error_memory(error, "th_tensor_new", bytes);
    return NULL;
  }
  th_tensor *tensor = th__tensor_init(memory, dtype, ndim, shape, count);
  tensor->data = data;
  return tensor;
}

th_tensor *th_tensor_from(th_dtype dtype, int ndim, const ptrdiff_t *shape, const void *data,
                          th_error *error) {
  th_tensor *tensor = th_tensor_new(dtype, ndim, shape, error);
  if (tensor != NULL && tensor->count > 0)
    memcpy(tensor->data, data, (size_t)tensor->count * th_dtype_size(dtype));
  return tensor;
}

void th_tensor_free(th_tensor *tensor) {
  if (tensor == NULL || tensor->tape != NULL) return;
  if (tensor->name[0] != '\0') th__free((void *)(uintptr_t)tensor->name);
  th_tensor_free(tensor->grad);
  th__free(tensor->data);
  th__free(tensor);
}

/* ---- looking ---- */

th_dtype th_tensor_dtype(const th_tensor *tensor) { return tensor->dtype; }
int th_tensor_ndim(const th_tensor *tensor) { return tensor == NULL ? 0 : tensor->ndim; }
ptrdiff_t th_tensor_count(const th_tensor *tensor) { return tensor == NULL ? 0 : tensor->count; }
const ptrdiff_t *th_tensor_shape(const th_tensor *tensor) { return tensor->shape; }
const ptrdiff_t *th_tensor_strides(const th_tensor *tensor) { return tensor->strides; }
void *th_tensor_data(const th_tensor *tensor) { return tensor == NULL ? NULL : tensor->data; }
/* A view's gradient is a window into its base's, and gone when that has been recycled. */
th_tensor *th_tensor_grad(const th_tensor *tensor) {
  if (tensor == NULL) return NULL;
  return tensor->base != NULL && tensor->base->grad == NULL ? NULL : tensor->grad;
}
const char *th_tensor_name(const th_tensor *tensor) { return tensor == NULL ? "" : tensor->name; }

ptrdiff_t th_tensor_dim(const th_tensor *tensor, int axis) {
  if (tensor == NULL) return 0;
  if (axis < 0) axis += tensor->ndim;
  return axis < 0 || axis >= tensor->ndim ? 0 : tensor->shape[axis];
}

bool th_tensor_is_contiguous(const th_tensor *tensor) {
  if (tensor->count == 0) return true;
  ptrdiff_t stride = 1;
  for (int i = tensor->ndim - 1; i >= 0; i--) {
    if (tensor->shape[i] != 1 && tensor->strides[i] != stride) return false;
    stride *= tensor->shape[i];
  }
  return true;
}

/* ---- elements ---- */

ptrdiff_t th__next_offset(const th_tensor *tensor, ptrdiff_t *index, ptrdiff_t offset) {
  for (int i = tensor->ndim - 1; i >= 0; i--) {
    offset += tensor->strides[i];
    if (++index[i] < tensor->shape[i]) return offset;
    offset -= index[i] * tensor->strides[i];
    index[i] = 0;
  }
  return offset;
}

ptrdiff_t th__offset(const th_tensor *tensor, ptrdiff_t i) {
  ptrdiff_t offset = 0;
  for (int axis = tensor->ndim - 1; axis > 0; axis--) {
    offset += i % tensor->shape[axis] * tensor->strides[axis];
    i /= tensor->shape[axis];
  }
  return tensor->ndim == 0 ? 0 : offset + i * tensor->strides[0];
}

/* All strides but the last are multiples of `row`. */
static bool in_rows(const th_tensor *x, ptrdiff_t row) {
  for (int i = 0; i < x->ndim - 1; i++)
    if (x->shape[i] > 1 && x->strides[i] % row != 0) return false;
  return true;
}

static uintptr_t end_of(const th_tensor *x) {
  return (uintptr_t)th__at(x, th__offset(x, x->count - 1) + 1);
}

bool th__apart(const th_tensor *a, const th_tensor *b) {
  if (a->count == 0) return true;
  uintptr_t first = (uintptr_t)a->data, second = (uintptr_t)b->data;
  if (end_of(a) <= second || end_of(b) <= first) return true;
  if (a->ndim < 2) return false;
  /* Counted from a's first element, modulo the row's width, a lies at 0 .. n-1 and b from `column` on. */
  ptrdiff_t n = th__dim(a, -1), row = th__stride(a, -2);
  if (row <= 0 || !in_rows(a, row) || !in_rows(b, row)) return false;
  ptrdiff_t away = (ptrdiff_t)(second - first) / (ptrdiff_t)th_dtype_size(a->dtype);
  ptrdiff_t column = (away % row + row) % row;
  return column >= n && column + n <= row;
}

double th__get(const th_tensor *tensor, ptrdiff_t offset) {
  switch (tensor->dtype) {
  case TH_F32: return (double)((const float *)tensor->data)[offset];
  case TH_F64: return ((const double *)tensor->data)[offset];
  case TH_I32: return ((const int32_t *)tensor->data)[offset];
  case TH_BOOL: return ((const uint8_t *)tensor->data)[offset];
  }
  return (double)NAN;
}

void th__set(th_tensor *tensor, ptrdiff_t offset, double value) {
  switch (tensor->dtype) {
  case TH_F32: ((float *)tensor->data)[offset] = (float)value; break;
  case TH_F64: ((double *)tensor->data)[offset] = value; break;
  case TH_I32: ((int32_t *)tensor->data)[offset] = (int32_t)value; break;
  case TH_BOOL: ((uint8_t *)tensor->data)[offset] = value != 0.0; break;
  }
}

void th_tensor_read(const th_tensor *tensor, double *out) {
  ptrdiff_t index[TH_MAX_DIMS] = {0}, offset = 0;
  for (ptrdiff_t i = 0; i < tensor->count; i++) {
    out[i] = th__get(tensor, offset);
    offset = th__next_offset(tensor, index, offset);
  }
}

void th_tensor_write(th_tensor *tensor, const double *values) {
  ptrdiff_t index[TH_MAX_DIMS] = {0}, offset = 0;
  for (ptrdiff_t i = 0; i < tensor->count; i++) {
    th__set(tensor, offset, values[i]);
    offset = th__next_offset(tensor, index, offset);
  }
}

double th_tensor_item(const th_tensor *tensor) {
  return tensor == NULL || tensor->count != 1 ? (double)NAN : th__get(tensor, 0);
}

/* ---- gradients and names ---- */

th_status th_tensor_require_grad(th_tensor *tensor, th_error *error) {
  if (!th__is_float(tensor))
    return th__error(error, TH_ERR_DTYPE,
                     "th_tensor_require_grad: a %s tensor has no gradient; use f32 or f64",
                     th_dtype_name(tensor->dtype));
  if (tensor->tape != NULL)
    return th__error(error, TH_ERR_STATE,
                     "th_tensor_require_grad: this tensor lives on a tape; make it with "
                     "th_input_grad, or ask th_retain_grad for an inner value");
  if (tensor->grad == NULL) {
    tensor->grad = th_tensor_new(tensor->dtype, tensor->ndim, tensor->shape, error);
    if (tensor->grad == NULL) return TH_ERR_MEMORY;
  }
  tensor->wants_grad = tensor->keeps_grad = true;
  return TH_OK;
}

void th_tensor_zero_grad(th_tensor *tensor) {
  tensor->grad_arrived = tensor->grad_broken = false;
  th_tensor *grad = tensor->grad;
  if (grad == NULL || grad->count == 0) return;
  if (th_tensor_is_contiguous(grad)) {
    memset(grad->data, 0, (size_t)grad->count * th_dtype_size(grad->dtype));
    return;
  }
  ptrdiff_t index[TH_MAX_DIMS] = {0}, offset = 0;
  for (ptrdiff_t i = 0; i < grad->count; i++) {
    th__set(grad, offset, 0.0);
    offset = th__next_offset(grad, index, offset);
  }
}
