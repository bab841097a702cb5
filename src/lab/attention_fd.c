#include "lab/attention_fd.h"

#include <math.h>
#include <string.h>

#include "lab/norm.h"

enum { DIRECTIONS = 4, STEPS = 4 };

/* Where a derivative looks, in steps: central differences at h and h / 2. */
static const double places[STEPS] = {1, -1, 0.5, -0.5};

/* A step moves the logits by at most this much: the extrapolation's own error, of order REACH^4 / 480,
 * and rounding, of order 1e-16 |logit| / REACH, are both near 1e-11. */
#define REACH 0x1p-7

typedef struct work {
  th_tape *tape;
  const th__attention_case *row;
  th_tensor *q, *k, *a;      /* [1, 1, 1, d_k], [1, 1, keys, d_k], [1, 1, keys, 1] */
  double *direction, *slope; /* [keys, d_k], and the change of each logit (before scale), [keys] */
  th_random random;
} work;

static double dot(ptrdiff_t n, const double *x, const double *y) {
  double sum = 0;
  for (ptrdiff_t c = 0; c < n; c++) sum += x[c] * y[c];
  return sum;
}

/* a_j = g . (v_j - v_top) */
static void fill_gains(const th__attention_case *row, double *a) {
  ptrdiff_t top = 0;
  double best = -(double)INFINITY;
  for (ptrdiff_t j = 0; j < row->keys; j++) {
    double logit = row->scale * dot(row->d_k, row->q, row->k + j * row->d_k);
    if (logit > best) {
      best = logit;
      top = j;
    }
  }
  const double *v_top = row->v + top * row->d_v;
  for (ptrdiff_t j = 0; j < row->keys; j++) {
    const double *v = row->v + j * row->d_v;
    a[j] = 0;
    for (ptrdiff_t c = 0; c < row->d_v; c++) a[j] += row->g[c] * (v[c] - v_top[c]);
  }
}

/* n entries of -1 or 1, others for each `number`. */
static void draw_signs(const work *w, ptrdiff_t n, uint64_t number, double *signs) {
  uint64_t bits = 0, first = number << 32;
  for (ptrdiff_t i = 0; i < n; i++, bits >>= 1) {
    if (i % 64 == 0) bits = th_random_bits(w->random, first + (uint64_t)i / 64);
    signs[i] = bits & 1 ? 1 : -1;
  }
}

/* The step for a direction along which logit j changes at the rate scale * slope_j. */
static double step_of(const work *w) {
  double fastest = 0;
  for (ptrdiff_t j = 0; j < w->row->keys; j++)
    fastest = fmax(fastest, fabs(w->row->scale * w->slope[j]));
  return fastest > 0 ? REACH / fastest : 1;
}

/* sum_j p_j a_j for each query of q. False with an error on the tape. */
static bool evaluate(const work *w, th_tensor *q, double *values) {
  const th_attention_options options = {.scale = TH_SCALE_FACTOR, .factor = w->row->scale};
  th_tensor *y = th_attention(w->tape, q, w->k, w->a, &options);
  if (y == NULL) return false;
  th_tensor_read(y, values);
  return true;
}

static double extrapolate(const double *values, double h) {
  double whole = (values[0] - values[1]) / (2 * h), half = (values[2] - values[3]) / h;
  return (4 * half - whole) / 3;
}

/* ---- directions of q: all places as queries of one call ---- */

static bool derive_q(const work *w, double *claimed, double *measured) {
  const th__attention_case *row = w->row;
  double steps[DIRECTIONS], values[DIRECTIONS * STEPS];
  th_tensor *moved = th_output(w->tape, TH_F64, TH_SHAPE(1, 1, DIRECTIONS * STEPS, row->d_k));
  if (moved == NULL) return false;
  double *q = th_tensor_data(moved);
  for (int d = 0; d < DIRECTIONS; d++) {
    draw_signs(w, row->d_k, (uint64_t)d, w->direction);
    for (ptrdiff_t j = 0; j < row->keys; j++)
      w->slope[j] = dot(row->d_k, w->direction, row->k + j * row->d_k);
    steps[d] = step_of(w);
    for (int s = 0; s < STEPS; s++, q += row->d_k)
      for (ptrdiff_t c = 0; c < row->d_k; c++)
        q[c] = row->q[c] + places[s] * steps[d] * w->direction[c];
    claimed[d] = dot(row->d_k, row->dq, w->direction);
  }
  if (!evaluate(w, moved, values)) return false;
  for (int d = 0; d < DIRECTIONS; d++) measured[d] = extrapolate(values + d * STEPS, steps[d]);
  return true;
}

/* ---- directions of K: one place after the other, written over the same keys ---- */

static bool derive_k(const work *w, double *claimed, double *measured) {
  const th__attention_case *row = w->row;
  ptrdiff_t count = row->keys * row->d_k;
  double *k = th_tensor_data(w->k);
  for (int d = 0; d < DIRECTIONS; d++) {
    double values[STEPS];
    draw_signs(w, count, (uint64_t)(DIRECTIONS + d), w->direction);
    for (ptrdiff_t j = 0; j < row->keys; j++)
      w->slope[j] = dot(row->d_k, row->q, w->direction + j * row->d_k);
    double step = step_of(w);
    for (int s = 0; s < STEPS; s++) {
      for (ptrdiff_t i = 0; i < count; i++) k[i] = row->k[i] + places[s] * step * w->direction[i];
      if (!evaluate(w, w->q, &values[s])) return false;
    }
    claimed[d] = dot(count, row->dk, w->direction);
    measured[d] = extrapolate(values, step);
  }
  return true;
}

static double relative_error(const double *claimed, const double *measured) {
  double difference[DIRECTIONS];
  for (int d = 0; d < DIRECTIONS; d++) difference[d] = claimed[d] - measured[d];
  double size = fmax(th__norm(TH_F64, DIRECTIONS, claimed), th__norm(TH_F64, DIRECTIONS, measured));
  double error = th__norm(TH_F64, DIRECTIONS, difference);
  return error == 0 ? 0 : error / size;
}

static bool prepare(work *w) {
  const th__attention_case *row = w->row;
  w->q = th_input(w->tape, TH_F64, TH_SHAPE(1, 1, 1, row->d_k), row->q);
  w->k = th_input(w->tape, TH_F64, TH_SHAPE(1, 1, row->keys, row->d_k), row->k);
  w->a = th_output(w->tape, TH_F64, TH_SHAPE(1, 1, row->keys, 1));
  w->direction = th_tape_alloc(w->tape, (size_t)(row->keys * row->d_k) * sizeof(double));
  w->slope = th_tape_alloc(w->tape, (size_t)row->keys * sizeof(double));
  if (w->a == NULL || w->slope == NULL) return false;
  fill_gains(row, th_tensor_data(w->a));
  return true;
}

th_status th__attention_fd(th_tape *tape, const th__attention_case *row, th_random directions,
                           double *dq_error, double *dk_error) {
  work w = {.tape = tape, .row = row, .random = directions};
  double claimed[DIRECTIONS], measured[DIRECTIONS];
  if (!prepare(&w)) return th_tape_status(tape);
  if (!derive_q(&w, claimed, measured)) return th_tape_status(tape);
  *dq_error = relative_error(claimed, measured);
  if (!derive_k(&w, claimed, measured)) return th_tape_status(tape);
  *dk_error = relative_error(claimed, measured);
  return TH_OK;
}
