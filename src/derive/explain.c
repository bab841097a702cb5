/* explain.c: collects the evidence about a wrong claim, in the program's own names, for the diagnosis. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "derive/judge.h"
#include "derive/mutate.h"

enum { MAX_VALUES = 20, MAX_HELPERS = 8, MAX_GRADIENTS = 16, MAX_SHARES = 10, MAX_CONSTANTS = 24 };
#define SLACK 1e-8  /* what the diagnosis allows for */
#define EXACT 1e-10 /* and what rounding may take of it */
enum { MAX_CLUES = MAX_VALUES + MAX_HELPERS + MAX_GRADIENTS + MAX_SHARES };

/* What one draw says; the names and their order are the same in every draw. */
typedef struct brief {
  th__court *court;
  th__draw *draw;
  bool reassigned; /* the claim's name is claimed on several lines */
  th__evidence *evidence;
  th__clue *clues;
  th__constant *constants;
} brief;

static th__grid grid_of(th__calc *c, const th__array *x) {
  th__grid grid = {.ndim = x->ndim};
  memcpy(grid.shape, x->shape, (size_t)x->ndim * sizeof *x->shape);
  double *data = th__calc_alloc(c, (size_t)x->count * sizeof *data);
  for (ptrdiff_t i = 0; data != NULL && i < x->count; i++) data[i] = (double)x->v[i];
  grid.data = data;
  return grid;
}

static bool all_finite(const th__array *x) {
  for (ptrdiff_t i = 0; i < x->count; i++)
    if (!isfinite(x->v[i])) return false;
  return true;
}

static void add_clue(brief *b, const char *name, th__clue_kind kind, const th__array *x) {
  if (b->evidence->clue_count == MAX_CLUES) return;
  th__clue *clue = &b->clues[b->evidence->clue_count];
  *clue = (th__clue){name, kind, grid_of(b->court->calc, x)};
  if (clue->grid.data != NULL) b->evidence->clue_count++;
}

/* ---- which names belong to the evidence, decided in the first draw ---- */

typedef struct cast {
  int value_count, helper_count, gradient_count, share_count, constant_count;
  const char *values[MAX_VALUES], *gradients[MAX_GRADIENTS], *constants[MAX_CONSTANTS];
  const char *helpers[MAX_HELPERS], *shares[MAX_SHARES];
} cast;

/* The vertices that depend on x. */
static bool *dependents(th__court *court, const th__draw *draw, const th__vertex *x) {
  bool *depends = th__calc_alloc(court->calc, (size_t)draw->graph.count * sizeof *depends);
  for (int i = 0; depends != NULL && i < draw->graph.count; i++) {
    const th__vertex *v = draw->graph.vertices[i];
    depends[i] = v == x;
    for (int k = 0; k < v->input_count; k++) depends[i] |= depends[v->inputs[k]->index];
  }
  return depends;
}

static bool is_size(const th__court *court, const char *name) {
  const th__facts *facts = &court->derivation->facts;
  for (int i = 0; i < facts->size_count; i++)
    if (strcmp(facts->sizes[i].name, name) == 0) return true;
  return false;
}

static void cast_sizes(const th__court *court, cast *c) {
  const th__facts *facts = &court->derivation->facts;
  for (int i = 0; i < facts->size_count && c->constant_count < MAX_CONSTANTS; i++)
    c->constants[c->constant_count++] = facts->sizes[i].name;
}

/* Whether the claim's own line, or a helper it uses, speaks of this name. */
static bool line_uses(const th__derivation *d, const th__claim *claim, const char *name) {
  const th__expression *own = d->program.statements[claim->statement].value;
  if (th__expression_uses(own, name)) return true;
  for (int i = d->facts.loss + 1; i < claim->statement; i++) {
    const th__statement *s = &d->program.statements[i];
    if (s->kind == TH__ASSIGN && s->count == 1 && th__claims_at(&d->claims, i, 0) == NULL &&
        th__expression_uses(own, s->targets[0].name) && th__expression_uses(s->value, name))
      return true;
  }
  return false;
}

static void cast_value(const th__binding *name, cast *c) {
  if (name->value->value->ndim == 0 && !name->value->moves) {
    if (c->constant_count < MAX_CONSTANTS) c->constants[c->constant_count++] = name->name;
  } else if (c->value_count < MAX_VALUES && all_finite(name->value->value))
    c->values[c->value_count++] = name->name;
}

/* A gradient that the file never speaks of explains nothing to its author; nor does one that does not
 * lie on the way from the loss to this value. What the line itself uses comes first. */
