/* reduce.c: sums, largest entries, softmax and log-sum-exp, over any set of axes. */
#include <float.h>
#include <math.h>

#include "derive/array.h"

#define UNIT ((double)LDBL_EPSILON)

void th__axes_kept_shape(const th__array *x, unsigned set, ptrdiff_t *shape) {
  for (int axis = 0; axis < x->ndim; axis++) shape[axis] = set >> axis & 1 ? 1 : x->shape[axis];
}

/* Which result entry each entry of x belongs to, walked with an odometer. */
typedef struct groups {
  const th__array *x;
  ptrdiff_t index[TH_MAX_DIMS], stride[TH_MAX_DIMS], at;
} groups;

static groups groups_start(const th__array *x, unsigned set) {
  groups g = {.x = x};
  ptrdiff_t step = 1;
  for (int axis = x->ndim - 1; axis >= 0; axis--) {
    g.stride[axis] = set >> axis & 1 ? 0 : step;
    step *= set >> axis & 1 ? 1 : x->shape[axis];
  }
  return g;
}

static void groups_next(groups *g) {
  for (int axis = g->x->ndim - 1; axis >= 0; axis--) {
    g->at += g->stride[axis];
    if (++g->index[axis] < g->x->shape[axis]) return;
    g->at -= g->stride[axis] * g->x->shape[axis];
    g->index[axis] = 0;
  }
}

static th__array *result(th__calc *c, const th__array *x, th__axes axes, th__number start) {
  ptrdiff_t shape[TH_MAX_DIMS];
  int ndim = 0;
  for (int axis = 0; axis < x->ndim; axis++) {
    bool reduced = axes.set >> axis & 1;
    if (!reduced || axes.keep) shape[ndim++] = reduced ? 1 : x->shape[axis];
  }
  if (!th__calc_spend(c, 2.0 * (double)x->count)) return NULL;
  return th__array_full(c, ndim, shape, start);
}

static double *zeros(th__calc *c, ptrdiff_t count) {
  double *room = th__calc_alloc(c, (size_t)count * sizeof *room);
  for (ptrdiff_t i = 0; room != NULL && i < count; i++) room[i] = 0;
  return room;
}

th__array *th__array_sum(th__calc *c, const th__array *x, th__axes axes) {
  if (x == NULL) return NULL;
  th__array *y = result(c, x, axes, 0);
  double *terms = y == NULL ? NULL : zeros(c, y->count);
  if (terms == NULL) return NULL;
  groups g = groups_start(x, axes.set);
  for (ptrdiff_t i = 0; i < x->count; i++, groups_next(&g)) {
    y->v[g.at] += x->v[i];
    y->e[g.at] += x->e[i];
    terms[g.at] += (double)fabsl(x->v[i]);
  }
  double each = y->count > 0 ? (double)(x->count / y->count) : 0;
  for (ptrdiff_t i = 0; i < y->count; i++)
    y->e[i] = isfinite(y->v[i]) ? y->e[i] + each * UNIT * terms[i] : 0;
  return y;
}

th__array *th__array_max(th__calc *c, const th__array *x, th__axes axes) {
  if (x == NULL) return NULL;
  th__array *y = result(c, x, axes, -(th__number)INFINITY);
  if (y == NULL) return NULL;
  if (y->count > 0 && x->count == 0)
    return th__calc_fail(c, "the largest of no entries: shape %s", TH__SHAPE_OF(x));
  groups g = groups_start(x, axes.set);
  for (ptrdiff_t i = 0; i < x->count; i++, groups_next(&g)) {
    if (x->v[i] > y->v[g.at] || isnan(x->v[i])) y->v[g.at] = x->v[i];
    if (x->e[i] > y->e[g.at]) y->e[g.at] = x->e[i];
  }
  return y;
}

/* The largest of each group, 0 where it is -inf, so that it can be subtracted. */
static th__array *tops(th__calc *c, const th__array *x, unsigned set) {
  th__array *top = th__array_max(c, x, (th__axes){set, true});
  if (top == NULL) return NULL;
  for (ptrdiff_t i = 0; i < top->count; i++)
    if (isinf(top->v[i]) && top->v[i] < 0) top->v[i] = 0;
  return top;
}

/* Sums of w = exp(x - top) over each group; and the error of log(sum), which is the mean error of the
 * x under the weights w, plus rounding. */
typedef struct sums {
  th__number *sum;
  double *error;
} sums;

static bool sum_exponentials(th__calc *c, const th__array *x, unsigned set, const th__array *top,
                             sums *s) {
  s->sum = th__calc_alloc(c, (size_t)top->count * sizeof *s->sum);
  s->error = zeros(c, top->count);
  if (s->sum == NULL || s->error == NULL || !th__calc_spend(c, 10.0 * (double)x->count))
    return false;
  for (ptrdiff_t i = 0; i < top->count; i++) s->sum[i] = 0;
  groups g = groups_start(x, set);
  for (ptrdiff_t i = 0; i < x->count; i++, groups_next(&g)) {
    th__number away = x->v[i] - top->v[g.at], w = expl(away);
    s->sum[g.at] += w;
    if (w > 0) s->error[g.at] += (double)w * (x->e[i] + UNIT * (double)fabsl(away));
  }
  double each = top->count > 0 ? (double)(x->count / top->count) : 0;
  for (ptrdiff_t i = 0; i < top->count; i++)
    s->error[i] = (s->sum[i] > 0 ? s->error[i] / (double)s->sum[i] : 0) + (each + 8) * UNIT;
  return true;
}

th__array *th__array_logsumexp(th__calc *c, const th__array *x, th__axes axes) {
  if (x == NULL) return NULL;
  th__array *top = tops(c, x, axes.set);
  th__array *y = top == NULL ? NULL : result(c, x, axes, 0);
  sums s;
  if (y == NULL || !sum_exponentials(c, x, axes.set, top, &s)) return NULL;
  for (ptrdiff_t i = 0; i < y->count; i++) {
    y->v[i] = top->v[i] + logl(s.sum[i]);
    y->e[i] =
        isfinite(y->v[i]) ? s.error[i] + UNIT * (double)(fabsl(top->v[i]) + fabsl(y->v[i])) : 0;
  }
  return y;
}

th__array *th__array_softmax(th__calc *c, const th__array *x, int axis) {
  if (x == NULL) return NULL;
  if (x->count == 0) return th__array_new(c, x->ndim, x->shape);
  th__array *top = tops(c, x, 1u << axis);
  th__array *y = top == NULL ? NULL : th__array_new(c, x->ndim, x->shape);
  sums s;
  if (y == NULL || !sum_exponentials(c, x, 1u << axis, top, &s)) return NULL;
  groups g = groups_start(x, 1u << axis);
  for (ptrdiff_t i = 0; i < x->count; i++, groups_next(&g)) {
    th__number away = x->v[i] - top->v[g.at], sum = s.sum[g.at];
    th__number p = sum > 0 || isnan(sum) ? expl(away) / sum : 0;
    y->v[i] = p;
    y->e[i] =
        p > 0 ? (double)p * (x->e[i] + s.error[g.at] + UNIT * (double)fabsl(away) + 16 * UNIT) : 0;
  }
  return y;
}
