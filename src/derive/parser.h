/* parser.h: what the parser of expressions offers to the parser of statements. */
#ifndef TH_DERIVE_PARSER_H
#define TH_DERIVE_PARSER_H

#include "derive/lexer.h"
#include "derive/syntax.h"

typedef struct th__parser {
  th__calc *calc;
  const th__word *at;
  int depth;
} th__parser;

bool th__parser_sees(const th__parser *p, const char *sign);
/* Takes a sign if it comes next. */
bool th__parser_takes(th__parser *p, const char *sign);
/* Takes it, or faults. */
bool th__parser_expect(th__parser *p, const char *sign, const char *where);
/* Faults at the current word. Returns NULL. */
void *th__parser_fail(th__parser *p, const char *what);

/* An expression; with `tuple`, also "a, b". NULL with a fault. */
th__expression *th__parse_expression(th__parser *p, bool tuple);

#endif
