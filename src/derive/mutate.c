#include "derive/mutate.h"

#include <stdio.h>
#include <string.h>

enum { MAX_TRIES = 400, MAX_PERMUTED = 4 };

typedef struct search {
  th__court *court;
  const th__claim *claim;
  int index; /* of the claim */
  th__arena arena;
  int tries;
  double budget;
  const th__statement *line; /* the statement that is changed */
  th__remedy remedy;
} search;

/* ---- one change ---- */

static bool right_in(search *s, th__draw *draw, const th__expression *old,
                     const th__expression *new) {
  const th__outcome *o = &draw->outcomes[s->index];
  s->budget -= draw->calc.work;
  th__arena_reset(&s->arena);
  const th__array *got = th__draw_retry(draw, &s->arena, s->claim, old, new);
  if (got == NULL) return false;
  th__calc c = {.arena = &s->arena, .limits = draw->calc.limits};
  return th__compare(&c, o->truth, got).wrong == 0;
}

/* Right in every draw? Most changes fail in the first. */
static bool works(search *s, const th__expression *old, const th__expression *new) {
  if (s->tries++ >= MAX_TRIES || s->budget < 0) return false;
  for (int i = 0; i < s->court->kept_count; i++)
    if (!right_in(s, s->court->kept[i], old, new)) return false;
  return true;
}

static bool found(search *s, th__bug kind, th__place place, const char *new, const char *old) {
  char line[24] = "";
  if (s->line->place.line != s->claim->place.line)
    snprintf(line, sizeof line, "line %d, ", s->line->place.line);
  s->remedy = (th__remedy){.found = true, .kind = kind};
  snprintf(s->remedy.text, sizeof s->remedy.text,
           "right with %.50s in place of %.50s (%scolumn %d)", new, old, line, place.column);
  return true;
}

/* ---- kinds of changes ---- */

static const char *name_of(const th__expression *e) {
  return e->kind == TH__EXPR_NAME ? e->name : "this";
}

/* x.T for x, x for x.T, as an operand of @. */
static bool try_transposed(search *s, th__expression *e) {
  char longer[80];
  snprintf(longer, sizeof longer, "%.70s.T", name_of(e));
  if (e->kind == TH__EXPR_ATTRIBUTE) {
    snprintf(longer, sizeof longer, "%.70s.T", name_of(e->items[0]));
    return works(s, e, e->items[0]) &&
           found(s, TH__BUG_TRANSPOSE, e->place, name_of(e->items[0]), longer);
  }
  th__expression flipped = {.kind = TH__EXPR_ATTRIBUTE, .place = e->place, .name = "mT"};
  flipped.operator_place = e->place;
  flipped.items = &e;
  flipped.count = 1;
  return works(s, e, &flipped) && found(s, TH__BUG_TRANSPOSE, e->place, longer, name_of(e));
}

/* Another sign between the same operands. */
static bool try_sign(search *s, th__expression *e, th__function2 other, th__bug kind) {
  th__expression changed = *e;
  changed.function = (int)other;
  return works(s, e, &changed) && found(s, kind, e->operator_place, th__function2_sign(other),
                                        th__function2_sign((th__function2)e->function));
}

static bool try_binary(search *s, th__expression *e) {
  switch ((th__function2)e->function) {
  case TH__ADD: return try_sign(s, e, TH__SUBTRACT, TH__BUG_SIGN);
  case TH__SUBTRACT: return try_sign(s, e, TH__ADD, TH__BUG_SIGN);
  case TH__MULTIPLY: return try_sign(s, e, TH__DIVIDE, TH__BUG_FACTOR);
  case TH__DIVIDE: return try_sign(s, e, TH__MULTIPLY, TH__BUG_FACTOR);
  case TH__LESS: return try_sign(s, e, TH__LESS_EQUAL, TH__BUG_MASK_SHIFTED);
  case TH__LESS_EQUAL: return try_sign(s, e, TH__LESS, TH__BUG_MASK_SHIFTED);
  case TH__GREATER: return try_sign(s, e, TH__GREATER_EQUAL, TH__BUG_MASK_SHIFTED);
  case TH__GREATER_EQUAL: return try_sign(s, e, TH__GREATER, TH__BUG_MASK_SHIFTED);
  default: return false;
  }
}

