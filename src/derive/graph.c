#include "derive/graph.h"

#include <math.h>
#include <string.h>

th__array *th__vertex_compute(th__calc *c, const th__vertex *v, const th__array *const *x) {
  switch (v->op) {
  case TH__OP_LEAF: return NULL;
  case TH__OP_NAME: return th__array_reshape(c, x[0], x[0]->ndim, x[0]->shape);
  case TH__OP_MAP1: return th__array_map1(c, (th__function1)v->function, x[0]);
  case TH__OP_MAP2: return th__array_map2(c, (th__function2)v->function, x[0], x[1]);
  case TH__OP_WHERE: return th__array_where(c, x[0], x[1], x[2]);
  case TH__OP_MATMUL: return th__array_matmul(c, x[0], x[1]);
  case TH__OP_SUM: return th__array_sum(c, x[0], v->axes);
  case TH__OP_MAX: return th__array_max(c, x[0], v->axes);
  case TH__OP_LOGSUMEXP: return th__array_logsumexp(c, x[0], v->axes);
  case TH__OP_SOFTMAX: return th__array_softmax(c, x[0], v->axis);
  case TH__OP_GATHER: return th__array_gather(c, x[0], v->map, v->value->ndim, v->value->shape);
  case TH__OP_RESHAPE: return th__array_reshape(c, x[0], v->value->ndim, v->value->shape);
  case TH__OP_CONCAT: return th__array_concat(c, x, v->input_count, v->axis);
  }
  return NULL;
}

/* ---- kinks: points at which an operation has no derivative, or as good as none ---- */

static int near_zero(const th__array *x) {
  int hits = 0;
  for (ptrdiff_t i = 0; i < x->count; i++)
    if (fabsl(x->v[i]) <= (th__number)x->e[i]) hits++;
  return hits;
}

/* Entries that share the largest value of their group with another one. */
static int ties(const th__vertex *v) {
  const th__array *x = v->inputs[0]->value, *y = v->value;
  ptrdiff_t shape[TH_MAX_DIMS], stride[TH_MAX_DIMS], index[TH_MAX_DIMS] = {0}, at = 0;
  th__axes_kept_shape(x, v->axes.set, shape);
  th__array kept = {.ndim = x->ndim, .count = y->count};
  memcpy(kept.shape, shape, sizeof shape);
  th__array_strides(&kept, x->ndim, stride);
  int hits = 0;
  for (ptrdiff_t i = 0; i < x->count; i++) {
    if (x->v[i] >= y->v[at] - (th__number)(x->e[i] + y->e[at])) hits++;
    for (int axis = x->ndim - 1; axis >= 0; axis--) {
      at += stride[axis];
      if (++index[axis] < x->shape[axis]) break;
      at -= stride[axis] * x->shape[axis];
      index[axis] = 0;
    }
  }
  return hits - (int)y->count;
}

static int equal_pairs(th__calc *c, const th__vertex *v) {
  const th__array *gap = th__array_map2(c, TH__SUBTRACT, v->inputs[0]->value, v->inputs[1]->value);
  return gap == NULL ? 0 : near_zero(gap);
}

static int kinks_of(th__calc *c, const th__vertex *v) {
  if (v->op == TH__OP_MAX) return ties(v);
  if (v->op == TH__OP_MAP2 && th__function2_compares((th__function2)v->function))
    return equal_pairs(c, v);
  if (v->op != TH__OP_MAP1) return 0;
  switch (v->function) {
  case TH__RELU:
  case TH__ABS:
  case TH__SQRT:
  case TH__SIGN:
  case TH__STEP: return near_zero(v->inputs[0]->value);
  default: return 0;
  }
}

/* ---- adding vertices ---- */

static bool make_room(th__graph *g) {
  if (g->count >= g->calc->limits.vertices) {
    th__calc_fail(g->calc, "more than %d operations; is a function called again and again?",
                  g->calc->limits.vertices);
    return false;
  }
  if (g->count < g->room) return true;
  int room = g->room == 0 ? 64 : 2 * g->room;
  th__vertex **list = th__calc_alloc(g->calc, (size_t)room * sizeof *list);
  if (list == NULL) return false;
  if (g->count > 0) memcpy(list, g->vertices, (size_t)g->count * sizeof *list);
  g->vertices = list;
  g->room = room;
  return true;
}

static th__vertex *append(th__graph *g, const th__vertex *model) {
  if (!make_room(g)) return NULL;
  th__vertex *v = th__calc_alloc(g->calc, sizeof *v);
  if (v == NULL) return NULL;
  *v = *model;
  v->place = g->calc->place;
  v->index = g->count;
  g->vertices[g->count++] = v;
  return v;
}

