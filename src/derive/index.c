/* index.c: x[...] with numbers, slices, None, ... and arrays of whole numbers, by NumPy's rules. */
#include <math.h>
#include <string.h>

#include "derive/eval.h"

typedef enum selector_kind { RANGE, POINT, LIST, NEW_AXIS } selector_kind;

/* What is taken along one axis of x; NEW_AXIS belongs to none. */
typedef struct selector {
  selector_kind kind;
  ptrdiff_t begin, step, count; /* RANGE; POINT uses begin */
  const th__array *list;        /* LIST */
  ptrdiff_t stride, length;     /* of x along this axis */
} selector;

typedef struct selection {
  int count;
  selector list[2 * TH_MAX_DIMS];
} selection;

/* ---- reading ---- */

static bool is_name(const th__expression *e, const char *name) {
  return e->kind == TH__EXPR_NAME && strcmp(e->name, name) == 0;
}

static bool is_new_axis(const th__expression *e) {
  return is_name(e, "None") || is_name(e, "newaxis");
}

/* One end of a slice: negative from the end, clamped to the axis, as in Python. */
static bool read_end(th__evaluator *ev, const th__expression *e, ptrdiff_t length, ptrdiff_t least,
                     ptrdiff_t most, ptrdiff_t *value) {
  if (e == NULL || is_name(e, "None")) return true;
  if (!th__eval_integer(ev, e, "a slice's end", value)) return false;
  if (*value < 0) *value += length;
  if (*value < least) *value = least;
  if (*value > most) *value = most;
  return true;
}

static bool read_slice(th__evaluator *ev, const th__expression *e, selector *s) {
  ptrdiff_t n = s->length, step = 1;
  if (e->items[2] != NULL && !th__eval_integer(ev, e->items[2], "a slice's step", &step))
    return false;
  th__eval_calc(ev)->place = e->place;
  if (step == 0) return th__calc_fail(th__eval_calc(ev), "a slice with a step of 0") != NULL;
  bool up = step > 0;
  ptrdiff_t begin = up ? 0 : n - 1, end = up ? n : -1;
  ptrdiff_t least = up ? 0 : -1, most = up ? n : n - 1;
  if (!read_end(ev, e->items[0], n, least, most, &begin) ||
      !read_end(ev, e->items[1], n, least, most, &end))
    return false;
  ptrdiff_t span = up ? end - begin : begin - end, size = up ? step : -step;
  s->kind = RANGE;
  s->begin = begin;
  s->step = step;
  s->count = span <= 0 ? 0 : (span - 1) / size + 1;
  return true;
}

/* Masks are arrays of 0 and 1: as an index they would silently mean rows 0 and 1. */
static bool is_mask(const th__vertex *v) {
  while (v->op == TH__OP_NAME) v = v->inputs[0];
  if (v->op == TH__OP_MAP1) return v->function == TH__NOT;
  return v->op == TH__OP_MAP2 && v->function >= TH__LESS && v->function <= TH__OR;
}

static bool check_entry(th__evaluator *ev, th__number x, const selector *s) {
  if (x != floorl(x) || !(x >= -(th__number)s->length && x < (th__number)s->length))
    return th__calc_fail(th__eval_calc(ev), "index %.6Lg of an axis of length %td", x, s->length) !=
           NULL;
  return true;
}

static bool read_entries(th__evaluator *ev, const th__expression *e, selector *s) {
  th__calc *c = th__eval_calc(ev);
  th__vertex *v = th__evaluate(ev, e);
  if (v == NULL) return false;
  c->place = e->place;
  if (is_mask(v))
    return th__calc_fail(c, "a mask cannot be an index; use where(mask, a, b) or a product") != NULL;
  for (ptrdiff_t i = 0; i < v->value->count; i++)
    if (!check_entry(ev, v->value->v[i], s)) return false;
  s->kind = v->value->ndim == 0 ? POINT : LIST;
  s->list = v->value;
  if (s->kind == LIST) return true;
  s->begin = (ptrdiff_t)v->value->v[0];
  if (s->begin < 0) s->begin += s->length;
  return true;
}

