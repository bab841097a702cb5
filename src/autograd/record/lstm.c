/* Recording lstm: one product for W_x x + b of all steps, then the steps, cut over sequences. Keeps the
 * gates' values and the cells. Where the cells are asked for, the output is [2, B, T, H], all h and then
 * all c, and handed out as two views: one node, however many gradients arrive. */
#include "autograd/record/recurrent.h"

typedef struct saved {
  void *gates; /* [B, T, 4 H]; the backward turns them into dz */
  void *cells; /* [B, T, H] */
} saved;

typedef struct work {
  th__recurrent r;
  th_dtype dtype;
  const void *packed;
  const void *h0, *c0;
  void *gates, *cells, *h;
  const void *dh, *dcells;
  void *carry, *room; /* [B, H] */
} work;

static void *row(const work *w, const void *base, ptrdiff_t begin, ptrdiff_t length) {
  if (base == NULL) return NULL;
  return (char *)(uintptr_t)base + (size_t)(begin * length) * th_dtype_size(w->dtype);
}

static void forward_rows(const void *context, ptrdiff_t begin, ptrdiff_t end) {
  const work *w = context;
  ptrdiff_t width = w->r.width, length = w->r.steps * width;
  TH__CALL(w->dtype, lstm_fwd, end - begin, w->r.steps, width, w->packed,
           row(w, w->h0, begin, width), row(w, w->c0, begin, width),
           row(w, w->gates, begin, 4 * length), row(w, w->cells, begin, length),
           row(w, w->h, begin, length));
}

static void backward_rows(const void *context, ptrdiff_t begin, ptrdiff_t end) {
  const work *w = context;
  ptrdiff_t width = w->r.width, length = w->r.steps * width;
  TH__CALL(w->dtype, lstm_bwd, end - begin, w->r.steps, width, w->packed,
           row(w, w->c0, begin, width), row(w, w->cells, begin, length),
           row(w, w->dh, begin, length), row(w, w->dcells, begin, length),
           row(w, w->gates, begin, 4 * length), row(w, w->carry, begin, width),
           row(w, w->room, begin, width));
}

static const void *data_of(const th_tensor *x) { return x != NULL ? x->data : NULL; }

/* dc0 += carry */
static void add_carry(const work *w, th_tensor *dc0) {
  th_tensor carry = *dc0;
  carry.data = w->carry;
  th__tensor_add(dc0, &carry);
}

static th_status backward(th_node *node) {
  const saved *s = th_node_saved(node);
  const th_tensor *y = th_node_output(node);
  work w = {.r = th__recurrent_of(node, "lstm"), .dtype = y->dtype};
  size_t state = (size_t)(w.r.batch * w.r.width) * th_dtype_size(w.dtype);
  w.gates = s->gates;
  w.cells = s->cells;
  w.c0 = data_of(th_node_input(node, TH__C0));
  w.dh = th_node_upstream(node)->data;
  if (y->ndim == 4) w.dcells = row(&w, w.dh, w.r.batch, w.r.steps * w.r.width);
  w.packed = th__recurrent_pack(y->tape, &w.r, th_node_input(node, TH__W_H), false);
  w.carry = th_node_workspace(node, state);
  w.room = th_node_workspace(node, state);
  if (w.packed == NULL || w.carry == NULL || w.room == NULL) return TH_ERR_MEMORY;
  th__parallel(w.r.batch, w.r.grain, backward_rows, &w);
  th_status status = th__recurrent_gradients(node, &w.r, w.gates, y->data);
  th_tensor *dc0 = th_node_grad(node, TH__C0);
  if (dc0 != NULL) add_carry(&w, dc0);
  return status;
}

/* ---- checks ---- */

static th_tensor *run(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  return th_lstm(tape, in[0], NULL, NULL, &(th_recurrent_weights){in[1], in[2], NULL}, NULL);
}

static th_tensor *run_state(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  th_recurrent_weights weights = {in[1], in[2], in[3]};
  return th_lstm(tape, in[0], in[4], in[5], &weights, NULL);
}

/* Both outputs, unequally, so that one cannot stand in for the other. */
static th_tensor *run_cells(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  th_tensor *cells, *h;
  h = th_lstm(tape, in[0], in[4], in[5], &(th_recurrent_weights){in[1], in[2], in[3]}, &cells);
  return th_add(tape, th_scale(tape, h, 0.75), cells);
}

/* The cells alone: what arrives at h is nothing. h0 and c0 are overlapping rows of one tensor. */
static th_tensor *run_shared(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  th_tensor *cells, *h0 = th_slice(tape, in[3], 0, 0, 2), *c0 = th_slice(tape, in[3], 0, 1, 3);
  th_lstm(tape, th_transpose(tape, in[0], 0, 1), h0, c0,
          &(th_recurrent_weights){in[1], in[2], NULL}, &cells);
  return cells;
}

