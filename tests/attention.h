/* attention.h: attention in plain loops, and random problems for it. */
#ifndef TESTS_ATTENTION_H
#define TESTS_ATTENTION_H

#include "support.h"

/* Shapes, masks and arrays of one call, in row-major doubles that are exact in f32. */
typedef struct problem {
  ptrdiff_t batch, heads, key_heads, n_q, n_k, d_k, d_v;
  double scale;
  bool causal;
  int mask_ndim; /* 0: no mask; 2, 3, 4: [n_q, n_k], per sample, per head */
  int32_t *key_lengths;
  uint8_t *key_mask, *mask;
  double *q, *k, *v, *dy;             /* given */
  double *y, *weights, *dq, *dk, *dv; /* by naive() */
} problem;

enum { CAUSAL = 1, LENGTHS = 2, KEY_MASK = 4, MASK = 8, MASK_SAMPLE = 16, MASK_HEAD = 32 };

static inline ptrdiff_t q_count(const problem *p) { return p->batch * p->heads * p->n_q * p->d_k; }
static inline ptrdiff_t k_count(const problem *p) {
  return p->batch * p->key_heads * p->n_k * p->d_k;
}
static inline ptrdiff_t v_count(const problem *p) {
  return p->batch * p->key_heads * p->n_k * p->d_v;
}
static inline ptrdiff_t y_count(const problem *p) { return p->batch * p->heads * p->n_q * p->d_v; }
static inline ptrdiff_t w_count(const problem *p) { return p->batch * p->heads * p->n_q * p->n_k; }
static inline ptrdiff_t mask_count(const problem *p) {
  ptrdiff_t n = p->n_q * p->n_k;
  return p->mask_ndim == 4 ? n * p->batch * p->heads : p->mask_ndim == 3 ? n * p->batch : n;
}

static inline void *room(ptrdiff_t count, size_t size) {
  void *memory = calloc((size_t)count + 1, size);
  cr_assert_not_null(memory);
  return memory;
}

static inline double *normals(ptrdiff_t count, uint64_t seed, uint32_t purpose) {
  double *x = room(count, sizeof *x);
  for (ptrdiff_t i = 0; i < count; i++)
    x[i] = (double)(float)th_random_normal((th_random){seed, purpose, 0}, (uint64_t)i);
  return x;
}

/* Each 1 with probability 3/4; every fifth row of `width` is all 0. */
static inline uint8_t *flags(ptrdiff_t count, ptrdiff_t width, uint64_t seed, uint32_t purpose) {
  uint8_t *x = room(count, 1);
  for (ptrdiff_t i = 0; i < count; i++)
    x[i] =
        i / width % 5 != 3 && th_random_uniform((th_random){seed, purpose, 0}, (uint64_t)i) < 0.75;
  return x;
}

/* Completes a problem whose shapes are set. Free it with problem_free. */
static inline problem random_problem(problem p, int masks, uint64_t seed) {
  if (p.scale == 0) p.scale = 0.75;
  p.causal = (masks & CAUSAL) != 0;
  p.mask_ndim = masks & MASK_HEAD ? 4 : masks & MASK_SAMPLE ? 3 : masks & MASK ? 2 : 0;
  p.q = normals(q_count(&p), seed, 1);
  p.k = normals(k_count(&p), seed, 2);
  p.v = normals(v_count(&p), seed, 3);
  p.dy = normals(y_count(&p), seed, 4);
  if (masks & LENGTHS) {
    p.key_lengths = room(p.batch, sizeof *p.key_lengths);
    for (ptrdiff_t b = 0; b < p.batch; b++) /* the first sample sees all keys, the second none */
      p.key_lengths[b] = (int32_t)(b == 0 ? p.n_k : b == 1 ? 0 : p.n_k * (b % 3 + 1) / 4);
  }
  if (masks & KEY_MASK) p.key_mask = flags(p.batch * p.n_k, p.n_k, seed, 5);
  if (p.mask_ndim > 0) p.mask = flags(mask_count(&p), p.n_k, seed, 6);
  p.y = room(y_count(&p), sizeof(double));
  p.weights = room(w_count(&p), sizeof(double));
  p.dq = room(q_count(&p), sizeof(double));
  p.dk = room(k_count(&p), sizeof(double));
  p.dv = room(v_count(&p), sizeof(double));
  return p;
}

