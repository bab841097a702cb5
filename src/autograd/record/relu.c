/* Recording relu: saves nothing but its own output. */
#include "autograd/tape.h"

typedef struct elements {
  const th_tensor *from, *y; /* forward: x -> y; backward: dy, y -> dx */
  th_tensor *to;
} elements;

static void forward_elements(const void *context, ptrdiff_t begin, ptrdiff_t end) {
  const elements *e = context;
  TH__CALL(e->to->dtype, relu_fwd, end - begin, th__at(e->from, begin), th__at(e->to, begin));
}

static void backward_elements(const void *context, ptrdiff_t begin, ptrdiff_t end) {
  const elements *e = context;
  TH__CALL(e->to->dtype, relu_bwd, end - begin, th__at(e->y, begin), th__at(e->from, begin),
           th__at(e->to, begin));
}

static th_status backward(th_node *node) {
  elements e = {
      .from = th_node_upstream(node), .y = th_node_output(node), .to = th_node_grad(node, 0)};
  th__parallel(e.y->count, th__grain(1), backward_elements, &e);
  return TH_OK;
}

static th_tensor *run(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  return th_relu(tape, in[0]);
}

static th_tensor *run_transposed(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  return th_relu(tape, th_transpose(tape, in[0], 0, 1));
}

static const th_check checks[] = {
    {"", run, .kinks = true, .input_count = 1, .inputs = {{"x", TH_FILL_NORMAL, 0, 2, {4, 5}}}},
    {"transposed", run_transposed, .kinks = true, .input_count = 1,
     .inputs = {{"x", TH_FILL_NORMAL, 0, 2, {4, 5}}}},
    {"large", run, .large = true, .kinks = true, .input_count = 1,
     .inputs = {{"x", TH_FILL_NORMAL, 0, 3, {4, 32, 32}}}},
    {0}};

const th_op th__op_relu = {"relu", backward, checks};

th_tensor *th_relu(th_tape *tape, th_tensor *x) {
  if (!TH__READY(tape, "relu", x) || !th__same_dtype(tape, "relu", 1, &x)) return NULL;
  x = th_contiguous(tape, x);
  if (x == NULL) return NULL;
  th_tensor *y = th_output(tape, x->dtype, x->ndim, x->shape);
  if (y == NULL) return NULL;
  elements e = {.from = x, .to = y};
  th__parallel(x->count, th__grain(1), forward_elements, &e);
  return th_record(tape, &th__op_relu, y, &x, 1, NULL, 0);
}
