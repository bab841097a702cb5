#include <float.h>
#include <math.h>

#include "derive/array.h"

/* One product of matrices: y (m, n) = a (m, k) b (k, n), all contiguous; with each sum's error. */
static void product(ptrdiff_t m, ptrdiff_t k, ptrdiff_t n, const th__array *a, ptrdiff_t a_at,
                    const th__array *b, ptrdiff_t b_at, th__array *y, ptrdiff_t y_at,
                    double *terms) {
  for (ptrdiff_t i = 0; i < m; i++) {
    th__number *row = y->v + y_at + i * n;
    double *error = y->e + y_at + i * n;
    for (ptrdiff_t j = 0; j < n; j++) row[j] = 0, terms[j] = 0;
    for (ptrdiff_t l = 0; l < k; l++) {
      th__number p = a->v[a_at + i * k + l];
      double size = (double)fabsl(p), own = a->e[a_at + i * k + l];
      const th__number *q = b->v + b_at + l * n;
      const double *q_own = b->e + b_at + l * n;
      for (ptrdiff_t j = 0; j < n; j++) {
        double other = (double)fabsl(q[j]);
        row[j] += p * q[j];
        error[j] += size * q_own[j] + own * other;
        terms[j] += size * other;
      }
    }
    for (ptrdiff_t j = 0; j < n; j++) {
      double rounding = (double)(k + 1) * (double)LDBL_EPSILON * terms[j];
      error[j] = isfinite(row[j]) ? error[j] + rounding : 0;
    }
  }
}

/* An operand as a stack of matrices: a vector is a row on the left and a column on the right. */
static th__array *as_matrix(th__calc *c, const th__array *x, bool left) {
  if (x->ndim != 1) return th__array_reshape(c, x, x->ndim, x->shape);
  ptrdiff_t shape[2] = {left ? 1 : x->shape[0], left ? x->shape[0] : 1};
  return th__array_reshape(c, x, 2, shape);
}

static th__array *stack(th__calc *c, const th__array *a, const th__array *b, int ndim,
                        const ptrdiff_t *shape) {
  th__array *y = th__array_new(c, ndim, shape);
  ptrdiff_t m = shape[ndim - 2], n = shape[ndim - 1], k = a->shape[a->ndim - 1];
  double *terms = y == NULL ? NULL : th__calc_alloc(c, (size_t)n * sizeof *terms);
  if (terms == NULL || !th__calc_spend(c, 2.0 * (double)y->count * (double)k)) return NULL;
  if (y->count == 0) return y;
  ptrdiff_t a_stride[TH_MAX_DIMS], b_stride[TH_MAX_DIMS], index[TH_MAX_DIMS] = {0};
  th__array_strides(a, ndim, a_stride);
  th__array_strides(b, ndim, b_stride);
  ptrdiff_t a_at = 0, b_at = 0;
  for (ptrdiff_t y_at = 0; y_at < y->count; y_at += m * n) {
    product(m, k, n, a, a_at, b, b_at, y, y_at, terms);
    for (int axis = ndim - 3; axis >= 0; axis--) {
      a_at += a_stride[axis], b_at += b_stride[axis];
      if (++index[axis] < shape[axis]) break;
      a_at -= a_stride[axis] * shape[axis], b_at -= b_stride[axis] * shape[axis];
      index[axis] = 0;
    }
  }
  return y;
}

th__array *th__array_matmul(th__calc *c, const th__array *a, const th__array *b) {
  if (a == NULL || b == NULL) return NULL;
  if (a->ndim == 0 || b->ndim == 0)
    return th__calc_fail(c, "@ needs matrices or vectors, got shapes %s and %s; use * for numbers",
                         TH__SHAPE_OF(a), TH__SHAPE_OF(b));
  th__array *p = as_matrix(c, a, true), *q = as_matrix(c, b, false);
  if (p == NULL || q == NULL) return NULL;
  /* The leading axes broadcast; the last two are the product's own. */
  ptrdiff_t shape[TH_MAX_DIMS];
  int ndim;
  th__array p_lead = *p, q_lead = *q;
  p_lead.ndim -= 2, q_lead.ndim -= 2;
  if (p->shape[p->ndim - 1] != q->shape[q->ndim - 2] ||
      !th__array_broadcast(&p_lead, &q_lead, &ndim, shape))
    return th__calc_fail(c, "shapes %s and %s do not fit for @", TH__SHAPE_OF(a), TH__SHAPE_OF(b));
  shape[ndim++] = p->shape[p->ndim - 2];
  shape[ndim++] = q->shape[q->ndim - 1];
  th__array *y = stack(c, p, q, ndim, shape);
  if (y == NULL) return NULL;
  if (b->ndim == 1) ndim--;
  if (a->ndim == 1) shape[ndim - 1 - (b->ndim > 1)] = shape[ndim - 1], ndim--;
  return th__array_reshape(c, y, ndim, shape);
}
