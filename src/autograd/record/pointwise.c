#include "autograd/record/pointwise.h"

typedef struct elements {
  th__point_forward forward;
  th__point_backward backward;
  const th_tensor *from, *dy; /* from: x, or what the backward reads */
  th_tensor *to;              /* y or dx */
} elements;

static void forward_elements(const void *context, ptrdiff_t begin, ptrdiff_t end) {
  const elements *e = context;
  if (e->to->dtype == TH_F32)
    e->forward.f32(end - begin, th__at(e->from, begin), th__at(e->to, begin));
  else
    e->forward.f64(end - begin, th__at(e->from, begin), th__at(e->to, begin));
}

static void backward_elements(const void *context, ptrdiff_t begin, ptrdiff_t end) {
  const elements *e = context;
  const void *from = th__at(e->from, begin), *dy = th__at(e->dy, begin);
  if (e->to->dtype == TH_F32)
    e->backward.f32(end - begin, from, dy, th__at(e->to, begin));
  else
    e->backward.f64(end - begin, from, dy, th__at(e->to, begin));
}

th_status th__pointwise_backward(th_node *node, const th_tensor *from, th__point_backward kernel) {
  elements e = {
      .backward = kernel, .from = from, .dy = th_node_upstream(node), .to = th_node_grad(node, 0)};
  th__parallel(from->count, th__grain(kernel.cost), backward_elements, &e);
  return TH_OK;
}

th_tensor *th__pointwise(th_tape *tape, const th_op *op, th__point_forward kernel, th_tensor *x) {
  if (!th__ready(tape, op->name, 1, &x) || !th__same_dtype(tape, op->name, 1, &x)) return NULL;
  x = th_contiguous(tape, x);
  if (x == NULL) return NULL;
  th_tensor *y = th_output(tape, x->dtype, x->ndim, x->shape);
  if (y == NULL) return NULL;
  elements e = {.forward = kernel, .from = x, .to = y};
  th__parallel(x->count, th__grain(kernel.cost), forward_elements, &e);
  return th_record(tape, op, y, &x, 1, NULL, 0);
}
