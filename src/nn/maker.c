#include "nn/maker.h"

#include <stdio.h>

#include "tensor/purpose.h"
#include "tensor/tensor.h"

th_tensor *th__make_zeros(th__maker *m, const char *block, const char *name, int ndim,
                          const ptrdiff_t *shape) {
  if (m->failed) return NULL;
  char full[64];
  snprintf(full, sizeof full, "%s%s", block, name);
  th_tensor *tensor = th_params_add(m->params, full, m->dtype, ndim, shape, m->error);
  m->failed = tensor == NULL;
  return tensor;
}

/* The place is the number of parameters before this one. */
static th_random next_stream(const th__maker *m) {
  uint32_t place = (uint32_t)th_params_count(m->params);
  return (th_random){.seed = m->seed, .purpose = TH__PURPOSE_INIT + place};
}

th_tensor *th__make_normal(th__maker *m, const char *block, const char *name, ptrdiff_t rows,
                           ptrdiff_t columns, double sd) {
  th_random stream = next_stream(m);
  th_tensor *tensor = th__make_zeros(m, block, name, TH_SHAPE(rows, columns));
  if (tensor != NULL) th_init_normal(tensor, 0, sd, stream);
  return tensor;
}

th_tensor *th__make_uniform(th__maker *m, const char *block, const char *name, ptrdiff_t rows,
                            ptrdiff_t columns, double limit) {
  th_random stream = next_stream(m);
  th_tensor *tensor = th__make_zeros(m, block, name, TH_SHAPE(rows, columns));
  if (tensor != NULL) th_init_uniform(tensor, -limit, limit, stream);
  return tensor;
}

th__affine th__make_norm(th__maker *m, const char *block, const char *name, ptrdiff_t n, bool bias) {
  char full[48];
  th__affine norm = {0};
  snprintf(full, sizeof full, "%s.weight", name);
  norm.weight = th__make_zeros(m, block, full, TH_SHAPE(n));
  for (ptrdiff_t i = 0; i < n && !m->failed; i++) th__set(norm.weight, i, 1.0);
  snprintf(full, sizeof full, "%s.bias", name);
  if (bias) norm.bias = th__make_zeros(m, block, full, TH_SHAPE(n));
  return norm;
}
