/* spoil_llama.c: faults of the operations of Llama blocks and recurrent cells, each written as the wrong
 * formula. */
#include <math.h>

#include "autograd/power/faults.h"

/* The case's rope has the default base and no offset. */
th_status th__spoil_rope(th__spoiled *s) {
  const th_tensor *dy = th_node_upstream(s->node);
  double *values = th__values(s->node, dy);
  th_tape *tape = th_tape_new();
  th_tensor *turned = NULL;
  if (values != NULL && tape != NULL) {
    th_tensor *x = th_input(tape, TH_F64, dy->ndim, dy->shape, values);
    turned = th_rope(tape, x, &(th_rope_options){.interleaved = s->param != 0});
  }
  if (turned != NULL) th_tensor_read(turned, s->delta);
  th_tape_free(tape);
  return turned != NULL ? TH_OK : TH_ERR_MEMORY;
}

/* y = x r gain with r = 1 / sqrt(mean(x^2) + eps): without the second term dx = dy gain r. */
th_status th__spoil_rms_mean(th__spoiled *s) {
  const th_tensor *x = th_node_input(s->node, 0);
  double *values = th__values(s->node, x), *dy = th__values(s->node, th_node_upstream(s->node));
  double *gain = th__values(s->node, th_node_input(s->node, 1));
  if (values == NULL || dy == NULL || gain == NULL) return TH_ERR_MEMORY;
  ptrdiff_t n = th__dim(x, -1);
  for (ptrdiff_t row = 0; row < s->count; row += n) {
    double square = 0;
    for (ptrdiff_t j = 0; j < n; j++) square += values[row + j] * values[row + j] / (double)n;
    for (ptrdiff_t j = 0; j < n; j++)
      s->delta[row + j] = dy[row + j] * gain[j] / sqrt(square + 1e-5);
  }
  return TH_OK;
}

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

th_status th__spoil_silu_term(th__spoiled *s) {
  double *x = th__values(s->node, th_node_input(s->node, 0));
  double *dy = th__values(s->node, th_node_upstream(s->node));
  if (x == NULL || dy == NULL) return TH_ERR_MEMORY;
  for (ptrdiff_t k = 0; k < s->count; k++) s->delta[k] = dy[k] * sigmoid(x[k]);
  return TH_OK;
}

/* ---- swiglu: y = silu(gate) up ---- */

th_status th__spoil_swiglu_up(th__spoiled *s) {
  double *up = th__values(s->node, th_node_input(s->node, 1));
  if (up == NULL) return TH_ERR_MEMORY;
  for (ptrdiff_t k = 0; k < s->count; k++) s->delta[k] /= up[k];
  return TH_OK;
}

th_status th__spoil_swiglu_swap(th__spoiled *s) {
  double *gate = th__values(s->node, th_node_input(s->node, 0));
  double *up = th__values(s->node, th_node_input(s->node, 1));
  double *dy = th__values(s->node, th_node_upstream(s->node));
  if (gate == NULL || up == NULL || dy == NULL) return TH_ERR_MEMORY;
  for (ptrdiff_t k = 0; k < s->count; k++) {
    double p = sigmoid(gate[k]), slope = p * (1 + gate[k] * (1 - p));
    s->delta[k] = dy[k] * (s->input == 0 ? gate[k] * p : slope * up[k]);
  }
  return TH_OK;
}

/* ---- others ---- */

th_status th__spoil_rows_upstream(th__spoiled *s) {
  const th_tensor *upstream = th_node_upstream(s->node);
  double *dy = th__values(s->node, upstream);
  if (dy == NULL) return TH_ERR_MEMORY;
  ptrdiff_t n = s->count / upstream->count;
  for (ptrdiff_t k = 0; k < s->count; k++) s->delta[k] = dy[k / n];
  return TH_OK;
}

/* Joined along the last axis. */
th_status th__spoil_concat_swap(th__spoiled *s) {
  double *dy = th__values(s->node, th_node_upstream(s->node));
  if (dy == NULL) return TH_ERR_MEMORY;
  ptrdiff_t n = th__dim(th_node_input(s->node, s->input), -1);
  for (ptrdiff_t k = 0; k < s->count; k++)
    s->delta[k] = dy[k / n * 2 * n + (1 - s->input) * n + k % n];
  return TH_OK;
}
