/* What attention must know about its inputs before it multiplies: whether they hold Inf or NaN, and
 * whether they share memory. */
#include <stdatomic.h>

#include "autograd/gemm.h"
#include "autograd/record/attention.h"

/* ---- finite rows ---- */

typedef struct scan {
  const th_tensor *x;
  th_tensor *copy;
  atomic_bool *nonfinite;
} scan;

static ptrdiff_t matrix_offset(const th_tensor *x, ptrdiff_t i) {
  return i / x->shape[1] * x->strides[0] + i % x->shape[1] * x->strides[1];
}

static void look(const void *context, ptrdiff_t begin, ptrdiff_t end) {
  const scan *s = context;
  const th_tensor *x = s->x;
  bool finite = true;
  for (ptrdiff_t i = begin; i < end; i++)
    TH__CALL(x->dtype, all_finite, x->shape[2], x->shape[3], x->strides[2],
             th__at(x, matrix_offset(x, i)), &finite);
  if (!finite) atomic_store_explicit(s->nonfinite, true, memory_order_relaxed);
}

static void copy(const void *context, ptrdiff_t begin, ptrdiff_t end) {
  const scan *s = context;
  const th_tensor *x = s->x;
  for (ptrdiff_t i = begin; i < end; i++) {
    ptrdiff_t at = matrix_offset(x, i);
    TH__CALL(x->dtype, copy_finite_rows, x->shape[2], x->shape[3], x->strides[2], th__at(x, at),
             th__at(s->copy, at));
  }
}

const th_tensor *th__finite_rows(th_tape *tape, const th_tensor *x) {
  if (x->count == 0) return x;
  atomic_bool nonfinite = false;
  scan s = {.x = x, .nonfinite = &nonfinite};
  ptrdiff_t matrices = x->shape[0] * x->shape[1], size = x->shape[2] * x->shape[3];
  th__parallel(matrices, th__grain(size / 8), look, &s);
  if (!atomic_load_explicit(&nonfinite, memory_order_relaxed)) return x;

  ptrdiff_t span = 1;
  for (int i = 0; i < 4; i++) span += (x->shape[i] - 1) * x->strides[i];
  th_tensor *memory = th_output(tape, x->dtype, 1, &span);
  if (memory == NULL) return NULL;
  s.copy = th__view(tape, memory, 4, x->shape, x->strides, 0);
  if (s.copy == NULL) return NULL;
  th__parallel(matrices, th__grain(size), copy, &s);
  return s.copy;
}

/* ---- shared memory ---- */

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
