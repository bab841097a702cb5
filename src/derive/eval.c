#include "derive/eval.h"

#include <math.h>
#include <string.h>

enum { MAX_CALLS = 32, MAX_DEPTH = 2000 };

th__calc *th__eval_calc(th__evaluator *ev) { return ev->graph->calc; }

/* ---- names ---- */

th__binding *th__scope_find(const th__scope *scope, const char *name) {
  for (int i = 0; scope != NULL && i < scope->count; i++)
    if (strcmp(scope->list[i].name, name) == 0) return &scope->list[i];
  return NULL;
}

bool th__scope_bind(th__calc *c, th__scope *scope, const char *name, th__vertex *value,
                    th__place place) {
  th__binding *known = th__scope_find(scope, name);
  if (known != NULL) {
    known->value = value;
    known->place = place;
    return true;
  }
  if (scope->count == scope->room) {
    int room = scope->room == 0 ? 16 : 2 * scope->room;
    th__binding *list = th__calc_alloc(c, (size_t)room * sizeof *list);
    if (list == NULL) return false;
    if (scope->count > 0) memcpy(list, scope->list, (size_t)scope->count * sizeof *list);
    scope->list = list;
    scope->room = room;
  }
  scope->list[scope->count++] = (th__binding){name, value, place};
  return true;
}

static bool equal_but_case(const char *a, const char *b) {
  for (; *a != '\0' && *b != '\0'; a++, b++)
    if ((*a | 0x20) != (*b | 0x20)) return false;
  return *a == *b;
}

static th__vertex *unknown_name(th__evaluator *ev, const char *name) {
  for (int i = 0; i < ev->values->count; i++)
    if (equal_but_case(ev->values->list[i].name, name))
      return th__calc_fail(th__eval_calc(ev), "there is no value '%s'; did you mean '%s'?", name,
                           ev->values->list[i].name);
  return th__calc_fail(th__eval_calc(ev), "there is no value '%s'", name);
}

static th__vertex *constant(th__evaluator *ev, const char *name) {
  if (strcmp(name, "pi") == 0)
    return th__graph_number(ev->graph, 3.141592653589793238462643383279502884L);
  if (strcmp(name, "inf") == 0) return th__graph_number(ev->graph, (th__number)INFINITY);
  if (strcmp(name, "True") == 0) return th__graph_number(ev->graph, 1);
  if (strcmp(name, "False") == 0) return th__graph_number(ev->graph, 0);
  return NULL;
}

static th__vertex *bound_value(th__evaluator *ev, const th__binding *binding) {
  if (binding->value != NULL) return binding->value;
  ev->inherited = true;
  return th__calc_fail(th__eval_calc(ev), "%s has no value because of the error on line %d",
                       binding->name, binding->place.line);
}

static th__vertex *lookup(th__evaluator *ev, const char *name) {
  const th__binding *binding = th__scope_find(ev->locals, name);
  if (binding == NULL) binding = th__scope_find(ev->helpers, name);
  if (binding != NULL) return bound_value(ev, binding);
  if (ev->gradient != NULL) {
    th__vertex *gradient = ev->gradient(ev, name);
    if (gradient != NULL || th__calc_failed(th__eval_calc(ev))) return gradient;
  }
  binding = th__scope_find(ev->values, name);
  if (binding != NULL) return bound_value(ev, binding);
  th__vertex *known = constant(ev, name);
  if (known != NULL || th__calc_failed(th__eval_calc(ev))) return known;
  return unknown_name(ev, name);
}

/* ---- calls ---- */

static const th__statement *find_function(const th__evaluator *ev, const char *name) {
  for (int i = ev->functions - 1; i >= 0; i--) {
    const th__statement *s = &ev->program->statements[i];
    if (s->kind == TH__FUNCTION && strcmp(s->name, name) == 0) return s;
  }
  return NULL;
}

static int parameter_of(const th__statement *f, const char *keyword) {
  for (int i = 0; i < f->count; i++)
    if (strcmp(f->targets[i].name, keyword) == 0) return i;
  return -1;
}

