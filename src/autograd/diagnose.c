/* diagnose.c: the order in which the usual mistakes are tried; where they are; what is said if none
 * fits. */
#include "autograd/diagnose.h"

#include <stdio.h>
#include <string.h>

#include "autograd/diagnose/case.h"
#include "tensor/alloc.h"

const char *th__bug_name(th__bug kind) {
  switch (kind) {
#define X(code, name)                                                                              \
  case code: return name;
    TH__BUG_LIST(X)
#undef X
  }
  return "unknown";
}

/* Room for the largest array of any run; how close a guess must come. */
static th_status prepare(th__case *c) {
  ptrdiff_t largest = 1;
  for (int run = 0; run < c->runs; run++) {
    const th__evidence *e = &c->evidence[run];
    ptrdiff_t counts[2] = {th__grid_count(&e->want), th__grid_count(&e->got)};
    c->count[run] = counts[0];
    for (int i = 0; i < 2; i++)
      if (counts[i] > largest) largest = counts[i];
    for (int i = 0; i < e->clue_count; i++)
      if (th__grid_count(&e->clues[i].grid) > largest) largest = th__grid_count(&e->clues[i].grid);
  }
  c->guess = th__alloc(2 * (size_t)largest * sizeof *c->guess);
  if (c->guess == NULL) return TH_ERR_MEMORY;
  c->spare = c->guess + largest;
  return TH_OK;
}

static void set_limits(th__case *c) {
  for (int run = 0; run < c->runs; run++) {
    const th__evidence *e = &c->evidence[run];
    c->limit[run] = c->slack * (th__grid_largest(&e->want) + th__grid_largest(&e->got));
    if (!th__grid_same_shape(&e->got, &e->want)) continue;
    double off = 0;
    for (ptrdiff_t i = 0; i < c->count[run]; i++) {
      double difference = fabs(e->got.data[i] - e->want.data[i]);
      if (difference > off) off = difference;
    }
    /* A guess must explain the difference, even a small one. */
    if (off > c->limit[run] && 1e-3 * off < c->limit[run]) c->limit[run] = 1e-3 * off;
  }
}

static bool try_not_finite(th__case *c) {
  for (int run = 0; run < c->runs; run++) {
    const double *got = c->evidence[run].got.data;
    ptrdiff_t count = th__grid_count(&c->evidence[run].got), bad = 0, first = 0;
    for (ptrdiff_t i = 0; i < count; i++)
      if (!isfinite(got[i]) && bad++ == 0) first = i;
    if (bad > 0)
      return th__case_found(c, TH__BUG_UNKNOWN, TH__NO_NUMBER, "is %s in %td of %td entries",
                            isnan(got[first]) ? "not a number" : "infinite", bad, count);
  }
  return false;
}

/* Where nothing should arrive, whatever did is best left without an explanation. */
static bool try_nothing_wanted(th__case *c) {
  for (int run = 0; run < c->runs; run++)
    if (th__grid_largest(&c->evidence[run].want) > 0) return false;
  return th__case_found(c, TH__BUG_UNKNOWN, TH__NO_NUMBER, "should be 0 everywhere");
}

static bool try_terms(th__case *c) { return th__try_products(c) || th__try_reductions(c, true); }

/* From exact and simple to fitted. */
static bool try_all(th__case *c) {
  if (th__try_factor(c) || th__try_transpose(c) || th__try_slice(c) || th__try_rotation(c) ||
      th__try_heads(c) || th__try_rows(c) || th__try_mask(c) || th__try_clue_factor(c) ||
      th__try_reductions(c, false))
    return true;
  bool found = c->evidence[0].reassigned ? th__try_parts(c) || try_terms(c)
                                         : try_terms(c) || th__try_parts(c);
  return found || th__try_contractions(c);
}

/* ---- where ---- */

/* Writes "[2, 3]" for entry i. */
static void write_index(const th__grid *x, ptrdiff_t i, char *text, size_t room) {
  ptrdiff_t index[TH_MAX_DIMS];
  for (int axis = x->ndim - 1; axis >= 0; axis--) {
    index[axis] = i % x->shape[axis];
    i /= x->shape[axis];
  }
  size_t used = (size_t)snprintf(text, room, "[");
  for (int axis = 0; axis < x->ndim && used < room; axis++)
    used += (size_t)snprintf(text + used, room - used, "%s%td", axis > 0 ? ", " : "", index[axis]);
  if (used < room) snprintf(text + used, room - used, "]");
}

static bool wrong_at(const th__case *c, int run, ptrdiff_t i) {
  const th__evidence *e = &c->evidence[run];
  return !(fabs(e->got.data[i] - e->want.data[i]) <= c->limit[run]);
}

/* The only index along an axis at which this run is wrong, or -1. */
static ptrdiff_t only_index(const th__case *c, int run, int axis) {
  const th__grid *want = &c->evidence[run].want;
  ptrdiff_t inner = 1, length = want->shape[axis], only = -1;
  if (length < 2) return -1;
  for (int i = axis + 1; i < want->ndim; i++) inner *= want->shape[i];
  for (ptrdiff_t i = 0; i < c->count[run]; i++) {
    if (!wrong_at(c, run, i)) continue;
    ptrdiff_t here = i / inner % length;
    if (only >= 0 && here != only) return -1;
    only = here;
  }
  return only;
}

