/* structure.c: mistakes that show in the Jacobian, and not in one gradient.
 *
 * E = claimed - true Jacobian, rows over the input's entries, columns over the output's. A sum that
 * drops some of its terms leaves columns of zeros; a mask that is not the forward's changes which
 * blocks are zero; a row sum that is missing (softmax's sum(y * dy)) leaves an error that depends on
 * the upstream gradient only through that sum: E is y, row by row, times something. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "autograd/gradcheck/evidence.h"

__attribute__((format(printf, 3, 4))) static bool found_it(th__diagnosis *found, th__bug kind,
                                                           const char *format, ...) {
  va_list args;
  va_start(args, format);
  *found = (th__diagnosis){.kind = kind, .factor = (double)NAN};
  vsnprintf(found->text, sizeof found->text, format, args);
  va_end(args);
  return true;
}

static bool same(const th__jacobian *j, double a, double b) { return fabs(a - b) <= j->limit; }

static ptrdiff_t last_axis(int ndim, const ptrdiff_t *shape) {
  return ndim > 0 ? shape[ndim - 1] : 1;
}

/* ---- J instead of its transpose ---- */

static bool orthogonal(const th__jacobian *j) {
  ptrdiff_t n = j->inputs;
  double first = 0;
  for (ptrdiff_t a = 0; a < n; a++)
    for (ptrdiff_t b = 0; b <= a; b++) {
      double dot = 0;
      for (ptrdiff_t k = 0; k < n; k++) dot += j->want[a * n + k] * j->want[b * n + k];
      if (a == 0) first = dot;
      if (fabs(dot - (a == b ? first : 0)) > 1e-6 * fabs(first)) return false;
    }
  return first > 0;
}

static bool try_transposed(const th__jacobian *j, th__diagnosis *found) {
  ptrdiff_t n = j->inputs;
  if (n != j->outputs) return false;
  for (ptrdiff_t i = 0; i < n; i++)
    for (ptrdiff_t k = 0; k < n; k++)
      if (!same(j, j->got[i * n + k], j->want[k * n + i])) return false;
  if (orthogonal(j))
    return found_it(found, TH__BUG_ROTATED,
                    "turns the wrong way: the backward of a rotation by +angle is one by -angle");
  return found_it(found, TH__BUG_TRANSPOSE,
                  "multiplies dy by the matrix that made y, not by its transpose");
}

/* ---- terms of a sum that are missing ---- */

typedef enum term { NO_TERM, KEPT, DROPPED, OTHER } term;

static term term_at(const th__jacobian *j, ptrdiff_t i, ptrdiff_t k) {
  double want = j->want[i * j->outputs + k], got = j->got[i * j->outputs + k];
  if (same(j, want, 0)) return same(j, got, 0) ? NO_TERM : OTHER;
  if (same(j, got, want)) return KEPT;
  return same(j, got, 0) ? DROPPED : OTHER;
}

/* Every entry of the Jacobian is right or 0, and some are right. */
static bool only_drops(const th__jacobian *j) {
  bool drops = false, keeps = false;
  for (ptrdiff_t i = 0; i < j->inputs; i++)
    for (ptrdiff_t k = 0; k < j->outputs; k++) {
      term t = term_at(j, i, k);
      if (t == OTHER) return false;
      drops = drops || t == DROPPED;
      keeps = keeps || t == KEPT;
    }
  return drops && keeps;
}

/* Each entry keeps the terms of one output row, and loses those of others; *only is the row kept if it
 * is the same for all, or -1. */
static bool one_row_each(const th__jacobian *j, ptrdiff_t *only) {
  ptrdiff_t n = last_axis(j->output_ndim, j->output_shape);
  *only = -2;
  for (ptrdiff_t i = 0; i < j->inputs; i++) {
    ptrdiff_t row = -1;
    for (ptrdiff_t k = 0; k < j->outputs; k++) {
      if (term_at(j, i, k) != KEPT) continue;
      if (row >= 0 && row != k / n) return false;
      row = k / n;
    }
    for (ptrdiff_t k = 0; k < j->outputs; k++)
      if (term_at(j, i, k) == DROPPED && k / n == row) return false;
    if (row >= 0) *only = *only == -2 || *only == row ? row : -1;
  }
  return *only >= -1;
}

