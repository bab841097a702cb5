/* syntax.h: a derivation as a tree. Everything lives in the arena of the calc that parsed it. */
#ifndef TH_DERIVE_SYNTAX_H
#define TH_DERIVE_SYNTAX_H

#include "derive/array.h"
#include "derive/calc.h"

typedef enum th__expression_kind {
  TH__EXPR_NUMBER,
  TH__EXPR_STRING,
  TH__EXPR_NAME,
  TH__EXPR_UNARY,     /* function1 of items[0]: - and ~ */
  TH__EXPR_BINARY,    /* function2 of items[0], items[1] */
  TH__EXPR_MATMUL,    /* items[0] @ items[1] */
  TH__EXPR_CALL,      /* name(items...), some with keywords; x.name(...) has x as items[0] */
  TH__EXPR_ATTRIBUTE, /* items[0].name: T, mT, shape */
  TH__EXPR_INDEX,     /* items[0][items[1], ...] */
  TH__EXPR_SLICE,     /* begin:end:step, each NULL if left out; inside an index only */
  TH__EXPR_TUPLE,     /* a, b or (a, b) or [a, b] */
  TH__EXPR_ELLIPSIS   /* ... inside an index */
} th__expression_kind;

typedef struct th__expression th__expression;
struct th__expression {
  th__expression_kind kind;
  th__place place;
  th__place operator_place; /* of a binary operator's sign */
  int function;             /* th__function1 or th__function2 */
  long double number;
  double uncertainty;
  bool whole;       /* a number written as an integer */
  const char *name; /* NAME, CALL, ATTRIBUTE, STRING */
  int count;
  th__expression **items;
  const char **keywords; /* CALL: NULL or, per item, NULL or a name */
  int depth;             /* of the tree below, from 1 */
};

typedef enum th__statement_kind {
  TH__ASSIGN,     /* targets = value */
  TH__ADD_ASSIGN, /* target += value */
  TH__LOSS,       /* loss(value) */
  TH__FUNCTION    /* name(parameters) = value */
} th__statement_kind;

typedef struct th__target {
  const char *name;
  th__place place;
} th__target;

typedef struct th__statement {
  th__statement_kind kind;
  th__place place;
  int count;
  th__target *targets; /* of an assignment, or a function's parameters */
  const char *name;    /* of a function */
  th__expression *value;
} th__statement;

typedef struct th__program {
  int count;
  th__statement *statements;
} th__program;

/* At most this deep: brackets within brackets, and a chain such as a + b + c + ... */
#define TH__DEPTH_LIMIT 300

/* False with a fault. */
bool th__parse(th__calc *c, const char *text, size_t count, th__program *program);

#endif
