#include "derive/facts.h"

#include <stdio.h>
#include <string.h>

enum { MAX_STATEMENTS = 1000, MAX_NAMES = 512, ROUNDS = 20 };

/* A set of names. */
typedef struct names {
  int count;
  const char *list[MAX_NAMES];
} names;

static bool contains(const names *set, const char *name) {
  for (int i = 0; i < set->count; i++)
    if (strcmp(set->list[i], name) == 0) return true;
  return false;
}

/* True if the name is new. */
static bool include(names *set, const char *name) {
  if (set->count == MAX_NAMES || contains(set, name)) return false;
  set->list[set->count++] = name;
  return true;
}

bool th__expression_uses(const th__expression *e, const char *name) {
  if (e == NULL) return false;
  if (e->kind == TH__EXPR_NAME) return strcmp(e->name, name) == 0;
  for (int i = 0; i < e->count; i++)
    if (th__expression_uses(e->items[i], name)) return true;
  return false;
}

/* ---- which names are sizes ---- */

/* A parameter of a function is known as "f.0" in the set; names are few, so text will do. */
typedef struct search {
  th__calc *calc;
  const th__program *program;
  names *sizes;
  bool changed;
} search;

/* Writes "f.0"; names too long to be written are not known. */
static const char *parameter_name(const char *function, int parameter, char text[128]) {
  if (strlen(function) > 100) return "";
  snprintf(text, 128, "%s.%d", function, parameter);
  return text;
}

static bool is_size_parameter(const search *s, const char *function, int parameter) {
  char text[128];
  return contains(s->sizes, parameter_name(function, parameter, text));
}

static void include_parameter(search *s, const char *function, int parameter) {
  char text[128];
  const char *name = parameter_name(function, parameter, text);
  if (name[0] == '\0' || contains(s->sizes, name)) return;
  char *copy = th__calc_alloc(s->calc, strlen(name) + 1);
  if (copy != NULL && include(s->sizes, strcpy(copy, name))) s->changed = true;
}

static bool is_one_of(const char *name, const char *const *list) {
  for (; *list != NULL; list++)
    if (strcmp(name, *list) == 0) return true;
  return false;
}

/* From which item on a call's arguments are sizes; a large number if none are. */
static int first_size(const char *call) {
  static const char *const all[] = {"input", "zeros", "ones", "eye", "arange", "integers", NULL};
  if (is_one_of(call, all)) return 0;
  return strcmp(call, "reshape") == 0 ? 1 : 1 << 20;
}

static void visit(search *s, const th__expression *e, bool in_shape) {
  if (e == NULL) return;
  if (e->kind == TH__EXPR_NAME && in_shape && include(s->sizes, e->name)) s->changed = true;
  for (int i = 0; i < e->count; i++) {
    bool shape = in_shape;
    if (e->kind == TH__EXPR_CALL)
      shape = in_shape || i >= first_size(e->name) || is_size_parameter(s, e->name, i);
    if (e->kind == TH__EXPR_INDEX) shape = i > 0 || in_shape;
    visit(s, e->items[i], shape);
  }
}

/* The part of a right side that belongs to one target of a tuple. */
static const th__expression *value_of(const th__statement *s, int target) {
  if (s->count > 1 && s->value->kind == TH__EXPR_TUPLE && s->value->count == s->count)
    return s->value->items[target];
  return s->value;
}

static void visit_statement(search *s, const th__statement *statement) {
  visit(s, statement->value, false);
  for (int t = 0; t < statement->count; t++) {
    if (statement->kind == TH__FUNCTION) {
      if (contains(s->sizes, statement->targets[t].name)) include_parameter(s, statement->name, t);
    } else if (contains(s->sizes, statement->targets[t].name))
      visit(s, value_of(statement, t), true);
  }
}

static int times_assigned(const th__program *program, const char *name) {
  int times = 0;
  for (int i = 0; i < program->count; i++)
    for (int t = 0; t < program->statements[i].count; t++)
      if (program->statements[i].kind != TH__FUNCTION &&
          strcmp(program->statements[i].targets[t].name, name) == 0)
        times++;
  return times;
}

