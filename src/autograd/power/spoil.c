/* spoil.c: faults that any operation may have. */
#include <math.h>
#include <string.h>

#include "autograd/power/faults.h"

th_status th__spoil_nothing(th__spoiled *s) {
  memset(s->delta, 0, (size_t)s->count * sizeof *s->delta);
  return TH_OK;
}

th_status th__spoil_zeros(th__spoiled *s) {
  s->overwrite = true;
  return th__spoil_nothing(s);
}

static th_status scale(th__spoiled *s, double factor) {
  for (ptrdiff_t k = 0; k < s->count; k++) s->delta[k] *= factor;
  return TH_OK;
}

th_status th__spoil_factor(th__spoiled *s) { return scale(s, s->param); }

th_status th__spoil_width(th__spoiled *s) {
  return scale(s, pow((double)th__dim(th_node_input(s->node, 0), -1), s->param));
}

th_status th__spoil_rows(th__spoiled *s) {
  const th_tensor *x = th_node_input(s->node, 0);
  return scale(s, pow((double)(x->count / th__dim(x, -1)), s->param));
}

th_status th__spoil_nan(th__spoiled *s) {
  s->delta[s->count / 2] = (double)NAN;
  return TH_OK;
}

th_status th__spoil_overwrite(th__spoiled *s) {
  s->overwrite = true;
  return TH_OK;
}

th_status th__spoil_drop_entry(th__spoiled *s) {
  ptrdiff_t largest = 0;
  for (ptrdiff_t k = 1; k < s->count; k++)
    if (fabs(s->delta[k]) > fabs(s->delta[largest])) largest = k;
  s->delta[largest] = 0;
  return TH_OK;
}

/* Each matrix [m, n] is written as if it were [n, m]. */
th_status th__spoil_transpose(th__spoiled *s) {
  const th_tensor *x = th_node_input(s->node, s->input);
  ptrdiff_t n = th__dim(x, -1), m = x->ndim > 1 ? th__dim(x, -2) : 1;
  double *old = th_node_workspace(s->node, (size_t)s->count * sizeof *old);
  if (old == NULL) return TH_ERR_MEMORY;
  memcpy(old, s->delta, (size_t)s->count * sizeof *old);
  for (ptrdiff_t base = 0; base < s->count; base += m * n)
    for (ptrdiff_t i = 0; i < m; i++)
      for (ptrdiff_t j = 0; j < n; j++) s->delta[base + j * m + i] = old[base + i * n + j];
  return TH_OK;
}

th_status th__spoil_last_row(th__spoiled *s) {
  const th_tensor *dy = th_node_upstream(s->node);
  double *g = th__values(s->node, dy);
  if (g == NULL) return TH_ERR_MEMORY;
  memcpy(s->delta, g + dy->count - s->count, (size_t)s->count * sizeof *g);
  return TH_OK;
}

th_status th__spoil_swap_heads(th__spoiled *s) {
  const th_tensor *x = th_node_input(s->node, s->input);
  ptrdiff_t inner = 1, heads = th__dim(x, 1);
  if (heads < 2) return TH_OK;
  for (int i = 2; i < x->ndim; i++) inner *= x->shape[i];
  for (ptrdiff_t b = 0; b < x->shape[0]; b++) {
    double *first = s->delta + b * heads * inner, *second = first + inner;
    for (ptrdiff_t k = 0; k < inner; k++) {
      double kept = first[k];
      first[k] = second[k];
      second[k] = kept;
    }
  }
  return TH_OK;
}

th_status th__spoil_upstream(th__spoiled *s) {
  th_tensor_read(th_node_upstream(s->node), s->delta);
  return TH_OK;
}

th_status th__spoil_second_quarter(th__spoiled *s) {
  ptrdiff_t quarter = s->count / 4;
  memset(s->delta + quarter, 0, (size_t)quarter * sizeof *s->delta);
  return TH_OK;
}
