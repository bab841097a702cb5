/* May the gradients of attention's inputs be written side by side? */
#include "autograd/gemm.h"
#include "autograd/record/attention.h"

static const th_tensor *root_of(const th_tensor *x) { return x->base != NULL ? x->base : x; }

static bool same_window(const th_tensor *a, const th_tensor *b) {
  if (a->data != b->data || !th__same_shape(a, b)) return false;
  for (int i = 0; i < 4; i++)
    if (a->strides[i] != b->strides[i]) return false;
  return true;
}

/* Columns begin <= c < end of the rows of x's root that x lies in, if its rows are rows of the root. */
static bool columns_of(const th_tensor *x, ptrdiff_t row, ptrdiff_t *begin, ptrdiff_t *end) {
  if (x->strides[2] != row || x->strides[0] % row != 0) return false;
  ptrdiff_t bytes = (const char *)x->data - (const char *)root_of(x)->data;
  *begin = bytes / (ptrdiff_t)th_dtype_size(x->dtype) % row;
  *end = *begin + (x->shape[1] - 1) * x->strides[1] + x->shape[3];
  return *end <= row;
}

bool th__heads_apart(const th_tensor *a, const th_tensor *b) {
  if (!th__share_grad(a, b) || a->count == 0 || b->count == 0 || same_window(a, b)) return true;
  /* Slices of one projection [B, T, 3C]: the same rows, other columns. */
  ptrdiff_t row = a->strides[2], begin_a, end_a, begin_b, end_b;
  return row > 0 && columns_of(a, row, &begin_a, &end_a) && columns_of(b, row, &begin_b, &end_b) &&
         (end_a <= begin_b || end_b <= begin_a);
}