/* Whether a term is dropped depends on the index along one axis of the output. dropped[]: per index. */
static bool drops_along(const th__jacobian *j, int axis, bool *dropped, ptrdiff_t room) {
  ptrdiff_t length = j->output_shape[axis], inner = 1;
  for (int a = axis + 1; a < j->output_ndim; a++) inner *= j->output_shape[a];
  if (length > room) return false;
  for (ptrdiff_t t = 0; t < length; t++) {
    int kept = 0, lost = 0;
    for (ptrdiff_t i = 0; i < j->inputs; i++)
      for (ptrdiff_t k = 0; k < j->outputs; k++) {
        if (k / inner % length != t) continue;
        term state = term_at(j, i, k);
        kept += state == KEPT;
        lost += state == DROPPED;
      }
    if (kept > 0 && lost > 0) return false;
    dropped[t] = lost > 0;
  }
  return true;
}

static bool describe_drops(const th__jacobian *j, int axis, const bool *dropped,
                           th__diagnosis *found) {
  ptrdiff_t length = j->output_shape[axis], lost = 0, last_lost = 0, last_kept = 0;
  for (ptrdiff_t t = 0; t < length; t++) {
    if (dropped[t]) lost++, last_lost = t;
    if (!dropped[t]) last_kept = t;
  }
  if (lost == 1 && length > 2)
    return found_it(found, TH__BUG_MISSING_TERM,
                    "misses what index %td of axis %d of the output contributes", last_lost, axis);
  if (lost == length - 1)
    return found_it(found, TH__BUG_NOT_SUMMED,
                    "holds what index %td of axis %d of the output contributes, not the sum over it",
                    last_kept, axis);
  return found_it(found, TH__BUG_NOT_SUMMED,
                  "misses what %td of the %td indices of axis %d of the output contribute", lost,
                  length, axis);
}

static bool try_drops(const th__jacobian *j, th__diagnosis *found) {
  enum { ROOM = 256 };
  bool dropped[ROOM];
  ptrdiff_t only;
  if (!only_drops(j)) return false;
  if (one_row_each(j, &only))
    return only >= 0
               ? found_it(found, TH__BUG_NOT_SUMMED,
                          "holds what row %td of dy contributes, not the sum over all rows", only)
               : found_it(found, TH__BUG_OVERWRITTEN,
                          "each entry holds what one of its uses contributes: overwritten, not "
                          "added to");
  for (int axis = 0; axis < j->output_ndim; axis++)
    if (drops_along(j, axis, dropped, ROOM)) return describe_drops(j, axis, dropped, found);
  return false;
}

/* ---- masks: which rows of the input reach which rows of the output ---- */

typedef struct support {
  ptrdiff_t groups, n_in;  /* rows of the input: leading axes, second-last axis */
  ptrdiff_t blocks, n_out; /* rows of the output alike */
  ptrdiff_t width_in, width_out;
  const th__jacobian *j;
} support;

static bool reaches(const support *s, const double *jacobian, ptrdiff_t in, ptrdiff_t out) {
  for (ptrdiff_t a = in * s->width_in; a < (in + 1) * s->width_in; a++)
    for (ptrdiff_t b = out * s->width_out; b < (out + 1) * s->width_out; b++)
      if (fabs(jacobian[a * s->j->outputs + b]) > s->j->limit) return true;
  return false;
}

typedef struct pattern {
  bool differs, any_missing, full; /* full: claimed everywhere in a block that is not empty */
  bool shifted[4];                 /* by one column to the right, left, by one row down, up */
} pattern;

