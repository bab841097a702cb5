/* claiming.c: what the lines after loss claim, computed. */
#include <math.h>
#include <string.h>

#include "derive/compare.h"
#include "derive/draw.h"

/* One pass over the lines after loss: with true gradients on the right sides, or with those that were
 * claimed above. */
typedef struct pass {
  th__draw *draw;
  th__graph *graph; /* the draw's, or one for a trial */
  bool chained;
  th__scope claimed; /* dX as claimed so far in this pass */
  th__scope truths;  /* dX as a vertex, once it has been used */
  th__scope helpers;
  const th__claim *now; /* whose right side is evaluated; NULL: a helper's */
  const th__expression *replaced, *replacement; /* as in th__evaluator */
} pass;

static const th__array *true_gradient(th__calc *c, const th__vertex *x) {
  if (x->gradient != NULL) return x->gradient;
  return th__array_full(c, x->value->ndim, x->value->shape, 0);
}

static th__vertex *truth_of(pass *p, const char *name, const th__vertex *x) {
  const th__binding *known = th__scope_find(&p->truths, name);
  if (known != NULL) return known->value;
  th__vertex *truth = th__graph_leaf(p->graph, true_gradient(p->graph->calc, x));
  th__calc *c = p->graph->calc;
  return truth != NULL && th__scope_bind(c, &p->truths, name, truth, c->place) ? truth : NULL;
}

static th__vertex *gradient_in_pass(th__evaluator *ev, const char *name) {
  pass *p = ev->context;
  if (strcmp(name, "G") == 0 && th__scope_find(&p->draw->values, "G") == NULL)
    return th__graph_leaf(ev->graph, p->draw->upstream);
  if (name[0] != 'd' || th__scope_find(&p->draw->values, name) != NULL) return NULL;
  const th__binding *of = th__scope_find(&p->draw->values, name + 1);
  if (of == NULL) return NULL;
  const th__binding *claimed = th__scope_find(&p->claimed, name);
  if (p->now != NULL && strcmp(p->now->name, name) == 0) {
    if (claimed != NULL && claimed->value != NULL) return claimed->value;
    ev->inherited = true;
    return th__calc_fail(th__eval_calc(ev), "%s has no value yet", name);
  }
  if (p->chained && claimed != NULL && claimed->value != NULL) return claimed->value;
  return truth_of(p, name, of->value);
}

/* Moves the calc's fault to where it belongs, so that the lines below are still judged. */
static void keep_fault(th__draw *draw, th__outcome *outcome, bool inherited) {
  th__fault *kept = outcome != NULL ? &outcome->fault : &draw->helper_fault;
  if (kept->message[0] == '\0' && !(outcome == NULL && inherited)) {
    *kept = draw->calc.fault;
    if (outcome != NULL) outcome->inherited = inherited;
  }
  draw->calc.fault.message[0] = '\0';
}

static th__outcome *outcome_of(th__draw *draw, const th__claim *claim) {
  return claim == NULL ? NULL : &draw->outcomes[claim - draw->derivation->claims.list];
}

static th__vertex *claimed_value(pass *p, th__evaluator *ev, const th__statement *s,
                                 th__vertex *value) {
  if (s->kind != TH__ADD_ASSIGN || value == NULL) return value;
  p->graph->calc->place = s->place;
  return th__graph_map2(p->graph, TH__ADD, ev->gradient(ev, p->now->name), value);
}

/* What the lines below go on from: a claim in the value's own shape, and, where it is right, with its
 * small distance from the truth counted as an error it has. So what was accepted here is not called
 * wrong further down, where a cancellation magnifies it. */
static th__vertex *accepted(th__draw *draw, th__outcome *outcome, th__vertex *value) {
  th__calc *c = &draw->calc;
  th__comparison how = th__compare(c, outcome->truth, value->value);
  if (how.got == NULL) return value;
  th__array *copy = th__array_new(c, how.got->ndim, how.got->shape);
  if (copy == NULL) return NULL;
  for (ptrdiff_t i = 0; i < copy->count; i++) {
    double away = (double)fabsl(how.got->v[i] - outcome->truth->v[i]);
    copy->v[i] = how.got->v[i];
    copy->e[i] = how.got->e[i] + (how.wrong == 0 && isfinite(away) ? away : 0);
  }
  return th__graph_leaf(&draw->graph, copy);
}

