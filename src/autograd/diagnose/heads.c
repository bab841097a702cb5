/* heads.c: right numbers in another order: blocks of an axis permuted, or the memory of [rows, heads,
 * width] read as [heads, rows, width]. */
#include <stdio.h>

#include "autograd/diagnose/case.h"

enum { MAX_BLOCKS = 64 };

/* An array seen as [outer, length, inner] around one axis. */
typedef struct view {
  ptrdiff_t outer, length, inner;
} view;

static view view_of(const th__grid *x, int axis) {
  view v = {1, x->shape[axis], 1};
  for (int i = 0; i < axis; i++) v.outer *= x->shape[i];
  for (int i = axis + 1; i < x->ndim; i++) v.inner *= x->shape[i];
  return v;
}

static bool block_equal(const th__case *c, int run, view v, ptrdiff_t width, ptrdiff_t want_at,
                        ptrdiff_t got_at) {
  const double *want = c->evidence[run].want.data, *got = c->evidence[run].got.data;
  ptrdiff_t span = width * v.inner;
  for (ptrdiff_t o = 0; o < v.outer; o++) {
    const double *w = want + o * v.length * v.inner + want_at * span;
    const double *g = got + o * v.length * v.inner + got_at * span;
    for (ptrdiff_t i = 0; i < span; i++)
      if (!(fabs(w[i] - g[i]) <= c->limit[run])) return false;
  }
  return true;
}

/* order[k] = the block of got that is block k of want; false unless all are found once each and not
 * all in place. */
static bool block_order(const th__case *c, int run, int axis, ptrdiff_t blocks, int *order) {
  view v = view_of(&c->evidence[run].want, axis);
  if (v.length % blocks != 0) return false;
  bool used[MAX_BLOCKS] = {false}, moved = false;
  for (int k = 0; k < blocks; k++) {
    order[k] = -1;
    for (int j = 0; j < blocks && order[k] < 0; j++)
      if (!used[j] && block_equal(c, run, v, v.length / blocks, k, j)) order[k] = j;
    if (order[k] < 0) return false;
    used[order[k]] = true;
    moved = moved || order[k] != k;
  }
  return moved;
}

/* Other runs may have another number of blocks. */
static bool any_block_order(const th__case *c, int run, int axis) {
  int order[MAX_BLOCKS];
  ptrdiff_t length = c->evidence[run].want.shape[axis];
  for (ptrdiff_t blocks = 2; blocks <= length && blocks <= MAX_BLOCKS; blocks++)
    if (length % blocks == 0 && block_order(c, run, axis, blocks, order)) return true;
  return false;
}

static bool try_blocks(th__case *c, int axis, ptrdiff_t blocks) {
  int order[MAX_BLOCKS];
  if (!block_order(c, 0, axis, blocks, order)) return false;
  for (int run = 1; run < c->runs; run++)
    if (!any_block_order(c, run, axis)) return false;
  char list[96] = "";
  int used = 0;
  for (int k = 0; k < blocks && used < 80; k++)
    used += snprintf(list + used, sizeof list - (size_t)used, "%s%d", k > 0 ? " " : "", order[k]);
  return th__case_found(c, TH__BUG_HEADS_PERMUTED, TH__NO_NUMBER,
                        "has the right numbers with the %td blocks of axis %d (heads?) in the order "
                        "%s",
                        blocks, axis, list);
}

/* ---- memory read in another order ---- */

/* out[b][a][i] = x[a][b][i]: what is written as [a, b, inner] and read as [b, a, inner]. */
static void swap_outer(const double *x, ptrdiff_t a, ptrdiff_t b, ptrdiff_t inner, double *out) {
  for (ptrdiff_t i = 0; i < a; i++)
    for (ptrdiff_t j = 0; j < b; j++)
      for (ptrdiff_t k = 0; k < inner; k++)
        out[(j * a + i) * inner + k] = x[(i * b + j) * inner + k];
}