/* clang-format off */
#define MATRICES(in, width) {"w_x", TH_FILL_NORMAL, 0.5, 2, {4 * (width), in}}, {"w_h", TH_FILL_NORMAL, 0.5, 2, {4 * (width), width}}
#define STATES(batch, width) {"bias", TH_FILL_NORMAL, 0, 1, {4 * (width)}}, {"h0", TH_FILL_NORMAL, 0, 2, {batch, width}}, {"c0", TH_FILL_NORMAL, 0, 2, {batch, width}}
static const th_check checks[] = {
    {"", run, .input_count = 3, .inputs = {{"x", TH_FILL_NORMAL, 0, 3, {2, 4, 3}}, MATRICES(3, 3)}},
    {"state", run_state, .input_count = 6, .inputs = {{"x", TH_FILL_NORMAL, 0, 3, {2, 3, 2}}, MATRICES(2, 3), STATES(2, 3)}},
    {"cells", run_cells, .input_count = 6, .inputs = {{"x", TH_FILL_NORMAL, 0, 3, {3, 3, 2}}, MATRICES(2, 2), STATES(3, 2)}},
    {"one-step", run_cells, .input_count = 6, .inputs = {{"x", TH_FILL_NORMAL, 0, 3, {2, 1, 2}}, MATRICES(2, 3), STATES(2, 3)}},
    {"shared", run_shared, .input_count = 4, .inputs = {{"x", TH_FILL_NORMAL, 0, 3, {4, 2, 3}}, MATRICES(3, 3), {"states", TH_FILL_NORMAL, 0, 2, {3, 3}}}},
    {"large", run_cells, .large = true, .input_count = 6, .inputs = {
        {"x", TH_FILL_NORMAL, 0, 3, {14, 20, 24}}, {"w_x", TH_FILL_NORMAL, 0.2, 2, {160, 24}}, {"w_h", TH_FILL_NORMAL, 0.15, 2, {160, 40}}, STATES(14, 40)}},
    {0}};
/* clang-format on */

const th_op th__op_lstm = {"lstm", backward, checks};

/* ---- recording ---- */

/* h and, if asked for, c as views [B, T, H] of the output [2, B, T, H]. */
static th_tensor *half(th_tape *tape, th_tensor *y, ptrdiff_t which) {
  return th__view(tape, y, 3, y->shape + 1, y->strides + 1, which * y->strides[0]);
}

th_tensor *th_lstm(th_tape *tape, th_tensor *x, th_tensor *h0, th_tensor *c0,
                   const th_recurrent_weights *weights, th_tensor **cells) {
  if (cells != NULL) *cells = NULL;
  if (weights == NULL) return th_fail(tape, TH_ERR_VALUE, "lstm", "weights is NULL");
  th_tensor *inputs[] = {x, h0, weights->w_x, weights->w_h, weights->bias, c0};
  work w = {.dtype = TH_F32};
  if (!th__recurrent_check(tape, "lstm", 4, inputs, &w.r)) return NULL;
  const ptrdiff_t shape[] = {2, w.r.batch, w.r.steps, w.r.width};
  bool both = cells != NULL;
  th_tensor *y = th_output(tape, x->dtype, both ? 4 : 3, both ? shape : shape + 1);
  if (y == NULL) return NULL;
  w.dtype = x->dtype;
  size_t bytes = (size_t)(w.r.batch * w.r.steps * w.r.width) * th_dtype_size(w.dtype);
  w.packed = th__recurrent_pack(tape, &w.r, inputs[TH__W_H], true);
  w.gates = th_tape_alloc(tape, 4 * bytes);
  w.h = y->data;
  w.cells = both ? (char *)y->data + bytes : th_tape_alloc(tape, bytes);
  if (w.packed == NULL || w.gates == NULL || w.cells == NULL) return NULL;
  w.h0 = data_of(inputs[TH__H0]);
  w.c0 = data_of(inputs[TH__C0]);
  th__recurrent_project(&w.r, inputs, w.gates);
  th__parallel(w.r.batch, w.r.grain, forward_rows, &w);
  const saved s = {w.gates, w.cells};
  y = th_record(tape, &th__op_lstm, y, inputs, TH__RECURRENT_INPUTS, &s, sizeof s);
  if (y == NULL || !both) return y;
  *cells = half(tape, y, 1);
  th_tensor *h = half(tape, y, 0);
  if (h == NULL) *cells = NULL;
  return h;
}
