#include "derive/lexer.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/alloc.h"

typedef struct lexer {
  th__calc *calc;
  const char *at, *end;
  th__place place;
  int brackets;
  th__words *words;
  ptrdiff_t room;
} lexer;

/* ---- characters ---- */

/* Length of the UTF-8 character at `at`, 0 if it is none. */
static int character(const char *at, const char *end) {
  unsigned char first = (unsigned char)*at;
  int length = first < 0x80 ? 1 : first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  if (first > 0xF4 || length > end - at) return 0;
  for (int i = 1; i < length; i++)
    if (((unsigned char)at[i] & 0xC0) != 0x80) return 0;
  return length;
}

static void advance(lexer *l) {
  int length = character(l->at, l->end);
  l->at += length > 0 ? length : 1;
  l->place.column++;
}

static bool is_letter(const lexer *l) {
  unsigned char ch = (unsigned char)*l->at;
  return isalpha(ch) || ch == '_' || ch >= 0x80;
}

static bool is_digit(char ch) { return ch >= '0' && ch <= '9'; }

/* Everything but text is refused before the first word is read. */
static bool check_text(th__calc *c, const char *text, size_t count) {
  c->place = (th__place){1, 1};
  if (count > TH__TEXT_LIMIT)
    return th__calc_fail(c, "%zu bytes are too long for a derivation; at most %d are read", count,
                         TH__TEXT_LIMIT) != NULL;
  for (const char *at = text, *end = text + count; at < end;) {
    unsigned char ch = (unsigned char)*at;
    int length = character(at, end);
    if (length == 0 || (ch < 0x20 && ch != '\n' && ch != '\r' && ch != '\t') || ch == 0x7F)
      return th__calc_fail(c, "this is not text: it holds the byte 0x%02X", ch) != NULL;
    at += length;
    c->place.column++;
    if (ch == '\n') c->place = (th__place){c->place.line + 1, 1};
  }
  return true;
}

/* ---- words ---- */

static th__word *add_word(lexer *l, th__word_kind kind, const char *text, size_t length) {
  if (l->words->count == l->room) {
    ptrdiff_t room = l->room == 0 ? 256 : 2 * l->room;
    th__word *list = th__calc_alloc(l->calc, (size_t)room * sizeof *list);
    if (list == NULL) return NULL;
    if (l->words->count > 0) memcpy(list, l->words->list, (size_t)l->words->count * sizeof *list);
    l->words->list = list;
    l->room = room;
  }
  char *copy = th__calc_alloc(l->calc, length + 1);
  if (copy == NULL) return NULL;
  memcpy(copy, text, length);
  copy[length] = '\0';
  th__word *word = &l->words->list[l->words->count++];
  *word = (th__word){.kind = kind, .place = l->calc->place, .text = copy};
  return word;
}

static bool lex_name(lexer *l) {
  const char *begin = l->at;
  while (l->at < l->end && (is_letter(l) || is_digit(*l->at))) advance(l);
  return add_word(l, TH__WORD_NAME, begin, (size_t)(l->at - begin)) != NULL;
}

/* Half a unit of the last digit, for decimals with so many digits that nobody means them exactly. */
static double rounding_of(const char *text) {
  int digits = 0, decimals = 0;
  bool point = false;
  const char *at = text;
  for (; *at != '\0' && *at != 'e' && *at != 'E'; at++) {
    if (*at == '.') point = true;
    if (!is_digit(*at)) continue;
    if (digits > 0 || *at != '0') digits++;
    if (point) decimals++;
  }
  if (digits < 7 || decimals == 0) return 0;
  char half[48];
  snprintf(half, sizeof half, "0.5e%ld", (*at != '\0' ? strtol(at + 1, NULL, 10) : 0) - decimals);
  return strtod(half, NULL);
}

