/* recurrent.h: what the tests of rnn and lstm share: inputs by name, random layers, the same layer built
 * step by step from other ops. */
#ifndef TESTS_OPS_RECURRENT_H
#define TESTS_OPS_RECURRENT_H

#include "../gradients.h"
#include "../support.h"

enum { X, H0, W_X, W_H, BIAS, C0, INPUTS };

/* A layer's inputs; those not given are NULL. */
typedef struct layer {
  int gates;
  th_tensor *in[INPUTS];
} layer;

typedef struct layer_sizes {
  ptrdiff_t batch, steps, inner, width;
} layer_sizes;

static inline th_recurrent_weights weights_of(const layer *l) {
  return (th_recurrent_weights){l->in[W_X], l->in[W_H], l->in[BIAS]};
}

static inline th_tensor *random_tensor(th_tape *tape, th_dtype dtype, int ndim,
                                       const ptrdiff_t *shape, double sd, uint64_t seed) {
  th_tensor *x = th_input_grad(tape, dtype, ndim, shape, NULL);
  cr_assert_not_null(x, "%s", th_tape_message(tape));
  th_init_normal(x, 0, sd, (th_random){seed, 0, 0});
  return x;
}

/* gates: 1 (rnn) or 4 (lstm); with all that is optional. */
static inline layer random_layer(th_tape *tape, th_dtype dtype, layer_sizes s, int gates) {
  double sd = 1 / sqrt((double)s.width + 1);
  layer l = {.gates = gates};
  l.in[X] = random_tensor(tape, dtype, TH_SHAPE(s.batch, s.steps, s.inner), 1, 1);
  l.in[H0] = random_tensor(tape, dtype, TH_SHAPE(s.batch, s.width), 1, 2);
  l.in[W_X] = random_tensor(tape, dtype, TH_SHAPE(gates * s.width, s.inner), sd, 3);
  l.in[W_H] = random_tensor(tape, dtype, TH_SHAPE(gates * s.width, s.width), sd, 4);
  l.in[BIAS] = random_tensor(tape, dtype, TH_SHAPE(gates * s.width), 1, 5);
  if (gates == 4) l.in[C0] = random_tensor(tape, dtype, TH_SHAPE(s.batch, s.width), 1, 6);
  return l;
}

/* All h; of an lstm, h + c / 2. */
static inline th_tensor *fused(th_tape *tape, const layer *l) {
  th_recurrent_weights w = weights_of(l);
  if (l->gates == 1) return th_rnn(tape, l->in[X], l->in[H0], &w);
  th_tensor *cells, *h = th_lstm(tape, l->in[X], l->in[H0], l->in[C0], &w, &cells);
  return th_add(tape, h, th_scale(tape, cells, 0.5));
}

/* ---- goldens ---- */

typedef struct golden {
  const char *name;
  const ptrdiff_t *x_shape, *w_shape; /* [B, T, in], [gates H, in] */
  const double *x, *w_x, *w_h, *dy, *y, *dx, *dw_x, *dw_h;
  const double *bias, *dbias, *h0, *dh0, *c0, *dc0, *h, *c; /* or NULL */
} golden;

/* A test defines G(name, part), which names its goldens' arrays. */
#define CASE(name, ...)                                                                            \
  {                                                                                                \
#name, G(name, x_shape), G(name, w_x_shape), G(name, x), G(name, w_x), G(name, w_h),           \
        G(name, dy), G(name, y), G(name, dx), G(name, dw_x), G(name, dw_h), __VA_ARGS__            \
  }
#define NO_BIAS NULL, NULL
#define BIAS_OF(name) G(name, bias), G(name, dbias)

static inline void expect_golden(th_dtype dtype, const golden *g, int gates) {
  th_tape *tape = th_tape_new();
  ptrdiff_t batch = g->x_shape[0], inner = g->x_shape[2], rows = g->w_shape[0];
  ptrdiff_t width = rows / gates;
  layer l = {.gates = gates};
  l.in[X] = make(tape, dtype, 3, g->x_shape, g->x);
  l.in[W_X] = make(tape, dtype, TH_SHAPE(rows, inner), g->w_x);
  l.in[W_H] = make(tape, dtype, TH_SHAPE(rows, width), g->w_h);
  if (g->bias != NULL) l.in[BIAS] = make(tape, dtype, TH_SHAPE(rows), g->bias);
  if (g->h0 != NULL) l.in[H0] = make(tape, dtype, TH_SHAPE(batch, width), g->h0);
  if (g->c0 != NULL) l.in[C0] = make(tape, dtype, TH_SHAPE(batch, width), g->c0);
  if (gates == 4) {
    th_recurrent_weights w = weights_of(&l);
    th_tensor *cells, *h = th_lstm(tape, l.in[X], l.in[H0], l.in[C0], &w, &cells);
    expect_values(g->name, h, g->h, tolerances[dtype].value);
    expect_values(g->name, cells, g->c, tolerances[dtype].value);
  }
  th_tensor *y = fused(tape, &l);
  expect_values(g->name, y, g->y, tolerances[dtype].value);
  backward_from(tape, y, g->dy);
  const double *gradients[INPUTS] = {[X] = g->dx,     [H0] = g->dh0,     [W_X] = g->dw_x,
                                     [W_H] = g->dw_h, [BIAS] = g->dbias, [C0] = g->dc0};
  for (int k = 0; k < INPUTS; k++)
    if (l.in[k] != NULL)
      expect_values(g->name, th_tensor_grad(l.in[k]), gradients[k], tolerances[dtype].gradient);
  th_tape_free(tape);
}