static th__evaluator evaluator(pass *p, int statement) {
  th__evaluator ev = th__draw_evaluator(p->draw, statement);
  ev.graph = p->graph;
  ev.inputs = NULL;
  ev.helpers = &p->helpers;
  ev.gradient = gradient_in_pass;
  ev.context = p;
  ev.replaced = p->replaced;
  ev.replacement = p->replacement;
  return ev;
}

/* The value of one target of a line; NULL with a fault. */
static th__vertex *evaluate_target(pass *p, th__evaluator *ev, const th__statement *s, int target) {
  bool list = s->count > 1 && s->value->kind == TH__EXPR_TUPLE && s->value->count == s->count;
  th__vertex *value = th__evaluate(ev, list ? s->value->items[target] : s->value);
  p->graph->calc->place = s->value->place;
  if (s->count > 1 && !list) value = th__unpack(p->graph, value, target, s->count);
  return claimed_value(p, ev, s, value);
}

static bool run_target(pass *p, const th__statement *s, int index, int target) {
  th__draw *draw = p->draw;
  const th__claim *claim = th__claims_at(&draw->derivation->claims, index, target);
  const th__target *name = &s->targets[target];
  th__evaluator ev = evaluator(p, index);
  p->now = claim;
  th__vertex *value = evaluate_target(p, &ev, s, target);
  th__outcome *outcome = outcome_of(draw, claim);
  if (value == NULL) keep_fault(draw, outcome, ev.inherited);
  if (outcome != NULL && value != NULL) {
    *(p->chained ? &outcome->chained : &outcome->given) = value->value;
    if (p->chained) value = accepted(draw, outcome, value);
  }
  th__scope *scope = claim != NULL ? &p->claimed : &p->helpers;
  return th__scope_bind(&draw->calc, scope, name->name, value, name->place);
}

static bool run_pass(th__draw *draw, bool chained) {
  const th__derivation *d = draw->derivation;
  pass p = {.draw = draw, .graph = &draw->graph, .chained = chained};
  for (int i = d->facts.loss + 1; i < d->program.count; i++) {
    const th__statement *s = &d->program.statements[i];
    for (int t = 0; s->kind != TH__FUNCTION && t < s->count; t++)
      if (!run_target(&p, s, i, t)) return false;
  }
  if (!chained) draw->helpers = p.helpers;
  return true;
}

static bool prepare_outcomes(th__draw *draw) {
  const th__claims *claims = &draw->derivation->claims;
  draw->outcomes = th__calc_alloc(&draw->calc, (size_t)claims->count * sizeof *draw->outcomes);
  if (draw->outcomes == NULL) return false;
  for (int i = 0; i < claims->count; i++) {
    const th__vertex *of = th__scope_find(&draw->values, claims->list[i].of)->value;
    draw->outcomes[i] = (th__outcome){.truth = true_gradient(&draw->calc, of), .vertex = of};
    if (draw->outcomes[i].truth == NULL) return false;
  }
  return true;
}

bool th__draw_claims(th__draw *draw) {
  return prepare_outcomes(draw) && run_pass(draw, false) && run_pass(draw, true);
}

/* ---- what if ---- */

const th__array *th__draw_retry(th__draw *draw, th__arena *arena, const th__claim *claim,
                                const th__expression *replaced, const th__expression *replacement) {
  const th__derivation *d = draw->derivation;
  th__calc calc = {.arena = arena, .limits = d->limits};
  th__graph graph = {.calc = &calc};
  pass p = {.draw = draw, .graph = &graph, .replaced = replaced, .replacement = replacement};
  for (int i = d->facts.loss + 1; i <= claim->statement; i++) {
    const th__statement *s = &d->program.statements[i];
    for (int t = 0; s->kind != TH__FUNCTION && t < s->count; t++) {
      p.now = th__claims_at(&d->claims, i, t);
      th__evaluator ev = evaluator(&p, i);
      th__vertex *value = evaluate_target(&p, &ev, s, t);
      calc.fault.message[0] = '\0';
      if (p.now == claim) return value == NULL ? NULL : value->value;
      th__scope *scope = p.now != NULL ? &p.claimed : &p.helpers;
      if (!th__scope_bind(&calc, scope, s->targets[t].name, value, s->targets[t].place))
        return NULL;
    }
  }
  return NULL;
}
