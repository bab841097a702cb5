#include "derive/draw.h"

#include <math.h>

void th__draw_start(th__draw *draw, const th__derivation *derivation, int number, double scale,
                    const ptrdiff_t *sizes) {
  *draw = (th__draw){.derivation = derivation, .sizes = sizes};
  draw->calc = (th__calc){.arena = &draw->arena, .limits = derivation->limits};
  draw->graph.calc = &draw->calc;
  draw->inputs = (th__inputs){.seed = derivation->seed,
                              .draw = number,
                              .scale = scale,
                              .folder = derivation->folder,
                              .load = derivation->load};
}

void th__draw_free(th__draw *draw) { th__arena_free(&draw->arena); }

/* ---- forward ---- */

th__evaluator th__draw_evaluator(th__draw *draw, int statement) {
  return (th__evaluator){.graph = &draw->graph,
                         .program = &draw->derivation->program,
                         .functions = statement,
                         .values = &draw->values,
                         .inputs = &draw->inputs};
}

/* The value of a size in this draw, or -1 if this target is none. */
static ptrdiff_t size_at(const th__draw *draw, int statement, int target) {
  const th__facts *facts = &draw->derivation->facts;
  for (int i = 0; i < facts->size_count; i++)
    if (facts->sizes[i].statement == statement && facts->sizes[i].target == target)
      return draw->sizes[i];
  return -1;
}

static bool bind_forward(th__draw *draw, const th__target *target, th__vertex *value) {
  th__calc *c = &draw->calc;
  if (value == NULL) return false;
  c->place = target->place;
  bool wanted = th__facts_mention(&draw->derivation->facts, target->name);
  const th__binding *before = th__scope_find(&draw->values, target->name);
  if (before != NULL && wanted)
    return th__calc_fail(c,
                         "%s has a value already (line %d), so d%s could mean either; give the "
                         "second one another name",
                         target->name, before->place.line, target->name) != NULL;
  th__vertex *named = th__graph_name(&draw->graph, value);
  if (named == NULL) return false;
  if (wanted) th__graph_want(named);
  return th__scope_bind(c, &draw->values, target->name, named, target->place);
}

th__vertex *th__unpack(th__graph *g, th__vertex *x, int i, int count) {
  th__calc *c = g->calc;
  if (x == NULL) return NULL;
  const th__array *value = x->value;
  if (value->ndim == 0 || value->shape[0] != count)
    return th__calc_fail(c, "%d names for an array of shape %s", count, TH__SHAPE_OF(value));
  ptrdiff_t part = value->count / count;
  ptrdiff_t *map = th__calc_alloc(c, (size_t)part * sizeof *map);
  for (ptrdiff_t k = 0; map != NULL && k < part; k++) map[k] = i * part + k;
  return th__graph_gather(g, x, map, value->ndim - 1, value->shape + 1);
}

/* All right sides are evaluated before any name is bound, as in a, b = b, a. */
static bool right_sides(th__evaluator *ev, th__draw *draw, const th__statement *s, int index,
                        th__vertex **values) {
  th__calc *c = &draw->calc;
  bool list = s->value->kind == TH__EXPR_TUPLE;
  c->place = s->value->place;
  if (list && s->value->count != s->count)
    return th__calc_fail(c, "%d names on the left, %d values on the right", s->count,
                         s->value->count) != NULL;
  th__vertex *whole = list ? NULL : th__evaluate(ev, s->value);
  for (int t = 0; t < s->count; t++) {
    ptrdiff_t size = ev->inputs != NULL ? size_at(draw, index, t) : -1;
    if (size >= 0)
      values[t] = th__graph_number(&draw->graph, (th__number)size);
    else if (list)
      values[t] = th__evaluate(ev, s->value->items[t]);
    else
      values[t] = s->count == 1 ? whole : th__unpack(&draw->graph, whole, t, s->count);
    if (values[t] == NULL) return false;
  }
  return true;
}

static bool run_forward(th__draw *draw, int index) {
  const th__statement *s = &draw->derivation->program.statements[index];
  th__evaluator ev = th__draw_evaluator(draw, index);
  th__vertex **values = th__calc_alloc(&draw->calc, (size_t)(s->count + 1) * sizeof *values);
  if (values == NULL || !right_sides(&ev, draw, s, index, values)) return false;
  for (int t = 0; t < s->count; t++)
    if (!bind_forward(draw, &s->targets[t], values[t])) return false;
  return true;
}

/* ---- loss ---- */

/* Where numbers first stop being numbers, for the message. */
static const th__vertex *first_bad(const th__draw *draw) {
  for (int i = 0; i < draw->graph.count; i++) {
    const th__array *x = draw->graph.vertices[i]->value;
    for (ptrdiff_t k = 0; k < x->count; k++)
      if (isnan(x->v[k]) || (isinf(x->v[k]) && x->v[k] > 0)) return draw->graph.vertices[i];
  }
  return draw->end;
}

static bool check_finite(th__draw *draw) {
  const th__array *x = draw->end->value;
  for (ptrdiff_t i = 0; i < x->count; i++) {
    if (isfinite(x->v[i])) continue;
    int line = draw->calc.place.line;
    draw->calc.place = first_bad(draw)->place;
    return th__calc_fail(&draw->calc,
                         "the value of the loss (line %d) is %s, and it begins here; does an input "
                         "need another distribution, such as input(n, positive)?",
                         line, isnan(x->v[i]) ? "not a number" : "infinite") != NULL;
  }
  return true;
}

/* Whether a claim uses the gradient of the loss's own value. */
static bool upstream_is_used(const th__draw *draw, const th__expression *loss) {
  const th__program *p = &draw->derivation->program;
  for (int i = 0; i < p->count; i++)
    if (p->statements[i].kind != TH__LOSS && th__expression_uses(p->statements[i].value, "G"))
      return true;
  return loss->kind == TH__EXPR_NAME && th__facts_mention(&draw->derivation->facts, loss->name);
}

static bool make_upstream(th__draw *draw, const th__expression *loss) {
  const th__array *x = draw->end->value;
  th__array *g = th__array_new(&draw->calc, x->ndim, x->shape);
  if (g == NULL) return false;
  draw->unit_upstream = x->ndim == 0 && !upstream_is_used(draw, loss);
  th_random stream = {draw->inputs.seed, 0x6446, (uint64_t)draw->inputs.draw};
  for (ptrdiff_t i = 0; i < g->count; i++)
    g->v[i] = draw->unit_upstream ? 1 : (th__number)th_random_normal(stream, (uint64_t)i);
  draw->upstream = g;
  return true;
}

bool th__draw_forward(th__draw *draw) {
  const th__derivation *d = draw->derivation;
  for (int i = 0; i < d->facts.loss; i++)
    if (d->program.statements[i].kind == TH__ASSIGN && !run_forward(draw, i)) return false;
  const th__statement *loss = &d->program.statements[d->facts.loss];
  th__evaluator ev = th__draw_evaluator(draw, d->facts.loss);
  draw->end = th__evaluate(&ev, loss->value);
  draw->calc.place = loss->place;
  draw->forward_elements = draw->calc.elements;
  draw->forward_work = draw->calc.work;
  return draw->end != NULL && check_finite(draw) && make_upstream(draw, loss->value);
}

bool th__draw_reverse(th__draw *draw) {
  return th__graph_reverse(&draw->graph, draw->end, draw->upstream);
}
