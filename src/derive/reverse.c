/* reverse.c: the true gradients. Each rule is written with the operations on arrays themselves, so that
 * a gradient knows its own rounding error as values do. dy is the gradient that arrives, x and y are
 * the operation's input and output. */
#include <math.h>
#include <string.h>

#include "derive/graph.h"

/* Adds what this use contributes to the gradient of its input. */
static bool contribute(th__calc *c, const th__vertex *user, int input, const th__array *share) {
  th__vertex *x = user->inputs[input];
  if (share == NULL) return false;
  share = th__array_sum_to(c, share, x->value->ndim, x->value->shape);
  if (share == NULL) return false;
  if (x->wanted) {
    th__share *entry = th__calc_alloc(c, sizeof *entry);
    if (entry == NULL) return false;
    *entry = (th__share){user, share, x->shares};
    x->shares = entry;
  }
  x->gradient = x->gradient == NULL ? share : th__array_map2(c, TH__ADD, x->gradient, share);
  return x->gradient != NULL;
}

/* dy * factor, where a dy of 0 lets nothing pass, not even infinity. */
static th__array *pass(th__calc *c, const th__array *dy, const th__array *factor) {
  return th__array_map2(c, TH__GATE, dy, factor);
}

static th__array *minus(th__calc *c, const th__array *x) {
  return th__array_map1(c, TH__NEGATE, x);
}

static th__array *times(th__calc *c, const th__array *a, const th__array *b) {
  return th__array_map2(c, TH__MULTIPLY, a, b);
}

static th__array *over(th__calc *c, const th__array *a, const th__array *b) {
  return th__array_map2(c, TH__DIVIDE, a, b);
}

static th__array *number(th__calc *c, th__number value) { return th__array_scalar(c, value); }

/* ---- one operand ---- */

static th__array *slope_of_erf(th__calc *c, const th__array *x) {
  th__array *density = th__array_map1(c, TH__EXP, minus(c, times(c, x, x)));
  return times(c, number(c, 1.128379167095512573896158903121545172L), density);
}

static th__array *slope1(th__calc *c, th__function1 f, const th__array *x, const th__array *y) {
  switch (f) {
  case TH__EXP: return th__array_reshape(c, y, y->ndim, y->shape);
  case TH__LOG: return over(c, number(c, 1), x);
  case TH__SQRT: return over(c, number(c, 0.5L), y);
  case TH__TANH: return th__array_map2(c, TH__SUBTRACT, number(c, 1), times(c, y, y));
  case TH__ERF: return slope_of_erf(c, x);
  case TH__SIGMOID: return times(c, y, th__array_map1(c, TH__SIGMOID, minus(c, x)));
  case TH__RELU: return th__array_map1(c, TH__STEP, x);
  case TH__ABS: return th__array_map1(c, TH__SIGN, x);
  case TH__SIN: return th__array_map1(c, TH__COS, x);
  case TH__COS: return minus(c, th__array_map1(c, TH__SIN, x));
  case TH__NEGATE: return number(c, -1);
  default: return NULL; /* steps: no slope */
  }
}

static bool reverse_map1(th__calc *c, const th__vertex *v, const th__array *dy) {
  th__array *slope = slope1(c, (th__function1)v->function, v->inputs[0]->value, v->value);
  if (slope == NULL) return !th__calc_failed(c);
  return contribute(c, v, 0, pass(c, dy, slope));
}

/* ---- two operands ---- */

/* d(a^b)/da = b a^(b-1), 0 where b is 0 even at a = 0. */
static th__array *slope_of_base(th__calc *c, const th__array *a, const th__array *b) {
  th__array *lower = th__array_map2(c, TH__SUBTRACT, b, number(c, 1));
  return pass(c, b, th__array_map2(c, TH__POWER, a, lower));
}

static th__array *slope2(th__calc *c, const th__vertex *v, int input) {
  const th__array *a = v->inputs[0]->value, *b = v->inputs[1]->value;
  switch ((th__function2)v->function) {
  case TH__ADD: return number(c, 1);
  case TH__SUBTRACT: return number(c, input == 0 ? 1 : -1);
  case TH__MULTIPLY:
  case TH__GATE: {
    const th__array *other = input == 0 ? b : a;
    return th__array_reshape(c, other, other->ndim, other->shape);
  }
  case TH__DIVIDE: return input == 0 ? over(c, number(c, 1), b) : minus(c, over(c, v->value, b));
  case TH__POWER:
    return input == 0 ? slope_of_base(c, a, b) : pass(c, v->value, th__array_map1(c, TH__LOG, a));
  default: return NULL; /* comparisons and the like: no slope */
  }
}

