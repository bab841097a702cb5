/* Recording gelu: saves the form; the backward reads the input again. */
#include "autograd/tape.h"

typedef struct elements {
  bool tanh_form;
  const th_tensor *x, *dy;
  th_tensor *out; /* y or dx */
} elements;

static void forward_elements(const void *context, ptrdiff_t begin, ptrdiff_t end) {
  const elements *e = context;
  TH__CALL(e->x->dtype, gelu_fwd, end - begin, e->tanh_form, th__at(e->x, begin),
           th__at(e->out, begin));
}

static void backward_elements(const void *context, ptrdiff_t begin, ptrdiff_t end) {
  const elements *e = context;
  TH__CALL(e->x->dtype, gelu_bwd, end - begin, e->tanh_form, th__at(e->x, begin),
           th__at(e->dy, begin), th__at(e->out, begin));
}

static th_status backward(th_node *node) {
  const bool *tanh_form = th_node_saved(node);
  elements e = {.tanh_form = *tanh_form,
                .x = th_node_input(node, 0),
                .dy = th_node_upstream(node),
                .out = th_node_grad(node, 0)};
  th__parallel(e.x->count, th__grain(12), backward_elements, &e);
  return TH_OK;
}

static th_tensor *run(th_tape *tape, th_tensor *const *in, const void *context) {
  return th_gelu(tape, in[0], *(const th_gelu_form *)context);
}

static const th_gelu_form exact = TH_GELU_EXACT, by_tanh = TH_GELU_TANH;
static const th_check checks[] = {
    {"exact", run, &exact, .input_count = 1, .inputs = {{"x", TH_FILL_NORMAL, 0, 2, {3, 5}}}},
    {"tanh", run, &by_tanh, .input_count = 1, .inputs = {{"x", TH_FILL_NORMAL, 0, 2, {3, 5}}}},
    {"exact, far out", run, &exact, .input_count = 1,
     .inputs = {{"x", TH_FILL_NORMAL, 3, 2, {3, 5}}}},
    {"tanh, far out", run, &by_tanh, .input_count = 1,
     .inputs = {{"x", TH_FILL_NORMAL, 3, 2, {3, 5}}}},
    {"exact, large", run, &exact, .large = true, .input_count = 1,
     .inputs = {{"x", TH_FILL_NORMAL, 0, 3, {4, 64, 96}}}},
    {"tanh, large", run, &by_tanh, .large = true, .input_count = 1,
     .inputs = {{"x", TH_FILL_NORMAL, 0, 3, {4, 64, 96}}}},
    {0}};

const th_op th__op_gelu = {"gelu", backward, checks};

th_tensor *th_gelu(th_tape *tape, th_tensor *x, th_gelu_form form) {
  if (!TH__READY(tape, "gelu", x) || !th__same_dtype(tape, "gelu", 1, &x)) return NULL;
  TH__REQUIRE(tape, form == TH_GELU_EXACT || form == TH_GELU_TANH, TH_ERR_VALUE, "gelu",
              "form %d does not exist; use TH_GELU_EXACT or TH_GELU_TANH", (int)form);
  x = th_contiguous(tape, x);
  if (x == NULL) return NULL;
  th_tensor *y = th_output(tape, x->dtype, x->ndim, x->shape);
  if (y == NULL) return NULL;
  elements e = {.tanh_form = form == TH_GELU_TANH, .x = x, .out = y};
  th__parallel(x->count, th__grain(8), forward_elements, &e);
  return th_record(tape, &th__op_gelu, y, &x, 1, &e.tanh_form, sizeof e.tanh_form);
}