static th__expression number_node(const th__expression *at, long double value) {
  return (th__expression){.kind = TH__EXPR_NUMBER, .place = at->place, .number = value, .depth = 1};
}

/* tril(x, k - 1), tril(x, k + 1). */
static bool try_triangle(search *s, th__expression *e) {
  if (e->count != 1 && (e->count != 2 || e->items[1]->kind != TH__EXPR_NUMBER)) return false;
  long double given = e->count == 2 ? e->items[1]->number : 0;
  for (int step = -1; step <= 1; step += 2) {
    th__expression diagonal = number_node(e, given + step);
    th__expression *items[] = {e->items[0], &diagonal};
    const char *keywords[] = {NULL, NULL};
    th__expression changed = *e;
    changed.items = items;
    changed.keywords = keywords;
    changed.count = 2;
    char new[40], old[40];
    snprintf(new, sizeof new, "%s(.., %.0Lf)", e->name, given + step);
    snprintf(old, sizeof old, "%s(.., %.0Lf)", e->name, given);
    if (works(s, e, &changed)) return found(s, TH__BUG_MASK_SHIFTED, e->place, new, old);
  }
  return false;
}

/* A number that is an axis, or its negative. Returns NULL if the argument is none. */
static th__expression **axis_of(th__expression *e) {
  for (int i = 1; i < e->count; i++) {
    bool axis = e->keywords[i] == NULL ? i == 1 : strcmp(e->keywords[i], "axis") == 0;
    const th__expression *item = e->items[i];
    bool negative = item->kind == TH__EXPR_UNARY && item->items[0]->kind == TH__EXPR_NUMBER;
    if (axis && (negative || item->kind == TH__EXPR_NUMBER)) return &e->items[i];
  }
  return NULL;
}

static bool try_axis(search *s, th__expression *e) {
  th__expression **axis = axis_of(e);
  for (int other = 0; axis != NULL && other < 4; other++) {
    th__expression number = number_node(*axis, other);
    char new[24];
    snprintf(new, sizeof new, "axis %d", other);
    if (works(s, *axis, &number))
      return found(s, TH__BUG_UNKNOWN, (*axis)->place, new, "this axis");
  }
  return false;
}

static bool try_function(search *s, th__expression *e, const char *other, th__bug kind) {
  th__expression changed = *e;
  changed.name = other;
  return works(s, e, &changed) && found(s, kind, e->place, other, e->name);
}

/* Another order of the axes of transpose, or of the sizes of reshape. */
static bool try_orders(search *s, th__expression *e) {
  th__expression *list = e->count == 2 && e->items[1]->kind == TH__EXPR_TUPLE ? e->items[1] : e;
  int first = list == e ? 1 : 0, count = list->count - first;
  if (count < 2 || count > MAX_PERMUTED) return false;
  th__expression *given[MAX_PERMUTED], *items[MAX_PERMUTED + 1];
  for (int i = 0; i < count; i++) given[i] = list->items[first + i];
  int total = count == 2 ? 2 : count == 3 ? 6 : 24;
  for (int k = 1; k < total; k++) { /* k written in the factorial system is an order */
    bool used[MAX_PERMUTED] = {false};
    int rest = k, block = total;
    items[0] = e->items[0];
    for (int i = 0; i < count; i++) {
      block /= count - i;
      int skip = rest / block, at = 0;
      rest %= block;
      while (used[at] || skip-- > 0) at++;
      used[at] = true;
      items[first + i] = given[at];
    }
    th__expression changed = *list;
    changed.items = items;
    if (works(s, list, &changed))
      return found(s, TH__BUG_HEADS_PERMUTED, e->place, "another order of the axes", e->name);
  }
  return false;
}

