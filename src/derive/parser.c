/* parser.c: expressions, by descent over the levels of precedence, which are Python's:
 *   | , & , comparison , + - , * / // % @ , unary - + ~ , ** , x.y x[y] x(y) */
#include "derive/parser.h"

#include <string.h>

static th__expression *parse_or(th__parser *p);
static th__expression *parse_unary(th__parser *p);

bool th__parser_sees(const th__parser *p, const char *sign) {
  return p->at->kind == TH__WORD_SIGN && strcmp(p->at->text, sign) == 0;
}

bool th__parser_takes(th__parser *p, const char *sign) {
  if (!th__parser_sees(p, sign)) return false;
  p->at++;
  return true;
}

void *th__parser_fail(th__parser *p, const char *what) {
  p->calc->place = p->at->place;
  switch (p->at->kind) {
  case TH__WORD_END: return th__calc_fail(p->calc, "%s, but the file ends here", what);
  case TH__WORD_LINE:
    return th__calc_fail(p->calc, "%s, but the %s ends here", what,
                         p->at[1].kind == TH__WORD_END ? "file" : "line");
  default: return th__calc_fail(p->calc, "%s, got '%.40s'", what, p->at->text);
  }
}

bool th__parser_expect(th__parser *p, const char *sign, const char *where) {
  if (th__parser_takes(p, sign)) return true;
  char what[96] = "expected ";
  strncat(what, sign, 8);
  strncat(what, " ", 2);
  strncat(what, where, 60);
  th__parser_fail(p, what);
  return false;
}

/* ---- making nodes ---- */

static th__expression *node(th__parser *p, th__expression_kind kind, th__place place) {
  th__expression *e = th__calc_alloc(p->calc, sizeof *e);
  if (e != NULL) *e = (th__expression){.kind = kind, .place = place, .depth = 1};
  return e;
}

/* Appends an item. False with a fault, also when the tree gets too deep. */
static bool add_item(th__parser *p, th__expression *e, th__expression *item, const char *keyword) {
  if (th__calc_failed(p->calc)) return false;
  if ((e->count & (e->count - 1)) == 0) { /* grow at 0, 1, 2, 4, ... */
    size_t room = e->count == 0 ? 1 : 2 * (size_t)e->count;
    th__expression **items = th__calc_alloc(p->calc, room * sizeof *items);
    const char **keywords = th__calc_alloc(p->calc, room * sizeof *keywords);
    if (items == NULL || keywords == NULL) return false;
    if (e->count > 0) {
      memcpy(items, e->items, (size_t)e->count * sizeof *items);
      memcpy(keywords, e->keywords, (size_t)e->count * sizeof *keywords);
    }
    e->items = items;
    e->keywords = keywords;
  }
  e->items[e->count] = item;
  e->keywords[e->count++] = keyword;
  if (item != NULL && item->depth >= e->depth) e->depth = item->depth + 1;
  if (e->depth > TH__DEPTH_LIMIT) {
    p->calc->place = e->place;
    th__calc_fail(p->calc, "this expression is nested more than %d levels deep: name parts of it",
                  TH__DEPTH_LIMIT);
    return false;
  }
  return true;
}

static th__expression *binary(th__parser *p, th__expression_kind kind, int function,
                              th__expression *left, th__place sign, th__expression *right) {
  if (left == NULL || right == NULL) return NULL;
  th__expression *e = node(p, kind, left->place);
  if (e == NULL) return NULL;
  e->function = function;
  e->operator_place = sign;
  return add_item(p, e, left, NULL) && add_item(p, e, right, NULL) ? e : NULL;
}

/* ---- atoms and what follows them ---- */

/* Items up to the closing bracket, with keywords in a call. */
static bool parse_items(th__parser *p, th__expression *e, const char *close, bool keywords) {
  while (!th__parser_takes(p, close)) {
    const char *keyword = NULL;
    if (keywords && p->at->kind == TH__WORD_NAME && p->at[1].kind == TH__WORD_SIGN &&
        strcmp(p->at[1].text, "=") == 0) {
      keyword = p->at->text;
      p->at += 2;
    }
    th__expression *item = th__parse_expression(p, false);
    if (item == NULL || !add_item(p, e, item, keyword)) return false;
    if (th__parser_takes(p, close)) return true;
    if (!th__parser_expect(p, ",", close[0] == ')' ? "or )" : "or ]")) return false;
  }
  return true;
}

/* (x), (), (x,), (x, y), [x, y] */
static th__expression *parse_bracket(th__parser *p, const char *close) {
  th__expression *e = node(p, TH__EXPR_TUPLE, p->at[-1].place);
  if (e == NULL || !parse_items(p, e, close, false)) return NULL;
  bool comma = p->at[-2].kind == TH__WORD_SIGN && strcmp(p->at[-2].text, ",") == 0;
  return close[0] == ')' && e->count == 1 && !comma ? e->items[0] : e;
}

