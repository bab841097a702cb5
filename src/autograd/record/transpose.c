/* transpose: a view with two axes exchanged.
 * Shapes    x (.., n1, .., n2, ..)   y (.., n2, .., n1, ..)
 * Forward   y_..j..i.. = x_..i..j..
 * Backward  dL/dx_..i..j.. = dL/dy_..j..i.., in place: no node (reshape.c)
 * Checks    twice is x again.   tests/ops/test_transpose.c */
#include "autograd/tape.h"

static th_tensor *run(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  return th_transpose(tape, in[0], 0, -1);
}

/* clang-format off */
static const th_check checks[] = {
    {"", run, .input_count = 1, .inputs = {{"x", TH_FILL_NORMAL, 0, 3, {2, 3, 4}}}},
    {0}};
/* clang-format on */

const th_op th__op_transpose = {"transpose", NULL, checks};

static void swap(ptrdiff_t *values, int i, int j) {
  ptrdiff_t value = values[i];
  values[i] = values[j];
  values[j] = value;
}

th_tensor *th_transpose(th_tape *tape, th_tensor *x, int axis1, int axis2) {
  if (!TH__READY(tape, "transpose", x) || !th__valid_axis(tape, "transpose", x, &axis1) ||
      !th__valid_axis(tape, "transpose", x, &axis2))
    return NULL;
  th_tensor *view = th__view(tape, x, x->ndim, x->shape, x->strides, 0);
  if (view == NULL) return NULL;
  swap(view->shape, axis1, axis2);
  swap(view->strides, axis1, axis2);
  return view;
}