static inline void problem_free(problem *p) {
  void *all[] = {p->key_lengths, p->key_mask, p->mask,    p->q,  p->k,  p->v,
                 p->dy,          p->y,        p->weights, p->dq, p->dk, p->dv};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

static inline bool may_attend(const problem *p, ptrdiff_t b, ptrdiff_t h, ptrdiff_t i, ptrdiff_t j) {
  if (p->causal && j > i + p->n_k - p->n_q) return false;
  if (p->key_lengths != NULL && j >= p->key_lengths[b]) return false;
  if (p->key_mask != NULL && p->key_mask[b * p->n_k + j] == 0) return false;
  ptrdiff_t matrix = p->mask_ndim == 4 ? b * p->heads + h : p->mask_ndim == 3 ? b : 0;
  return p->mask == NULL || p->mask[(matrix * p->n_q + i) * p->n_k + j] != 0;
}

/* One query, from the definition, over the keys it may see; adds to dk and dv, sets the rest. */
static inline void naive_query(problem *p, ptrdiff_t b, ptrdiff_t h, ptrdiff_t i) {
  ptrdiff_t at = (b * p->heads + h) * p->n_q + i;
  ptrdiff_t keys = (b * p->key_heads + h / (p->heads / p->key_heads)) * p->n_k;
  const double *q = p->q + at * p->d_k, *dy = p->dy + at * p->d_v;
  double *y = p->y + at * p->d_v, *w = p->weights + at * p->n_k, *dq = p->dq + at * p->d_k;
  double max = -INFINITY, sum = 0, dot = 0;
  for (ptrdiff_t j = 0; j < p->n_k; j++) {
    if (!may_attend(p, b, h, i, j)) continue;
    w[j] = 0;
    for (ptrdiff_t c = 0; c < p->d_k; c++) w[j] += p->scale * q[c] * p->k[(keys + j) * p->d_k + c];
    max = fmax(max, w[j]);
  }
  for (ptrdiff_t j = 0; j < p->n_k; j++)
    if (may_attend(p, b, h, i, j)) sum += w[j] = exp(w[j] - max);
  double *dp = room(p->n_k, sizeof *dp);
  for (ptrdiff_t j = 0; j < p->n_k; j++) {
    if (!may_attend(p, b, h, i, j)) continue;
    w[j] /= sum;
    for (ptrdiff_t c = 0; c < p->d_v; c++) {
      y[c] += w[j] * p->v[(keys + j) * p->d_v + c];
      dp[j] += dy[c] * p->v[(keys + j) * p->d_v + c];
      p->dv[(keys + j) * p->d_v + c] += w[j] * dy[c];
    }
    dot += w[j] * dp[j];
  }
  for (ptrdiff_t j = 0; j < p->n_k; j++)
    for (ptrdiff_t c = 0; c < p->d_k && may_attend(p, b, h, i, j); c++) {
      dq[c] += p->scale * w[j] * (dp[j] - dot) * p->k[(keys + j) * p->d_k + c];
      p->dk[(keys + j) * p->d_k + c] += p->scale * w[j] * (dp[j] - dot) * q[c];
    }
  free(dp);
}

static inline void naive(problem *p) {
  for (ptrdiff_t b = 0; b < p->batch; b++)
    for (ptrdiff_t h = 0; h < p->heads; h++)
      for (ptrdiff_t i = 0; i < p->n_q; i++) naive_query(p, b, h, i);
}

/* ---- the library on such a problem ---- */

typedef struct result {
  th_tensor *q, *k, *v, *y, *weights;
} result;

static inline th_tensor *mask_of(th_tape *tape, int ndim, const ptrdiff_t *shape,
                                 const uint8_t *bytes) {
  return bytes == NULL ? NULL : th_input(tape, TH_BOOL, ndim, shape, bytes);
}

/* The options of a problem; masks go on the tape. */
static inline th_attention_options options_of(th_tape *tape, const problem *p) {
  const ptrdiff_t shape[] = {p->batch, p->heads, p->n_q, p->n_k};
  const ptrdiff_t per_sample[] = {p->batch, p->n_q, p->n_k};
  const ptrdiff_t *mask_shape = p->mask_ndim == 4   ? shape
                                : p->mask_ndim == 3 ? per_sample
                                                    : shape + 2;
  return (th_attention_options){
      .scale = TH_SCALE_FACTOR,
      .factor = p->scale,
      .causal = p->causal,
      .key_lengths =
          p->key_lengths == NULL ? NULL : th_input(tape, TH_I32, TH_SHAPE(p->batch), p->key_lengths),
      .key_mask = mask_of(tape, TH_SHAPE(p->batch, p->n_k), p->key_mask),
      .mask = mask_of(tape, p->mask_ndim, mask_shape, p->mask)};
}

static inline result attend(th_tape *tape, th_dtype dtype, const problem *p) {
  result r;
  r.q = make(tape, dtype, TH_SHAPE(p->batch, p->heads, p->n_q, p->d_k), p->q);
  r.k = make(tape, dtype, TH_SHAPE(p->batch, p->key_heads, p->n_k, p->d_k), p->k);
  r.v = make(tape, dtype, TH_SHAPE(p->batch, p->key_heads, p->n_k, p->d_v), p->v);
  th_attention_options options = options_of(tape, p);
  options.weights = &r.weights;
  r.y = th_attention(tape, r.q, r.k, r.v, &options);
  cr_assert_not_null(r.y, "%s", th_tape_message(tape));
  return r;
}

/* Forward and backward: gradients are in q, k, v. */
static inline result attend_both_ways(th_tape *tape, th_dtype dtype, const problem *p) {
  result r = attend(tape, dtype, p);
  backward_from(tape, r.y, p->dy);
  return r;
}

/* Everything a call yields, for comparing bits: y, weights, dq, dk, dv in this order. */
enum { PARTS = 5 };
static inline void parts_of(const result *r, const th_tensor *parts[PARTS]) {
  const th_tensor *all[PARTS] = {r->y, r->weights, th_tensor_grad(r->q), th_tensor_grad(r->k),
                                 th_tensor_grad(r->v)};
  memcpy(parts, all, sizeof all);
}
static const char *const part_names[PARTS] = {"y", "weights", "dq", "dk", "dv"};

static inline void expect_problem(const result *r, const problem *p, th_dtype dtype) {
  const th_tensor *parts[PARTS];
  parts_of(r, parts);
  const double *want[PARTS] = {p->y, p->weights, p->dq, p->dk, p->dv};
  for (int i = 0; i < PARTS; i++)
    expect_values(part_names[i], parts[i], want[i],
                  i < 2 ? tolerances[dtype].value : tolerances[dtype].gradient);
}

#endif