/* A vertex with these inputs, computed. `model` says which operation. */
static th__vertex *add(th__graph *g, th__vertex model, th__vertex *const *inputs, int count) {
  for (int i = 0; i < count; i++)
    if (inputs[i] == NULL) return NULL;
  model.input_count = count;
  model.inputs = th__calc_alloc(g->calc, (size_t)count * sizeof *model.inputs);
  const th__array **values = th__calc_alloc(g->calc, (size_t)count * sizeof *values);
  if (model.inputs == NULL || values == NULL) return NULL;
  for (int i = 0; i < count; i++) {
    model.inputs[i] = inputs[i];
    values[i] = inputs[i]->value;
    model.moves = model.moves || inputs[i]->moves;
  }
  model.value = th__vertex_compute(g->calc, &model, values);
  if (model.value == NULL) return NULL;
  th__vertex *v = append(g, &model);
  if (v != NULL && v->moves) g->kinks += kinks_of(g->calc, v);
  return v;
}

th__vertex *th__graph_leaf(th__graph *g, const th__array *value) {
  if (value == NULL) return NULL;
  return append(g, &(th__vertex){.op = TH__OP_LEAF, .value = value});
}

th__vertex *th__graph_number(th__graph *g, th__number value) {
  return th__graph_leaf(g, th__array_scalar(g->calc, value));
}

th__vertex *th__graph_name(th__graph *g, th__vertex *x) {
  return add(g, (th__vertex){.op = TH__OP_NAME}, &x, 1);
}

th__vertex *th__graph_map1(th__graph *g, th__function1 f, th__vertex *x) {
  return add(g, (th__vertex){.op = TH__OP_MAP1, .function = (int)f}, &x, 1);
}

th__vertex *th__graph_map2(th__graph *g, th__function2 f, th__vertex *a, th__vertex *b) {
  th__vertex *const inputs[] = {a, b};
  return add(g, (th__vertex){.op = TH__OP_MAP2, .function = (int)f}, inputs, 2);
}

th__vertex *th__graph_where(th__graph *g, th__vertex *condition, th__vertex *a, th__vertex *b) {
  th__vertex *const inputs[] = {condition, a, b};
  return add(g, (th__vertex){.op = TH__OP_WHERE}, inputs, 3);
}

th__vertex *th__graph_matmul(th__graph *g, th__vertex *a, th__vertex *b) {
  th__vertex *const inputs[] = {a, b};
  return add(g, (th__vertex){.op = TH__OP_MATMUL}, inputs, 2);
}

th__vertex *th__graph_reduce(th__graph *g, th__operation op, th__vertex *x, th__axes axes) {
  return add(g, (th__vertex){.op = op, .axes = axes}, &x, 1);
}

th__vertex *th__graph_softmax(th__graph *g, th__vertex *x, int axis) {
  return add(g, (th__vertex){.op = TH__OP_SOFTMAX, .axis = axis}, &x, 1);
}

/* These two need the result's shape before there is a result. */
static th__vertex *add_shaped(th__graph *g, th__vertex model, th__vertex *x, int ndim,
                              const ptrdiff_t *shape) {
  if (x == NULL) return NULL;
  th__array goal = {.ndim = ndim};
  for (int axis = 0; axis < ndim; axis++) goal.shape[axis] = shape[axis];
  model.value = &goal;
  return add(g, model, &x, 1);
}

th__vertex *th__graph_gather(th__graph *g, th__vertex *x, const ptrdiff_t *map, int ndim,
                             const ptrdiff_t *shape) {
  if (map == NULL) return NULL;
  return add_shaped(g, (th__vertex){.op = TH__OP_GATHER, .map = map}, x, ndim, shape);
}

th__vertex *th__graph_reshape(th__graph *g, th__vertex *x, int ndim, const ptrdiff_t *shape) {
  return add_shaped(g, (th__vertex){.op = TH__OP_RESHAPE}, x, ndim, shape);
}

th__vertex *th__graph_concat(th__graph *g, th__vertex *const *parts, int count, int axis) {
  return add(g, (th__vertex){.op = TH__OP_CONCAT, .axis = axis}, parts, count);
}

th__vertex *th__graph_transpose(th__graph *g, th__vertex *x, const int *order) {
  if (x == NULL) return NULL;
  ptrdiff_t shape[TH_MAX_DIMS];
  const ptrdiff_t *map = th__map_transpose(g->calc, x->value, order, shape);
  return th__graph_gather(g, x, map, x->value->ndim, shape);
}

void th__graph_want(th__vertex *x) { x->wanted = x->moves = true; }

const th__array *th__graph_replay(const th__graph *g, th__calc *c, const th__vertex *end,
                                  const th__vertex *moved, const th__array *replacement,
                                  const th__array **trial) {
  for (int i = 0; i <= moved->index; i++) trial[i] = g->vertices[i]->value;
  trial[moved->index] = replacement;
  for (int i = moved->index + 1; i <= end->index; i++) {
    const th__vertex *v = g->vertices[i];
    trial[i] = v->value;
    bool changed = false;
    for (int k = 0; k < v->input_count; k++)
      changed = changed || trial[v->inputs[k]->index] != v->inputs[k]->value;
    if (!changed) continue;
    const th__array **inputs = th__calc_alloc(c, (size_t)v->input_count * sizeof *inputs);
    if (inputs == NULL) return NULL;
    for (int k = 0; k < v->input_count; k++) inputs[k] = trial[v->inputs[k]->index];
    c->place = v->place;
    trial[i] = th__vertex_compute(c, v, inputs);
    if (trial[i] == NULL) return NULL;
  }
  return trial[end->index];
}
