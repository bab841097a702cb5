/* mask.c: masks left out or moved by one. A mask is a clue that holds only 0 and 1, both of them, or
 * else the pattern of the right gradient's own zeros. It is read as [rows, columns] of the last axes. */
#include "autograd/diagnose/case.h"

/* The mask stretched to want's shape, into out. clue -1: want's own pattern. */
static bool mask_of(const th__case *c, int run, int clue, double *out) {
  const th__evidence *e = &c->evidence[run];
  if (clue >= 0 && !th__grid_stretch(&e->clues[clue].grid, e->want.ndim, e->want.shape, out))
    return false;
  ptrdiff_t ones = 0;
  for (ptrdiff_t i = 0; i < c->count[run]; i++) {
    if (clue < 0) out[i] = fabs(e->want.data[i]) > c->limit[run] * 1e-3 ? 1 : 0;
    if (out[i] != 0 && out[i] != 1) return false;
    ones += out[i] == 1;
  }
  return ones > 0 && ones < c->count[run];
}

static bool near(const th__case *c, int run, double a, double b) {
  return fabs(a - b) <= c->limit[run];
}

/* Right where the mask is 1; where it is 0 the truth is 0 and something else was got. */
static bool not_applied(const th__case *c, int run, const double *mask) {
  const double *got = c->evidence[run].got.data, *want = c->evidence[run].want.data;
  bool leaks = false;
  for (ptrdiff_t i = 0; i < c->count[run]; i++) {
    if (mask[i] == 1 && !near(c, run, got[i], want[i])) return false;
    if (mask[i] == 0 && !near(c, run, want[i], 0)) return false;
    if (mask[i] == 0 && !near(c, run, got[i], 0)) leaks = true;
  }
  return leaks;
}

/* The same by rows, as behind a softmax that ran without its mask: rows that may see everything are
 * right, every other row leaks where the mask is 0. */
static bool rows_not_applied(const th__case *c, int run, const double *mask) {
  const th__evidence *e = &c->evidence[run];
  ptrdiff_t n = e->want.ndim > 0 ? e->want.shape[e->want.ndim - 1] : 1;
  bool full_rows = false, other_rows = false;
  for (ptrdiff_t begin = 0; begin < c->count[run]; begin += n) {
    bool full = true, right = true, leaks = false;
    for (ptrdiff_t i = begin; i < begin + n; i++) {
      if (mask[i] == 0) full = false;
      if (!near(c, run, e->got.data[i], e->want.data[i])) right = false;
      if (mask[i] == 0 && !near(c, run, e->want.data[i], 0)) return false;
      if (mask[i] == 0 && !near(c, run, e->got.data[i], 0)) leaks = true;
    }
    if (full ? !right : !leaks) return false;
    full_rows = full_rows || full;
    other_rows = other_rows || !full;
  }
  return full_rows && other_rows;
}

/* moved[i][j] = mask[i - down][j - right], `fill` where that lies outside. */
static void move(const th__grid *shape, const double *mask, ptrdiff_t count, int down, int right,
                 double fill, double *moved) {
  ptrdiff_t columns = shape->shape[shape->ndim - 1], rows = shape->shape[shape->ndim - 2];
  for (ptrdiff_t k = 0; k < count; k++) {
    ptrdiff_t i = k / columns % rows - down, j = k % columns - right;
    bool inside = i >= 0 && i < rows && j >= 0 && j < columns;
    moved[k] = inside ? mask[k - down * columns - right] : fill;
  }
}

/* got is 0 where the moved mask is 0, and right where both masks are 1 (or, if `zeros_only`, not 0 where
 * the moved mask is 1). */
static bool shifted(const th__case *c, int run, const double *mask, const double *moved,
                    bool zeros_only) {
  const double *got = c->evidence[run].got.data, *want = c->evidence[run].want.data;
  bool differs = false;
  for (ptrdiff_t i = 0; i < c->count[run]; i++) {
    bool zero = near(c, run, got[i], 0), right = near(c, run, got[i], want[i]);
    if (mask[i] == 0 && !near(c, run, want[i], 0)) return false;
    if (moved[i] == 0 && !zero) return false;
    if (moved[i] == 1 && mask[i] == 1 && !right && !zeros_only) return false;
    if (moved[i] == 1 && zero && zeros_only) return false;
    if (moved[i] != mask[i] && !right) differs = true;
  }
  return differs;
}

typedef struct shift {
  int down, right;
  const char *text;
} shift;
static const shift shifts[] = {{0, 1, "one column to the right"},
                               {0, -1, "one column to the left"},
                               {1, 0, "one row down"},
                               {-1, 0, "one row up"}};

static bool try_shift(th__case *c, int clue, const shift *s, double fill, bool zeros_only) {
  for (int run = 0; run < c->runs; run++) {
    const th__grid *want = &c->evidence[run].want;
    if (want->ndim < 2 || !mask_of(c, run, clue, c->guess)) return false;
    move(want, c->guess, c->count[run], s->down, s->right, fill, c->spare);
    if (!shifted(c, run, c->guess, c->spare, zeros_only)) return false;
  }
  return th__case_found(c, TH__BUG_MASK_SHIFTED, TH__NO_NUMBER, "has the mask%s%s shifted by %s",
                        clue >= 0 ? " " : "", clue >= 0 ? c->evidence[0].clues[clue].name : "",
                        s->text);
}

static bool try_not_applied(th__case *c, int clue, bool by_rows) {
  for (int run = 0; run < c->runs; run++) {
    if (!mask_of(c, run, clue, c->guess)) return false;
    if (!(by_rows ? rows_not_applied(c, run, c->guess) : not_applied(c, run, c->guess)))
      return false;
  }
  if (clue < 0)
    return th__case_found(c, TH__BUG_MASK_NOT_APPLIED, TH__NO_NUMBER,
                          "is right where it should not be 0, and not 0 elsewhere: a mask is "
                          "missing");
  return th__case_found(c, TH__BUG_MASK_NOT_APPLIED, TH__NO_NUMBER,
                        "is as if the mask %s were missing: %s, and not 0 where it is 0",
                        c->evidence[0].clues[clue].name,
                        by_rows ? "right in the rows that it leaves whole" : "right where it is 1");
}

static bool try_shifts(th__case *c, int clue, bool zeros_only) {
  for (size_t s = 0; s < sizeof shifts / sizeof *shifts; s++)
    for (int fill = 0; fill < 2; fill++)
      if (try_shift(c, clue, &shifts[s], fill, zeros_only)) return true;
  return false;
}

/* A mask moved by one also lets through some of what it should not: so it is tried first. */
static bool try_mask(th__case *c, int clue) {
  return try_shifts(c, clue, false) || try_not_applied(c, clue, false) ||
         try_shifts(c, clue, true) || try_not_applied(c, clue, true);
}

bool th__try_mask(th__case *c) {
  for (int clue = 0; clue < c->evidence[0].clue_count; clue++)
    if (c->evidence[0].clues[clue].kind == TH__CLUE_VALUE && try_mask(c, clue)) return true;
  return try_mask(c, -1);
}