/* Arguments are evaluated once, in the caller's names. */
static bool bind_arguments(th__evaluator *ev, const th__statement *f, const th__expression *call,
                           th__scope *locals) {
  th__calc *c = th__eval_calc(ev);
  for (int i = 0; i < call->count; i++) {
    int at = call->keywords[i] == NULL ? i : parameter_of(f, call->keywords[i]);
    th__vertex *value = th__evaluate(ev, call->items[i]);
    if (value == NULL) return false;
    c->place = call->place;
    if (at < 0)
      return th__calc_fail(c, "%s has no parameter '%s'", f->name, call->keywords[i]) != NULL;
    if (at >= f->count || th__scope_find(locals, f->targets[at].name) != NULL)
      return th__calc_fail(c, "%s takes %d arguments", f->name, f->count) != NULL;
    if (!th__scope_bind(c, locals, f->targets[at].name, value, call->place)) return false;
  }
  c->place = call->place;
  if (locals->count != f->count)
    return th__calc_fail(c, "%s takes %d arguments, got %d", f->name, f->count, locals->count) !=
           NULL;
  return true;
}

static th__vertex *call_function(th__evaluator *ev, const th__statement *f,
                                 const th__expression *call) {
  th__calc *c = th__eval_calc(ev);
  th__scope locals = {0};
  if (!bind_arguments(ev, f, call, &locals)) return NULL;
  if (ev->calls >= MAX_CALLS)
    return th__calc_fail(c, "calls are nested more than %d deep; does %s call itself?", MAX_CALLS,
                         f->name);
  const th__scope *outer = ev->locals;
  ev->locals = &locals;
  ev->calls++;
  th__vertex *result = th__evaluate(ev, f->value);
  ev->calls--;
  ev->locals = outer;
  return result;
}

static th__vertex *evaluate_call(th__evaluator *ev, const th__expression *e) {
  const th__statement *f = find_function(ev, e->name);
  if (f != NULL) return call_function(ev, f, e);
  bool known = true;
  th__vertex *result = th__eval_builtin(ev, e, &known);
  if (known) return result;
  th__eval_calc(ev)->place = e->place;
  return th__calc_fail(th__eval_calc(ev), "there is no function '%s'", e->name);
}

/* ---- whole numbers ---- */

bool th__eval_integer(th__evaluator *ev, const th__expression *e, const char *what,
                      ptrdiff_t *value) {
  th__calc *c = th__eval_calc(ev);
  th__vertex *v = th__evaluate(ev, e);
  if (v == NULL) return false;
  c->place = e->place;
  if (v->value->count != 1)
    return th__calc_fail(c, "%s must be one number, got shape %s", what, TH__SHAPE_OF(v->value)) !=
           NULL;
  th__number x = v->value->v[0], near = roundl(x);
  if (!(fabsl(x - near) <= 1e-12L * (1 + fabsl(x))) || fabsl(x) > 1e15L)
    return th__calc_fail(c, "%s must be a whole number, got %.6Lg", what, x) != NULL;
  *value = (ptrdiff_t)near;
  return true;
}

static bool add_integer(th__evaluator *ev, const char *what, int *found, ptrdiff_t *values,
                        ptrdiff_t value) {
  if (*found == TH_MAX_DIMS)
    return th__calc_fail(th__eval_calc(ev), "more than %d %ss", TH_MAX_DIMS, what) != NULL;
  values[(*found)++] = value;
  return true;
}

bool th__eval_integers(th__evaluator *ev, th__expression *const *items, int count, const char *what,
                       int *found, ptrdiff_t *values) {
  for (int i = 0; i < count; i++) {
    const th__expression *e = items[i];
    if (e->kind == TH__EXPR_TUPLE) {
      if (!th__eval_integers(ev, e->items, e->count, what, found, values)) return false;
    } else if (e->kind == TH__EXPR_ATTRIBUTE && strcmp(e->name, "shape") == 0) {
      th__vertex *x = th__evaluate(ev, e->items[0]);
      for (int axis = 0; x != NULL && axis < x->value->ndim; axis++)
        if (!add_integer(ev, what, found, values, x->value->shape[axis])) return false;
      if (x == NULL) return false;
    } else {
      ptrdiff_t value;
      if (!th__eval_integer(ev, e, what, &value)) return false;
      if (!add_integer(ev, what, found, values, value)) return false;
    }
  }
  return true;
}