static bool add_size(th__calc *c, th__facts *facts, th__size size) {
  if (facts->sizes == NULL) facts->sizes = th__calc_alloc(c, MAX_STATEMENTS * sizeof *facts->sizes);
  if (facts->sizes == NULL) return false;
  if (facts->size_count < MAX_STATEMENTS) facts->sizes[facts->size_count++] = size;
  return true;
}

static bool find_sizes(search *s, th__facts *facts) {
  for (int round = 0; round < ROUNDS; round++) { /* until nothing new follows from what is known */
    s->changed = false;
    for (int i = 0; i < s->program->count; i++) visit_statement(s, &s->program->statements[i]);
    if (!s->changed || th__calc_failed(s->calc)) break;
  }
  for (int i = 0; i < facts->loss; i++) {
    const th__statement *statement = &s->program->statements[i];
    if (statement->kind != TH__ASSIGN) continue;
    for (int t = 0; t < statement->count; t++) {
      const th__expression *value = value_of(statement, t);
      const char *name = statement->targets[t].name;
      if (value->kind != TH__EXPR_NUMBER || !value->whole || !contains(s->sizes, name)) continue;
      if (value->number < 1 || value->number > 1e9L || times_assigned(s->program, name) != 1)
        continue;
      th__size size = {name, i, t, (ptrdiff_t)value->number};
      if (!add_size(s->calc, facts, size)) return false;
    }
  }
  return !th__calc_failed(s->calc);
}

/* ---- the rest ---- */

static void collect_mentions(const th__expression *e, names *set) {
  if (e == NULL) return;
  if (e->kind == TH__EXPR_NAME && e->name[0] == 'd' && e->name[1] != '\0') include(set, e->name);
  for (int i = 0; i < e->count; i++) collect_mentions(e->items[i], set);
}

static bool find_mentions(th__calc *c, const th__program *program, names *set, th__facts *facts) {
  set->count = 0;
  for (int i = 0; i < program->count; i++) {
    const th__statement *s = &program->statements[i];
    collect_mentions(s->value, set);
    for (int t = 0; t < s->count; t++)
      if (s->targets[t].name[0] == 'd') include(set, s->targets[t].name);
  }
  facts->mentions = th__calc_alloc(c, (size_t)(set->count + 1) * sizeof *facts->mentions);
  if (facts->mentions == NULL) return false;
  memcpy(facts->mentions, set->list, (size_t)set->count * sizeof *facts->mentions);
  facts->mention_count = set->count;
  return true;
}

static bool find_loss(th__calc *c, const th__program *program, th__facts *facts) {
  facts->loss = -1;
  for (int i = 0; i < program->count; i++) {
    if (program->statements[i].kind != TH__LOSS) continue;
    c->place = program->statements[i].place;
    if (facts->loss >= 0)
      return th__calc_fail(c, "a second loss; the first is on line %d",
                           program->statements[facts->loss].place.line) != NULL;
    facts->loss = i;
  }
  if (facts->loss >= 0) return true;
  c->place = (th__place){1, 1};
  if (program->count > 0) c->place = program->statements[program->count - 1].place;
  return th__calc_fail(c, "no loss(...): which value is differentiated? Write loss(O) after the "
                          "forward pass and the claims dX = ... after it") != NULL;
}

bool th__facts_find(th__calc *c, const th__program *program, th__facts *facts) {
  *facts = (th__facts){0};
  if (program->count > MAX_STATEMENTS) {
    c->place = program->statements[MAX_STATEMENTS].place;
    return th__calc_fail(c, "more than %d statements", MAX_STATEMENTS) != NULL;
  }
  names *set = th__calc_alloc(c, sizeof *set);
  if (set == NULL || !find_loss(c, program, facts)) return false;
  set->count = 0;
  search s = {.calc = c, .program = program, .sizes = set};
  return find_sizes(&s, facts) && find_mentions(c, program, set, facts);
}

bool th__facts_mention(const th__facts *facts, const char *name) {
  for (int i = 0; i < facts->mention_count; i++)
    if (strcmp(facts->mentions[i] + 1, name) == 0) return true;
  return false;
}
