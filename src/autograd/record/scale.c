/* Recording scale: saves the factor. */
#include "autograd/tape.h"

#include <math.h>

typedef struct scaling {
  double factor;
  const th_tensor *from;
  th_tensor *to;
} scaling;

static void forward_elements(const void *context, ptrdiff_t begin, ptrdiff_t end) {
  const scaling *s = context;
  TH__CALL(s->to->dtype, scale_fwd, end - begin, s->factor, th__at(s->from, begin),
           th__at(s->to, begin));
}

static void backward_elements(const void *context, ptrdiff_t begin, ptrdiff_t end) {
  const scaling *s = context;
  TH__CALL(s->to->dtype, add_bwd, end - begin, s->factor, th__at(s->from, begin), 1,
           th__at(s->to, begin));
}

static th_status backward(th_node *node) {
  const double *factor = th_node_saved(node);
  scaling s = {.factor = *factor, .from = th_node_upstream(node), .to = th_node_grad(node, 0)};
  th__parallel(s.from->count, th__grain(1), backward_elements, &s);
  return TH_OK;
}

static th_tensor *run(th_tape *tape, th_tensor *const *in, const void *context) {
  return th_scale(tape, in[0], *(const double *)context);
}

static th_tensor *run_transposed(th_tape *tape, th_tensor *const *in, const void *context) {
  return th_scale(tape, th_transpose(tape, in[0], 0, 1), *(const double *)context);
}

static const double factor = -1.75;
static const th_check checks[] = {
    {"", run, &factor, .input_count = 1, .inputs = {{"x", TH_FILL_NORMAL, 0, 2, {3, 4}}}},
    {"transposed", run_transposed, &factor, .input_count = 1,
     .inputs = {{"x", TH_FILL_NORMAL, 0, 3, {3, 4, 2}}}},
    {"large", run, &factor, .large = true, .input_count = 1,
     .inputs = {{"x", TH_FILL_NORMAL, 0, 3, {4, 64, 96}}}},
    {0}};

const th_op th__op_scale = {"scale", backward, checks};

th_tensor *th_scale(th_tape *tape, th_tensor *x, double by) {
  if (!TH__READY(tape, "scale", x) || !th__same_dtype(tape, "scale", 1, &x)) return NULL;
  TH__REQUIRE(tape, isfinite(by), TH_ERR_VALUE, "scale", "the factor is %g; it must be finite", by);
  x = th_contiguous(tape, x);
  if (x == NULL) return NULL;
  th_tensor *y = th_output(tape, x->dtype, x->ndim, x->shape);
  if (y == NULL) return NULL;
  scaling s = {.factor = by, .from = x, .to = y};
  th__parallel(x->count, th__grain(1), forward_elements, &s);
  return th_record(tape, &th__op_scale, y, &x, 1, &by, sizeof by);
}