static void cast_names(th__court *court, const th__draw *draw, const th__claim *claim, cast *c) {
  const th__derivation *d = court->derivation;
  const th__vertex *x = th__scope_find(&draw->values, claim->of)->value;
  const bool *depends = dependents(court, draw, x);
  for (int used = 1; used >= 0 && depends != NULL; used--)
    for (int i = draw->values.count - 1; i >= 0; i--) {
      const th__binding *name = &draw->values.list[i];
      char gradient[80];
      snprintf(gradient, sizeof gradient, "d%.70s", name->name);
      if (line_uses(d, claim, name->name) == (used != 0) && !is_size(court, name->name))
        cast_value(name, c);
      bool on_the_way = depends[name->value->index] && name->value != x;
      if (line_uses(d, claim, gradient) == (used != 0) && on_the_way &&
          name->value->gradient != NULL && c->gradient_count < MAX_GRADIENTS &&
          (th__facts_mention(&d->facts, name->name) || name->value == draw->end))
        c->gradients[c->gradient_count++] = name->name;
    }
  for (int i = 0; i < draw->helpers.count && c->helper_count < MAX_HELPERS; i++) {
    const th__vertex *v = draw->helpers.list[i].value;
    if (v != NULL && all_finite(v->value))
      c->helpers[c->helper_count++] = draw->helpers.list[i].name;
  }
}

/* ---- shares ---- */

/* The name that a line of the forward pass assigns, or "loss". */
static const char *name_on_line(const th__derivation *d, int line) {
  for (int i = d->facts.loss; i >= 0; i--)
    if (d->program.statements[i].place.line <= line && d->program.statements[i].count > 0 &&
        d->program.statements[i].kind == TH__ASSIGN)
      return d->program.statements[i].targets[0].name;
  return "loss";
}

static int count_shares(const th__vertex *x) {
  int count = 0;
  for (const th__share *s = x->shares; s != NULL; s = s->next) count++;
  return count;
}

/* "K (line 7)", or "use 2 in K (line 7)" where a line uses the value more than once. */
static const char *share_name(th__court *court, const th__vertex *x, const th__share *share) {
  int line = share->user->place.line, same = 0, before = 0;
  bool earlier = true; /* in the list: tells the two uses in x * x apart */
  for (const th__share *s = x->shares; s != NULL; s = s->next) {
    if (s == share) earlier = false;
    if (s->user->place.line != line) continue;
    same++;
    if (s->user->index < share->user->index || (s->user == share->user && earlier)) before++;
  }
  const char *name = name_on_line(court->derivation, line);
  char *text = th__calc_alloc(court->calc, strlen(name) + 48);
  if (text == NULL) return name;
  if (same > 1)
    snprintf(text, strlen(name) + 48, "use %d in %s (line %d)", before + 1, name, line);
  else
    snprintf(text, strlen(name) + 48, "%s (line %d)", name, line);
  return text;
}

static void cast_shares(th__court *court, const th__vertex *x, cast *c) {
  if (count_shares(x) > MAX_SHARES) return;
  for (const th__share *s = x->shares; s != NULL; s = s->next)
    c->shares[c->share_count++] = share_name(court, x, s);
}

/* ---- one draw's evidence ---- */

static void add_arrays(brief *b, const cast *c) {
  for (int i = 0; i < c->value_count; i++)
    add_clue(b, c->values[i], TH__CLUE_VALUE,
             th__scope_find(&b->draw->values, c->values[i])->value->value);
  for (int i = 0; i < c->helper_count; i++) {
    const th__vertex *v = th__scope_find(&b->draw->helpers, c->helpers[i])->value;
    if (v != NULL) add_clue(b, c->helpers[i], TH__CLUE_VALUE, v->value);
  }
  for (int i = 0; i < c->gradient_count; i++) {
    const th__vertex *v = th__scope_find(&b->draw->values, c->gradients[i])->value;
    size_t room = strlen(c->gradients[i]) + 2;
    char *name = th__calc_alloc(b->court->calc, room);
    if (name == NULL || v->gradient == NULL) continue;
    snprintf(name, room, "d%s", c->gradients[i]);
    add_clue(b, name, TH__CLUE_GRADIENT, v->gradient);
  }
}

static void add_shares(brief *b, const cast *c, const th__vertex *x) {
  if (c->share_count < 2 || count_shares(x) != c->share_count) return;
  int i = 0;
  for (const th__share *s = x->shares; s != NULL; s = s->next, i++)
    add_clue(b, c->shares[i], TH__CLUE_PART, s->value);
}