/* x[.., index, ..] with the axis kept at length 1, copied to `data`. */
static th__grid cut(const th__grid *x, int axis, ptrdiff_t index, double *data) {
  ptrdiff_t outer = 1, inner = 1, length = x->shape[axis];
  for (int i = 0; i < axis; i++) outer *= x->shape[i];
  for (int i = axis + 1; i < x->ndim; i++) inner *= x->shape[i];
  for (ptrdiff_t o = 0; o < outer; o++)
    memcpy(data + o * inner, x->data + (o * length + index) * inner, (size_t)inner * sizeof *data);
  th__grid result = *x;
  result.shape[axis] = 1;
  result.data = data;
  return result;
}

/* Looks again at the only slice that is wrong: its got, its want, and the clues of the same shape cut
 * alike. One run, because the place differs from run to run. */
static bool try_slice_alone(th__case *c, int axis, ptrdiff_t index) {
  const th__evidence *whole = &c->evidence[0];
  size_t count = (size_t)th__grid_count(&whole->want), clues = (size_t)whole->clue_count;
  double *data = th__alloc((count * (clues + 2) + 1) * sizeof *data);
  th__clue *cut_clues = th__alloc((clues + 1) * sizeof *cut_clues);
  bool found = false;
  if (data != NULL && cut_clues != NULL) {
    double *next = data + 2 * count;
    th__evidence part = *whole;
    part.got = cut(&whole->got, axis, index, data);
    part.want = cut(&whole->want, axis, index, data + count);
    part.clues = cut_clues;
    part.clue_count = 0;
    for (size_t i = 0; i < clues; i++, next += count) {
      cut_clues[part.clue_count] = whole->clues[i];
      if (th__grid_same_shape(&whole->clues[i].grid, &whole->want))
        cut_clues[part.clue_count].grid = cut(&whole->clues[i].grid, axis, index, next);
      part.clue_count++;
    }
    char place[80];
    snprintf(place, sizeof place, "; only at index %td of axis %d", index, axis);
    th__case inner = {.name = c->name, .runs = 1, .evidence = &part, .slack = c->slack};
    inner.budget = c->budget;
    inner.place = place;
    inner.found = c->found;
    if (th__grid_count(&part.want) >= 3 && prepare(&inner) == TH_OK) {
      set_limits(&inner);
      found = try_all(&inner);
      th__free(inner.guess);
    }
  }
  th__free(cut_clues);
  th__free(data);
  return found;
}

static void describe_unknown(th__case *c) {
  const th__evidence *e = &c->evidence[0];
  ptrdiff_t wrong = 0, worst = 0;
  for (ptrdiff_t i = 0; i < c->count[0]; i++) {
    if (wrong_at(c, 0, i)) wrong++;
    if (fabs(e->got.data[i] - e->want.data[i]) > fabs(e->got.data[worst] - e->want.data[worst]))
      worst = i;
  }
  if (wrong == 0) {
    th__case_found(c, TH__BUG_UNKNOWN, TH__NO_NUMBER,
                   "is none of the usual mistakes; right in the first run");
    return;
  }
  char index[160] = "", place[80] = "";
  write_index(&e->want, worst, index, sizeof index);
  for (int axis = 0; axis < e->want.ndim && place[0] == '\0'; axis++) {
    ptrdiff_t only = only_index(c, 0, axis);
    if (only >= 0) snprintf(place, sizeof place, ", all at index %td of axis %d", only, axis);
  }
  th__case_found(c, TH__BUG_UNKNOWN, TH__NO_NUMBER,
                 "is none of the usual mistakes; %td of %td entries are wrong%s, the worst at %s: "
                 "%.6g instead of %.6g",
                 wrong, c->count[0], place, index, e->got.data[worst], e->want.data[worst]);
}

static void search(th__case *c) {
  if (try_not_finite(c) || th__try_shape(c) || try_nothing_wanted(c)) return;
  if (try_all(c)) return;
  for (int axis = 0; axis < c->evidence[0].want.ndim; axis++) {
    ptrdiff_t only = only_index(c, 0, axis);
    if (only >= 0 && try_slice_alone(c, axis, only)) return;
  }
  describe_unknown(c);
}

th_status th__diagnose(const char *name, int runs, const th__evidence *evidence, double slack,
                       th__diagnosis *found) {
  *found = (th__diagnosis){TH__BUG_UNKNOWN, TH__NO_NUMBER, "is none of the usual mistakes"};
  if (runs < 1) return TH_OK;
  th__case c = {.name = name, .evidence = evidence, .slack = slack, .place = "", .found = found};
  c.runs = runs < TH__DIAGNOSIS_RUNS ? runs : TH__DIAGNOSIS_RUNS;
  c.budget = 1e8;
  th_status status = prepare(&c);
  if (status != TH_OK) return status;
  set_limits(&c);
  search(&c);
  th__free(c.guess);
  return TH_OK;
}
