/* contiguous: x itself, or a row-major copy of a strided view.
 * Shapes    x y: any, the same
 * Forward   y_i = x_i
 * Backward  dL/dx_i = dL/dy_i
 * Writes    y: overwrites.  dx: accumulates (+=).
 * Checks    x of any strides; upstream gradients of any strides.   tests/ops/test_contiguous.c */
#include "autograd/tape.h"

static th_status backward(th_node *node) {
  th__tensor_add(th_node_grad(node, 0), th_node_upstream(node));
  return TH_OK;
}

static th_tensor *run(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  return th_contiguous(tape, th_transpose(tape, in[0], 0, 1));
}

static const th_check checks[] = {
    {"", run, .input_count = 1, .inputs = {{"x", TH_FILL_NORMAL, 0, 3, {3, 4, 2}}}}, {0}};

const th_op th__op_contiguous = {"contiguous", backward, checks};

th_tensor *th_contiguous(th_tape *tape, th_tensor *x) {
  if (!TH__READY(tape, "contiguous", x)) return NULL;
  if (th_tensor_is_contiguous(x)) return x;
  th_tensor *y = th_output(tape, x->dtype, x->ndim, x->shape);
  if (y == NULL) return NULL;
  th__tensor_copy(y, x);
  return th_record(tape, &th__op_contiguous, y, &x, 1, NULL, 0);
}