static void add_constants(brief *b, const cast *c) {
  for (int i = 0; i < c->constant_count; i++) {
    const th__array *x = th__scope_find(&b->draw->values, c->constants[i])->value->value;
    b->constants[b->evidence->constant_count++] =
        (th__constant){c->constants[i], x->count == 1 ? (double)x->v[0] : 1};
  }
}

static bool collect(brief *b, const cast *c, const th__outcome *o) {
  th__calc *calc = b->court->calc;
  b->clues = th__calc_alloc(calc, MAX_CLUES * sizeof *b->clues);
  b->constants = th__calc_alloc(calc, MAX_CONSTANTS * sizeof *b->constants);
  if (b->clues == NULL || b->constants == NULL) return false;
  th__comparison how = th__compare(&b->draw->calc, o->truth, o->given);
  *b->evidence = (th__evidence){.got = grid_of(calc, how.got != NULL ? how.got : o->given),
                                .want = grid_of(calc, o->truth),
                                .clues = b->clues,
                                .constants = b->constants,
                                .reassigned = b->reassigned};
  add_arrays(b, c);
  add_shares(b, c, o->vertex);
  add_constants(b, c);
  return b->evidence->got.data != NULL && b->evidence->want.data != NULL;
}

/* Whether rounding leaves enough of both sides to fit anything to. In a draw where everything is
 * saturated it may not, and such a draw would contradict the right name. */
static bool is_exact(const th__outcome *o) {
  double largest = 0, rounding = 0;
  for (ptrdiff_t i = 0; i < o->truth->count; i++) {
    largest = fmax(largest, (double)fabsl(o->truth->v[i]));
    rounding = fmax(rounding, o->truth->e[i]);
  }
  for (ptrdiff_t i = 0; i < o->given->count; i++) rounding = fmax(rounding, o->given->e[i]);
  return rounding <= EXACT * largest && (largest == 0 || largest > 1e-200);
}

/* A clue that some draw lacks would put all others in the wrong place. */
static int same_clues(const th__evidence *evidence, int runs) {
  int good = runs > 0;
  while (good < runs && evidence[good].clue_count == evidence[0].clue_count) good++;
  return good;
}

/* Without those that a later line goes on from. */
static int times_claimed(const th__court *court, const char *name) {
  const th__claims *claims = &court->derivation->claims;
  int times = 0;
  for (int i = 0; i < claims->count; i++)
    if (!claims->list[i].continued && strcmp(claims->list[i].name, name) == 0) times++;
  return times;
}

void th__explain(th__court *court, int claim, th__finding *finding) {
  const th__claim *about = &court->derivation->claims.list[claim];
  th__evidence evidence[TH__KEPT_DRAWS];
  cast c = {0};
  int runs = 0, exact = 0;
  for (int i = 0; i < court->kept_count; i++) {
    const th__outcome *o = &court->kept[i]->outcomes[claim];
    exact += o->given != NULL && is_exact(o);
  }
  for (int i = 0; i < court->kept_count; i++) {
    th__draw *draw = court->kept[i];
    const th__outcome *o = &draw->outcomes[claim];
    if (o->given == NULL || o->truth->count == 0 || (exact > 0 && !is_exact(o))) continue;
    if (runs == 0) {
      cast_sizes(court, &c);
      cast_names(court, draw, about, &c);
      cast_shares(court, o->vertex, &c);
    }
    brief b = {.court = court,
               .draw = draw,
               .reassigned = times_claimed(court, about->name) > 1,
               .evidence = &evidence[runs]};
    if (collect(&b, &c, o)) runs++;
  }
  finding->diagnosed = true;
  if (runs == 0) {
    finding->diagnosis = (th__diagnosis){TH__BUG_UNKNOWN, (double)NAN, ""};
    snprintf(finding->diagnosis.text, sizeof finding->diagnosis.text, "%s", finding->where);
    return;
  }
  th__diagnose(about->name, same_clues(evidence, runs), evidence, SLACK, &finding->diagnosis);
  th__remedy remedy = th__remedy_find(court, claim);
  if (!remedy.found) return;
  if (finding->diagnosis.kind == TH__BUG_UNKNOWN) {
    finding->diagnosis.kind = remedy.kind;
    snprintf(finding->diagnosis.text, sizeof finding->diagnosis.text, "%s", remedy.text);
  } else
    snprintf(finding->remedy, sizeof finding->remedy, "%s", remedy.text);
}
