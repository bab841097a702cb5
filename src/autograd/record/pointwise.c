#include "autograd/record/pointwise.h"

typedef struct elements {
  th__point_forward *forward;
  th__point_backward *backward;
  const th_tensor *x, *dy;
  th_tensor *out; /* y or dx */
} elements;

static void forward_elements(const void *context, ptrdiff_t begin, ptrdiff_t end) {
  const elements *e = context;
  e->forward(e->x->dtype, end - begin, th__at(e->x, begin), th__at(e->out, begin));
}

static void backward_elements(const void *context, ptrdiff_t begin, ptrdiff_t end) {
  const elements *e = context;
  e->backward(e->x->dtype, end - begin, th__at(e->x, begin), th__at(e->dy, begin),
              th__at(e->out, begin));
}

th_status th__pointwise_backward(th_node *node, th__point_backward *backward) {
  elements e = {.backward = backward,
                .x = th_node_input(node, 0),
                .dy = th_node_upstream(node),
                .out = th_node_grad(node, 0)};
  th__parallel(e.x->count, th__grain(10), backward_elements, &e);
  return TH_OK;
}

th_tensor *th__pointwise(th_tape *tape, const th_op *op, th__point_forward *forward, th_tensor *x) {
  if (!th__ready(tape, op->name, 1, &x) || !th__same_dtype(tape, op->name, 1, &x)) return NULL;
  x = th_contiguous(tape, x);
  if (x == NULL) return NULL;
  th_tensor *y = th_output(tape, x->dtype, x->ndim, x->shape);
  if (y == NULL) return NULL;
  elements e = {.forward = forward, .x = x, .out = y};
  th__parallel(x->count, th__grain(8), forward_elements, &e);
  return th_record(tape, op, y, &x, 1, NULL, 0);
}
