/* Recording dropout: saves the probability and the stream. */
#include "autograd/tape.h"

#define GROUP 64 /* elements that the kernel draws at a time; pieces are whole groups */

typedef struct drop {
  double p;
  th_random stream;
} drop;

typedef struct elements {
  drop drop;
  const th_tensor *from;
  th_tensor *to;
} elements;

static ptrdiff_t elements_in(const elements *e, ptrdiff_t begin, ptrdiff_t end) {
  ptrdiff_t last = end * GROUP < e->to->count ? end * GROUP : e->to->count;
  return last - begin * GROUP;
}

static void forward_groups(const void *context, ptrdiff_t begin, ptrdiff_t end) {
  const elements *e = context;
  const th_random *s = &e->drop.stream;
  TH__CALL(e->to->dtype, dropout_fwd, elements_in(e, begin, end), (uint64_t)begin, s->seed,
           s->purpose, s->step, e->drop.p, th__at(e->from, begin * GROUP),
           th__at(e->to, begin * GROUP));
}

static void backward_groups(const void *context, ptrdiff_t begin, ptrdiff_t end) {
  const elements *e = context;
  const th_random *s = &e->drop.stream;
  TH__CALL(e->to->dtype, dropout_bwd, elements_in(e, begin, end), (uint64_t)begin, s->seed,
           s->purpose, s->step, e->drop.p, th__at(e->from, begin * GROUP),
           th__at(e->to, begin * GROUP));
}

static void over_groups(th__piece *piece, const elements *e) {
  ptrdiff_t groups = e->to->count / GROUP + (e->to->count % GROUP > 0);
  th__parallel(groups, th__grain(4 * GROUP), piece, e);
}

static th_status backward(th_node *node) {
  const drop *saved = th_node_saved(node);
  elements e = {.drop = *saved, .from = th_node_upstream(node), .to = th_node_grad(node, 0)};
  over_groups(backward_groups, &e);
  return TH_OK;
}

static th_tensor *run(th_tape *tape, th_tensor *const *in, const void *context) {
  const drop *d = context;
  return th_dropout(tape, in[0], d->p, d->stream);
}

static const drop half = {0.5, {.seed = 1, .purpose = 2, .step = 3}};
static const drop tenth = {0.1, {.seed = 4, .purpose = 5, .step = 6}};
static const th_check checks[] = {
    {"half", run, &half, .input_count = 1, .inputs = {{"x", TH_FILL_NORMAL, 0, 2, {4, 5}}}},
    {"tenth", run, &tenth, .input_count = 1, .inputs = {{"x", TH_FILL_NORMAL, 0, 3, {3, 5, 6}}}},
    {"large", run, &half, .large = true, .input_count = 1,
     .inputs = {{"x", TH_FILL_NORMAL, 0, 3, {4, 64, 96}}}},
    {0}};

const th_op th__op_dropout = {"dropout", backward, checks};

th_tensor *th_dropout(th_tape *tape, th_tensor *x, double p, th_random stream) {
  if (!TH__READY(tape, "dropout", x) || !th__same_dtype(tape, "dropout", 1, &x)) return NULL;
  TH__REQUIRE(tape, p >= 0.0 && p < 1.0, TH_ERR_VALUE, "dropout",
              "the probability is %g; 0 <= p < 1 is expected", p);
  if (p == 0.0) return x;
  x = th_contiguous(tape, x);
  if (x == NULL) return NULL;
  th_tensor *y = th_output(tape, x->dtype, x->ndim, x->shape);
  if (y == NULL) return NULL;
  elements e = {.drop = {p, stream}, .from = x, .to = y};
  over_groups(forward_groups, &e);
  return th_record(tape, &th__op_dropout, y, &x, 1, &e.drop, sizeof e.drop);
}
