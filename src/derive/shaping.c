/* shaping.c: functions that make arrays or rearrange them. */
#include <string.h>

#include "derive/eval.h"

/* ---- arrays from sizes ---- */

/* The positional arguments from `first` on as a shape. False with a fault. */
static bool read_shape(th__evaluator *ev, const th__expression *call, int first, int *ndim,
                       ptrdiff_t *shape) {
  th__calc *c = th__eval_calc(ev);
  *ndim = 0;
  for (int i = first; i < call->count; i++)
    if (call->keywords[i] != NULL) {
      c->place = call->items[i]->place;
      return th__calc_fail(c, "%s has no argument '%s'", call->name, call->keywords[i]) != NULL;
    }
  if (!th__eval_integers(ev, call->items + first, call->count - first, "size", ndim, shape))
    return false;
  c->place = call->place;
  return true;
}

static bool not_negative(th__evaluator *ev, int ndim, const ptrdiff_t *shape) {
  for (int axis = 0; axis < ndim; axis++)
    if (shape[axis] < 0)
      return th__calc_fail(th__eval_calc(ev), "a negative size: %td", shape[axis]) != NULL;
  return true;
}

th__vertex *th__eval_filled(th__evaluator *ev, const th__expression *call, th__number value) {
  int ndim;
  ptrdiff_t shape[TH_MAX_DIMS];
  if (!read_shape(ev, call, 0, &ndim, shape) || !not_negative(ev, ndim, shape)) return NULL;
  return th__graph_leaf(ev->graph, th__array_full(th__eval_calc(ev), ndim, shape, value));
}

th__vertex *th__eval_eye(th__evaluator *ev, const th__expression *call) {
  int ndim;
  ptrdiff_t shape[TH_MAX_DIMS];
  th__calc *c = th__eval_calc(ev);
  if (!read_shape(ev, call, 0, &ndim, shape) || !not_negative(ev, ndim, shape)) return NULL;
  if (ndim != 1 && ndim != 2) return th__calc_fail(c, "eye takes one or two sizes, got %d", ndim);
  if (ndim == 1) shape[1] = shape[0];
  th__array *x = th__array_full(c, 2, shape, 0);
  for (ptrdiff_t i = 0; x != NULL && i < shape[0] && i < shape[1]; i++) x->v[i * shape[1] + i] = 1;
  return th__graph_leaf(ev->graph, x);
}

/* arange(end), arange(begin, end), arange(begin, end, step), in whole numbers. */
th__vertex *th__eval_arange(th__evaluator *ev, const th__expression *call) {
  int given;
  ptrdiff_t at[TH_MAX_DIMS];
  th__calc *c = th__eval_calc(ev);
  if (!read_shape(ev, call, 0, &given, at)) return NULL;
  if (given < 1 || given > 3) return th__calc_fail(c, "arange takes 1 to 3 numbers, got %d", given);
  ptrdiff_t begin = given == 1 ? 0 : at[0], end = given == 1 ? at[0] : at[1];
  ptrdiff_t step = given == 3 ? at[2] : 1;
  if (step == 0) return th__calc_fail(c, "arange with a step of 0");
  ptrdiff_t span = step > 0 ? end - begin : begin - end, size = step > 0 ? step : -step;
  ptrdiff_t count = span <= 0 ? 0 : (span - 1) / size + 1;
  th__array *x = th__array_new(c, 1, &count);
  for (ptrdiff_t i = 0; x != NULL && i < count; i++) x->v[i] = (th__number)(begin + i * step);
  return th__graph_leaf(ev->graph, x);
}

/* ---- arrays rearranged ---- */