static bool reverse_map2(th__calc *c, const th__vertex *v, const th__array *dy) {
  for (int i = 0; i < 2; i++) {
    if (!v->inputs[i]->moves) continue;
    th__array *slope = slope2(c, v, i);
    if (slope == NULL) return !th__calc_failed(c);
    if (!contribute(c, v, i, pass(c, dy, slope))) return false;
  }
  return true;
}

static bool reverse_where(th__calc *c, const th__vertex *v, const th__array *dy) {
  const th__array *condition = v->inputs[0]->value;
  th__array *zero = number(c, 0);
  return (!v->inputs[1]->moves || contribute(c, v, 1, th__array_where(c, condition, dy, zero))) &&
         (!v->inputs[2]->moves || contribute(c, v, 2, th__array_where(c, condition, zero, dy)));
}

/* ---- products of matrices ---- */

/* The last two axes exchanged. */
static th__array *flip(th__calc *c, const th__array *x) {
  int order[TH_MAX_DIMS];
  ptrdiff_t shape[TH_MAX_DIMS];
  for (int axis = 0; axis < x->ndim; axis++) order[axis] = axis;
  order[x->ndim - 1] = x->ndim - 2;
  order[x->ndim - 2] = x->ndim - 1;
  return th__array_gather(c, x, th__map_transpose(c, x, order, shape), x->ndim, shape);
}

/* A vector as a row (left operand) or a column (right operand). */
static th__array *matrix(th__calc *c, const th__array *x, bool left) {
  ptrdiff_t shape[2] = {left ? 1 : x->shape[0], left ? x->shape[0] : 1};
  return x->ndim == 1 ? th__array_reshape(c, x, 2, shape)
                      : th__array_reshape(c, x, x->ndim, x->shape);
}

/* y = a @ b:  da = dy @ b^T,  db = a^T @ dy, summed over leading axes that were stretched. */
static bool reverse_matmul(th__calc *c, const th__vertex *v, const th__array *dy) {
  const th__array *a = v->inputs[0]->value, *b = v->inputs[1]->value;
  th__array *p = matrix(c, a, true), *q = matrix(c, b, false);
  ptrdiff_t shape[TH_MAX_DIMS];
  int lead = dy->ndim - (a->ndim > 1) - (b->ndim > 1), ndim = lead;
  memcpy(shape, dy->shape, (size_t)lead * sizeof *shape);
  if (p == NULL || q == NULL) return false;
  shape[ndim++] = p->shape[p->ndim - 2];
  shape[ndim++] = q->shape[q->ndim - 1];
  th__array *d = th__array_reshape(c, dy, ndim, shape);
  if (v->inputs[0]->moves) {
    th__array *da = th__array_matmul(c, d, flip(c, q));
    if (da != NULL) da = th__array_sum_to(c, da, p->ndim, p->shape);
    if (!contribute(c, v, 0, th__array_reshape(c, da, a->ndim, a->shape))) return false;
  }
  if (v->inputs[1]->moves) {
    th__array *db = th__array_matmul(c, flip(c, p), d);
    if (db != NULL) db = th__array_sum_to(c, db, q->ndim, q->shape);
    if (!contribute(c, v, 1, th__array_reshape(c, db, b->ndim, b->shape))) return false;
  }
  return true;
}

/* ---- reductions ---- */

/* A reduction's result, or its gradient, repeated over the reduced axes. */
static th__array *spread(th__calc *c, const th__vertex *v, const th__array *y) {
  const th__array *x = v->inputs[0]->value;
  ptrdiff_t shape[TH_MAX_DIMS];
  th__axes_kept_shape(x, v->axes.set, shape);
  return th__array_stretch(c, th__array_reshape(c, y, x->ndim, shape), x->ndim, x->shape);
}

/* Entries that are the largest share the gradient. */
static bool reverse_max(th__calc *c, const th__vertex *v, const th__array *dy) {
  th__array *top = th__array_map2(c, TH__EQUAL, v->inputs[0]->value, spread(c, v, v->value));
  th__array *count = th__array_sum(c, top, (th__axes){v->axes.set, true});
  return contribute(c, v, 0, pass(c, spread(c, v, dy), over(c, top, count)));
}

/* dx = dy exp(x - y). */
static bool reverse_logsumexp(th__calc *c, const th__vertex *v, const th__array *dy) {
  th__array *y = spread(c, v, v->value);
  th__array *empty = th__array_map2(c, TH__EQUAL, y, number(c, -(th__number)INFINITY));
  th__array *weight =
      th__array_map1(c, TH__EXP, th__array_map2(c, TH__SUBTRACT, v->inputs[0]->value, y));
  weight = th__array_where(c, empty, number(c, 0), weight);
  return contribute(c, v, 0, pass(c, spread(c, v, dy), weight));
}

