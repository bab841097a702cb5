/* terms.c: a term that is missing or has the wrong sign. The difference want - got is compared with
 * c * a * reduce(b * g), for all values a, b and gradients g among the clues, from simple to involved. */
#include <stdio.h>
#include <string.h>

#include "autograd/diagnose/case.h"

enum { NONE = -1, ITSELF = -2 };   /* for a clue's index: no factor; the gradient that was got */
enum { KEEP = -1, ALL_AXES = -2 }; /* for an axis: no reduction; over everything */

/* What is done to a value before it multiplies: activations hide their derivatives in their outputs. */
typedef enum slope { PLAIN, TANH, SIGMOID, COMPLEMENT, BELL, SLOPES } slope;

static double sloped(slope s, double x) {
  switch (s) {
  case TANH: return 1 - x * x;
  case SIGMOID: return x * (1 - x);
  case COMPLEMENT: return 1 - x;
  case BELL: return exp(-x * x / 2);
  default: return x;
  }
}

typedef struct term {
  int a, b, g, axis;
  slope a_slope, b_slope;
  bool by_rows; /* arrays with fewer axes hold an entry per row */
} term;

static const th__grid *grid_of(const th__case *c, int run, int clue) {
  return clue == ITSELF ? &c->evidence[run].got : &c->evidence[run].clues[clue].grid;
}

/* out = slope(value of clue b) * g, broadcast; *shape is the result's. False if that would be larger
 * than both. */
static bool product(const th__case *c, int run, const term *t, th__grid *shape, double *out) {
  const th__grid *g = grid_of(c, run, t->g);
  *shape = *g;
  if (t->b != NONE) {
    const th__grid *b = grid_of(c, run, t->b);
    if (b->ndim > g->ndim || (b->ndim == g->ndim && th__grid_count(b) > th__grid_count(g)))
      *shape = *b;
    if (!th__grid_stretch_rows(b, t->by_rows, shape->ndim, shape->shape, c->spare)) return false;
  }
  if (!th__grid_stretch_rows(g, t->by_rows, shape->ndim, shape->shape, out)) return false;
  ptrdiff_t count = th__grid_count(shape);
  if (t->b != NONE)
    for (ptrdiff_t i = 0; i < count; i++) out[i] *= sloped(t->b_slope, c->spare[i]);
  shape->data = out;
  return true;
}

/* Sums one axis, or all, in place, and keeps it with length 1. */
static void reduce(th__grid *x, int axis, double *data) {
  ptrdiff_t outer = 1, length = 1, inner = 1;
  for (int i = 0; i < x->ndim; i++)
    *(axis == ALL_AXES || i == axis ? &length : i < axis ? &outer : &inner) *= x->shape[i];
  for (ptrdiff_t o = 0; o < outer; o++)
    for (ptrdiff_t i = 0; i < inner; i++) {
      double sum = 0;
      for (ptrdiff_t k = 0; k < length; k++) sum += data[(o * length + k) * inner + i];
      data[o * inner + i] = sum;
    }
  for (int i = 0; i < x->ndim; i++)
    if (axis == ALL_AXES || i == axis) x->shape[i] = 1;
}

/* The whole term, stretched to want's shape, in c->guess; *length is how many were summed. */
static bool build(th__case *c, int run, const term *t, double *length) {
  const th__grid *want = &c->evidence[run].want;
  th__grid inner;
  if (!product(c, run, t, &inner, c->guess)) return false;
  c->budget -= (double)(th__grid_count(&inner) + c->count[run]);
  ptrdiff_t before = th__grid_count(&inner);
  if (t->axis >= inner.ndim) return false;
  if (t->axis != KEEP) reduce(&inner, t->axis, c->guess);
  ptrdiff_t after = th__grid_count(&inner);
  *length = after > 0 ? (double)(before / after) : 1;
  if (t->axis != KEEP && *length < 2) return false;
  if (after > c->count[run]) return false;
  memcpy(c->spare, c->guess, (size_t)after * sizeof *c->spare);
  inner.data = c->spare;
  if (!th__grid_stretch_rows(&inner, t->by_rows, want->ndim, want->shape, c->guess)) return false;
  if (t->a == NONE) return true;
  if (!th__grid_stretch_rows(grid_of(c, run, t->a), t->by_rows, want->ndim, want->shape, c->spare))
    return false;
  for (ptrdiff_t i = 0; i < c->count[run]; i++) c->guess[i] *= sloped(t->a_slope, c->spare[i]);
  return true;
}

