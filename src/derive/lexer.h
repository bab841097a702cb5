/* lexer.h: a derivation's text as words. */
#ifndef TH_DERIVE_LEXER_H
#define TH_DERIVE_LEXER_H

#include "derive/calc.h"

typedef enum th__word_kind {
  TH__WORD_NAME,
  TH__WORD_NUMBER,
  TH__WORD_STRING, /* text without its quotes */
  TH__WORD_SIGN,   /* + - * / ** // % @ ( ) [ ] , : . = == != < <= > >= & | ~ += */
  TH__WORD_LINE,   /* end of a line, outside of brackets */
  TH__WORD_END     /* of the text */
} th__word_kind;

typedef struct th__word {
  th__word_kind kind;
  th__place place;
  const char *text; /* 0-ended copy */
  long double number;
  double uncertainty; /* half a unit of a long decimal's last digit: it was rounded by someone */
  bool whole;         /* written as an integer */
} th__word;

typedef struct th__words {
  ptrdiff_t count;
  th__word *list; /* ends with TH__WORD_END */
} th__words;

#define TH__TEXT_LIMIT (1 << 20) /* bytes */

/* Splits `count` bytes into words. Comments (# to the end of the line) are skipped; inside brackets,
 * and after a backslash, lines are joined. False with a fault. */
bool th__lex(th__calc *c, const char *text, size_t count, th__words *words);

#endif