static bool lex_number(lexer *l) {
  const char *begin = l->at;
  bool whole = true;
  while (l->at < l->end && is_digit(*l->at)) advance(l);
  if (l->at < l->end && *l->at == '.') {
    whole = false;
    advance(l);
    while (l->at < l->end && is_digit(*l->at)) advance(l);
  }
  if (l->at < l->end && (*l->at == 'e' || *l->at == 'E')) {
    const char *digit = l->at + 1;
    if (digit < l->end && (*digit == '+' || *digit == '-')) digit++;
    if (digit < l->end && is_digit(*digit)) {
      whole = false;
      while (l->at < digit) advance(l);
      while (l->at < l->end && is_digit(*l->at)) advance(l);
    }
  }
  size_t length = (size_t)(l->at - begin);
  if (length > 200) return th__calc_fail(l->calc, "a number of %zu digits", length) != NULL;
  if (l->at < l->end && is_letter(l))
    return th__calc_fail(l->calc, "a letter follows the number %.*s; write * between them",
                         (int)length, begin) != NULL;
  th__word *word = add_word(l, TH__WORD_NUMBER, begin, length);
  if (word == NULL) return false;
  errno = 0;
  word->number = strtold(word->text, NULL);
  word->uncertainty = rounding_of(word->text);
  word->whole = whole;
  if (errno == ERANGE)
    return th__calc_fail(l->calc, "the number %s is out of range", word->text) != NULL;
  return true;
}

static bool lex_string(lexer *l) {
  char quote = *l->at;
  advance(l);
  const char *begin = l->at;
  while (l->at < l->end && *l->at != quote && *l->at != '\n') advance(l);
  if (l->at == l->end || *l->at != quote)
    return th__calc_fail(l->calc, "the quote %c is not closed on its line", quote) != NULL;
  size_t length = (size_t)(l->at - begin);
  advance(l);
  return add_word(l, TH__WORD_STRING, begin, length) != NULL;
}

static bool lex_sign(lexer *l) {
  static const char *const twos[] = {"**", "//", "==", "!=", "<=", ">=", "+="};
  for (size_t i = 0; i < sizeof twos / sizeof *twos; i++)
    if (l->end - l->at >= 2 && memcmp(l->at, twos[i], 2) == 0) {
      advance(l), advance(l);
      return add_word(l, TH__WORD_SIGN, twos[i], 2) != NULL;
    }
  char ch = *l->at;
  if (strchr("+-*/%@()[],:.=<>&|~", ch) == NULL || ch == '\0')
    return th__calc_fail(l->calc, "unexpected character '%c'%s", ch,
                         ch == '^'   ? "; a power is written **"
                         : ch == ';' ? "; each statement has a line of its own"
                                     : "") != NULL;
  if (ch == '(' || ch == '[') l->brackets++;
  if ((ch == ')' || ch == ']') && l->brackets > 0) l->brackets--;
  advance(l);
  return add_word(l, TH__WORD_SIGN, &ch, 1) != NULL;
}

static bool lex_line_end(lexer *l) {
  if (l->brackets == 0 && add_word(l, TH__WORD_LINE, "", 0) == NULL) return false;
  l->at++;
  l->place = (th__place){l->place.line + 1, 1};
  return true;
}

/* A backslash joins its line with the next one. */
static bool lex_joint(lexer *l) {
  advance(l);
  while (l->at < l->end && (*l->at == ' ' || *l->at == '\t' || *l->at == '\r')) advance(l);
  if (l->at < l->end && *l->at != '\n')
    return th__calc_fail(l->calc, "after \\ the line must end") != NULL;
  if (l->at < l->end) l->at++;
  l->place = (th__place){l->place.line + 1, 1};
  return true;
}

static bool lex_next(lexer *l) {
  char ch = *l->at;
  l->calc->place = l->place;
  if (ch == '\n') return lex_line_end(l);
  if (ch == '\\') return lex_joint(l);
  if (ch == '"' || ch == '\'') return lex_string(l);
  if (is_digit(ch) || (ch == '.' && l->end - l->at >= 2 && is_digit(l->at[1])))
    return lex_number(l);
  if (is_letter(l)) return lex_name(l);
  if (ch == '#') {
    while (l->at < l->end && *l->at != '\n') advance(l);
    return true;
  }
  if (ch == ' ' || ch == '\t' || ch == '\r') {
    advance(l);
    return true;
  }
  return lex_sign(l);
}

bool th__lex(th__calc *c, const char *text, size_t count, th__words *words) {
  *words = (th__words){0};
  if (!check_text(c, text, count)) return false;
  lexer l = {.calc = c, .at = text, .end = text + count, .place = {1, 1}, .words = words};
  if (count >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0) l.at += 3; /* a byte order mark */
  while (l.at < l.end)
    if (!lex_next(&l)) return false;
  c->place = l.place;
  return add_word(&l, TH__WORD_LINE, "", 0) != NULL && add_word(&l, TH__WORD_END, "", 0) != NULL;
}