static bool try_call(search *s, th__expression *e) {
  if (strcmp(e->name, "tril") == 0 || strcmp(e->name, "triu") == 0) return try_triangle(s, e);
  if (strcmp(e->name, "transpose") == 0 || strcmp(e->name, "reshape") == 0) return try_orders(s, e);
  if (strcmp(e->name, "sum") == 0 && try_function(s, e, "mean", TH__BUG_MISSING_MEAN)) return true;
  if (strcmp(e->name, "mean") == 0 && try_function(s, e, "sum", TH__BUG_FACTOR)) return true;
  return try_axis(s, e);
}

/* Another value, or gradient, of the same kind in its place. */
static bool try_names(search *s, th__expression *e) {
  const th__scope *values = &s->court->kept[0]->values;
  bool gradient = e->name[0] == 'd' && th__scope_find(values, e->name) == NULL;
  const char *of = gradient ? e->name + 1 : e->name;
  const th__binding *now = th__scope_find(values, of);
  if (now == NULL) return false;
  for (int i = 0; i < values->count; i++) {
    const th__binding *other = &values->list[i];
    if (other == now || (gradient && strcmp(other->name, s->claim->of) == 0)) continue;
    if (gradient && !th__facts_mention(&s->court->derivation->facts, other->name)) continue;
    if (!th__array_same_shape(other->value->value, now->value->value)) continue;
    char name[64];
    snprintf(name, sizeof name, "%s%.60s", gradient ? "d" : "", other->name);
    th__expression changed = *e;
    changed.name = name;
    if (works(s, e, &changed)) return found(s, TH__BUG_UNKNOWN, e->place, name, e->name);
  }
  return false;
}

/* A sum over an axis in place of x[..., -1:]. */
static bool try_index(search *s, th__expression *e) {
  for (int keep = 1; keep >= 0; keep--)
    for (int axis = 0; axis < 4; axis++) {
      th__expression where = number_node(e, axis), kept = number_node(e, keep);
      th__expression *items[] = {e->items[0], &where, &kept};
      const char *keywords[] = {NULL, "axis", "keepdims"};
      th__expression sum = {.kind = TH__EXPR_CALL, .place = e->place, .name = "sum"};
      sum.operator_place = e->place;
      sum.items = items;
      sum.keywords = keywords;
      sum.count = 3;
      char new[40];
      snprintf(new, sizeof new, "a sum over axis %d", axis);
      if (works(s, e, &sum)) return found(s, TH__BUG_NOT_SUMMED, e->place, new, "this index");
    }
  return false;
}

/* ---- a value of the forward pass in place of a whole call, such as P for softmax(Z) ---- */

static th__grid grid_of(th__calc *c, const th__array *x) {
  th__grid grid = {.ndim = x->ndim};
  double *data = th__calc_alloc(c, (size_t)x->count * sizeof *data);
  for (int axis = 0; axis < x->ndim; axis++) grid.shape[axis] = x->shape[axis];
  for (ptrdiff_t i = 0; data != NULL && i < x->count; i++) data[i] = (double)x->v[i];
  grid.data = data;
  return grid;
}

static bool is_mask(const th__array *x) {
  for (ptrdiff_t i = 0; i < x->count; i++)
    if (x->v[i] != 0 && x->v[i] != 1) return false;
  return x->count > 0;
}

/* How the call's own value differs from the right one, with the masks of the program as clues. */
static th__bug kind_of_call(search *s, const th__expression *call, const char *name) {
  enum { MAX_MASKS = 4 };
  const th__expression *whole = s->line->value;
  th__calc *c = s->court->calc;
  th__evidence evidence[TH__KEPT_DRAWS];
  for (int i = 0; i < s->court->kept_count; i++) {
    th__draw *draw = s->court->kept[i];
    th__arena_reset(&s->arena);
    const th__array *got = th__draw_retry(draw, &s->arena, s->claim, whole, call);
    th__clue *clues = th__calc_alloc(c, MAX_MASKS * sizeof *clues);
    if (got == NULL || clues == NULL) return TH__BUG_UNKNOWN;
    const th__array *want = th__scope_find(&draw->values, name)->value->value;
    evidence[i] = (th__evidence){.got = grid_of(c, got), .want = grid_of(c, want), .clues = clues};
    for (int k = 0; k < draw->values.count && evidence[i].clue_count < MAX_MASKS; k++) {
      const th__binding *value = &draw->values.list[k];
      if (value->value->value->ndim > 0 && is_mask(value->value->value))
        clues[evidence[i].clue_count++] =
            (th__clue){value->name, TH__CLUE_VALUE, grid_of(c, value->value->value)};
    }
    if (evidence[i].clue_count != evidence[0].clue_count || th__calc_failed(c))
      return TH__BUG_UNKNOWN;
  }
  th__diagnosis found;
  th__diagnose("it", s->court->kept_count, evidence, 1e-8, &found);
  return found.kind;
}

