/* parts.c: a value used several times gets the sum of what each use contributes. Here the parts are
 * known, and got is compared with some of them, or with all but one taken wrongly. */
#include <stdio.h>
#include <string.h>

#include "autograd/diagnose/case.h"

enum { MAX_PARTS = 10 };

typedef struct parts {
  int count;
  int clue[MAX_PARTS];
} parts;

static bool find_parts(const th__case *c, parts *p) {
  p->count = 0;
  for (int i = 0; i < c->evidence[0].clue_count; i++) {
    if (c->evidence[0].clues[i].kind != TH__CLUE_PART) continue;
    if (p->count == MAX_PARTS) return false;
    for (int run = 0; run < c->runs; run++)
      if (!th__grid_same_shape(&c->evidence[run].clues[i].grid, &c->evidence[run].want))
        return false;
    p->clue[p->count++] = i;
  }
  return p->count >= 2;
}

static const double *part(const th__case *c, int run, const parts *p, int i) {
  return c->evidence[run].clues[p->clue[i]].grid.data;
}

/* got = the sum of the parts in the bit set, with something missing in at least one run. */
static bool subset_fits(const th__case *c, const parts *p, unsigned set) {
  for (int run = 0; run < c->runs; run++) {
    for (ptrdiff_t i = 0; i < c->count[run]; i++) {
      double sum = 0;
      for (int k = 0; k < p->count; k++)
        if (set >> k & 1) sum += part(c, run, p, k)[i];
      if (!(fabs(sum - c->evidence[run].got.data[i]) <= c->limit[run])) return false;
    }
  }
  return true;
}

/* "K (line 7) and V (line 8)" */
static void list_parts(const th__case *c, const parts *p, unsigned set, char *text, size_t room) {
  text[0] = '\0';
  for (int k = 0; k < p->count; k++) {
    if (!(set >> k & 1)) continue;
    size_t used = strlen(text);
    const char *name = c->evidence[0].clues[p->clue[k]].name;
    snprintf(text + used, room - used, "%s%s", used > 0 ? " and " : "", name);
  }
}

/* x equals clue[..., begin : begin + length, ...] along one axis (or the whole of it). */
static bool is_block(const th__case *c, int run, const th__grid *clue, const double *x) {
  const th__grid *want = &c->evidence[run].want;
  if (clue->ndim != want->ndim) return false;
  int axis = -1;
  ptrdiff_t inner = 1, outer = 1;
  for (int i = 0; i < want->ndim; i++) {
    if (clue->shape[i] == want->shape[i]) continue;
    if (axis >= 0 || clue->shape[i] < want->shape[i]) return false;
    axis = i;
  }
  if (axis < 0) axis = want->ndim > 0 ? want->ndim - 1 : 0;
  for (int i = 0; i < want->ndim; i++)
    if (i != axis) *(i < axis ? &outer : &inner) *= want->shape[i];
  ptrdiff_t short_run = c->count[run] / outer, long_run = th__grid_count(clue) / outer;
  for (ptrdiff_t begin = 0; begin + short_run <= long_run; begin += inner) {
    bool same = true;
    for (ptrdiff_t i = 0; i < c->count[run] && same; i++) {
      double y = clue->data[i / short_run * long_run + begin + i % short_run];
      same = fabs(y - x[i]) <= c->limit[run];
    }
    if (same) return true;
  }
  return false;
}

/* A part that is a true gradient as it stands, or a slice of one, is a direct path (a residual
 * connection): people call that a missing term. */
static const char *direct_path(const th__case *c, const parts *p, unsigned missing) {
  if ((missing & (missing - 1)) != 0) return NULL;
  int k = 0;
  while (!(missing >> k & 1)) k++;
  for (int i = 0; i < c->evidence[0].clue_count; i++) {
    bool same = c->evidence[0].clues[i].kind == TH__CLUE_GRADIENT;
    for (int run = 0; run < c->runs && same; run++)
      same = c->count[run] > 0 &&
             is_block(c, run, &c->evidence[run].clues[i].grid, part(c, run, p, k));
    if (same) return c->evidence[0].clues[i].name;
  }
  return NULL;
}

static bool describe_subset(th__case *c, const parts *p, unsigned set) {
  char there[160], missing[160];
  unsigned rest = ((1u << p->count) - 1) & ~set;
  list_parts(c, p, set, there, sizeof there);
  list_parts(c, p, rest, missing, sizeof missing);
  const char *direct = direct_path(c, p, rest);
  if (direct != NULL)
    return th__case_found(c, TH__BUG_MISSING_TERM, TH__NO_NUMBER,
                          "misses the term %s, or the slice of it that comes through %s (fit 1.000)",
                          direct, missing);
  if ((set & (set - 1)) == 0)
    return th__case_found(c, TH__BUG_OVERWRITTEN, TH__NO_NUMBER,
                          "is only the part through %s; the part through %s is overwritten or "
                          "forgotten: add them up",
                          there, missing);
  return th__case_found(c, TH__BUG_MISSING_TERM, TH__NO_NUMBER,
                        "misses the part through %s (fit 1.000)", missing);
}

/* want - got = k * part: the part is there k times too few. */
static bool one_part_off(th__case *c, const parts *p, int which) {
  double f[TH__DIAGNOSIS_RUNS];
  ptrdiff_t spare_entries = 0;
  for (int run = 0; run < c->runs; run++) {
    const double *got = c->evidence[run].got.data, *want = c->evidence[run].want.data;
    const double *x = part(c, run, p, which);
    double above = 0, below = 0;
    for (ptrdiff_t i = 0; i < c->count[run]; i++) {
      above += (want[i] - got[i]) * x[i];
      below += x[i] * x[i];
    }
    if (!(below > 0)) return false;
    double k = above / below;
    for (ptrdiff_t i = 0; i < c->count[run]; i++)
      if (!(fabs(want[i] - got[i] - k * x[i]) <= c->limit[run])) return false;
    f[run] = 1 - k;
    spare_entries += c->count[run] - 1;
  }
  if (spare_entries < 3) return false;
  char name[192];
  const char *through = c->evidence[0].clues[p->clue[which]].name;
  bool constant = th__case_constant(c, f), named = th__case_name_number(c, f, name, sizeof name);
  if (constant && fabs(f[0] + 1) <= 10 * c->slack)
    return th__case_found(c, TH__BUG_SIGN, TH__NO_NUMBER,
                          "has the part through %s with the wrong sign", through);
  if (!constant && !named) return false;
  return th__case_found(c, TH__BUG_FACTOR, f[0],
                        "has the part through %s right up to a factor %.8g%s%s", through, f[0],
                        named ? " = " : "", name);
}

bool th__try_parts(th__case *c) {
  parts p;
  if (!find_parts(c, &p)) return false;
  unsigned all = (1u << p.count) - 1;
  for (int k = 0; k < p.count; k++)
    if (subset_fits(c, &p, 1u << k)) return describe_subset(c, &p, 1u << k);
  for (unsigned set = 1; set < all; set++)
    if (subset_fits(c, &p, set)) return describe_subset(c, &p, set);
  for (int k = 0; k < p.count; k++)
    if (one_part_off(c, &p, k)) return true;
  return false;
}