/* ---- expressions ---- */

static th__vertex *evaluate_number(th__evaluator *ev, const th__expression *e) {
  th__array *value = th__array_scalar(th__eval_calc(ev), e->number);
  if (value != NULL) value->e[0] = e->uncertainty;
  return th__graph_leaf(ev->graph, value);
}

static th__vertex *evaluate_pair(th__evaluator *ev, const th__expression *e) {
  th__vertex *a = th__evaluate(ev, e->items[0]);
  th__vertex *b = a == NULL ? NULL : th__evaluate(ev, e->items[1]);
  th__eval_calc(ev)->place = e->operator_place;
  return e->kind == TH__EXPR_MATMUL ? th__graph_matmul(ev->graph, a, b)
                                    : th__graph_map2(ev->graph, (th__function2)e->function, a, b);
}

static th__vertex *evaluate_attribute(th__evaluator *ev, const th__expression *e) {
  th__vertex *x = th__evaluate(ev, e->items[0]);
  th__calc *c = th__eval_calc(ev);
  c->place = e->operator_place;
  if (x == NULL) return NULL;
  if (strcmp(e->name, "T") == 0) return th__eval_flip(ev, x, true);
  if (strcmp(e->name, "mT") == 0) return th__eval_flip(ev, x, false);
  if (strcmp(e->name, "ndim") == 0) return th__graph_number(ev->graph, x->value->ndim);
  if (strcmp(e->name, "size") == 0) return th__graph_number(ev->graph, (th__number)x->value->count);
  if (strcmp(e->name, "shape") == 0) {
    ptrdiff_t count = x->value->ndim;
    th__array *shape = th__array_new(c, 1, &count);
    for (int axis = 0; shape != NULL && axis < x->value->ndim; axis++)
      shape->v[axis] = (th__number)x->value->shape[axis];
    return th__graph_leaf(ev->graph, shape);
  }
  return th__calc_fail(c, "there is no .%s; known are .T, .mT and .shape", e->name);
}

static th__vertex *evaluate_kind(th__evaluator *ev, const th__expression *e) {
  th__calc *c = th__eval_calc(ev);
  switch (e->kind) {
  case TH__EXPR_NUMBER: return evaluate_number(ev, e);
  case TH__EXPR_NAME: return lookup(ev, e->name);
  case TH__EXPR_UNARY:
    return th__graph_map1(ev->graph, (th__function1)e->function, th__evaluate(ev, e->items[0]));
  case TH__EXPR_BINARY:
  case TH__EXPR_MATMUL: return evaluate_pair(ev, e);
  case TH__EXPR_CALL: return evaluate_call(ev, e);
  case TH__EXPR_ATTRIBUTE: return evaluate_attribute(ev, e);
  case TH__EXPR_INDEX: return th__eval_index(ev, e);
  case TH__EXPR_STRING: return th__calc_fail(c, "a text can only name a file: input(\"x.npy\")");
  case TH__EXPR_TUPLE:
    return th__calc_fail(c, "a list of values where one value is expected; join arrays with "
                            "concat");
  default: return th__calc_fail(c, "this can only stand inside an index");
  }
}

th__vertex *th__evaluate(th__evaluator *ev, const th__expression *e) {
  th__calc *c = th__eval_calc(ev);
  if (th__calc_failed(c)) return NULL;
  c->place = e->place;
  if (ev->depth >= MAX_DEPTH)
    return th__calc_fail(c, "this is nested too deeply: name parts of it");
  ev->depth++;
  const th__expression *replaced = ev->replaced;
  if (e == replaced) ev->replaced = NULL; /* the replacement may contain what it replaces */
  th__vertex *v = evaluate_kind(ev, e == replaced ? ev->replacement : e);
  ev->replaced = replaced;
  ev->depth--;
  return v;
}