/* One block: which of its n_out x n_in pairs are there. */
static void read_block(const support *s, ptrdiff_t group, ptrdiff_t block, pattern *p) {
  static const int down[] = {0, 0, 1, -1}, right[] = {1, -1, 0, 0};
  bool any = false;
  for (ptrdiff_t o = 0; o < s->n_out; o++)
    for (ptrdiff_t i = 0; i < s->n_in; i++)
      any = any || reaches(s, s->j->want, group * s->n_in + i, block * s->n_out + o);
  for (ptrdiff_t o = 0; o < s->n_out; o++)
    for (ptrdiff_t i = 0; i < s->n_in; i++) {
      ptrdiff_t in = group * s->n_in + i, out = block * s->n_out + o;
      bool want = reaches(s, s->j->want, in, out), got = reaches(s, s->j->got, in, out);
      p->differs = p->differs || want != got;
      p->any_missing = p->any_missing || (want && !got);
      if (any && !got) p->full = false;
      for (int m = 0; m < 4; m++) {
        ptrdiff_t from_o = o - down[m], from_i = i - right[m];
        bool inside = from_o >= 0 && from_o < s->n_out && from_i >= 0 && from_i < s->n_in;
        if (inside &&
            got != reaches(s, s->j->want, group * s->n_in + from_i, block * s->n_out + from_o))
          p->shifted[m] = false;
      }
    }
}

static bool try_mask(const th__jacobian *j, th__diagnosis *found) {
  static const char *const ways[] = {"one column too far", "one column short", "one row short",
                                     "one row too far"};
  const th_tensor *x = j->x;
  if (x->ndim < 2 || j->output_ndim < 2) return false;
  support s = {.n_in = th__dim(x, -2), .width_in = th__dim(x, -1), .j = j};
  s.n_out = j->output_shape[j->output_ndim - 2];
  s.width_out = j->output_shape[j->output_ndim - 1];
  if (s.n_in < 2 || s.n_out < 2) return false;
  s.groups = x->count / s.n_in / s.width_in;
  s.blocks = j->outputs / s.n_out / s.width_out;
  pattern p = {false, false, true, {true, true, true, true}};
  for (ptrdiff_t group = 0; group < s.groups; group++)
    for (ptrdiff_t block = 0; block < s.blocks; block++) read_block(&s, group, block, &p);
  if (!p.differs) return false;
  for (int m = 0; m < 4; m++)
    if (p.shifted[m])
      return found_it(found, TH__BUG_MASK_SHIFTED, "the mask of the backward reaches %s", ways[m]);
  if (p.full && !p.any_missing)
    return found_it(
        found, TH__BUG_MASK_NOT_APPLIED,
        "reaches entries that the forward masks: the mask is not applied in the backward");
  return false;
}

/* ---- a row sum ---- */

/* Within each row of the output E is proportional to `along` (NULL: constant); all of E. */
static bool error_along(const th__jacobian *j, const double *along) {
  ptrdiff_t n = last_axis(j->output_ndim, j->output_shape);
  if (n < 2) return false;
  for (ptrdiff_t i = 0; i < j->inputs; i++)
    for (ptrdiff_t row = 0; row < j->outputs; row += n) {
      const double *got = j->got + i * j->outputs + row, *want = j->want + i * j->outputs + row;
      ptrdiff_t top = 0;
      for (ptrdiff_t k = 1; k < n && along != NULL; k++)
        if (fabs(along[row + k]) > fabs(along[row + top])) top = k;
      if (along != NULL && along[row + top] == 0) return false;
      double slope = got[top] - want[top];
      for (ptrdiff_t k = 0; k < n; k++) {
        double share = along == NULL ? 1 : along[row + k] / along[row + top];
        if (!(fabs(got[k] - want[k] - slope * share) <= 3 * j->limit)) return false;
      }
    }
  return true;
}