/* Axes that x[...] uses up. */
static int axes_used(const th__expression *e) {
  int used = 0;
  for (int i = 1; i < e->count; i++)
    if (!is_new_axis(e->items[i]) && e->items[i]->kind != TH__EXPR_ELLIPSIS) used++;
  return used;
}

static bool read_selection(th__evaluator *ev, const th__expression *e, const th__array *x,
                           selection *found) {
  th__calc *c = th__eval_calc(ev);
  ptrdiff_t stride[TH_MAX_DIMS], step = 1;
  for (int axis = x->ndim - 1; axis >= 0; axis--) {
    stride[axis] = step;
    step *= x->shape[axis];
  }
  int used = axes_used(e), axis = 0;
  c->place = e->operator_place;
  if (used > x->ndim || e->count - 1 > TH_MAX_DIMS)
    return th__calc_fail(c, "%d indices for an array of shape %s", used, TH__SHAPE_OF(x)) != NULL;
  bool rest_taken = false;
  *found = (selection){0};
  for (int i = 1; i <= e->count; i++) {
    bool end = i == e->count;
    const th__expression *item = end ? NULL : e->items[i];
    if (end || item->kind == TH__EXPR_ELLIPSIS) { /* whole axes: those that are left over */
      c->place = end ? e->operator_place : item->place;
      if (rest_taken && !end) return th__calc_fail(c, "a second ... in one index") != NULL;
      for (int k = rest_taken ? x->ndim : used; k < x->ndim; k++, axis++)
        found->list[found->count++] =
            (selector){RANGE, 0, 1, x->shape[axis], NULL, stride[axis], x->shape[axis]};
      rest_taken = true;
    } else if (is_new_axis(item)) {
      found->list[found->count++] = (selector){.kind = NEW_AXIS};
    } else {
      selector s = {.stride = stride[axis], .length = x->shape[axis]};
      axis++;
      if (!(item->kind == TH__EXPR_SLICE ? read_slice(ev, item, &s) : read_entries(ev, item, &s)))
        return false;
      found->list[found->count++] = s;
    }
  }
  return true;
}

/* ---- taking ---- */

/* The result: ordinary axes, and in their midst (or in front) the common shape of all lists, whose
 * entries share one table of offsets. */
typedef struct layout {
  int ndim;
  ptrdiff_t shape[TH_MAX_DIMS], stride[TH_MAX_DIMS]; /* stride of the table's axes: in the table */
  bool from_table[TH_MAX_DIMS];
  ptrdiff_t start;
  const ptrdiff_t *table;
} layout;

static bool add_axis(th__calc *c, layout *l, ptrdiff_t length, ptrdiff_t stride, bool from_table) {
  if (l->ndim == TH_MAX_DIMS)
    return th__calc_fail(c, "the result would have more than %d axes", TH_MAX_DIMS) != NULL;
  l->shape[l->ndim] = length;
  l->stride[l->ndim] = stride;
  l->from_table[l->ndim++] = from_table;
  return true;
}

/* Offsets into x that the lists select together, over their common shape. */
static const ptrdiff_t *make_table(th__calc *c, const selection *s, const th__array *common) {
  ptrdiff_t *table = th__calc_alloc(c, (size_t)common->count * sizeof *table);
  if (table == NULL) return NULL;
  for (ptrdiff_t i = 0; i < common->count; i++) table[i] = 0;
  for (int k = 0; k < s->count; k++) {
    if (s->list[k].kind != LIST) continue;
    const th__array *list = th__array_stretch(c, s->list[k].list, common->ndim, common->shape);
    if (list == NULL) return NULL;
    for (ptrdiff_t i = 0; i < common->count; i++) {
      ptrdiff_t entry = (ptrdiff_t)list->v[i];
      table[i] += (entry < 0 ? entry + s->list[k].length : entry) * s->list[k].stride;
    }
  }
  return table;
}