/* reshape(x, a, b, ...), reshape(x, (a, b)); one size may be -1. */
th__vertex *th__eval_reshape(th__evaluator *ev, const th__expression *call) {
  th__calc *c = th__eval_calc(ev);
  if (call->count < 1) return th__calc_fail(c, "reshape lacks its array");
  th__vertex *x = th__evaluate(ev, call->items[0]);
  int ndim;
  ptrdiff_t shape[TH_MAX_DIMS], known = 1;
  if (x == NULL || !read_shape(ev, call, 1, &ndim, shape)) return NULL;
  int open = -1;
  for (int axis = 0; axis < ndim; axis++) {
    if (shape[axis] == -1 && open < 0) {
      open = axis;
      continue;
    }
    if (shape[axis] < 0 || (shape[axis] > 0 && known > PTRDIFF_MAX / shape[axis]))
      return th__calc_fail(c, "a size of %td in reshape", shape[axis]);
    known *= shape[axis];
  }
  if (open >= 0 && known > 0 && x->value->count % known == 0) {
    shape[open] = x->value->count / known;
    known = x->value->count;
  }
  if (known != x->value->count || (open >= 0 && shape[open] < 0))
    return th__calc_fail(c, "shape %s has %td entries, reshape to %s needs %td%s",
                         TH__SHAPE_OF(x->value), x->value->count,
                         th__array_shape_text((char[TH__ARRAY_SHAPE_TEXT]){0}, ndim, shape), known,
                         open >= 0 ? " or a multiple" : "");
  return th__graph_reshape(ev->graph, x, ndim, shape);
}

th__vertex *th__eval_flip(th__evaluator *ev, th__vertex *x, bool all_axes) {
  int order[TH_MAX_DIMS], ndim = x->value->ndim;
  if (!all_axes && ndim < 2)
    return th__calc_fail(th__eval_calc(ev), ".mT needs two axes or more, got shape %s",
                         TH__SHAPE_OF(x->value));
  for (int axis = 0; axis < ndim; axis++) order[axis] = all_axes ? ndim - 1 - axis : axis;
  if (!all_axes) {
    order[ndim - 1] = ndim - 2;
    order[ndim - 2] = ndim - 1;
  }
  return th__graph_transpose(ev->graph, x, order);
}

/* transpose(x): all axes reversed; transpose(x, 0, 2, 1) or (x, (0, 2, 1)): in this order. */
th__vertex *th__eval_transpose(th__evaluator *ev, const th__expression *call) {
  th__calc *c = th__eval_calc(ev);
  if (call->count < 1) return th__calc_fail(c, "transpose lacks its array");
  th__vertex *x = th__evaluate(ev, call->items[0]);
  int given;
  ptrdiff_t axes[TH_MAX_DIMS];
  if (x == NULL || !read_shape(ev, call, 1, &given, axes)) return NULL;
  if (given == 0) return th__eval_flip(ev, x, true);
  int order[TH_MAX_DIMS], ndim = x->value->ndim;
  unsigned seen = 0;
  for (int i = 0; i < given; i++) {
    ptrdiff_t axis = axes[i] < 0 ? axes[i] + ndim : axes[i];
    if (axis < 0 || axis >= ndim || seen >> axis & 1)
      return th__calc_fail(c, "transpose of shape %s: axis %td does not exist or is there twice",
                           TH__SHAPE_OF(x->value), axes[i]);
    seen |= 1u << axis;
    order[i] = (int)axis;
  }
  if (given != ndim)
    return th__calc_fail(c, "transpose of shape %s needs %d axes, got %d", TH__SHAPE_OF(x->value),
                         ndim, given);
  return th__graph_transpose(ev->graph, x, order);
}

th__vertex *th__eval_triangle(th__evaluator *ev, th__vertex *x, const th__expression *diagonal,
                              bool upper) {
  th__calc *c = th__eval_calc(ev);
  ptrdiff_t k = 0;
  if (x == NULL || (diagonal != NULL && !th__eval_integer(ev, diagonal, "the diagonal", &k)))
    return NULL;
  if (x->value->ndim < 2)
    return th__calc_fail(c, "%s needs two axes or more, got shape %s", upper ? "triu" : "tril",
                         TH__SHAPE_OF(x->value));
  const ptrdiff_t *map = th__map_triangle(c, x->value, k, upper);
  return th__graph_gather(ev->graph, x, map, x->value->ndim, x->value->shape);
}