static bool try_value(search *s, th__expression *e) {
  const th__scope *values = &s->court->kept[0]->values;
  for (int i = 0; i < values->count; i++) {
    if (values->list[i].value->value->ndim == 0) continue;
    th__expression name = {.kind = TH__EXPR_NAME, .place = e->place, .name = values->list[i].name};
    if (!works(s, e, &name)) continue;
    bool own = s->line->place.line == s->claim->place.line && s->line->count == 1;
    th__bug kind = own ? kind_of_call(s, e, name.name) : TH__BUG_UNKNOWN;
    char old[60];
    snprintf(old, sizeof old, "%.40s(..)", e->name);
    return found(s, kind, e->place, name.name, old);
  }
  return false;
}

/* ---- all changes ---- */

typedef bool change(search *s, th__expression *e);

static bool change_operands(search *s, th__expression *e) {
  for (int i = 0; e->kind == TH__EXPR_MATMUL && i < 2; i++)
    if (try_transposed(s, e->items[i])) return true;
  return false;
}

static bool change_signs(search *s, th__expression *e) {
  if (e->kind == TH__EXPR_UNARY && e->function == TH__NEGATE)
    return works(s, e, e->items[0]) && found(s, TH__BUG_SIGN, e->place, "+", "-");
  return e->kind == TH__EXPR_BINARY && try_binary(s, e);
}

static bool change_calls(search *s, th__expression *e) {
  return e->kind == TH__EXPR_CALL && e->count > 0 && try_call(s, e);
}

static bool change_names(search *s, th__expression *e) {
  return e->kind == TH__EXPR_NAME && try_names(s, e);
}

static bool change_indices(search *s, th__expression *e) {
  return e->kind == TH__EXPR_INDEX && try_index(s, e);
}

static bool change_values(search *s, th__expression *e) {
  return e->kind == TH__EXPR_CALL && try_value(s, e);
}

static bool visit(search *s, th__expression *e, change *how) {
  if (e == NULL) return false;
  if (how(s, e)) return true;
  for (int i = 0; i < e->count; i++)
    if (visit(s, e->items[i], how)) return true;
  return false;
}

/* The claim's line, and those of helpers that it uses, last first. */
static bool visit_lines(search *s, change *how) {
  const th__derivation *d = s->court->derivation;
  const th__statement *own = &d->program.statements[s->claim->statement];
  s->line = own;
  if (visit(s, own->value, how)) return true;
  for (int i = s->claim->statement - 1; i > d->facts.loss; i--) {
    const th__statement *helper = &d->program.statements[i];
    if (helper->kind != TH__ASSIGN || helper->count != 1) continue;
    bool claims = th__claims_at(&d->claims, i, 0) != NULL;
    if (claims || !th__expression_uses(own->value, helper->targets[0].name)) continue;
    s->line = helper;
    if (visit(s, helper->value, how)) return true;
  }
  return false;
}

th__remedy th__remedy_find(th__court *court, int claim) {
  static change *const changes[] = {change_operands, change_signs,  change_calls,
                                    change_indices,  change_values, change_names};
  search s = {.court = court,
              .claim = &court->derivation->claims.list[claim],
              .index = claim,
              .budget = court->derivation->limits.work / 2};
  for (size_t i = 0; i < sizeof changes / sizeof *changes && court->kept_count > 0; i++)
    if (visit_lines(&s, changes[i])) break;
  th__arena_free(&s.arena);
  return s.remedy;
}
