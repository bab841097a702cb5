/* spoil_ops.c: faults of particular operations, each written as the wrong formula. */
#include <math.h>
#include <string.h>

#include "autograd/power/faults.h"

/* Rows and their length, with values of the node's first input, output and upstream gradient. */
typedef struct rows_of {
  ptrdiff_t rows, n;
  double *x, *y, *dy;
} rows_of;

static bool read_rows(th__spoiled *s, rows_of *r) {
  const th_tensor *x = th_node_input(s->node, 0);
  r->n = th__dim(x, -1);
  r->rows = x->count / r->n;
  r->x = th__values(s->node, x);
  r->y = th__values(s->node, th_node_output(s->node));
  r->dy = th__values(s->node, th_node_upstream(s->node));
  return r->x != NULL && r->y != NULL && r->dy != NULL;
}

/* y = x W^T: dx = dy W without the last output's term, dW = dy^T x without the last row's. */
th_status th__spoil_linear_term(th__spoiled *s) {
  rows_of r;
  const th_tensor *weight = th_node_input(s->node, 1);
  double *w = th__values(s->node, weight);
  if (!read_rows(s, &r) || w == NULL) return TH_ERR_MEMORY;
  ptrdiff_t out = weight->shape[0], last = out - 1;
  if (s->input == 0)
    for (ptrdiff_t k = 0; k < s->count; k++)
      s->delta[k] -= r.dy[k / r.n * out + last] * w[last * r.n + k % r.n];
  if (s->input == 1)
    for (ptrdiff_t k = 0; k < s->count; k++)
      s->delta[k] -= r.dy[(r.rows - 1) * out + k / r.n] * r.x[(r.rows - 1) * r.n + k % r.n];
  return TH_OK;
}

th_status th__spoil_softmax_row_sum(th__spoiled *s) {
  rows_of r;
  if (!read_rows(s, &r)) return TH_ERR_MEMORY;
  for (ptrdiff_t k = 0; k < s->count; k++) s->delta[k] = r.y[k] * r.dy[k];
  return TH_OK;
}

th_status th__spoil_log_softmax_row_sum(th__spoiled *s) {
  rows_of r;
  if (!read_rows(s, &r)) return TH_ERR_MEMORY;
  memcpy(s->delta, r.dy, (size_t)s->count * sizeof *s->delta);
  return TH_OK;
}

/* ---- layer norm: dx = (d - mean(d) - xhat mean(d xhat)) / sd with d = dy gain ---- */

typedef struct norm_row {
  double mean, inverse, mean_d, mean_dx;
} norm_row;

static norm_row norm_figures(const rows_of *r, const double *gain, ptrdiff_t row) {
  const double *x = r->x + row * r->n, *dy = r->dy + row * r->n;
  norm_row f = {0};
  double n = (double)r->n, variance = 0;
  for (ptrdiff_t j = 0; j < r->n; j++) f.mean += x[j] / n;
  for (ptrdiff_t j = 0; j < r->n; j++) variance += (x[j] - f.mean) * (x[j] - f.mean) / n;
  f.inverse = 1 / sqrt(variance + 1e-5);
  for (ptrdiff_t j = 0; j < r->n; j++) {
    double d = dy[j] * (gain != NULL ? gain[j] : 1);
    f.mean_d += d / n;
    f.mean_dx += d * (x[j] - f.mean) * f.inverse / n;
  }
  return f;
}

static th_status spoil_norm(th__spoiled *s, bool drop_mean) {
  rows_of r;
  const th_tensor *gain_tensor = th_node_input(s->node, 1);
  double *gain = gain_tensor != NULL ? th__values(s->node, gain_tensor) : NULL;
  if (!read_rows(s, &r)) return TH_ERR_MEMORY;
  for (ptrdiff_t row = 0; row < r.rows; row++) {
    norm_row f = norm_figures(&r, gain, row);
    for (ptrdiff_t j = 0; j < r.n; j++) {
      double xhat = (r.x[row * r.n + j] - f.mean) * f.inverse;
      s->delta[row * r.n + j] += f.inverse * (drop_mean ? f.mean_d : xhat * f.mean_dx);
    }
  }
  return TH_OK;
}

