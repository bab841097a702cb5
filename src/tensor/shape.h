/* shape.h: arithmetic on shapes, every product checked for overflow. */
#ifndef TH_TENSOR_SHAPE_H
#define TH_TENSOR_SHAPE_H

#include "tapehead.h"

/* Number of elements in *count, or an error that names `who`: a negative dimension, too many
 * dimensions, or more bytes than an address can count. */
th_status th__shape_count(const char *who, th_dtype dtype, int ndim, const ptrdiff_t *shape,
                          ptrdiff_t *count, th_error *error);
/* Strides of a row-major tensor. */
void th__shape_strides(int ndim, const ptrdiff_t *shape, ptrdiff_t *strides);
bool th__shape_equal(int ndim_a, const ptrdiff_t *a, int ndim_b, const ptrdiff_t *b);
/* Writes "[2, 3]" into a buffer and returns it, for messages. */
#define TH__SHAPE_TEXT 64
const char *th__shape_text(char buffer[TH__SHAPE_TEXT], int ndim, const ptrdiff_t *shape);

#endif