/* dy at the largest y of each row, repeated over the row. */
static th__array *at_largest(th__calc *c, const th__vertex *v, const th__array *dy) {
  const th__array *y = v->value;
  ptrdiff_t outer = 1, length = y->shape[v->axis], inner = 1;
  for (int axis = 0; axis < y->ndim; axis++)
    *(axis < v->axis ? &outer : &inner) *= axis == v->axis ? 1 : y->shape[axis];
  ptrdiff_t *map = th__calc_alloc(c, (size_t)y->count * sizeof *map);
  if (map == NULL) return NULL;
  for (ptrdiff_t o = 0; o < outer; o++)
    for (ptrdiff_t i = 0; i < inner; i++) {
      ptrdiff_t first = o * length * inner + i, top = first;
      for (ptrdiff_t k = 1; k < length; k++)
        if (y->v[first + k * inner] > y->v[top]) top = first + k * inner;
      for (ptrdiff_t k = 0; k < length; k++) map[first + k * inner] = top;
    }
  return th__array_gather(c, dy, map, y->ndim, y->shape);
}

/* dx = y (g - sum(g y)) with g = dy minus its value at the largest y: the same on paper, and exact
 * where a row is saturated. */
static bool reverse_softmax(th__calc *c, const th__vertex *v, const th__array *dy) {
  if (v->value->count == 0) return contribute(c, v, 0, dy);
  th__array *g = th__array_map2(c, TH__SUBTRACT, dy, at_largest(c, v, dy));
  th__array *dot = th__array_sum(c, pass(c, v->value, g), (th__axes){1u << v->axis, true});
  return contribute(c, v, 0, pass(c, v->value, th__array_map2(c, TH__SUBTRACT, g, dot)));
}

/* ---- rearrangements ---- */

/* The part of dy that came from one of the joined arrays. */
static bool reverse_concat(th__calc *c, const th__vertex *v, const th__array *dy) {
  ptrdiff_t inner = 1, begin = 0;
  for (int axis = v->axis + 1; axis < dy->ndim; axis++) inner *= dy->shape[axis];
  for (int p = 0; p < v->input_count; p++) {
    const th__array *x = v->inputs[p]->value;
    ptrdiff_t block = x->shape[v->axis] * inner, whole = dy->shape[v->axis] * inner;
    ptrdiff_t *map = th__calc_alloc(c, (size_t)x->count * sizeof *map);
    if (map == NULL) return false;
    for (ptrdiff_t i = 0; i < x->count; i++)
      map[i] = block > 0 ? i / block * whole + begin + i % block : 0;
    begin += block;
    if (v->inputs[p]->moves && !contribute(c, v, p, th__array_gather(c, dy, map, x->ndim, x->shape)))
      return false;
  }
  return true;
}

static bool reverse_vertex(th__calc *c, const th__vertex *v, const th__array *dy) {
  const th__array *x = v->input_count > 0 ? v->inputs[0]->value : NULL;
  switch (v->op) {
  case TH__OP_LEAF: return true;
  case TH__OP_NAME:
  case TH__OP_RESHAPE: return contribute(c, v, 0, th__array_reshape(c, dy, x->ndim, x->shape));
  case TH__OP_MAP1: return reverse_map1(c, v, dy);
  case TH__OP_MAP2: return reverse_map2(c, v, dy);
  case TH__OP_WHERE: return reverse_where(c, v, dy);
  case TH__OP_MATMUL: return reverse_matmul(c, v, dy);
  case TH__OP_SUM: return contribute(c, v, 0, spread(c, v, dy));
  case TH__OP_MAX: return reverse_max(c, v, dy);
  case TH__OP_LOGSUMEXP: return reverse_logsumexp(c, v, dy);
  case TH__OP_SOFTMAX: return reverse_softmax(c, v, dy);
  case TH__OP_GATHER:
    return contribute(c, v, 0, th__array_scatter(c, dy, v->map, x->ndim, x->shape));
  case TH__OP_CONCAT: return reverse_concat(c, v, dy);
  }
  return true;
}

bool th__graph_reverse(th__graph *g, th__vertex *end, const th__array *upstream) {
  end->gradient = upstream;
  for (int i = end->index; i >= 0; i--) {
    th__vertex *v = g->vertices[i];
    if (v->gradient == NULL || !v->moves) continue;
    g->calc->place = v->place;
    if (!reverse_vertex(g->calc, v, v->gradient)) return false;
  }
  return !th__calc_failed(g->calc);
}