/* want - got = coefficient * term everywhere; NaN where both are 0. */
static bool fit(const th__case *c, int run, double *coefficient) {
  const double *got = c->evidence[run].got.data, *want = c->evidence[run].want.data;
  const double *guess = c->guess;
  ptrdiff_t top = 0;
  for (ptrdiff_t i = 0; i < c->count[run]; i++)
    if (fabs(guess[i]) > fabs(guess[top])) top = i;
  if (c->count[run] == 0) return false;
  double k = guess[top] != 0 ? (want[top] - got[top]) / guess[top] : 0;
  for (ptrdiff_t i = 0; i < c->count[run]; i++)
    if (!(fabs(want[i] - got[i] - k * guess[i]) <= 2 * c->limit[run])) return false;
  *coefficient = fabs(k * guess[top]) > 2 * c->limit[run] ? k : TH__NO_NUMBER;
  return true;
}

/* ---- the sentence ---- */

static void sloped_name(const th__case *c, int clue, slope s, char *text, size_t room) {
  const char *name = clue == ITSELF ? c->name : c->evidence[0].clues[clue].name;
  switch (s) {
  case TANH: snprintf(text, room, "(1 - %s**2)", name); return;
  case SIGMOID: snprintf(text, room, "%s*(1 - %s)", name, name); return;
  case COMPLEMENT: snprintf(text, room, "(1 - %s)", name); return;
  case BELL: snprintf(text, room, "exp(-%s**2/2)", name); return;
  default: snprintf(text, room, "%s", name);
  }
}

static void term_name(const th__case *c, const term *t, const char *reduction, char *text,
                      size_t room) {
  char a[80] = "", b[80] = "", g[80], axis[24] = "";
  if (t->a != NONE) sloped_name(c, t->a, t->a_slope, a, sizeof a);
  if (t->b != NONE) sloped_name(c, t->b, t->b_slope, b, sizeof b);
  sloped_name(c, t->g, PLAIN, g, sizeof g);
  if (t->axis >= 0) {
    int last = grid_of(c, 0, t->g)->ndim - 1;
    if (t->b != NONE && grid_of(c, 0, t->b)->ndim - 1 > last) last = grid_of(c, 0, t->b)->ndim - 1;
    if (last > 0) snprintf(axis, sizeof axis, ", axis=%d", t->axis == last ? -1 : t->axis);
  }
  const char *times = t->b != NONE ? " * " : "";
  if (t->axis == KEEP)
    snprintf(text, room, "%s%s%s%s%s", a, a[0] != '\0' ? " * " : "", b, times, g);
  else
    snprintf(text, room, "%s%s%s(%s%s%s%s)", a, a[0] != '\0' ? " * " : "", reduction, b, times, g,
             axis);
}

/* "-", "", "2 * ", "-1/sqrt(d) * ": what stands before the term. False if the number is unknown and
 * differs from run to run. */
static bool coefficient_name(const th__case *c, const double *k, char *text, size_t room) {
  char name[192];
  double first = TH__NO_NUMBER;
  for (int run = 0; run < c->runs && isnan(first); run++) first = k[run];
  bool named = th__case_name_number(c, k, name, sizeof name), constant = th__case_constant(c, k);
  if (!named && !constant) return false;
  if (named && strcmp(name, "1") == 0)
    text[0] = '\0';
  else if (named && strcmp(name, "-1") == 0)
    snprintf(text, room, "-");
  else if (named)
    snprintf(text, room, "%s * ", name);
  else
    snprintf(text, room, "%.6g * ", first);
  return true;
}

static bool is_number(const th__case *c, const double *k, double number) {
  if (!th__case_constant(c, k)) return false;
  for (int run = 0; run < c->runs; run++)
    if (!isnan(k[run]) && !(fabs(k[run] - number) <= 10 * c->slack * fabs(number))) return false;
  return true;
}

/* Enough entries to contradict a coefficient per run? */
static bool contradictable(const th__case *c) {
  ptrdiff_t entries = 0;
  for (int run = 0; run < c->runs; run++) entries += c->count[run] - 1;
  return entries >= 3;
}

static bool describe(th__case *c, const term *t, const double *k, const double *length) {
  double mean[TH__DIAGNOSIS_RUNS];
  for (int run = 0; run < c->runs; run++) mean[run] = k[run] * length[run];
  bool whole = is_number(c, k, 1) || is_number(c, k, -1);
  bool averaged = t->axis != KEEP && (is_number(c, mean, 1) || is_number(c, mean, -1));
  bool doubled = is_number(c, k, 2) || is_number(c, k, -2);
  bool averaged_doubled = t->axis != KEEP && (is_number(c, mean, 2) || is_number(c, mean, -2));
  bool simple = whole || averaged || doubled || averaged_doubled;
  if (!contradictable(c) && !(simple && c->runs >= 3)) return false;

  bool as_mean = averaged || (averaged_doubled && !whole && !doubled);
  char before[200], name[240];
  if (!coefficient_name(c, as_mean ? mean : k, before, sizeof before)) {
    if (t->axis == KEEP || !coefficient_name(c, mean, before, sizeof before)) return false;
    as_mean = true;
  }
  term_name(c, t, as_mean ? "mean" : "sum", name, sizeof name);
  if (simple && !whole && !averaged)
    return th__case_found(c, TH__BUG_SIGN, TH__NO_NUMBER,
                          "has the term %s with the wrong sign (should be %s)", name,
                          before[0] == '-' ? "-" : "+");
  th__bug kind = t->axis == KEEP ? TH__BUG_MISSING_TERM
                 : as_mean       ? TH__BUG_MISSING_MEAN
                                 : TH__BUG_MISSING_ROW_SUM;
  return th__case_found(c, kind, TH__NO_NUMBER, "misses the term %s%s (fit 1.000)", before, name);
}

