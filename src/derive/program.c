/* program.c: statements. */
#include <string.h>

#include "derive/parser.h"

static bool is_plain_call(const th__expression *e) {
  if (e->kind != TH__EXPR_CALL) return false;
  for (int i = 0; i < e->count; i++)
    if (e->items[i]->kind != TH__EXPR_NAME || e->keywords[i] != NULL) return false;
  return true;
}

/* The names on the left of an assignment, or a function's parameters. False with a fault. */
static bool add_targets(th__parser *p, th__statement *s, th__expression *const *items, int count) {
  s->targets = th__calc_alloc(p->calc, (size_t)(count + 1) * sizeof *s->targets);
  if (s->targets == NULL) return false;
  s->count = count;
  for (int i = 0; i < count; i++) {
    p->calc->place = items[i]->place;
    if (items[i]->kind != TH__EXPR_NAME)
      return th__calc_fail(p->calc,
                           items[i]->kind == TH__EXPR_INDEX
                               ? "a part of an array cannot be assigned; build the whole with "
                                 "concat or where"
                               : "only a name can be assigned") != NULL;
    s->targets[i] = (th__target){items[i]->name, items[i]->place};
    for (int k = 0; k < i; k++)
      if (strcmp(s->targets[k].name, items[i]->name) == 0)
        return th__calc_fail(p->calc, "the name %s twice on one left side", items[i]->name) != NULL;
  }
  return true;
}

/* What stands left of "=": a name, names, or f(x, y). */
static bool set_left_side(th__parser *p, th__statement *s, th__expression *left) {
  if (is_plain_call(left)) {
    s->kind = TH__FUNCTION;
    s->name = left->name;
    return add_targets(p, s, left->items, left->count);
  }
  s->kind = TH__ASSIGN;
  if (left->kind == TH__EXPR_TUPLE) return add_targets(p, s, left->items, left->count);
  return add_targets(p, s, &left, 1);
}

/* def f(x, y): return ... ; the part after the colon may stand on the next line. */
static bool parse_def(th__parser *p, th__statement *s) {
  p->at++;
  if (p->at->kind != TH__WORD_NAME) return th__parser_fail(p, "expected a function's name") != NULL;
  th__expression *head = th__parse_expression(p, false);
  if (head == NULL) return false;
  if (!is_plain_call(head)) {
    p->calc->place = head->place;
    return th__calc_fail(p->calc, "expected def name(parameters): return ...") != NULL;
  }
  if (!set_left_side(p, s, head) || !th__parser_expect(p, ":", "after the parameters"))
    return false;
  while (p->at->kind == TH__WORD_LINE) p->at++;
  if (p->at->kind != TH__WORD_NAME || strcmp(p->at->text, "return") != 0)
    return th__parser_fail(p, "a function is one expression: expected return") != NULL;
  p->at++;
  s->value = th__parse_expression(p, true);
  return s->value != NULL;
}

/* Words of Python that a pasted program may begin with, and that mean nothing here. */
static bool is_foreign(const char *word) {
  static const char *const words[] = {"for",  "if",     "while", "import", "from",  "class",
                                      "with", "return", "print", "assert", "lambda"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (strcmp(word, words[i]) == 0) return true;
  return false;
}

static bool parse_loss(th__parser *p, th__statement *s, th__expression *call) {
  s->kind = TH__LOSS;
  p->calc->place = call->place;
  if (call->count != 1 || call->keywords[0] != NULL)
    return th__calc_fail(p->calc, "loss takes one value: loss(O) means L = sum(G * O)") != NULL;
  s->value = call->items[0];
  return true;
}

static bool parse_statement(th__parser *p, th__statement *s) {
  *s = (th__statement){.place = p->at->place};
  if (p->at->kind == TH__WORD_NAME && strcmp(p->at->text, "def") == 0) return parse_def(p, s);
  if (p->at->kind == TH__WORD_NAME && is_foreign(p->at->text) && !(p->at[1].kind == TH__WORD_SIGN))
    return th__parser_fail(p, "expected an assignment, loss(...) or a function") != NULL;
  th__expression *left = th__parse_expression(p, true);
  if (left == NULL) return false;
  if (th__parser_takes(p, "="))
    return set_left_side(p, s, left) && (s->value = th__parse_expression(p, true)) != NULL;
  if (th__parser_takes(p, "+=")) {
    if (!add_targets(p, s, &left, 1)) return false;
    s->kind = TH__ADD_ASSIGN;
    return (s->value = th__parse_expression(p, false)) != NULL;
  }
  if (left->kind == TH__EXPR_CALL && strcmp(left->name, "loss") == 0) return parse_loss(p, s, left);
  return th__parser_fail(p, "expected = after this") != NULL;
}

static bool add_statement(th__parser *p, th__program *program, int *room) {
  if (program->count == *room) {
    int larger = *room == 0 ? 32 : 2 * *room;
    th__statement *list = th__calc_alloc(p->calc, (size_t)larger * sizeof *list);
    if (list == NULL) return false;
    if (program->count > 0)
      memcpy(list, program->statements, (size_t)program->count * sizeof *list);
    program->statements = list;
    *room = larger;
  }
  return parse_statement(p, &program->statements[program->count++]);
}

bool th__parse(th__calc *c, const char *text, size_t count, th__program *program) {
  th__words words;
  *program = (th__program){0};
  if (!th__lex(c, text, count, &words)) return false;
  th__parser p = {.calc = c, .at = words.list};
  int room = 0;
  while (p.at->kind != TH__WORD_END) {
    if (p.at->kind == TH__WORD_LINE) {
      p.at++;
      continue;
    }
    if (!add_statement(&p, program, &room)) return false;
    if (p.at->kind != TH__WORD_LINE) {
      th__parser_fail(&p, "expected the end of the line");
      return false;
    }
  }
  return true;
}