/* ---- the same layer from other ops ---- */

/* One step from other ops; *h and *c move on. */
static inline void plain_step(th_tape *tape, const layer *l, ptrdiff_t t, th_tensor **h,
                              th_tensor **c) {
  th_tensor *x = l->in[X];
  ptrdiff_t batch = th_tensor_dim(x, 0), inner = th_tensor_dim(x, 2);
  ptrdiff_t width = th_tensor_dim(l->in[W_H], 1);
  th_tensor *now = th_reshape(tape, th_slice(tape, x, 1, t, t + 1), TH_SHAPE(batch, inner));
  th_tensor *z = th_linear(tape, now, l->in[W_X], l->in[BIAS]);
  z = th_add(tape, z, th_linear(tape, *h, l->in[W_H], NULL));
  if (l->gates == 1) {
    *h = th_tanh(tape, z);
    return;
  }
  th_tensor *gate[4];
  for (int g = 0; g < 4; g++) {
    gate[g] = th_contiguous(tape, th_slice(tape, z, 1, g * width, (g + 1) * width));
    gate[g] = g == 2 ? th_tanh(tape, gate[g]) : th_sigmoid(tape, gate[g]);
  }
  *c = th_add(tape, th_mul(tape, gate[1], *c), th_mul(tape, gate[0], gate[2]));
  *h = th_mul(tape, gate[3], th_tanh(tape, *c));
}

/* sum(v * y) over all steps, where y is what fused() gives and v [B, T, H] a constant: a scalar, so that
 * the plain layer's steps, which are tensors of their own, need not be joined. */
static inline th_tensor *plain_loss(th_tape *tape, const layer *l, th_tensor *v) {
  ptrdiff_t batch = th_tensor_dim(v, 0), width = th_tensor_dim(v, 2);
  th_tensor *h = l->in[H0], *c = l->in[C0], *sum = NULL;
  for (ptrdiff_t t = 0; t < th_tensor_dim(v, 1); t++) {
    plain_step(tape, l, t, &h, &c);
    th_tensor *y = l->gates == 1 ? h : th_add(tape, h, th_scale(tape, c, 0.5));
    th_tensor *weight = th_reshape(tape, th_slice(tape, v, 1, t, t + 1), TH_SHAPE(batch, width));
    th_tensor *part = th_sum(tape, th_mul(tape, y, weight), TH_ALL_AXES);
    sum = sum == NULL ? part : th_add(tape, sum, part);
  }
  return sum;
}

/* 0 for a gradient that was never made. */
static inline double largest_of(const th_tensor *x) {
  double largest = 0;
  for (ptrdiff_t i = 0; x != NULL && i < x->count; i++)
    largest = fmax(largest, fabs(th__get(x, i)));
  return largest;
}

/* Loss and every gradient of the fused layer against the plain one. */
static inline void expect_equals_plain(th_dtype dtype, layer_sizes s, int gates) {
  th_tape *tapes[2] = {th_tape_new(), th_tape_new()};
  layer l[2];
  double loss[2];
  for (int i = 0; i < 2; i++) {
    l[i] = random_layer(tapes[i], dtype, s, gates);
    th_tensor *v = th_input(tapes[i], dtype, TH_SHAPE(s.batch, s.steps, s.width), NULL);
    th_init_normal(v, 0, 1, (th_random){7, 0, 0});
    th_tensor *sum =
        i == 0 ? th_sum(tapes[i], th_mul(tapes[i], fused(tapes[i], &l[i]), v), TH_ALL_AXES)
               : plain_loss(tapes[i], &l[i], v);
    cr_assert_not_null(sum, "%s", th_tape_message(tapes[i]));
    loss[i] = th_tensor_item(sum);
    cr_assert_eq(th_backward(tapes[i], sum), TH_OK, "%s", th_tape_message(tapes[i]));
  }
  double limit = dtype == TH_F32 ? 2e-5 : 2e-13;
  cr_assert(fabs(loss[0] - loss[1]) <= 10 * limit * fmax(1, fabs(loss[1])), "%.17g, want %.17g",
            loss[0], loss[1]);
  for (int k = 0; k < INPUTS; k++) {
    if (l[0].in[k] == NULL) continue;
    const th_tensor *got = th_tensor_grad(l[0].in[k]), *want = th_tensor_grad(l[1].in[k]);
    double size = limit * (1 + largest_of(want));
    for (ptrdiff_t i = 0; i < got->count; i++)
      cr_assert(fabs(th__get(got, i) - th__get(want, i)) <= size,
                "%td x %td steps of %td -> %td: input %d [%td]: %.17g, want %.17g", s.batch,
                s.steps, s.inner, s.width, k, i, th__get(got, i), th__get(want, i));
  }
  th_tape_free(tapes[0]);
  th_tape_free(tapes[1]);
}

