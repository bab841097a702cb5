/* factor.c: gradients that are right up to a number or up to a named array. */
#include <stdio.h>

#include "autograd/diagnose/case.h"

bool th__case_fit_factor(const th__case *c, int run, const double *got, double *f) {
  const double *want = c->evidence[run].want.data;
  double above = 0, below = 0, scale = 0;
  for (ptrdiff_t i = 0; i < c->count[run]; i++) {
    above += got[i] * want[i];
    below += want[i] * want[i];
    scale = fmax(scale, fabs(got[i]));
  }
  *f = below > 0 ? above / below : TH__NO_NUMBER;
  if (isnan(*f)) return scale == 0;
  for (ptrdiff_t i = 0; i < c->count[run]; i++)
    if (!(fabs(got[i] - *f * want[i]) <= c->slack * (scale + fabs(*f * want[i])))) return false;
  return true;
}

/* A factor that no run could contradict, because one number per run is all there is, explains nothing
 * unless it has a name. */
static bool told_apart(const th__case *c) {
  ptrdiff_t entries = 0;
  for (int run = 0; run < c->runs; run++) entries += c->count[run];
  return entries >= 3;
}

bool th__try_factor(th__case *c) {
  double f[TH__DIAGNOSIS_RUNS];
  for (int run = 0; run < c->runs; run++)
    if (!th__case_fit_factor(c, run, c->evidence[run].got.data, &f[run])) return false;
  double shown = TH__NO_NUMBER;
  bool zero = true;
  for (int run = 0; run < c->runs; run++) {
    if (isnan(shown) || fabs(shown - 1) <= 10 * c->slack) shown = isnan(f[run]) ? shown : f[run];
    if (f[run] != 0 && !isnan(f[run])) zero = false;
  }
  if (isnan(shown)) return false;
  if (zero)
    return th__case_found(c, TH__BUG_MISSING_TERM, TH__NO_NUMBER,
                          "is zero everywhere: nothing of the gradient arrived");
  char name[192];
  bool constant = th__case_constant(c, f), named = th__case_name_number(c, f, name, sizeof name);
  if (constant && fabs(shown + 1) <= 10 * c->slack)
    return th__case_found(c, TH__BUG_SIGN, -1, "has the wrong sign everywhere (factor -1)");
  if (named)
    return th__case_found(c, TH__BUG_FACTOR, shown, "right up to a factor %.8g = %s", shown, name);
  if (constant && told_apart(c))
    return th__case_found(c, TH__BUG_FACTOR, shown, "right up to a factor %.8g", shown);
  return false;
}

/* ---- named arrays, element by element ---- */

/* What is often forgotten, or applied twice: the array itself or an activation's derivative in it. */
typedef struct elementwise {
  const char *before, *between,
      *after; /* its name, written around the clue's; between: clue twice */
  double (*of)(double);
} elementwise;

static double itself(double x) { return x; }
static double square(double x) { return x * x; }
static double tanh_slope(double y) { return 1 - y * y; }
static double sigmoid_slope(double y) { return y * (1 - y); }
static double one_minus(double x) { return 1 - x; }
static double positive(double x) { return x > 0 ? 1 : 0; }

static const elementwise factors[] = {{"", NULL, "", itself},
                                      {"", NULL, "**2", square},
                                      {"(1 - ", NULL, ")", one_minus},
                                      {"(1 - ", NULL, "**2)", tanh_slope},
                                      {"", "*(1 - ", ")", sigmoid_slope},
                                      {"(", NULL, " > 0)", positive}};

/* got * a = want if the factor is missing, else got = want * a. */
static bool clue_fits(const th__case *c, int run, int clue, bool by_rows, double (*of)(double),
                      bool missing) {
  const th__evidence *e = &c->evidence[run];
  if (!th__grid_stretch_rows(&e->clues[clue].grid, by_rows, e->want.ndim, e->want.shape, c->guess))
    return false;
  for (ptrdiff_t i = 0; i < c->count[run]; i++) {
    double a = of(c->guess[i]), got = e->got.data[i], want = e->want.data[i];
    double difference = missing ? got * a - want : got - want * a;
    if (!(fabs(difference) <= c->limit[run] * fmax(1, fabs(a)))) return false;
  }
  return th__grid_largest(&e->want) > 0;
}

static bool try_clue(th__case *c, int clue, bool by_rows, const elementwise *factor, bool missing) {
  for (int run = 0; run < c->runs; run++)
    if (!clue_fits(c, run, clue, by_rows, factor->of, missing)) return false;
  const char *array = c->evidence[0].clues[clue].name;
  char name[160];
  snprintf(name, sizeof name, "%s%s%s%s%s", factor->before, array,
           factor->between != NULL ? factor->between : "", factor->between != NULL ? array : "",
           factor->after);
  if (missing && factor->of == positive)
    return th__case_found(c, TH__BUG_MASK_NOT_APPLIED, TH__NO_NUMBER,
                          "misses the mask %s: right where it is 1, not 0 elsewhere", name);
  return th__case_found(c, TH__BUG_FACTOR, TH__NO_NUMBER,
                        missing ? "misses the factor %s, element by element"
                                : "has the factor %s too many, element by element",
                        name);
}

static bool try_alignment(th__case *c, bool by_rows) {
  for (size_t f = 0; f < sizeof factors / sizeof *factors; f++)
    for (int clue = 0; clue < c->evidence[0].clue_count; clue++)
      if (c->evidence[0].clues[clue].kind != TH__CLUE_PART)
        if (try_clue(c, clue, by_rows, &factors[f], true) ||
            try_clue(c, clue, by_rows, &factors[f], false))
          return true;
  return false;
}

bool th__try_clue_factor(th__case *c) { return try_alignment(c, false) || try_alignment(c, true); }
