/* contract.c: sums over a product's inner axis, as in dW = dY^T X: a whole product that is missing, or one
 * term of its sum. And sums over rows that hit the same place, as in an embedding. */
#include <stdio.h>
#include <string.h>

#include "autograd/diagnose/case.h"

/* A matrix or its transpose. */
typedef struct side {
  const th__grid *x;
  bool transposed;
} side;

static ptrdiff_t rows(side s) { return s.x->shape[s.transposed ? 1 : 0]; }
static ptrdiff_t columns(side s) { return s.x->shape[s.transposed ? 0 : 1]; }
static double at(side s, ptrdiff_t i, ptrdiff_t j) {
  return s.transposed ? s.x->data[j * s.x->shape[1] + i] : s.x->data[i * s.x->shape[1] + j];
}

/* Which clues are multiplied, and how: a' @ b', one a gradient and one a value. */
typedef struct contraction {
  int a, b;
  bool a_transposed, b_transposed;
} contraction;

static bool sides(const th__case *c, int run, const contraction *t, side *a, side *b) {
  const th__evidence *e = &c->evidence[run];
  *a = (side){&e->clues[t->a].grid, t->a_transposed};
  *b = (side){&e->clues[t->b].grid, t->b_transposed};
  if (a->x->ndim != 2 || b->x->ndim != 2 || e->want.ndim != 2) return false;
  return rows(*a) == e->want.shape[0] && columns(*b) == e->want.shape[1] &&
         columns(*a) == rows(*b) && columns(*a) > 1;
}

/* want - got = term `only` of the sum, or, with only < 0, the whole product. */
static bool explains(th__case *c, int run, side a, side b, ptrdiff_t only) {
  const th__evidence *e = &c->evidence[run];
  ptrdiff_t p = rows(a), q = columns(b), k = columns(a);
  bool anything = false;
  for (ptrdiff_t i = 0; i < p; i++)
    for (ptrdiff_t j = 0; j < q; j++) {
      double sum = 0;
      for (ptrdiff_t l = only < 0 ? 0 : only; l < (only < 0 ? k : only + 1); l++)
        sum += at(a, i, l) * at(b, l, j);
      c->budget -= only < 0 ? (double)k : 1;
      double missing = e->want.data[i * q + j] - e->got.data[i * q + j];
      if (!(fabs(missing - sum) <= 2 * c->limit[run])) return false;
      anything = anything || fabs(sum) > 2 * c->limit[run];
    }
  return anything;
}

/* The one term that is missing in every run: the same from the front or from the back. */
static bool one_term(th__case *c, const contraction *t, ptrdiff_t only, bool from_back) {
  for (int run = 0; run < c->runs; run++) {
    side a, b;
    if (!sides(c, run, t, &a, &b)) return false;
    ptrdiff_t place = from_back ? columns(a) - 1 - only : only;
    if (place < 0 || place >= columns(a) || !explains(c, run, a, b, place)) return false;
  }
  return true;
}

static bool whole(th__case *c, const contraction *t) {
  for (int run = 0; run < c->runs; run++) {
    side a, b;
    if (!sides(c, run, t, &a, &b) || !explains(c, run, a, b, -1)) return false;
  }
  return true;
}

static void product_name(const th__case *c, const contraction *t, char *text, size_t room) {
  const th__clue *clues = c->evidence[0].clues;
  snprintf(text, room, "%.60s%s @ %.60s%s", clues[t->a].name, t->a_transposed ? ".T" : "",
           clues[t->b].name, t->b_transposed ? ".T" : "");
}

static bool try_contraction(th__case *c, const contraction *t) {
  side a, b;
  char name[140];
  if (c->budget < 0 || !sides(c, 0, t, &a, &b)) return false;
  product_name(c, t, name, sizeof name);
  if (whole(c, t))
    return th__case_found(c, TH__BUG_MISSING_TERM, TH__NO_NUMBER, "misses the term %s (fit 1.000)",
                          name);
  ptrdiff_t k = columns(a);
  for (ptrdiff_t only = 0; only < k && c->budget > 0; only++)
    for (int back = 0; back < 2; back++)
      if (one_term(c, t, only, back != 0))
        return th__case_found(c, TH__BUG_MISSING_TERM, TH__NO_NUMBER,
                              "misses %s term of the sum in %s (fit 1.000)",
                              only > 0 ? "one"
                              : back   ? "the last"
                                       : "the first",
                              name);
  return false;
}

bool th__try_contractions(th__case *c) {
  int clues = c->evidence[0].clue_count;
  const th__clue *clue = c->evidence[0].clues;
  for (int g = 0; g < clues; g++)
    for (int v = 0; v < clues && clue[g].kind == TH__CLUE_GRADIENT; v++)
      for (int form = 0; form < 8 && clue[v].kind == TH__CLUE_VALUE; form++) {
        bool first = form & 4;
        contraction t = {first ? g : v, first ? v : g, form & 1, (form & 2) != 0};
        if (try_contraction(c, &t)) return true;
      }
  return false;
}

/* ---- rows ---- */

static bool same_row(const th__case *c, int run, const double *a, const double *b, ptrdiff_t n) {
  for (ptrdiff_t j = 0; j < n; j++)
    if (!(fabs(a[j] - b[j]) <= c->limit[run])) return false;
  return true;
}

/* Where got is wrong, its row is one row of the clue, as if the last one that came had won. */
static bool rows_replaced(const th__case *c, int run, const th__grid *clue, bool *any) {
  const th__evidence *e = &c->evidence[run];
  if (e->want.ndim != 2 || clue->ndim < 2 || clue->shape[clue->ndim - 1] != e->want.shape[1])
    return false;
  ptrdiff_t n = e->want.shape[1], sources = n > 0 ? th__grid_count(clue) / n : 0;
  if (n < 2 || sources <= e->want.shape[0]) return false; /* one row each is no choice */
  for (ptrdiff_t i = 0; i < e->want.shape[0]; i++) {
    const double *got = e->got.data + i * n;
    if (same_row(c, run, got, e->want.data + i * n, n)) continue;
    ptrdiff_t k = 0;
    while (k < sources && !same_row(c, run, got, clue->data + k * n, n)) k++;
    if (k == sources) return false;
    *any = true;
  }
  return true;
}

bool th__try_rows(th__case *c) {
  for (int i = 0; i < c->evidence[0].clue_count; i++) {
    bool any = false, fits = c->evidence[0].clues[i].kind == TH__CLUE_GRADIENT;
    for (int run = 0; run < c->runs && fits; run++)
      fits = rows_replaced(c, run, &c->evidence[run].clues[i].grid, &any);
    if (fits && any)
      return th__case_found(c, TH__BUG_OVERWRITTEN, TH__NO_NUMBER,
                            "has single rows of %s where several belong: the last one wins instead "
                            "of their sum",
                            c->evidence[0].clues[i].name);
  }
  return false;
}
