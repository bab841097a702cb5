/* Recording swiglu: saves nothing; the backward reads both inputs again. Reads rows of any spacing, so that
 * the halves of one projection are no copies. */
#include "autograd/record/cases.h"
#include "autograd/tape.h"

typedef struct elements {
  ptrdiff_t length; /* so many lie side by side in all: everything, or a row */
  const th_tensor *gate, *up, *dy;
  th_tensor *y, *dgate, *dup; /* gradients with the strides of gate and up, or NULL */
} elements;

static void *place(const th_tensor *x, ptrdiff_t at) { return x == NULL ? NULL : th__at(x, at); }

/* Elements begin .. end-1, run by run. */
static void each_run(const void *context, ptrdiff_t begin, ptrdiff_t end) {
  const elements *e = context;
  while (begin < end) {
    ptrdiff_t run = e->length - begin % e->length;
    if (run > end - begin) run = end - begin;
    ptrdiff_t at_gate = th__offset(e->gate, begin), at_up = th__offset(e->up, begin);
    const void *gate = th__at(e->gate, at_gate), *up = th__at(e->up, at_up);
    if (e->y != NULL)
      TH__CALL(e->y->dtype, swiglu_fwd, run, gate, up, th__at(e->y, begin));
    else
      TH__CALL(e->dy->dtype, swiglu_bwd, run, gate, up, th__at(e->dy, begin),
               place(e->dgate, at_gate), place(e->dup, at_up));
    begin += run;
  }
}

static ptrdiff_t side_by_side(const th_tensor *gate, const th_tensor *up) {
  bool dense = th_tensor_is_contiguous(gate) && th_tensor_is_contiguous(up);
  return dense ? gate->count : th__dim(gate, -1);
}

/* ---- backward ---- */

static void run_backward(elements e, th_tensor *dgate, th_tensor *dup) {
  e.dgate = dgate;
  e.dup = dup;
  th__parallel(e.dy->count, th__grain(14), each_run, &e);
}

static th_status backward(th_node *node) {
  elements e = {
      .gate = th_node_input(node, 0), .up = th_node_input(node, 1), .dy = th_node_upstream(node)};
  th_tensor *dgate = th_node_grad(node, 0), *dup = th_node_grad(node, 1);
  if (e.dy->count == 0) return TH_OK;
  e.length = side_by_side(e.gate, e.up);
  if (dgate == NULL || dup == NULL || th__apart(dgate, dup))
    run_backward(e, dgate, dup);
  else { /* one tensor in both places, or overlapping windows into one: one after the other */
    run_backward(e, dgate, NULL);
    run_backward(e, NULL, dup);
  }
  return TH_OK;
}

/* ---- checks ---- */

/* The two halves of one product, as a fused projection gives them. */
static th_tensor *run_halves(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  return th_swiglu(tape, th_slice(tape, in[0], -1, 0, 3), th_slice(tape, in[0], -1, 3, 6));
}

static th__binary *const op = th_swiglu;
static const th_check checks[] = {
    {"", th__run_binary, &op, .input_count = 2,
     .inputs = {{"gate", TH_FILL_NORMAL, 0, 2, {3, 5}}, {"up", TH_FILL_NORMAL, 0, 2, {3, 5}}}},
    {"far out", th__run_binary, &op, .input_count = 2,
     .inputs = {{"gate", TH_FILL_NORMAL, 4, 2, {3, 5}}, {"up", TH_FILL_NORMAL, 0, 2, {3, 5}}}},
    {"transposed", th__run_first_transposed, &op, .input_count = 2,
     .inputs = {{"gate", TH_FILL_NORMAL, 0, 2, {5, 3}}, {"up", TH_FILL_NORMAL, 0, 2, {3, 5}}}},
    {"same", th__run_twice, &op, .input_count = 1, .inputs = {{"x", TH_FILL_NORMAL, 0, 2, {3, 5}}}},
    {"halves", run_halves, .input_count = 1, .inputs = {{"x", TH_FILL_NORMAL, 0, 3, {2, 2, 6}}}},
    {"large", th__run_binary, &op, .large = true, .input_count = 2,
     .inputs = {{"gate", TH_FILL_NORMAL, 0, 3, {4, 64, 96}},
                {"up", TH_FILL_NORMAL, 0, 3, {4, 64, 96}}}},
    {0}};

const th_op th__op_swiglu = {"swiglu", backward, checks};

th_tensor *th_swiglu(th_tape *tape, th_tensor *gate, th_tensor *up) {
  th_tensor *in[] = {gate, up};
  if (!th__ready(tape, "swiglu", 2, in) || !th__same_dtype(tape, "swiglu", 2, in)) return NULL;
  TH__REQUIRE(tape, th__same_shape(gate, up), TH_ERR_SHAPE, "swiglu",
              "the gate is %s and up %s; they must have one shape", TH__TEXT(gate), TH__TEXT(up));
  in[0] = th__dense_rows(tape, gate);
  in[1] = th__dense_rows(tape, up);
  if (in[0] == NULL || in[1] == NULL) return NULL;
  th_tensor *y = th_output(tape, gate->dtype, gate->ndim, gate->shape);
  if (y == NULL) return NULL;
  elements e = {.gate = in[0], .up = in[1], .y = y};
  if (y->count > 0) {
    e.length = side_by_side(in[0], in[1]);
    th__parallel(y->count, th__grain(9), each_run, &e);
  }
  return th_record(tape, &th__op_swiglu, y, in, 2, NULL, 0);
}