static th__expression *parse_atom(th__parser *p) {
  const th__word *word = p->at;
  th__expression *e;
  switch (word->kind) {
  case TH__WORD_NUMBER:
    e = node(p, TH__EXPR_NUMBER, word->place);
    if (e == NULL) return NULL;
    e->number = word->number;
    e->uncertainty = word->uncertainty;
    e->whole = word->whole;
    p->at++;
    return e;
  case TH__WORD_STRING:
  case TH__WORD_NAME:
    e = node(p, word->kind == TH__WORD_NAME ? TH__EXPR_NAME : TH__EXPR_STRING, word->place);
    if (e == NULL) return NULL;
    e->name = word->text;
    p->at++;
    return e;
  default: break;
  }
  if (th__parser_takes(p, "(")) return parse_bracket(p, ")");
  if (th__parser_takes(p, "[")) return parse_bracket(p, "]");
  return th__parser_fail(p, "expected a value");
}

/* One entry of x[...]: a slice, ..., or an expression. */
static th__expression *parse_subscript(th__parser *p) {
  th__place place = p->at->place;
  if (th__parser_sees(p, ".")) {
    for (int i = 0; i < 3; i++)
      if (!th__parser_expect(p, ".", "of ...")) return NULL;
    return node(p, TH__EXPR_ELLIPSIS, place);
  }
  th__expression *first = NULL;
  if (!th__parser_sees(p, ":")) {
    first = th__parse_expression(p, false);
    if (first == NULL || !th__parser_sees(p, ":")) return first;
  }
  th__expression *slice = node(p, TH__EXPR_SLICE, place);
  if (slice == NULL || !add_item(p, slice, first, NULL)) return NULL;
  while (slice->count < 3 && th__parser_takes(p, ":")) {
    bool empty = th__parser_sees(p, ":") || th__parser_sees(p, ",") || th__parser_sees(p, "]");
    th__expression *item = empty ? NULL : th__parse_expression(p, false);
    if (!empty && item == NULL) return NULL;
    if (!add_item(p, slice, item, NULL)) return NULL;
  }
  while (slice->count < 3)
    if (!add_item(p, slice, NULL, NULL)) return NULL;
  return slice;
}

static th__expression *parse_index(th__parser *p, th__expression *x) {
  th__expression *e = node(p, TH__EXPR_INDEX, x->place);
  if (e == NULL) return NULL;
  e->operator_place = p->at[-1].place;
  if (!add_item(p, e, x, NULL)) return NULL;
  if (th__parser_sees(p, "]")) return th__parser_fail(p, "expected an index");
  while (!th__parser_takes(p, "]")) {
    th__expression *item = parse_subscript(p);
    if (item == NULL || !add_item(p, e, item, NULL)) return NULL;
    if (th__parser_takes(p, "]")) break;
    if (!th__parser_expect(p, ",", "or ]")) return NULL;
  }
  return e;
}

/* x.T, x.sum(...), and np.exp(...), whose prefix says nothing here. */
static th__expression *parse_member(th__parser *p, th__expression *x) {
  if (p->at->kind != TH__WORD_NAME) return th__parser_fail(p, "expected a name after '.'");
  const th__word *word = p->at++;
  if (x->kind == TH__EXPR_NAME && strcmp(x->name, "np") == 0) {
    th__expression *e = node(p, TH__EXPR_NAME, x->place);
    if (e != NULL) e->name = word->text;
    return e;
  }
  bool call = th__parser_takes(p, "(");
  th__expression *e = node(p, call ? TH__EXPR_CALL : TH__EXPR_ATTRIBUTE, x->place);
  if (e == NULL) return NULL;
  e->name = word->text;
  e->operator_place = word->place;
  if (!add_item(p, e, x, NULL)) return NULL;
  return !call || parse_items(p, e, ")", true) ? e : NULL;
}

static th__expression *parse_call(th__parser *p, th__expression *x) {
  if (x->kind != TH__EXPR_NAME) {
    p->at--;
    return th__parser_fail(p, "only a name can be called");
  }
  th__expression *e = node(p, TH__EXPR_CALL, x->place);
  if (e == NULL) return NULL;
  e->name = x->name;
  e->operator_place = x->place;
  return parse_items(p, e, ")", true) ? e : NULL;
}

static th__expression *parse_postfix(th__parser *p) {
  th__expression *x = parse_atom(p);
  while (x != NULL) {
    if (th__parser_takes(p, "."))
      x = parse_member(p, x);
    else if (th__parser_takes(p, "["))
      x = parse_index(p, x);
    else if (th__parser_takes(p, "("))
      x = parse_call(p, x);
    else
      break;
  }
  return x;
}