/* A vector as the diagonal of a matrix, or the diagonal of a matrix. */
th__vertex *th__eval_diag(th__evaluator *ev, th__vertex *x) {
  th__calc *c = th__eval_calc(ev);
  if (x == NULL) return NULL;
  ptrdiff_t n = x->value->ndim > 0 ? x->value->shape[0] : 0, shape[2] = {n, n};
  if (x->value->ndim == 1) {
    if (n > 0 && n > c->limits.elements / n)
      return th__calc_fail(c, "diag of %td entries is too large", n);
    ptrdiff_t *map = th__calc_alloc(c, (size_t)(n * n) * sizeof *map);
    for (ptrdiff_t i = 0; map != NULL && i < n * n; i++) map[i] = i / n == i % n ? i / n : -1;
    return th__graph_gather(ev->graph, x, map, 2, shape);
  }
  if (x->value->ndim != 2)
    return th__calc_fail(c, "diag needs a vector or a matrix, got shape %s", TH__SHAPE_OF(x->value));
  ptrdiff_t columns = x->value->shape[1];
  if (columns < n) shape[0] = columns;
  ptrdiff_t *map = th__calc_alloc(c, (size_t)shape[0] * sizeof *map);
  for (ptrdiff_t i = 0; map != NULL && i < shape[0]; i++) map[i] = i * columns + i;
  return th__graph_gather(ev->graph, x, map, 1, shape);
}

th__vertex *th__eval_outer(th__evaluator *ev, th__vertex *a, th__vertex *b) {
  if (a == NULL || b == NULL) return NULL;
  ptrdiff_t column[2] = {a->value->count, 1}, row[2] = {1, b->value->count};
  return th__graph_map2(ev->graph, TH__MULTIPLY, th__graph_reshape(ev->graph, a, 2, column),
                        th__graph_reshape(ev->graph, b, 2, row));
}

/* ---- arrays joined ---- */

enum { MAX_PARTS = 64 };

static bool add_part(th__evaluator *ev, const th__expression *e, th__vertex **parts, int *count) {
  th__calc *c = th__eval_calc(ev);
  if (*count == MAX_PARTS) return th__calc_fail(c, "concat of more than %d", MAX_PARTS) != NULL;
  parts[*count] = th__evaluate(ev, e);
  return parts[(*count)++] != NULL;
}

static bool parts_fit(th__evaluator *ev, th__vertex *const *parts, int count, int axis) {
  const th__array *first = parts[0]->value;
  for (int p = 1; p < count; p++) {
    const th__array *x = parts[p]->value;
    bool fits = x->ndim == first->ndim;
    for (int i = 0; fits && i < x->ndim; i++) fits = i == axis || x->shape[i] == first->shape[i];
    if (!fits)
      return th__calc_fail(th__eval_calc(ev), "shapes %s and %s do not fit for concat along axis %d",
                           TH__SHAPE_OF(first), TH__SHAPE_OF(x), axis) != NULL;
  }
  return true;
}

/* concat(a, b, axis=0), concat((a, b), axis=0). */
th__vertex *th__eval_concat(th__evaluator *ev, const th__expression *call) {
  th__calc *c = th__eval_calc(ev);
  th__vertex *parts[MAX_PARTS];
  int count = 0;
  ptrdiff_t axis = 0;
  for (int i = 0; i < call->count; i++) {
    const th__expression *item = call->items[i];
    c->place = item->place;
    bool list = item->kind == TH__EXPR_TUPLE;
    if (call->keywords[i] != NULL && strcmp(call->keywords[i], "axis") != 0)
      return th__calc_fail(c, "concat has no argument '%s'", call->keywords[i]);
    if (call->keywords[i] != NULL || (i == 1 && call->items[0]->kind == TH__EXPR_TUPLE)) {
      if (!th__eval_integer(ev, item, "axis", &axis)) return NULL;
      continue;
    }
    for (int k = 0; k < (list ? item->count : 1); k++)
      if (!add_part(ev, list ? item->items[k] : item, parts, &count)) return NULL;
  }
  c->place = call->place;
  if (count == 0) return th__calc_fail(c, "concat of nothing");
  ptrdiff_t ndim = parts[0]->value->ndim;
  if (axis < -ndim || axis >= ndim)
    return th__calc_fail(c, "axis %td of an array of shape %s", axis, TH__SHAPE_OF(parts[0]->value));
  if (axis < 0) axis += ndim;
  if (!parts_fit(ev, parts, count, (int)axis)) return NULL;
  return th__graph_concat(ev->graph, parts, count, (int)axis);
}