th_status th__spoil_norm_mean(th__spoiled *s) { return spoil_norm(s, true); }
th_status th__spoil_norm_projection(th__spoiled *s) { return spoil_norm(s, false); }

/* ---- cross-entropy: dlogits = (p - onehot) dy / counted, 0 in ignored rows ---- */

static void softmax_row(const double *x, ptrdiff_t n, double *p) {
  double largest = x[0], sum = 0;
  for (ptrdiff_t j = 1; j < n; j++) largest = fmax(largest, x[j]);
  for (ptrdiff_t j = 0; j < n; j++) sum += p[j] = exp(x[j] - largest);
  for (ptrdiff_t j = 0; j < n; j++) p[j] /= sum;
}

/* The right gradient of a row is 0 exactly where its target is ignored, and sums to 0 elsewhere with
 * its one negative entry (for dy > 0) at the target. */
static th_status spoil_entropy(th__spoiled *s, bool ignored) {
  rows_of r;
  if (!read_rows(s, &r)) return TH_ERR_MEMORY;
  double *p = th_node_workspace(s->node, (size_t)r.n * sizeof *p), scale = 0;
  if (p == NULL) return TH_ERR_MEMORY;
  for (ptrdiff_t row = 0; row < r.rows; row++) { /* dy / counted, from the largest |gradient| */
    softmax_row(r.x + row * r.n, r.n, p);
    for (ptrdiff_t j = 0; j < r.n; j++) {
      double d = s->delta[row * r.n + j];
      if (d * r.dy[0] > 0 && scale == 0) scale = d / p[j];
    }
  }
  for (ptrdiff_t row = 0; row < r.rows; row++) {
    double *d = s->delta + row * r.n;
    bool zero = true;
    for (ptrdiff_t j = 0; j < r.n; j++) zero = zero && d[j] == 0;
    if (zero != ignored) continue;
    softmax_row(r.x + row * r.n, r.n, p);
    for (ptrdiff_t j = 0; j < r.n; j++) d[j] = scale * p[j];
  }
  return TH_OK;
}

th_status th__spoil_entropy_onehot(th__spoiled *s) { return spoil_entropy(s, false); }
th_status th__spoil_entropy_ignored(th__spoiled *s) { return spoil_entropy(s, true); }

/* ---- others ---- */

/* A row of the table equals output rows bit for bit where it was hit: keep the last one's gradient. */
th_status th__spoil_embedding_last(th__spoiled *s) {
  rows_of r;
  if (!read_rows(s, &r)) return TH_ERR_MEMORY;
  ptrdiff_t hits = th_node_output(s->node)->count / r.n;
  size_t bytes = (size_t)r.n * sizeof(double);
  for (ptrdiff_t hit = 0; hit < hits; hit++)
    for (ptrdiff_t row = 0; row < r.rows; row++)
      if (memcmp(r.x + row * r.n, r.y + hit * r.n, bytes) == 0)
        memcpy(s->delta + row * r.n, r.dy + hit * r.n, bytes);
  return TH_OK;
}

th_status th__spoil_gate_open(th__spoiled *s) {
  rows_of r;
  if (!read_rows(s, &r)) return TH_ERR_MEMORY;
  for (ptrdiff_t k = 0; k < s->count; k++)
    if (r.y[k] == 0) s->delta[k] = r.dy[k] * s->param;
  return TH_OK;
}

/* y = x Phi(x): dx = dy (Phi(x) + x phi(x)). */
th_status th__spoil_gelu_term(th__spoiled *s) {
  rows_of r;
  if (!read_rows(s, &r)) return TH_ERR_MEMORY;
  for (ptrdiff_t k = 0; k < s->count; k++) s->delta[k] = r.dy[k] * 0.5 * erfc(-r.x[k] / sqrt(2));
  return TH_OK;
}
