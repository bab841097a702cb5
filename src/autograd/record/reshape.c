/* reshape: the same elements in another shape; a view where strides allow it, else a view of a copy.
 * Shapes    x: any   y: any with as many elements
 * Forward   y_i = x_i, i counting in row-major order
 * Backward  dL/dx_i = dL/dy_i. A view records no node for it: its gradient is the same window into its
 *           base's gradient (backward.c). So it is with all views.
 * Checks    every shape of views of many strides.   tests/ops/test_reshape.c */
#include "autograd/tape.h"

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

static th_tensor *run(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  return th_reshape(tape, in[0], TH_SHAPE(4, 6));
}

static th_tensor *run_strided(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  return th_reshape(tape, th_slice(tape, in[0], 0, 0, 1), TH_SHAPE(2, 6));
}

static th_tensor *run_copied(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  return th_reshape(tape, th_transpose(tape, in[0], 0, 1), TH_SHAPE(24));
}

/* clang-format off */
static const th_check checks[] = {
    {"", run, .input_count = 1, .inputs = {{"x", TH_FILL_NORMAL, 0, 3, {2, 3, 4}}}},
    {"strided", run_strided, .input_count = 1, .inputs = {{"x", TH_FILL_NORMAL, 0, 3, {2, 3, 4}}}},
    {"copied", run_copied, .input_count = 1, .inputs = {{"x", TH_FILL_NORMAL, 0, 3, {2, 3, 4}}}},
    {0}};
/* clang-format on */

const th_op th__op_reshape = {"reshape", NULL, checks};

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
