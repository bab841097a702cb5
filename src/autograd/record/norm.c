#include "autograd/record/norm.h"

#include <math.h>

bool th__norm_valid(th_tape *tape, const char *op, const th_tensor *x, double eps) {
  if (x->ndim < 1)
    th_fail(tape, TH_ERR_SHAPE, op, "a scalar has no last axis; give at least one dimension");
  else if (!(eps > 0) || !isfinite(eps))
    th_fail(tape, TH_ERR_VALUE, op,
            "eps is %g; a finite number above 0 is expected, for example 1e-5", eps);
  else
    return true;
  return false;
}

bool th__norm_fits(th_tape *tape, const char *op, const th_tensor *x, const th_tensor *vector,
                   const char *name) {
  if (vector == NULL || (vector->ndim == 1 && vector->shape[0] == th__dim(x, -1))) return true;
  th_fail(tape, TH_ERR_SHAPE, op, "the %s is %s but x is %s; a %s of [%td] is expected", name,
          TH__TEXT(vector), TH__TEXT(x), name, th__dim(x, -1));
  return false;
}

/* ---- backward ---- */

typedef struct sides {
  th__side rows, columns;
  ptrdiff_t row_pieces, row_grain, column_grain; /* pieces of rows come first, then of columns */
  const void *context;
} sides;

static ptrdiff_t pieces_of(ptrdiff_t count, ptrdiff_t grain) { return (count + grain - 1) / grain; }

static void run_piece(th__side side, ptrdiff_t piece, ptrdiff_t grain, const void *context) {
  ptrdiff_t begin = piece * grain, left = side.count - begin;
  side.run(context, begin, begin + (left < grain ? left : grain));
}

static void run_pieces(const void *context, ptrdiff_t begin, ptrdiff_t end) {
  const sides *s = context;
  for (ptrdiff_t i = begin; i < end; i++)
    if (i < s->row_pieces)
      run_piece(s->rows, i, s->row_grain, s->context);
    else
      run_piece(s->columns, i - s->row_pieces, s->column_grain, s->context);
}

#define LINE 16 /* columns: pieces do not share a cache line of their gradients */

void th__rows_and_columns(th__side rows, th__side columns, bool shared, const void *context) {
  sides s = {.rows = rows, .columns = columns, .context = context};
  s.row_grain = th__grain(rows.cost);
  s.row_pieces = pieces_of(rows.count, s.row_grain);
  s.column_grain = pieces_of(th__grain(columns.cost), LINE) * LINE;
  ptrdiff_t column_pieces = pieces_of(columns.count, s.column_grain);
  ptrdiff_t pieces = s.row_pieces + column_pieces;
  bool small = s.row_pieces <= 1 && column_pieces <= 1;
  th__parallel(pieces, shared || small ? pieces : 1, run_pieces, &s);
}
