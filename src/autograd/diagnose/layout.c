/* layout.c: right numbers in the wrong place or shape: transposes, sums not taken, rotations. */
#include <stdio.h>

#include "autograd/diagnose/case.h"
#include "tensor/shape.h"

/* out = x with two axes exchanged. */
static void exchange(const th__grid *x, int a, int b, double *out) {
  ptrdiff_t stride[TH_MAX_DIMS] = {0}, shape[TH_MAX_DIMS] = {0}, index[TH_MAX_DIMS] = {0};
  ptrdiff_t step = 1;
  for (int axis = x->ndim - 1; axis >= 0; axis--) {
    stride[axis] = step;
    shape[axis] = x->shape[axis];
    step *= x->shape[axis];
  }
  ptrdiff_t keep = stride[a];
  stride[a] = stride[b], stride[b] = keep;
  keep = shape[a];
  shape[a] = shape[b], shape[b] = keep;
  ptrdiff_t from = 0;
  for (ptrdiff_t i = 0; i < step; i++) {
    out[i] = x->data[from];
    for (int axis = x->ndim - 1; axis >= 0; axis--) {
      from += stride[axis];
      if (++index[axis] < shape[axis]) break;
      from -= stride[axis] * shape[axis];
      index[axis] = 0;
    }
  }
}

static bool exchange_has_shape(const th__grid *x, int a, int b, const th__grid *want) {
  if (x->ndim != want->ndim || b >= x->ndim) return false;
  for (int axis = 0; axis < x->ndim; axis++) {
    int from = axis == a ? b : axis == b ? a : axis;
    if (x->shape[from] != want->shape[axis]) return false;
  }
  return true;
}

static bool try_exchange(th__case *c, int a, int b) {
  double f[TH__DIAGNOSIS_RUNS];
  for (int run = 0; run < c->runs; run++) {
    const th__evidence *e = &c->evidence[run];
    if (!exchange_has_shape(&e->got, a, b, &e->want)) return false;
    exchange(&e->got, a, b, c->guess);
    if (!th__case_fit_factor(c, run, c->guess, &f[run])) return false;
    if (f[run] == 0) return false;
  }
  bool last_two = a == c->evidence[0].want.ndim - 2;
  char which[64] = "";
  if (!last_two) snprintf(which, sizeof which, " (axes %d and %d exchanged)", a, b);
  char name[192];
  bool named = th__case_name_number(c, f, name, sizeof name);
  if (!named && !th__case_constant(c, f)) return false;
  if (th__case_constant(c, f) && fabs(f[0] - 1) <= 10 * c->slack)
    return th__case_found(c, TH__BUG_TRANSPOSE, TH__NO_NUMBER, "equals its transpose%s", which);
  return th__case_found(c, TH__BUG_TRANSPOSE, f[0], "equals its transpose%s up to a factor %.8g%s%s",
                        which, f[0], named ? " = " : "", name);
}

bool th__try_transpose(th__case *c) {
  int ndim = c->evidence[0].want.ndim;
  for (int b = ndim - 1; b > 0; b--)
    for (int a = b - 1; a >= 0; a--)
      if (try_exchange(c, a, b)) return true;
  return false;
}

/* ---- sums not taken ---- */

/* out = x summed over the axes in the bit set; the number of elements left. */
static ptrdiff_t sum_axes(const th__grid *x, unsigned axes, double *out) {
  ptrdiff_t stride[TH_MAX_DIMS], left = 1, index[TH_MAX_DIMS] = {0};
  for (int axis = x->ndim - 1; axis >= 0; axis--) {
    bool summed = axes >> axis & 1;
    stride[axis] = summed ? 0 : left;
    left *= summed ? 1 : x->shape[axis];
  }
  for (ptrdiff_t i = 0; i < left; i++) out[i] = 0;
  ptrdiff_t count = th__grid_count(x), to = 0;
  for (ptrdiff_t i = 0; i < count; i++) {
    out[to] += x->data[i];
    for (int axis = x->ndim - 1; axis >= 0; axis--) {
      to += stride[axis];
      if (++index[axis] < x->shape[axis]) break;
      to -= stride[axis] * x->shape[axis];
      index[axis] = 0;
    }
  }
  return left;
}

