#include "autograd/record/recurrent.h"

#include <string.h>

#include "autograd/gemm.h"

/* Sequences per piece come in multiples of this: rows of a tile in ops/product.h. */
#define TILE_ROWS 6
/* Packed panels are at most this wide, whatever the instruction set. */
#define WIDEST_PANEL 32
/* Multiply-adds that cost as much as one unit of th__grain. */
#define PER_UNIT 16

static ptrdiff_t at_least_1(ptrdiff_t n) { return n > 1 ? n : 1; }

static th__recurrent sizes_of(const char *op, th_tensor *const *inputs) {
  const th_tensor *x = inputs[TH__X], *w_h = inputs[TH__W_H];
  th__recurrent r = {op,       x->shape[0], x->shape[1], x->shape[2], w_h->shape[1], w_h->shape[0],
                     TILE_ROWS};
  ptrdiff_t cost = r.steps * (r.gates * r.width / PER_UNIT + 4 * r.gates);
  ptrdiff_t grain = th__grain(cost);
  r.grain = (grain + TILE_ROWS - 1) / TILE_ROWS * TILE_ROWS;
  return r;
}

th__recurrent th__recurrent_of(const th_node *node, const char *op) {
  return sizes_of(op, node->inputs);
}

/* ---- checks ---- */

static bool matrices_fit(th_tape *tape, const char *op, int gates, th_tensor *const *inputs) {
  const th_tensor *x = inputs[TH__X], *w_x = inputs[TH__W_X], *w_h = inputs[TH__W_H];
  const char *stacked = gates == 1 ? "" : "4*";
  if (x->ndim != 3)
    th_fail(tape, TH_ERR_SHAPE, op, "x is %s; [B, T, in] is expected", TH__TEXT(x));
  else if (w_h->ndim != 2 || w_h->shape[0] != gates * w_h->shape[1])
    th_fail(tape, TH_ERR_SHAPE, op, "w_h is %s; [%sH, H] is expected", TH__TEXT(w_h), stacked);
  else if (w_x->ndim != 2 || w_x->shape[0] != w_h->shape[0] || w_x->shape[1] != x->shape[2])
    th_fail(tape, TH_ERR_SHAPE, op, "w_x is %s; x is %s and w_h %s, so [%td, %td] is expected",
            TH__TEXT(w_x), TH__TEXT(x), TH__TEXT(w_h), w_h->shape[0], x->shape[2]);
  else
    return true;
  return false;
}

static bool states_fit(th_tape *tape, const char *op, th_tensor *const *inputs) {
  const th_tensor *x = inputs[TH__X], *w_h = inputs[TH__W_H], *bias = inputs[TH__BIAS];
  if (bias != NULL && (bias->ndim != 1 || bias->shape[0] != w_h->shape[0])) {
    th_fail(tape, TH_ERR_SHAPE, op, "the bias is %s but w_h is %s; [%td] is expected",
            TH__TEXT(bias), TH__TEXT(w_h), w_h->shape[0]);
    return false;
  }
  for (int i = TH__H0; i <= TH__C0; i += TH__C0 - TH__H0) {
    const th_tensor *state = inputs[i];
    if (state == NULL ||
        (state->ndim == 2 && state->shape[0] == x->shape[0] && state->shape[1] == w_h->shape[1]))
      continue;
    th_fail(tape, TH_ERR_SHAPE, op,
            "%s is %s; x is %s and w_h %s, so a first state of [%td, %td] is expected",
            i == TH__H0 ? "h0" : "c0", TH__TEXT(state), TH__TEXT(x), TH__TEXT(w_h), x->shape[0],
            w_h->shape[1]);
    return false;
  }
  return true;
}

/* Sizes and distances between rows that BLAS has to count to. */
static bool countable(th_tape *tape, const th__recurrent *r) {
  ptrdiff_t rows, apart;
  bool overflow = __builtin_mul_overflow(r->batch, r->steps, &rows) ||
                  __builtin_mul_overflow(r->steps, r->gates, &apart);
  if (overflow) rows = apart = PTRDIFF_MAX;
  return th__blas_sizes(tape, r->op, 4, (ptrdiff_t[]){rows, apart, r->gates, r->in});
}

bool th__recurrent_check(th_tape *tape, const char *op, int gates, th_tensor **inputs,
                         th__recurrent *r) {
  th_tensor *present[TH__RECURRENT_INPUTS];
  for (int i = 0; i < TH__RECURRENT_INPUTS; i++) {
    bool optional = i == TH__H0 || i == TH__BIAS || i == TH__C0;
    present[i] = optional && inputs[i] == NULL ? inputs[TH__X] : inputs[i];
  }
  if (!th__ready(tape, op, TH__RECURRENT_INPUTS, present) ||
      !th__same_dtype(tape, op, TH__RECURRENT_INPUTS, inputs) ||
      !matrices_fit(tape, op, gates, inputs) || !states_fit(tape, op, inputs))
    return false;
  for (int i = 0; i < TH__RECURRENT_INPUTS; i++)
    if (inputs[i] != NULL && (inputs[i] = th_contiguous(tape, inputs[i])) == NULL) return false;
  *r = sizes_of(op, inputs);
  return countable(tape, r);
}

/* ---- products ---- */

