#include "derive/claims.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

typedef struct finder {
  th__calc *calc;
  const th__program *program;
  const th__facts *facts;
  th__claims *claims;
} finder;

/* Where a name gets its value in the forward pass, or NULL. */
static const th__target *forward_value(const finder *f, const char *name) {
  for (int i = 0; i < f->facts->loss; i++) {
    const th__statement *s = &f->program->statements[i];
    if (s->kind != TH__ASSIGN) continue;
    for (int t = 0; t < s->count; t++)
      if (strcmp(s->targets[t].name, name) == 0) return &s->targets[t];
  }
  return NULL;
}

/* ---- names that look like claims and are none ---- */

/* The same but for the case of letters, or, in longer names, for one letter. */
static bool nearly_equal(const char *a, const char *b) {
  if (strcasecmp(a, b) == 0) return true;
  if (strlen(a) < 3 || strlen(b) < 3) return false;
  while (*a != '\0' && *a == *b) a++, b++;
  size_t p = strlen(a), q = strlen(b);
  while (p > 0 && q > 0 && a[p - 1] == b[q - 1]) p--, q--;
  return p + q == 1 || (p == 1 && q == 1);
}

static const char *near_value(const finder *f, const char *name) {
  for (int i = 0; i < f->facts->loss; i++) {
    const th__statement *s = &f->program->statements[i];
    for (int t = 0; s->kind == TH__ASSIGN && t < s->count; t++)
      if (nearly_equal(s->targets[t].name, name)) return s->targets[t].name;
  }
  return NULL;
}

static bool used_after(const finder *f, const char *name, int statement) {
  for (int i = statement + 1; i < f->program->count; i++)
    if (th__expression_uses(f->program->statements[i].value, name)) return true;
  return false;
}

/* delta, dot, diff: words that happen to begin with d. */
static bool is_word(const char *name) {
  if (strlen(name) < 3) return false;
  for (; *name != '\0'; name++)
    if (!islower((unsigned char)*name) && !isdigit((unsigned char)*name) && *name != '_')
      return false;
  return true;
}

/* A mistyped claim must not pass as a helper that nobody judges. */
static bool refuse_false_claim(finder *f, const th__target *target, int statement) {
  const char *of = target->name + 1, *near = near_value(f, of);
  if (near != NULL)
    return th__calc_fail(f->calc, "%s: there is no value '%s' to have a gradient; did you mean d%s?",
                         target->name, of, near) != NULL;
  if (is_word(target->name) && used_after(f, target->name, statement)) return true;
  return th__calc_fail(f->calc,
                       "%s: there is no value '%s' to have a gradient (a helper needs a name that "
                       "does not begin with d)",
                       target->name, of) != NULL;
}

/* ---- claims ---- */

static th__claim *last_claim(const finder *f, const char *name) {
  for (int i = f->claims->count - 1; i >= 0; i--)
    if (strcmp(f->claims->list[i].name, name) == 0) return &f->claims->list[i];
  return NULL;
}

static const th__expression *value_of(const th__statement *s, int target) {
  return s->count > 1 && s->value->kind == TH__EXPR_TUPLE && s->value->count == s->count
             ? s->value->items[target]
             : s->value;
}

static bool add_claim(finder *f, const th__statement *s, int statement, int target) {
  const th__target *t = &s->targets[target];
  th__claim claim = {t->name, t->name + 1, t->place, statement, target, false, false, false};
  th__claim *before = last_claim(f, t->name);
  claim.adds = s->kind == TH__ADD_ASSIGN || th__expression_uses(value_of(s, target), t->name);
  if (claim.adds && before == NULL) {
    if (s->kind == TH__ADD_ASSIGN)
      return th__calc_fail(f->calc, "%s += before any %s = ...", t->name, t->name) != NULL;
    return th__calc_fail(f->calc, "%s is used in its own claim, which then proves nothing",
                         t->name) != NULL;
  }
  if (claim.adds) before->continued = true;
  claim.again = before != NULL && !claim.adds;
  f->claims->list[f->claims->count++] = claim;
  return true;
}

static bool add_target(finder *f, const th__statement *s, int statement, int target) {
  const th__target *t = &s->targets[target];
  f->calc->place = t->place;
  const th__target *taken = forward_value(f, t->name);
  if (taken != NULL)
    return th__calc_fail(f->calc,
                         "%s has a value of the forward pass (line %d); give this another "
                         "name",
                         t->name, taken->place.line) != NULL;
  bool gradient = t->name[0] == 'd' && t->name[1] != '\0';
  if (gradient && forward_value(f, t->name + 1) != NULL) return add_claim(f, s, statement, target);
  if (s->kind == TH__ADD_ASSIGN)
    return th__calc_fail(f->calc, "only a claim can be added to: dX += ...") != NULL;
  return !gradient || refuse_false_claim(f, t, statement);
}

/* What was perhaps meant as a claim, but stands too early. */
static const th__target *claim_before_loss(const finder *f) {
  for (int i = 0; i < f->facts->loss; i++) {
    const th__statement *s = &f->program->statements[i];
    for (int t = 0; s->kind == TH__ASSIGN && t < s->count; t++)
      if (s->targets[t].name[0] == 'd' && forward_value(f, s->targets[t].name + 1) != NULL)
        return &s->targets[t];
  }
  return NULL;
}

bool th__claims_find(th__calc *c, const th__program *program, const th__facts *facts,
                     th__claims *claims) {
  int targets = 1;
  for (int i = 0; i < program->count; i++) targets += program->statements[i].count;
  *claims = (th__claims){0, th__calc_alloc(c, (size_t)targets * sizeof *claims->list)};
  if (claims->list == NULL) return false;
  finder f = {c, program, facts, claims};
  for (int i = 0; i < program->count; i++) {
    const th__statement *s = &program->statements[i];
    if (i < facts->loss && s->kind == TH__ADD_ASSIGN) {
      c->place = s->place;
      return th__calc_fail(c, "+= before loss(...): only a claim can be added to") != NULL;
    }
    for (int t = 0; i > facts->loss && s->kind != TH__FUNCTION && t < s->count; t++)
      if (!add_target(&f, s, i, t)) return false;
  }
  if (claims->count > 0) return true;
  c->place = program->statements[facts->loss].place;
  const th__target *early = claim_before_loss(&f);
  if (early != NULL)
    return th__calc_fail(c,
                         "nothing is claimed after loss(...), so nothing can be wrong; %s on line "
                         "%d stands before it",
                         early->name, early->place.line) != NULL;
  return th__calc_fail(c, "nothing is claimed after loss(...), so nothing can be wrong: write "
                          "dX = ... for a value X") != NULL;
}

const th__claim *th__claims_at(const th__claims *claims, int statement, int target) {
  for (int i = 0; i < claims->count; i++)
    if (claims->list[i].statement == statement && claims->list[i].target == target)
      return &claims->list[i];
  return NULL;
}
