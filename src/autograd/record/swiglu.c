/* Recording swiglu: saves nothing; the backward reads both inputs again. */
#include "autograd/tape.h"

typedef struct elements {
  const th_tensor *gate, *up, *dy;
  th_tensor *y, *dgate, *dup;
} elements;

static void forward_elements(const void *context, ptrdiff_t begin, ptrdiff_t end) {
  const elements *e = context;
  TH__CALL(e->y->dtype, swiglu_fwd, end - begin, th__at(e->gate, begin), th__at(e->up, begin),
           th__at(e->y, begin));
}

static void *place(const th_tensor *x, ptrdiff_t at) { return x == NULL ? NULL : th__at(x, at); }

static void backward_elements(const void *context, ptrdiff_t begin, ptrdiff_t end) {
  const elements *e = context;
  TH__CALL(e->dy->dtype, swiglu_bwd, end - begin, th__at(e->gate, begin), th__at(e->up, begin),
           th__at(e->dy, begin), place(e->dgate, begin), place(e->dup, begin));
}

/* Both inputs may be one tensor, or overlapping windows into one. */
static bool overlap(const th_tensor *a, const th_tensor *b) {
  if (a == NULL || b == NULL) return false;
  uintptr_t bytes = (uintptr_t)a->count * th_dtype_size(a->dtype);
  uintptr_t first = (uintptr_t)a->data, second = (uintptr_t)b->data;
  return first < second + bytes && second < first + bytes;
}

static void run_backward(elements e, th_tensor *dgate, th_tensor *dup) {
  e.dgate = dgate;
  e.dup = dup;
  th__parallel(e.dy->count, th__grain(14), backward_elements, &e);
}

static th_status backward(th_node *node) {
  elements e = {
      .gate = th_node_input(node, 0), .up = th_node_input(node, 1), .dy = th_node_upstream(node)};
  th_tensor *dgate = th_node_grad(node, 0), *dup = th_node_grad(node, 1);
  if (overlap(dgate, dup)) { /* one after the other */
    run_backward(e, dgate, NULL);
    run_backward(e, NULL, dup);
  } else
    run_backward(e, dgate, dup);
  return TH_OK;
}

static th_tensor *run(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  return th_swiglu(tape, in[0], in[1]);
}

static th_tensor *run_transposed(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  return th_swiglu(tape, th_transpose(tape, in[0], 0, 1), in[1]);
}

static th_tensor *run_same(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  return th_swiglu(tape, in[0], in[0]);
}

/* The two halves of one product, as a fused projection gives them. */
static th_tensor *run_halves(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  return th_swiglu(tape, th_slice(tape, in[0], 1, 0, 3), th_slice(tape, in[0], 1, 3, 6));
}

static const th_check checks[] = {
    {"", run, .input_count = 2,
     .inputs = {{"gate", TH_FILL_NORMAL, 0, 2, {3, 5}}, {"up", TH_FILL_NORMAL, 0, 2, {3, 5}}}},
    {"far out", run, .input_count = 2,
     .inputs = {{"gate", TH_FILL_NORMAL, 4, 2, {3, 5}}, {"up", TH_FILL_NORMAL, 0, 2, {3, 5}}}},
    {"transposed", run_transposed, .input_count = 2,
     .inputs = {{"gate", TH_FILL_NORMAL, 0, 2, {5, 3}}, {"up", TH_FILL_NORMAL, 0, 2, {3, 5}}}},
    {"same", run_same, .input_count = 1, .inputs = {{"x", TH_FILL_NORMAL, 0, 2, {3, 5}}}},
    {"halves", run_halves, .input_count = 1, .inputs = {{"x", TH_FILL_NORMAL, 0, 2, {4, 6}}}},
    {"large", run, .large = true, .input_count = 2,
     .inputs = {{"gate", TH_FILL_NORMAL, 0, 3, {4, 64, 96}},
                {"up", TH_FILL_NORMAL, 0, 3, {4, 64, 96}}}},
    {0}};

const th_op th__op_swiglu = {"swiglu", backward, checks};

th_tensor *th_swiglu(th_tape *tape, th_tensor *gate, th_tensor *up) {
  th_tensor *in[] = {gate, up};
  if (!th__ready(tape, "swiglu", 2, in) || !th__same_dtype(tape, "swiglu", 2, in)) return NULL;
  TH__REQUIRE(tape, th__same_shape(gate, up), TH_ERR_SHAPE, "swiglu",
              "the gate is %s and up %s; they must have one shape", TH__TEXT(gate), TH__TEXT(up));
  in[0] = th_contiguous(tape, gate);
  in[1] = th_contiguous(tape, up);
  if (in[0] == NULL || in[1] == NULL) return NULL;
  th_tensor *y = th_output(tape, gate->dtype, gate->ndim, gate->shape);
  if (y == NULL) return NULL;
  elements e = {.gate = in[0], .up = in[1], .y = y};
  th__parallel(y->count, th__grain(9), forward_elements, &e);
  return th_record(tape, &th__op_swiglu, y, in, 2, NULL, 0);
}