void th__recurrent_project(const th__recurrent *r, th_tensor *const *inputs, void *u) {
  const th_tensor *bias = inputs[TH__BIAS];
  th__product product = {.dtype = inputs[TH__X]->dtype,
                         .m = r->batch * r->steps,
                         .n = r->gates,
                         .k = r->in,
                         .a = inputs[TH__X]->data,
                         .lda = at_least_1(r->in),
                         .b = inputs[TH__W_X]->data,
                         .ldb = at_least_1(r->in),
                         .tb = true,
                         .c = u,
                         .ldc = at_least_1(r->gates),
                         .bias = bias != NULL ? bias->data : NULL};
  th__products(&product, 1);
}

void *th__recurrent_pack(th_tape *tape, const th__recurrent *r, const th_tensor *w_h,
                         bool transposed) {
  ptrdiff_t k = transposed ? r->width : r->gates, n = transposed ? r->gates : r->width;
  ptrdiff_t elements = (n + WIDEST_PANEL - 1) / WIDEST_PANEL * WIDEST_PANEL * k;
  void *packed = th_tape_alloc(tape, (size_t)elements * th_dtype_size(w_h->dtype));
  if (packed != NULL)
    TH__CALL(w_h->dtype, recurrent_pack, transposed, r->gates, r->width, w_h->data, packed);
  return packed;
}

/* C (m, n) += A^T B for A (rows, m) and B (rows, n). */
static th__product transposed_times(th_dtype dtype, ptrdiff_t rows, ptrdiff_t m, const void *a,
                                    ptrdiff_t n, const void *b, void *c) {
  return (th__product){.dtype = dtype,
                       .accumulate = true,
                       .ta = true,
                       .m = m,
                       .n = n,
                       .k = rows,
                       .a = a,
                       .lda = at_least_1(m),
                       .b = b,
                       .ldb = at_least_1(n),
                       .c = c,
                       .ldc = at_least_1(n)};
}

/* C (rows, n) += dz (rows, gates) W (gates, n), of dz's rows that are `lda` apart. */
static th__product through(const th__recurrent *r, const th_tensor *weight, ptrdiff_t rows,
                           const void *dz, ptrdiff_t lda, void *c) {
  ptrdiff_t n = weight->shape[1];
  return (th__product){.dtype = weight->dtype,
                       .accumulate = true,
                       .m = rows,
                       .n = n,
                       .k = r->gates,
                       .a = dz,
                       .lda = at_least_1(lda),
                       .b = weight->data,
                       .ldb = at_least_1(n),
                       .c = c,
                       .ldc = at_least_1(n)};
}

static th__product to_bias(const th__recurrent *r, th_dtype dtype, const void *dz, void *c) {
  return (th__product){.dtype = dtype,
                       .accumulate = true,
                       .m = 1,
                       .n = r->gates,
                       .k = r->batch * r->steps,
                       .b = dz,
                       .ldb = at_least_1(r->gates),
                       .c = c,
                       .ldc = at_least_1(r->gates)};
}

static bool any_shared(const th_node *node) {
  for (int i = 0; i < node->input_count; i++)
    for (int j = 0; j < i; j++)
      if (th__share_grad(node->inputs[i], node->inputs[j])) return true;
  return false;
}

/* What each step started from: h0, then h up to the last but one. One product with all of it costs less
 * than one per sequence. NULL when memory ends. */
static void *states_before(th_node *node, const th__recurrent *r, const void *h) {
  const th_tensor *h0 = node->inputs[TH__H0];
  size_t state = (size_t)r->width * th_dtype_size(node->output->dtype);
  size_t length = (size_t)r->steps * state;
  char *before = th_node_workspace(node, (size_t)r->batch * length);
  if (before == NULL) return NULL;
  for (ptrdiff_t i = 0; i < r->batch; i++) {
    char *to = before + (size_t)i * length;
    if (h0 != NULL)
      memcpy(to, (const char *)h0->data + (size_t)i * state, state);
    else
      memset(to, 0, state);
    memcpy(to + state, (const char *)h + (size_t)i * length, length - state);
  }
  return before;
}

th_status th__recurrent_gradients(th_node *node, const th__recurrent *r, const void *dz,
                                  const void *h) {
  const th_tensor *x = node->inputs[TH__X], *w_x = node->inputs[TH__W_X];
  th_tensor *dx = th_node_grad(node, TH__X), *dh0 = th_node_grad(node, TH__H0);
  th_tensor *dw_x = th_node_grad(node, TH__W_X), *dw_h = th_node_grad(node, TH__W_H);
  th_tensor *dbias = th_node_grad(node, TH__BIAS);
  ptrdiff_t rows = r->batch * r->steps, gates = r->gates;
  if (rows == 0) return TH_OK;

  /* The large ones first, side by side. */
  th__product p[2 * TH__MAX_PRODUCTS];
  int first = 0, all;
  if (dw_h != NULL) {
    const void *before = states_before(node, r, h);
    if (before == NULL) return TH_ERR_MEMORY;
    p[first++] = transposed_times(x->dtype, rows, gates, dz, r->width, before, dw_h->data);
  }
  if (dw_x != NULL)
    p[first++] = transposed_times(x->dtype, rows, gates, dz, r->in, x->data, dw_x->data);
  if (dx != NULL) p[first++] = through(r, w_x, rows, dz, gates, dx->data);
  all = first;
  if (dbias != NULL) p[all++] = to_bias(r, x->dtype, dz, dbias->data);
  if (dh0 != NULL)
    p[all++] = through(r, node->inputs[TH__W_H], r->batch, dz, r->steps * gates, dh0->data);
  if (any_shared(node)) {
    for (int i = 0; i < all; i++) th__products(&p[i], 1);
    return TH_OK;
  }
  if (first > 0) th__products(p, first);
  if (all > first) th__products(p + first, all - first);
  return TH_OK;
}