/* Is want, taken as [outer, first, second, inner], got with first and second exchanged in memory? */
static bool reread_fits(const th__case *c, int run, ptrdiff_t outer, ptrdiff_t first,
                        ptrdiff_t second) {
  ptrdiff_t block = c->count[run] / outer, inner = block / (first * second);
  const double *got = c->evidence[run].got.data;
  for (ptrdiff_t o = 0; o < outer; o++)
    swap_outer(got + o * block, first, second, inner, c->guess + o * block);
  return th__case_fits(c, run, c->guess);
}

/* The last axes of want, by form: [rows, heads * width] mixed up with [heads, rows, width]; the width's
 * own parts, heads * width against width * heads; [heads, rows, width] of which the memory is that of
 * [rows, heads, width]. Each also the other way round. */
typedef enum form { ROWS, ROWS_BACK, PARTS, PARTS_BACK, AXES, FORMS } form;

static bool reread(const th__case *c, int run, ptrdiff_t heads, form how) {
  const th__grid *want = &c->evidence[run].want;
  int least = how == AXES ? 3 : how <= ROWS_BACK ? 2 : 1;
  if (want->ndim < least) return false;
  const ptrdiff_t *end = want->shape + want->ndim;
  ptrdiff_t width = end[-1];
  if (how == AXES)
    return end[-2] > 1 && end[-3] > 1 &&
           reread_fits(c, run, c->count[run] / (end[-3] * end[-2] * width), end[-2], end[-3]);
  if (heads >= width || width % heads != 0) return false;
  ptrdiff_t other = how <= ROWS_BACK ? end[-2] : width / heads;
  ptrdiff_t outer = c->count[run] / (how <= ROWS_BACK ? width * other : width);
  bool back = how == ROWS_BACK || how == PARTS_BACK;
  return back ? reread_fits(c, run, outer, heads, other) : reread_fits(c, run, outer, other, heads);
}

/* The number of heads that fits (1 if that does not matter), or 0. */
static ptrdiff_t reread_by(const th__case *c, int run, form how) {
  const th__grid *want = &c->evidence[run].want;
  ptrdiff_t width = want->ndim > 0 ? want->shape[want->ndim - 1] : 0;
  if (how == AXES) return reread(c, run, 0, how) ? 1 : 0;
  for (ptrdiff_t heads = 2; heads < width && heads <= MAX_BLOCKS; heads++)
    if (reread(c, run, heads, how)) return heads;
  return 0;
}

static bool try_reread(th__case *c, form how) {
  ptrdiff_t heads = reread_by(c, 0, how);
  if (heads == 0) return false;
  for (int run = 1; run < c->runs; run++)
    if (reread_by(c, run, how) == 0) return false;
  if (how == AXES)
    return th__case_found(c, TH__BUG_HEADS_PERMUTED, TH__NO_NUMBER,
                          "has the right numbers in another order: the memory of [rows, heads, "
                          "width] read as [heads, rows, width]");
  return th__case_found(c, TH__BUG_HEADS_PERMUTED, TH__NO_NUMBER,
                        how <= ROWS_BACK
                            ? "has the right numbers in another order: the memory of [rows, %td "
                              "heads, width] mixed up with [heads, rows, width]"
                            : "has the right numbers in another order: [%td heads, width] of the "
                              "last axis mixed up with [width, heads]",
                        heads);
}

bool th__try_heads(th__case *c) {
  for (int run = 0; run < c->runs; run++)
    if (c->count[run] == 0) return false;
  int ndim = c->evidence[0].want.ndim;
  for (int axis = 0; axis < ndim; axis++) {
    ptrdiff_t length = c->evidence[0].want.shape[axis];
    for (ptrdiff_t blocks = 2; blocks <= length && blocks <= MAX_BLOCKS; blocks++)
      if (length % blocks == 0 && try_blocks(c, axis, blocks)) return true;
  }
  for (form how = 0; how < FORMS; how++)
    if (try_reread(c, how)) return true;
  return false;
}
