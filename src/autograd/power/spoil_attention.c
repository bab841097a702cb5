/* spoil_attention.c: attention's backward, written out plainly so that it can be made wrong. The scale
 * is 1/sqrt(d_k) and there is no mask but the causal one. */
#include <math.h>
#include <string.h>

#include "autograd/power/faults.h"

#define SEES_ALL 1e9 /* param of th__spoil_attention_mask from here on: no mask at all */

typedef struct layer {
  ptrdiff_t batch, heads, kv_heads, n_q, n_k, d, e;
  double scale;
  const double *q, *k, *v, *y, *dy;
  bool causal;
} layer;

static bool read_layer(th__spoiled *s, layer *a) {
  const th_tensor *q = th_node_input(s->node, 0), *k = th_node_input(s->node, 1);
  const th_tensor *v = th_node_input(s->node, 2);
  *a = (layer){q->shape[0], q->shape[1], k->shape[1], q->shape[2],
               k->shape[2], q->shape[3], v->shape[3], 1 / sqrt((double)q->shape[3]),
               NULL,        NULL,        NULL,        NULL,
               NULL,        true};
  a->q = th__values(s->node, q);
  a->k = th__values(s->node, k);
  a->v = th__values(s->node, v);
  a->y = th__values(s->node, th_node_output(s->node));
  a->dy = th__values(s->node, th_node_upstream(s->node));
  return a->q && a->k && a->v && a->y && a->dy;
}

static double dot(const double *a, const double *b, ptrdiff_t n) {
  double sum = 0;
  for (ptrdiff_t i = 0; i < n; i++) sum += a[i] * b[i];
  return sum;
}

/* One query's row: where its vectors are. */
typedef struct row_at {
  ptrdiff_t q, k, v, y; /* offsets; k and v of key 0 */
  ptrdiff_t limit;      /* the forward sees keys below it */
} row_at;

/* The recorded output is [B, n_q, H, d_v]; what the caller sees is a view of it. */
static ptrdiff_t output_at(const layer *a, ptrdiff_t b, ptrdiff_t h, ptrdiff_t i) {
  return ((b * a->n_q + i) * a->heads + h) * a->e;
}

static row_at find_row(const layer *a, ptrdiff_t row) {
  ptrdiff_t i = row % a->n_q, h = row / a->n_q % a->heads, b = row / a->n_q / a->heads;
  ptrdiff_t kv = b * a->kv_heads + h / (a->heads / a->kv_heads);
  ptrdiff_t limit = a->causal ? i + 1 + a->n_k - a->n_q : a->n_k;
  if (limit < 0) limit = 0;
  if (limit > a->n_k) limit = a->n_k;
  return (row_at){row * a->d, kv * a->n_k * a->d, kv * a->n_k * a->e, output_at(a, b, h, i), limit};
}

/* exp(score - logsumexp of the keys seen): the weights, also for keys that the forward hid. */
static double weight(const layer *a, row_at at, double logsumexp, ptrdiff_t j) {
  return exp(a->scale * dot(a->q + at.q, a->k + at.k + j * a->d, a->d) - logsumexp);
}

static double logsumexp(const layer *a, row_at at) {
  double sum = 0;
  for (ptrdiff_t j = 0; j < at.limit; j++)
    sum += exp(a->scale * dot(a->q + at.q, a->k + at.k + j * a->d, a->d));
  return log(sum);
}

/* The whole backward of one input, for keys below limit + extra, with or without the row sum. */
static void backward(const layer *a, int input, ptrdiff_t extra, bool row_sum, double *delta) {
  for (ptrdiff_t row = 0; row < a->batch * a->heads * a->n_q; row++) {
    row_at at = find_row(a, row);
    if (at.limit == 0) continue;
    double lse = logsumexp(a, at), delta_row = dot(a->y + at.y, a->dy + at.y, a->e);
    ptrdiff_t end = at.limit + extra < a->n_k ? at.limit + extra : a->n_k;
    for (ptrdiff_t j = 0; j < end; j++) {
      double p = weight(a, at, lse, j);
      double dp = dot(a->dy + at.y, a->v + at.v + j * a->e, a->e);
      double ds = a->scale * p * (dp - (row_sum ? delta_row : 0));
      for (ptrdiff_t c = 0; c < a->d && input == 0; c++)
        delta[at.q + c] += ds * a->k[at.k + j * a->d + c];
      for (ptrdiff_t c = 0; c < a->d && input == 1; c++)
        delta[at.k + j * a->d + c] += ds * a->q[at.q + c];
      for (ptrdiff_t c = 0; c < a->e && input == 2; c++)
        delta[at.v + j * a->e + c] += p * a->dy[at.y + c];
    }
  }
}

static th_status replace(th__spoiled *s, bool causal, ptrdiff_t extra, bool row_sum) {
  layer a;
  if (!read_layer(s, &a)) return TH_ERR_MEMORY;
  a.causal = causal;
  memset(s->delta, 0, (size_t)s->count * sizeof *s->delta);
  backward(&a, s->input, extra, row_sum, s->delta);
  return TH_OK;
}

th_status th__spoil_attention_row_sum(th__spoiled *s) {
  return replace(s, s->param != 0, 0, false);
}

th_status th__spoil_attention_mask(th__spoiled *s) {
  return replace(s, true, s->param >= SEES_ALL ? PTRDIFF_MAX / 2 : (ptrdiff_t)s->param, true);
}

/* n_q = n_k, without a mask. */
th_status th__spoil_attention_untransposed(th__spoiled *s) {
  layer a;
  if (!read_layer(s, &a)) return TH_ERR_MEMORY;
  a.causal = false;
  memset(s->delta, 0, (size_t)s->count * sizeof *s->delta);
  for (ptrdiff_t row = 0; row < a.batch * a.heads * a.n_q; row++) {
    row_at at = find_row(&a, row);
    double lse = logsumexp(&a, at);
    ptrdiff_t h = row / a.n_q % a.heads, b = row / a.n_q / a.heads;
    for (ptrdiff_t j = 0; j < a.n_k; j++)
      for (ptrdiff_t c = 0; c < a.e; c++)
        s->delta[row * a.e + c] += weight(&a, at, lse, j) * a.dy[output_at(&a, b, h, j) + c];
  }
  return TH_OK;
}

/* Without a mask; dk and dv of a group come from its last query head alone. */
th_status th__spoil_attention_last_head(th__spoiled *s) {
  layer a;
  if (!read_layer(s, &a)) return TH_ERR_MEMORY;
  a.causal = false;
  memset(s->delta, 0, (size_t)s->count * sizeof *s->delta);
  ptrdiff_t group = a.heads / a.kv_heads;
  double *dy = th_node_workspace(s->node, (size_t)(a.batch * a.heads * a.n_q * a.e) * sizeof *dy);
  if (dy == NULL) return TH_ERR_MEMORY;
  for (ptrdiff_t k = 0; k < a.batch * a.heads * a.n_q * a.e; k++) {
    bool last = k / a.e % a.heads % group == group - 1;
    dy[k] = last ? a.dy[k] : 0;
  }
  a.dy = dy;
  backward(&a, s->input, 0, true, s->delta);
  return TH_OK;
}
