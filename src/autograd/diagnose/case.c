/* case.c: what the parts of the diagnosis share. */
#include "autograd/diagnose/case.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool th__case_found(th__case *c, th__bug kind, double factor, const char *format, ...) {
  c->found->kind = kind;
  c->found->factor = factor;
  va_list args;
  va_start(args, format);
  vsnprintf(c->found->text, sizeof c->found->text, format, args);
  va_end(args);
  size_t used = strlen(c->found->text);
  snprintf(c->found->text + used, sizeof c->found->text - used, "%s", c->place);
  return true;
}

bool th__grid_same_shape(const th__grid *a, const th__grid *b) {
  if (a->ndim != b->ndim) return false;
  for (int axis = 0; axis < a->ndim; axis++)
    if (a->shape[axis] != b->shape[axis]) return false;
  return true;
}

ptrdiff_t th__grid_count(const th__grid *grid) {
  ptrdiff_t count = 1;
  for (int axis = 0; axis < grid->ndim; axis++) count *= grid->shape[axis];
  return count;
}

double th__grid_largest(const th__grid *grid) {
  double largest = 0;
  ptrdiff_t count = th__grid_count(grid);
  for (ptrdiff_t i = 0; i < count; i++)
    if (fabs(grid->data[i]) > largest) largest = fabs(grid->data[i]);
  return largest;
}

/* Grid's axis 0 is the shape's axis `offset`. */
static bool stretch_at(const th__grid *grid, int offset, int ndim, const ptrdiff_t *shape,
                       double *out) {
  ptrdiff_t stride[TH_MAX_DIMS] = {0}, step = 1, count = 1;
  for (int axis = grid->ndim - 1; axis >= 0; axis--) {
    if (grid->shape[axis] != shape[axis + offset] && grid->shape[axis] != 1) return false;
    stride[axis + offset] = grid->shape[axis] == 1 ? 0 : step;
    step *= grid->shape[axis];
  }
  for (int axis = 0; axis < ndim; axis++) count *= shape[axis];
  ptrdiff_t index[TH_MAX_DIMS] = {0}, from = 0;
  for (ptrdiff_t i = 0; i < count; i++) {
    out[i] = grid->data[from];
    for (int axis = ndim - 1; axis >= 0; axis--) {
      from += stride[axis];
      if (++index[axis] < shape[axis]) break;
      from -= stride[axis] * shape[axis];
      index[axis] = 0;
    }
  }
  return true;
}

bool th__grid_stretch(const th__grid *grid, int ndim, const ptrdiff_t *shape, double *out) {
  return grid->ndim <= ndim && stretch_at(grid, ndim - grid->ndim, ndim, shape, out);
}

bool th__grid_stretch_rows(const th__grid *grid, bool by_rows, int ndim, const ptrdiff_t *shape,
                           double *out) {
  if (!by_rows) return th__grid_stretch(grid, ndim, shape, out);
  return grid->ndim <= ndim && stretch_at(grid, 0, ndim, shape, out);
}

bool th__case_fits(const th__case *c, int run, const double *guess) {
  const double *want = c->evidence[run].want.data;
  for (ptrdiff_t i = 0; i < c->count[run]; i++)
    if (!(fabs(guess[i] - want[i]) <= c->limit[run])) return false;
  return true;
}

bool th__case_same_shapes(const th__case *c) {
  for (int run = 0; run < c->runs; run++)
    if (!th__grid_same_shape(&c->evidence[run].got, &c->evidence[run].want)) return false;
  return true;
}