/* E is the same for all entries of a row of the input. */
static bool error_constant_in_rows(const th__jacobian *j) {
  ptrdiff_t n = last_axis(j->x->ndim, j->x->shape);
  for (ptrdiff_t i = 0; i < j->inputs; i++)
    for (ptrdiff_t k = 0; k < j->outputs; k++) {
      ptrdiff_t here = i * j->outputs + k, first = (i - i % n) * j->outputs + k;
      if (!same(j, j->got[here] - j->want[here], j->got[first] - j->want[first])) return false;
    }
  return n > 1;
}

/* Each block (row of the input, row of the output) of E is a column times a row; the column is a
 * multiple of x, or of x - mean(x), as in a norm's second term. */
static bool block_along(const th__jacobian *j, ptrdiff_t in, ptrdiff_t out, const double *column) {
  ptrdiff_t n = last_axis(j->x->ndim, j->x->shape), m = last_axis(j->output_ndim, j->output_shape);
  ptrdiff_t top = 0;
  for (ptrdiff_t i = 1; i < n; i++)
    if (fabs(column[i]) > fabs(column[top])) top = i;
  if (column[top] == 0) return false;
  for (ptrdiff_t k = out; k < out + m; k++) {
    double slope = (j->got[(in + top) * j->outputs + k] - j->want[(in + top) * j->outputs + k]);
    for (ptrdiff_t i = 0; i < n; i++) {
      double error = j->got[(in + i) * j->outputs + k] - j->want[(in + i) * j->outputs + k];
      if (!(fabs(error - slope * column[i] / column[top]) <= 3 * j->limit)) return false;
    }
  }
  return true;
}

static bool error_along_input(const th__jacobian *j, bool centred) {
  enum { ROOM = 256 };
  double column[ROOM];
  ptrdiff_t n = last_axis(j->x->ndim, j->x->shape), m = last_axis(j->output_ndim, j->output_shape);
  if (n < 3 || n > ROOM || m < 2) return false;
  for (ptrdiff_t in = 0; in < j->inputs; in += n) {
    const double *x = (const double *)j->x->data + in;
    double mean = 0;
    for (ptrdiff_t i = 0; i < n && centred; i++) mean += x[i] / (double)n;
    for (ptrdiff_t i = 0; i < n; i++) column[i] = x[i] - mean;
    for (ptrdiff_t out = 0; out < j->outputs; out += m)
      if (!block_along(j, in, out, column)) return false;
  }
  return true;
}

static bool try_row_sum(const th__jacobian *j, th__diagnosis *found) {
  if (error_constant_in_rows(j))
    return found_it(
        found, TH__BUG_MISSING_MEAN,
        "is off by the same amount all along a row: the mean over the last axis is missing");
  if (error_along_input(j, true))
    return found_it(found, TH__BUG_MISSING_MEAN,
                    "is off by x - mean(x) times a number per row: a norm's term xhat * mean(dxhat * "
                    "xhat) is missing");
  if (error_along_input(j, false))
    return found_it(found, TH__BUG_MISSING_MEAN,
                    "is off by x times a number per row: a norm's term x * mean(dy * x) is missing");
  if (error_along(j, j->y))
    return found_it(found, TH__BUG_MISSING_ROW_SUM,
                    "is off by something times sum(y * dy, axis=-1): that row sum is missing");
  if (error_along(j, NULL))
    return found_it(found, TH__BUG_MISSING_ROW_SUM,
                    "is off by something times sum(dy, axis=-1): that row sum is missing");
  return false;
}

bool th__jacobian_diagonal(const th__jacobian *j) {
  if (j->inputs != j->outputs) return false;
  for (ptrdiff_t i = 0; i < j->inputs; i++)
    for (ptrdiff_t k = 0; k < j->outputs; k++)
      if (i != k &&
          !(same(j, j->want[i * j->outputs + k], 0) && same(j, j->got[i * j->outputs + k], 0)))
        return false;
  return true;
}

bool th__diagnose_jacobian(const th__jacobian *j, th__diagnosis *found) {
  return try_transposed(j, found) || try_drops(j, found) || try_mask(j, found) ||
         try_row_sum(j, found);
}
