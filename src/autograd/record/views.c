/* Recording views: reshape, transpose, slice, split and merge of heads. They copy nothing and record
 * no node: a view's gradient is the same window into its base's gradient (backward.c). */
#include "autograd/tape.h"

static bool valid_axis(th_tape *tape, const char *op, const th_tensor *x, int *axis) {
  int given = *axis;
  if (*axis < 0) *axis += x->ndim;
  if (*axis >= 0 && *axis < x->ndim) return true;
  th_fail(tape, TH_ERR_SHAPE, op, "axis %d does not exist in shape %s", given, TH__TEXT(x));
  return false;
}

/* ---- reshape ---- */

/* Strides of `shape` over x's memory, if such strides exist: walks both shapes from the end and
 * matches runs of axes with equal products; inside a run x must be contiguous. */
static bool strides_for(const th_tensor *x, int ndim, const ptrdiff_t *shape, ptrdiff_t *strides) {
  if (th_tensor_is_contiguous(x)) {
    th__shape_strides(ndim, shape, strides);
    return true;
  }
  int from = x->ndim - 1, to = ndim - 1;
  while (to >= 0) {
    while (from >= 0 && x->shape[from] == 1) from--;
    ptrdiff_t stride = from >= 0 ? x->strides[from] : 1;
    ptrdiff_t have = from >= 0 ? x->shape[from] : 1, need = 1;
    /* Split x's axis `from` over target axes, joining further axes of x when it runs out. */
    do {
      strides[to] = stride * need;
      need *= shape[to--];
      while (have < need) {
        int next = from - 1;
        while (next >= 0 && x->shape[next] == 1) next--;
        if (next < 0 || x->strides[next] != x->strides[from] * x->shape[from]) return false;
        from = next;
        have *= x->shape[from];
      }
    } while (to >= 0 && need < have);
    if (need != have) return false;
    from--;
  }
  return true;
}

th_tensor *th_reshape(th_tape *tape, th_tensor *x, int ndim, const ptrdiff_t *shape) {
  if (!TH__READY(tape, "reshape", x)) return NULL;
  ptrdiff_t count, strides[TH_MAX_DIMS];
  if (th__shape_count("reshape", x->dtype, ndim, shape, &count, &tape->error) != TH_OK) return NULL;
  TH__REQUIRE(tape, count == x->count, TH_ERR_SHAPE, "reshape",
              "%s has %td elements but %s has %td; they must be equal", TH__TEXT(x), x->count,
              th__shape_text((char[TH__SHAPE_TEXT]){0}, ndim, shape), count);
  if (!strides_for(x, ndim, shape, strides)) {
    x = th_contiguous(tape, x);
    if (x == NULL) return NULL;
    th__shape_strides(ndim, shape, strides);
  }
  return th__view(tape, x, ndim, shape, strides, 0);
}

/* ---- transpose, slice ---- */

static void swap(ptrdiff_t *values, int i, int j) {
  ptrdiff_t value = values[i];
  values[i] = values[j];
  values[j] = value;
}

th_tensor *th_transpose(th_tape *tape, th_tensor *x, int axis1, int axis2) {
  if (!TH__READY(tape, "transpose", x) || !valid_axis(tape, "transpose", x, &axis1) ||
      !valid_axis(tape, "transpose", x, &axis2))
    return NULL;
  th_tensor *view = th__view(tape, x, x->ndim, x->shape, x->strides, 0);
  if (view == NULL) return NULL;
  swap(view->shape, axis1, axis2);
  swap(view->strides, axis1, axis2);
  return view;
}

th_tensor *th_slice(th_tape *tape, th_tensor *x, int axis, ptrdiff_t begin, ptrdiff_t end) {
  if (!TH__READY(tape, "slice", x) || !valid_axis(tape, "slice", x, &axis)) return NULL;
  TH__REQUIRE(tape, 0 <= begin && begin <= end && end <= x->shape[axis], TH_ERR_INDEX, "slice",
              "%td to %td of axis %d does not lie within 0 to %td", begin, end, axis,
              x->shape[axis]);
  ptrdiff_t shape[TH_MAX_DIMS];
  for (int i = 0; i < x->ndim; i++) shape[i] = x->shape[i];
  shape[axis] = end - begin;
  return th__view(tape, x, x->ndim, shape, x->strides, begin * x->strides[axis]);
}

/* ---- heads ---- */

th_tensor *th_split_heads(th_tape *tape, th_tensor *x, ptrdiff_t heads) {
  if (!TH__READY(tape, "split_heads", x)) return NULL;
  TH__REQUIRE(tape, x->ndim == 3, TH_ERR_SHAPE, "split_heads", "x is %s; [B, T, C] is expected",
              TH__TEXT(x));
  TH__REQUIRE(
      tape, heads >= 1 && x->shape[2] % heads == 0, TH_ERR_SHAPE, "split_heads",
      "the width %td does not divide into %td heads; choose a number of heads that divides it",
      x->shape[2], heads);
  ptrdiff_t width = x->shape[2] / heads;
  const ptrdiff_t *s = x->strides;
  return th__view(tape, x, 4, (ptrdiff_t[]){x->shape[0], heads, x->shape[1], width},
                  (ptrdiff_t[]){s[0], width * s[2], s[1], s[2]}, 0);
}

th_tensor *th_merge_heads(th_tape *tape, th_tensor *x) {
  if (!TH__READY(tape, "merge_heads", x)) return NULL;
  TH__REQUIRE(tape, x->ndim == 4, TH_ERR_SHAPE, "merge_heads", "x is %s; [B, H, T, D] is expected",
              TH__TEXT(x));
  ptrdiff_t merged[] = {x->shape[0], x->shape[2], x->shape[1] * x->shape[3]};
  return th_reshape(tape, th_transpose(tape, x, 1, 2), 3, merged);
}
