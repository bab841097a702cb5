/* copy.c: dst = src and dst += src for two tensors of one shape, whatever their strides.
 *
 * Axes that lie alike in both are joined first, so that a copy of contiguous memory is one row and a
 * merge of heads is rows of one head's width; the rows are shared out among threads. */
#include <string.h>

#include "tensor/parallel.h"
#include "tensor/tensor.h"

/* The joined axes, outermost first; the last one is the row. */
typedef struct walk {
  th_dtype dtype;
  int axes;
  ptrdiff_t length[TH_MAX_DIMS + 1], to[TH_MAX_DIMS + 1], from[TH_MAX_DIMS + 1];
  char *dst;
  const char *src;
} walk;

/* The number of rows. */
static ptrdiff_t plan(walk *w, th_tensor *dst, const th_tensor *src) {
  w->dtype = dst->dtype;
  w->dst = dst->data;
  w->src = src->data;
  w->axes = 0;
  for (int i = 0; i < dst->ndim; i++) {
    ptrdiff_t length = dst->shape[i], to = dst->strides[i], from = src->strides[i];
    if (length == 1) continue;
    int last = w->axes - 1;
    if (last >= 0 && w->to[last] == to * length && w->from[last] == from * length)
      length *= w->length[last];
    else
      last = w->axes++;
    w->length[last] = length;
    w->to[last] = to;
    w->from[last] = from;
  }
  if (w->axes == 0) {
    w->axes = 1;
    w->length[0] = w->to[0] = w->from[0] = 1;
  }
  ptrdiff_t rows = 1;
  for (int i = 0; i < w->axes - 1; i++) rows *= w->length[i];
  return dst->count == 0 ? 0 : rows;
}

typedef void row(ptrdiff_t n, char *dst, ptrdiff_t to, const char *src, ptrdiff_t from);

/* Runs `run` on the rows begin <= i < end. */
static void each_row(const walk *w, ptrdiff_t begin, ptrdiff_t end, row *run) {
  ptrdiff_t index[TH_MAX_DIMS + 1], to = 0, from = 0, rest = begin;
  int last = w->axes - 1;
  for (int i = last - 1; i >= 0; i--) {
    index[i] = rest % w->length[i];
    rest /= w->length[i];
    to += index[i] * w->to[i];
    from += index[i] * w->from[i];
  }
  ptrdiff_t size = (ptrdiff_t)th_dtype_size(w->dtype);
  for (ptrdiff_t i = begin; i < end; i++) {
    run(w->length[last], w->dst + to * size, w->to[last], w->src + from * size, w->from[last]);
    for (int axis = last - 1; axis >= 0; axis--) {
      to += w->to[axis];
      from += w->from[axis];
      if (++index[axis] < w->length[axis]) break;
      to -= index[axis] * w->to[axis];
      from -= index[axis] * w->from[axis];
      index[axis] = 0;
    }
  }
}

/* ---- rows ---- */

/* dst[i] OP src[i] for one element type. */
#define ROW(name, type, op)                                                                        \
  static void name(ptrdiff_t n, char *dst, ptrdiff_t to, const char *src, ptrdiff_t from) {        \
    type *restrict d = (type *)(void *)dst;                                                        \
    const type *restrict s = (const type *)(const void *)src;                                      \
    if (to == 1 && from == 1)                                                                      \
      for (ptrdiff_t i = 0; i < n; i++) d[i] op s[i];                                              \
    else                                                                                           \
      for (ptrdiff_t i = 0; i < n; i++) d[i * to] op s[i * from];                                  \
  }
ROW(copy_f32, float, =)
ROW(copy_f64, double, =)
ROW(copy_i32, int32_t, =)
ROW(copy_bool, uint8_t, =)
ROW(add_f32, float, +=)
ROW(add_f64, double, +=)

static void copy_rows(const void *context, ptrdiff_t begin, ptrdiff_t end) {
  static row *const copy[] = {copy_f32, copy_f64, copy_i32, copy_bool};
  const walk *w = context;
  each_row(w, begin, end, copy[w->dtype]);
}

static void add_rows(const void *context, ptrdiff_t begin, ptrdiff_t end) {
  const walk *w = context;
  each_row(w, begin, end, w->dtype == TH_F32 ? add_f32 : add_f64);
}

void th__tensor_copy(th_tensor *dst, const th_tensor *src) {
  walk w;
  ptrdiff_t rows = plan(&w, dst, src);
  if (rows > 0) th__parallel(rows, th__grain(w.length[w.axes - 1]), copy_rows, &w);
}

void th__tensor_add(th_tensor *dst, const th_tensor *src) {
  walk w;
  ptrdiff_t rows = plan(&w, dst, src);
  if (rows > 0) th__parallel(rows, th__grain(w.length[w.axes - 1]), add_rows, &w);
}