/* ---- operators ---- */

/* x ** y binds tighter than a sign on its left and looser than one on its right. */
static th__expression *parse_power(th__parser *p) {
  th__expression *base = parse_postfix(p);
  th__place sign = p->at->place;
  if (base == NULL || !th__parser_takes(p, "**")) return base;
  return binary(p, TH__EXPR_BINARY, TH__POWER, base, sign, parse_unary(p));
}

/* Every way down to an atom passes here, so here the depth is counted. */
static th__expression *parse_unary(th__parser *p) {
  if (p->depth >= TH__DEPTH_LIMIT)
    return th__parser_fail(p, "brackets or signs are nested too deeply here");
  p->depth++;
  th__expression *result = NULL;
  th__place place = p->at->place;
  if (th__parser_takes(p, "+"))
    result = parse_unary(p);
  else if (th__parser_sees(p, "-") || th__parser_sees(p, "~")) {
    result = node(p, TH__EXPR_UNARY, place);
    if (result != NULL) {
      result->function = th__parser_sees(p, "-") ? TH__NEGATE : TH__NOT;
      p->at++;
      th__expression *x = parse_unary(p);
      if (x == NULL || !add_item(p, result, x, NULL)) result = NULL;
    }
  } else
    result = parse_power(p);
  p->depth--;
  return result;
}

typedef struct level {
  const char *sign;
  th__function2 function;
} level;

static const level products[] = {{"*", TH__MULTIPLY},      {"/", TH__DIVIDE}, {"@", TH__FUNCTIONS2},
                                 {"//", TH__FLOOR_DIVIDE}, {"%", TH__MODULO}, {NULL, 0}};
static const level sums[] = {{"+", TH__ADD}, {"-", TH__SUBTRACT}, {NULL, 0}};
static const level comparisons[] = {
    {"==", TH__EQUAL}, {"!=", TH__NOT_EQUAL}, {"<=", TH__LESS_EQUAL},
    {"<", TH__LESS},   {">", TH__GREATER},    {">=", TH__GREATER_EQUAL},
    {NULL, 0}};
static const level ands[] = {{"&", TH__AND}, {NULL, 0}};
static const level ors[] = {{"|", TH__OR}, {NULL, 0}};

static const level *level_seen(const th__parser *p, const level *l) {
  while (l->sign != NULL && !th__parser_sees(p, l->sign)) l++;
  return l->sign == NULL ? NULL : l;
}

static th__expression *parse_level(th__parser *p, const level *levels,
                                   th__expression *(*tighter)(th__parser *)) {
  th__expression *left = tighter(p);
  for (const level *l; left != NULL && (l = level_seen(p, levels)) != NULL;) {
    th__place sign = p->at++->place;
    bool matmul = l->function == TH__FUNCTIONS2;
    left = binary(p, matmul ? TH__EXPR_MATMUL : TH__EXPR_BINARY, (int)l->function, left, sign,
                  tighter(p));
  }
  return left;
}

static th__expression *parse_product(th__parser *p) {
  return parse_level(p, products, parse_unary);
}
static th__expression *parse_sum(th__parser *p) { return parse_level(p, sums, parse_product); }

/* a < b < c means something else in every language: refused. */
static th__expression *parse_comparison(th__parser *p) {
  th__expression *left = parse_sum(p);
  const level *l = level_seen(p, comparisons);
  if (left == NULL || l == NULL) return left;
  th__place sign = p->at++->place;
  left = binary(p, TH__EXPR_BINARY, (int)l->function, left, sign, parse_sum(p));
  if (left != NULL && level_seen(p, comparisons) != NULL)
    return th__parser_fail(p, "comparisons in a row: write (a < b) & (b < c)");
  return left;
}

static th__expression *parse_and(th__parser *p) { return parse_level(p, ands, parse_comparison); }
static th__expression *parse_or(th__parser *p) { return parse_level(p, ors, parse_and); }

th__expression *th__parse_expression(th__parser *p, bool tuple) {
  th__expression *first = parse_or(p);
  if (first == NULL || !tuple || !th__parser_sees(p, ",")) return first;
  th__expression *e = node(p, TH__EXPR_TUPLE, first->place);
  if (e == NULL || !add_item(p, e, first, NULL)) return NULL;
  while (th__parser_takes(p, ",")) {
    if (p->at->kind == TH__WORD_LINE || th__parser_sees(p, "=")) break;
    th__expression *item = parse_or(p);
    if (item == NULL || !add_item(p, e, item, NULL)) return NULL;
  }
  return e;
}
