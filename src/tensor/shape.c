#include "tensor/shape.h"

#include <stdio.h>
#include <string.h>

#include "tensor/error.h"

th_status th__shape_count(const char *who, th_dtype dtype, int ndim, const ptrdiff_t *shape,
                          ptrdiff_t *count, th_error *error) {
  if (ndim < 0 || ndim > TH_MAX_DIMS)
    return th__error(error, TH_ERR_SHAPE, "%s: %d dimensions; 0 to %d are possible", who, ndim,
                     TH_MAX_DIMS);
  if ((unsigned)dtype > TH_BOOL)
    return th__error(error, TH_ERR_DTYPE, "%s: %d is no element type", who, (int)dtype);
  /* A zero anywhere makes the product zero, but the other factors must fit all the same: strides are
   * products of them. So zeros count as ones here. */
  ptrdiff_t product = 1, bytes = 0;
  bool empty = false;
  for (int i = 0; i < ndim; i++) {
    if (shape[i] < 0)
      return th__error(error, TH_ERR_SHAPE, "%s: dimension %d is %td; it must be 0 or more", who, i,
                       shape[i]);
    if (shape[i] == 0)
      empty = true;
    else if (__builtin_mul_overflow(product, shape[i], &product))
      return th__error(error, TH_ERR_SHAPE,
                       "%s: the product of the dimensions overflows at axis %d", who, i);
  }
  if (__builtin_mul_overflow(product, (ptrdiff_t)th_dtype_size(dtype), &bytes))
    return th__error(error, TH_ERR_SHAPE, "%s: %td elements of %s are more than memory can address",
                     who, product, th_dtype_name(dtype));
  *count = empty ? 0 : product;
  return TH_OK;
}

void th__shape_strides(int ndim, const ptrdiff_t *shape, ptrdiff_t *strides) {
  ptrdiff_t stride = 1;
  for (int i = ndim - 1; i >= 0; i--) {
    strides[i] = stride;
    stride *= shape[i] > 0 ? shape[i] : 1;
  }
}

bool th__shape_equal(int ndim_a, const ptrdiff_t *a, int ndim_b, const ptrdiff_t *b) {
  if (ndim_a != ndim_b) return false;
  for (int i = 0; i < ndim_a; i++)
    if (a[i] != b[i]) return false;
  return true;
}

const char *th__shape_text(char buffer[TH__SHAPE_TEXT], int ndim, const ptrdiff_t *shape) {
  int used = snprintf(buffer, TH__SHAPE_TEXT, "[");
  for (int i = 0; i < ndim && used < TH__SHAPE_TEXT - 1; i++)
    used +=
        snprintf(buffer + used, (size_t)(TH__SHAPE_TEXT - used), "%s%td", i ? ", " : "", shape[i]);
  if (used < TH__SHAPE_TEXT - 1)
    snprintf(buffer + used, (size_t)(TH__SHAPE_TEXT - used), "]");
  else
    strcpy(buffer + TH__SHAPE_TEXT - 5, "...]");
  return buffer;
}