/* Whether x without these axes has want's shape, axes of length 1 on either side left aside. */
static bool sum_has_shape(const th__grid *x, unsigned axes, const th__grid *want) {
  int at = 0;
  for (int axis = 0; axis < x->ndim; axis++) {
    if (axes >> axis & 1 || x->shape[axis] == 1) continue;
    while (at < want->ndim && want->shape[at] == 1) at++;
    if (at >= want->ndim || want->shape[at++] != x->shape[axis]) return false;
  }
  while (at < want->ndim && want->shape[at] == 1) at++;
  return at == want->ndim;
}

static bool try_sum(th__case *c, unsigned axes) {
  for (int run = 0; run < c->runs; run++) {
    const th__evidence *e = &c->evidence[run];
    if (e->got.ndim != c->evidence[0].got.ndim || !sum_has_shape(&e->got, axes, &e->want))
      return false;
    sum_axes(&e->got, axes, c->guess);
    if (!th__case_fits(c, run, c->guess)) return false;
  }
  char text[64] = "";
  int used = 0;
  for (int axis = 0; axis < c->evidence[0].got.ndim; axis++)
    if (axes >> axis & 1)
      used += snprintf(text + used, sizeof text - (size_t)used, "%s%d", used > 0 ? ", " : "", axis);
  const th__grid *got = &c->evidence[0].got, *want = &c->evidence[0].want;
  char a[TH__SHAPE_TEXT], b[TH__SHAPE_TEXT];
  return th__case_found(c, TH__BUG_NOT_SUMMED, TH__NO_NUMBER,
                        "is not summed over axis %s: it has shape %s instead of %s, and its sum is "
                        "right",
                        text, th__shape_text(a, got->ndim, got->shape),
                        th__shape_text(b, want->ndim, want->shape));
}

bool th__try_shape(th__case *c) {
  if (th__case_same_shapes(c)) return false;
  if (th__try_transpose(c)) return true;
  int ndim = c->evidence[0].got.ndim;
  for (unsigned axes = 1; axes < 1u << ndim; axes++)
    if (try_sum(c, axes)) return true;
  for (int run = 0; run < c->runs; run++) {
    const th__grid *got = &c->evidence[run].got, *want = &c->evidence[run].want;
    char a[TH__SHAPE_TEXT], b[TH__SHAPE_TEXT];
    if (!th__grid_same_shape(got, want))
      return th__case_found(c, TH__BUG_UNKNOWN, TH__NO_NUMBER, "has shape %s, it should have %s",
                            th__shape_text(a, got->ndim, got->shape),
                            th__shape_text(b, want->ndim, want->shape));
  }
  return false;
}

/* One row where the sum over all rows belongs: want = sum of a clue's leading axes, got = its first or
 * last slice. */
static bool slice_fits(const th__case *c, int run, int clue, bool last) {
  const th__evidence *e = &c->evidence[run];
  const th__grid *x = &e->clues[clue].grid;
  ptrdiff_t count = c->count[run], rows = count > 0 ? th__grid_count(x) / count : 0;
  int extra = x->ndim - e->want.ndim;
  if (extra <= 0 || rows < 2) return false;
  for (int axis = 0; axis < e->want.ndim; axis++)
    if (x->shape[axis + extra] != e->want.shape[axis]) return false;
  sum_axes(x, (1u << extra) - 1, c->guess);
  if (!th__case_fits(c, run, c->guess)) return false;
  const double *slice = x->data + (last ? (rows - 1) * count : 0);
  for (ptrdiff_t i = 0; i < count; i++)
    if (!(fabs(e->got.data[i] - slice[i]) <= c->limit[run])) return false;
  return true;
}

bool th__try_slice(th__case *c) {
  for (int clue = 0; clue < c->evidence[0].clue_count; clue++)
    for (int last = 0; last < 2; last++) {
      bool fits = c->evidence[0].clues[clue].kind == TH__CLUE_GRADIENT;
      for (int run = 0; run < c->runs && fits; run++) fits = slice_fits(c, run, clue, last != 0);
      if (fits)
        return th__case_found(c, TH__BUG_NOT_SUMMED, TH__NO_NUMBER,
                              "is the %s row of %s instead of the sum over its rows",
                              last ? "last" : "first", c->evidence[0].clues[clue].name);
    }
  return false;
}