/* The common shape of all lists, and whether they stand side by side (numbers count with them). */
static bool join_lists(th__calc *c, const selection *s, th__array *common, int *lists,
                       bool *adjacent) {
  *common = (th__array){.count = 1};
  *lists = 0;
  *adjacent = true;
  bool seen = false, gap = false;
  for (int k = 0; k < s->count; k++) {
    bool listed = s->list[k].kind == LIST || s->list[k].kind == POINT;
    if (!listed) gap = seen;
    if (!listed) continue;
    if (gap) *adjacent = false;
    seen = true;
    if (s->list[k].kind != LIST) continue;
    ++*lists;
    th__array joined = {.count = 1};
    if (!th__array_broadcast(common, s->list[k].list, &joined.ndim, joined.shape))
      return th__calc_fail(c, "index arrays of shapes %s and %s do not fit", TH__SHAPE_OF(common),
                           TH__SHAPE_OF(s->list[k].list)) != NULL;
    for (int axis = 0; axis < joined.ndim; axis++) joined.count *= joined.shape[axis];
    *common = joined;
  }
  return true;
}

static bool add_table_axes(th__calc *c, layout *l, const th__array *common) {
  ptrdiff_t step = common->count;
  for (int axis = 0; axis < common->ndim; axis++) {
    step = common->shape[axis] > 0 ? step / common->shape[axis] : 0;
    if (!add_axis(c, l, common->shape[axis], step, true)) return false;
  }
  return true;
}

static bool plan(th__calc *c, const selection *s, layout *l) {
  th__array common;
  int lists;
  bool adjacent;
  *l = (layout){0};
  if (!join_lists(c, s, &common, &lists, &adjacent)) return false;
  if (lists > 0 && (l->table = make_table(c, s, &common)) == NULL) return false;
  bool placed = lists == 0;
  if (!adjacent && !placed) placed = add_table_axes(c, l, &common);
  for (int k = 0; k < s->count; k++) {
    const selector *one = &s->list[k];
    bool good = true;
    switch (one->kind) {
    case POINT: l->start += one->begin * one->stride; break;
    case NEW_AXIS: good = add_axis(c, l, 1, 0, false); break;
    case RANGE:
      l->start += one->count > 0 ? one->begin * one->stride : 0;
      good = add_axis(c, l, one->count, one->step * one->stride, false);
      break;
    case LIST:
      if (!placed) good = add_table_axes(c, l, &common);
      placed = true;
      break;
    }
    if (!good) return false;
  }
  return true;
}

static const ptrdiff_t *make_map(th__calc *c, const layout *l) {
  th__array *size = th__array_new(c, l->ndim, l->shape); /* charges it, and finds it too large */
  if (size == NULL) return NULL;
  ptrdiff_t *map = th__calc_alloc(c, (size_t)size->count * sizeof *map);
  if (map == NULL) return NULL;
  ptrdiff_t index[TH_MAX_DIMS] = {0}, offset = l->start, entry = 0;
  for (ptrdiff_t i = 0; i < size->count; i++) {
    map[i] = offset + (l->table != NULL ? l->table[entry] : 0);
    for (int axis = l->ndim - 1; axis >= 0; axis--) {
      ptrdiff_t *moving = l->from_table[axis] ? &entry : &offset;
      *moving += l->stride[axis];
      if (++index[axis] < l->shape[axis]) break;
      *moving -= l->stride[axis] * l->shape[axis];
      index[axis] = 0;
    }
  }
  return map;
}

th__vertex *th__eval_index(th__evaluator *ev, const th__expression *e) {
  th__calc *c = th__eval_calc(ev);
  th__vertex *x = th__evaluate(ev, e->items[0]);
  selection s = {0};
  layout l;
  if (x == NULL || !read_selection(ev, e, x->value, &s)) return NULL;
  c->place = e->operator_place;
  if (!plan(c, &s, &l)) return NULL;
  return th__graph_gather(ev->graph, x, make_map(c, &l), l.ndim, l.shape);
}