static bool try_aligned(th__case *c, const term *t) {
  double k[TH__DIAGNOSIS_RUNS], length[TH__DIAGNOSIS_RUNS];
  bool seen = false;
  for (int run = 0; run < c->runs; run++) {
    if (c->budget < 0 || !build(c, run, t, &length[run]) || !fit(c, run, &k[run])) return false;
    seen = seen || !isnan(k[run]);
  }
  return seen && describe(c, t, k, length);
}

/* Whether an array of the term may be meant as an entry per row. */
static bool has_rows(const th__case *c, const term *t) {
  const int clues[] = {t->a, t->b, t->g};
  for (int i = 0; i < 3; i++) {
    if (clues[i] == NONE) continue;
    int ndim = grid_of(c, 0, clues[i])->ndim;
    if (ndim > 0 && ndim < c->evidence[0].want.ndim) return true;
  }
  return false;
}

static bool try_term(th__case *c, const term *t) {
  if (try_aligned(c, t)) return true;
  if (t->axis != KEEP || !has_rows(c, t)) return false;
  term rows = *t;
  rows.by_rows = true;
  return try_aligned(c, &rows);
}

/* ---- the search ---- */

static bool is_value(const th__case *c, int clue) {
  return clue == NONE || c->evidence[0].clues[clue].kind == TH__CLUE_VALUE;
}

static bool try_axes(th__case *c, term t) {
  int ndim = grid_of(c, 0, t.g)->ndim;
  if (t.b != NONE && grid_of(c, 0, t.b)->ndim > ndim) ndim = grid_of(c, 0, t.b)->ndim;
  for (t.axis = ndim - 1; t.axis >= 0; t.axis--)
    if (try_term(c, &t)) return true;
  t.axis = ALL_AXES;
  return ndim > 1 && try_term(c, &t);
}

/* All terms with this gradient, with or without a factor outside and one inside the reduction. */
static bool try_gradient(th__case *c, int g, bool outside, bool inside) {
  int last = c->evidence[0].clue_count - 1;
  for (int a = outside ? 0 : NONE; a <= (outside ? last : NONE); a++)
    for (int b = inside ? 0 : NONE; b <= (inside ? last : NONE); b++)
      if (is_value(c, a) && is_value(c, b))
        if (try_axes(c, (term){.a = a, .b = b, .g = g})) return true;
  return false;
}

bool th__try_reductions(th__case *c, bool itself) {
  int clues = c->evidence[0].clue_count;
  for (int level = 0; level < 4; level++) {
    bool outside = level & 1, inside = level >> 1 & 1;
    if (itself && try_gradient(c, ITSELF, outside, inside)) return true;
    for (int g = 0; g < clues && !itself; g++)
      if (c->evidence[0].clues[g].kind == TH__CLUE_GRADIENT && try_gradient(c, g, outside, inside))
        return true;
  }
  return false;
}

static bool try_slopes(th__case *c, term t, bool both) {
  for (t.a_slope = PLAIN; t.a_slope < SLOPES; t.a_slope++)
    for (t.b_slope = PLAIN; t.b_slope < (both ? SLOPES : PLAIN + 1); t.b_slope++)
      if (try_term(c, &t)) return true;
  return false;
}

bool th__try_products(th__case *c) {
  int clues = c->evidence[0].clue_count;
  for (int factors = 0; factors < 3; factors++)
    for (int g = 0; g < clues; g++) {
      if (c->evidence[0].clues[g].kind != TH__CLUE_GRADIENT) continue;
      for (int a = factors > 0 ? 0 : NONE; a < (factors > 0 ? clues : 0); a++)
        for (int b = factors > 1 ? 0 : NONE; b < (factors > 1 ? clues : 0); b++) {
          if (!is_value(c, a) || !is_value(c, b)) continue;
          term t = {.a = a, .b = b, .g = g, .axis = KEEP};
          if (factors == 0 ? try_term(c, &t) : try_slopes(c, t, factors > 1)) return true;
        }
    }
  return false;
}
