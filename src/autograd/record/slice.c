/* slice: a view of part of one axis.
 * Shapes    x (.., n, ..)   y (.., end - begin, ..)
 * Forward   y_..i.. = x_..(begin + i)..
 * Backward  dL/dx_..(begin + i).. = dL/dy_..i.., elsewhere 0, in place: no node (reshape.c). Slices that
 *           overlap add up where they do.
 * Checks    nothing outside the slice is touched.   tests/ops/test_slice.c */
#include "autograd/tape.h"

static th_tensor *run(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  return th_slice(tape, in[0], 1, 1, 3);
}

/* Two slices that overlap: the middle gets both gradients. */
static th_tensor *run_overlap(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  return th_add(tape, th_slice(tape, in[0], 1, 0, 3), th_slice(tape, in[0], 1, 1, 4));
}

/* clang-format off */
static const th_check checks[] = {
    {"", run, .input_count = 1, .inputs = {{"x", TH_FILL_NORMAL, 0, 3, {2, 4, 3}}}},
    {"overlapping", run_overlap, .input_count = 1, .inputs = {{"x", TH_FILL_NORMAL, 0, 2, {3, 4}}}},
    {0}};
/* clang-format on */

const th_op th__op_slice = {"slice", NULL, checks};

th_tensor *th_slice(th_tape *tape, th_tensor *x, int axis, ptrdiff_t begin, ptrdiff_t end) {
  if (!TH__READY(tape, "slice", x) || !th__valid_axis(tape, "slice", x, &axis)) return NULL;
  TH__REQUIRE(tape, 0 <= begin && begin <= end && end <= x->shape[axis], TH_ERR_INDEX, "slice",
              "%td to %td of axis %d does not lie within 0 to %td", begin, end, axis,
              x->shape[axis]);
  ptrdiff_t shape[TH_MAX_DIMS];
  for (int i = 0; i < x->ndim; i++) shape[i] = x->shape[i];
  shape[axis] = end - begin;
  return th__view(tape, x, x->ndim, shape, x->strides, begin * x->strides[axis]);
}