/* The bits of all gradients at some number of threads. */
static inline void expect_same_bits(th_dtype dtype, layer_sizes s, int gates) {
  th_tape *tapes[3];
  layer l[3];
  for (int t = 0; t < 3; t++) {
    tapes[t] = th_tape_new();
    th_set_threads(t + 1);
    l[t] = random_layer(tapes[t], dtype, s, gates);
    th_tensor *y = fused(tapes[t], &l[t]);
    th_tensor *v = th_input(tapes[t], dtype, TH_SHAPE(s.batch, s.steps, s.width), NULL);
    th_init_normal(v, 0, 1, (th_random){7, 0, 0});
    cr_assert_eq(th_backward_from(tapes[t], y, v), TH_OK, "%s", th_tape_message(tapes[t]));
    for (int k = 0; t > 0 && k < INPUTS; k++) {
      if (l[0].in[k] == NULL) continue;
      const th_tensor *one = th_tensor_grad(l[0].in[k]), *several = th_tensor_grad(l[t].in[k]);
      size_t bytes = (size_t)one->count * th_dtype_size(dtype);
      cr_assert_eq(memcmp(one->data, several->data, bytes), 0, "%d threads, input %d", t + 1, k);
    }
  }
  th_set_threads(0);
  for (int t = 0; t < 3; t++) th_tape_free(tapes[t]);
}

/* No sequences, no steps, no width: nothing to compute, gradients stay 0. */
static inline void expect_empty(th_dtype dtype, int gates) {
  const layer_sizes all[] = {{0, 3, 2, 4}, {2, 0, 2, 4}, {2, 3, 2, 0}, {0, 0, 0, 0}};
  for (int i = 0; i < 4; i++) {
    th_tape *tape = th_tape_new();
    layer l = random_layer(tape, dtype, all[i], gates);
    th_tensor *y = fused(tape, &l);
    cr_assert_not_null(y, "%s", th_tape_message(tape));
    cr_assert_eq(th_tensor_count(y), 0);
    cr_assert_eq(th_tensor_dim(y, 1), all[i].steps);
    backward_from(tape, y, NULL);
    for (int k = 0; k < INPUTS; k++)
      if (l.in[k] != NULL) cr_assert_eq(largest_of(th_tensor_grad(l.in[k])), 0);
    th_tape_free(tape);
  }
}

/* A sequence cut in two, the state handed over, is the same sequence. */
static inline void expect_continues(th_dtype dtype, int gates) {
  th_tape *tape = th_tape_new();
  layer l = random_layer(tape, dtype, (layer_sizes){3, 7, 2, 5}, gates);
  th_recurrent_weights w = weights_of(&l);
  th_tensor *x = l.in[X], *h0 = l.in[H0], *c0 = l.in[C0], *cells;
  double whole[3 * 7 * 5], values[3 * 7 * 5];
  th_tensor_read(gates == 1 ? th_rnn(tape, x, h0, &w) : th_lstm(tape, x, h0, c0, &w, NULL), whole);
  const ptrdiff_t cuts[] = {0, 1, 4, 4, 7}; /* one part is empty */
  for (int i = 0; i + 1 < 5; i++) {
    ptrdiff_t length = cuts[i + 1] - cuts[i];
    th_tensor *part = th_slice(tape, x, 1, cuts[i], cuts[i + 1]);
    th_tensor *h = gates == 1 ? th_rnn(tape, part, h0, &w) : th_lstm(tape, part, h0, c0, &w, &cells);
    th_tensor_read(h, values);
    for (ptrdiff_t k = 0; k < 3 * length * 5; k++) {
      double want = whole[(k / (5 * length) * 7 + cuts[i]) * 5 + k % (5 * length)];
      cr_assert(fabs(values[k] - want) <= tolerances[dtype].value, "part %d [%td]", i, k);
    }
    if (length == 0) continue;
    h0 = th_reshape(tape, th_slice(tape, h, 1, length - 1, length), TH_SHAPE(3, 5));
    if (gates == 4)
      c0 = th_reshape(tape, th_slice(tape, cells, 1, length - 1, length), TH_SHAPE(3, 5));
  }
  th_tape_free(tape);
}

#endif
