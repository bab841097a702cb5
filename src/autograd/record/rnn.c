/* Recording rnn: one product for W_x x + b of all steps, then the steps, cut over sequences. Saves
 * nothing but its output. */
#include "autograd/record/recurrent.h"

typedef struct work {
  th__recurrent r;
  const void *packed;
  const th_tensor *h0, *h, *dh;
  void *dz;
} work;

static void *row(const work *w, const void *base, ptrdiff_t begin, ptrdiff_t length) {
  if (base == NULL) return NULL;
  return (char *)(uintptr_t)base + (size_t)(begin * length) * th_dtype_size(w->h->dtype);
}

static void forward_rows(const void *context, ptrdiff_t begin, ptrdiff_t end) {
  const work *w = context;
  const th__recurrent *r = &w->r;
  TH__CALL(w->h->dtype, rnn_fwd, end - begin, r->steps, r->width, w->packed,
           row(w, w->h0 != NULL ? w->h0->data : NULL, begin, r->width),
           row(w, w->h->data, begin, r->steps * r->width));
}

static void backward_rows(const void *context, ptrdiff_t begin, ptrdiff_t end) {
  const work *w = context;
  const th__recurrent *r = &w->r;
  ptrdiff_t length = r->steps * r->width;
  TH__CALL(w->h->dtype, rnn_bwd, end - begin, r->steps, r->width, w->packed,
           row(w, w->h->data, begin, length), row(w, w->dh->data, begin, length),
           row(w, w->dz, begin, length));
}

static th_status backward(th_node *node) {
  work w = {.r = th__recurrent_of(node, "rnn"), .h = th_node_output(node)};
  w.dh = th_node_upstream(node);
  w.packed = th__recurrent_pack(w.h->tape, &w.r, th_node_input(node, TH__W_H), false);
  w.dz = th_node_workspace(node, (size_t)w.h->count * th_dtype_size(w.h->dtype));
  if (w.packed == NULL || w.dz == NULL) return TH_ERR_MEMORY;
  th__parallel(w.r.batch, w.r.grain, backward_rows, &w);
  return th__recurrent_gradients(node, &w.r, w.dz, w.h->data);
}

/* ---- checks ---- */

static th_tensor *run(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  return th_rnn(tape, in[0], NULL, &(th_recurrent_weights){in[1], in[2], NULL});
}

static th_tensor *run_all(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  return th_rnn(tape, in[0], in[4], &(th_recurrent_weights){in[1], in[2], in[3]});
}

/* Inputs that lie strided, and a first state that is a step of x. */
static th_tensor *run_strided(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  th_tensor *x = th_transpose(tape, in[0], 0, 1);
  th_tensor *first = th_slice(tape, x, 1, 0, 1);
  th_tensor *h0 = th_reshape(tape, first, TH_SHAPE(th_tensor_dim(x, 0), th_tensor_dim(x, 2)));
  return th_rnn(tape, x, h0, &(th_recurrent_weights){in[1], th_transpose(tape, in[1], 0, 1), NULL});
}

/* clang-format off */
static const th_check checks[] = {
    {"", run, .input_count = 3, .inputs = {
        {"x", TH_FILL_NORMAL, 0, 3, {2, 4, 3}}, {"w_x", TH_FILL_NORMAL, 0.5, 2, {5, 3}}, {"w_h", TH_FILL_NORMAL, 0.5, 2, {5, 5}}}},
    {"state", run_all, .input_count = 5, .inputs = {
        {"x", TH_FILL_NORMAL, 0, 3, {3, 3, 2}}, {"w_x", TH_FILL_NORMAL, 0.5, 2, {4, 2}}, {"w_h", TH_FILL_NORMAL, 0.5, 2, {4, 4}},
        {"bias", TH_FILL_NORMAL, 0, 1, {4}}, {"h0", TH_FILL_NORMAL, 0, 2, {3, 4}}}},
    {"one-step", run_all, .input_count = 5, .inputs = {
        {"x", TH_FILL_NORMAL, 0, 3, {2, 1, 2}}, {"w_x", TH_FILL_NORMAL, 0.5, 2, {3, 2}}, {"w_h", TH_FILL_NORMAL, 0.5, 2, {3, 3}},
        {"bias", TH_FILL_NORMAL, 0, 1, {3}}, {"h0", TH_FILL_NORMAL, 0, 2, {2, 3}}}},
    {"strided", run_strided, .input_count = 2, .inputs = {
        {"x", TH_FILL_NORMAL, 0, 3, {4, 2, 3}}, {"w", TH_FILL_NORMAL, 0.5, 2, {3, 3}}}},
    {"large", run_all, .large = true, .input_count = 5, .inputs = {
        {"x", TH_FILL_NORMAL, 0, 3, {14, 20, 24}}, {"w_x", TH_FILL_NORMAL, 0.2, 2, {40, 24}}, {"w_h", TH_FILL_NORMAL, 0.15, 2, {40, 40}},
        {"bias", TH_FILL_NORMAL, 0, 1, {40}}, {"h0", TH_FILL_NORMAL, 0, 2, {14, 40}}}},
    {0}};
/* clang-format on */

const th_op th__op_rnn = {"rnn", backward, checks};

th_tensor *th_rnn(th_tape *tape, th_tensor *x, th_tensor *h0, const th_recurrent_weights *weights) {
  if (weights == NULL) return th_fail(tape, TH_ERR_VALUE, "rnn", "weights is NULL");
  th_tensor *inputs[] = {x, h0, weights->w_x, weights->w_h, weights->bias, NULL};
  work w = {.h0 = NULL};
  if (!th__recurrent_check(tape, "rnn", 1, inputs, &w.r)) return NULL;
  th_tensor *h = th_output(tape, x->dtype, TH_SHAPE(w.r.batch, w.r.steps, w.r.width));
  w.packed = th__recurrent_pack(tape, &w.r, inputs[TH__W_H], true);
  if (h == NULL || w.packed == NULL) return NULL;
  w.h0 = inputs[TH__H0];
  w.h = h;
  th__recurrent_project(&w.r, inputs, h->data);
  th__parallel(w.r.batch, w.r.grain, forward_rows, &w);
  return th_record(tape, &th__op_rnn, h, inputs, TH__C0, NULL, 0);
}
