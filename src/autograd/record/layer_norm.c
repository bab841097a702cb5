/* Recording layer_norm: last axis, any leading shape; saves four numbers per row. */
#include <math.h>

#include "autograd/gemm.h"
#include "autograd/tape.h"

typedef struct rows_of {
  ptrdiff_t rows, n;
  double eps;
  const th_tensor *x, *gain, *bias, *y, *dy;
  void *stats; /* [rows, 4] of x's type */
  th_tensor *dx, *dgain, *dbias;
  ptrdiff_t row_pieces, row_grain,
      column_grain; /* backward: pieces of rows first, then of columns */
} rows_of;

static void *data_at(const th_tensor *x, ptrdiff_t offset) {
  return x == NULL ? NULL : th__at(x, offset);
}

static void *stats_at(const rows_of *r, ptrdiff_t row) {
  return (char *)r->stats + 4 * row * (ptrdiff_t)th_dtype_size(r->x->dtype);
}

static void forward_rows(const void *context, ptrdiff_t begin, ptrdiff_t end) {
  const rows_of *r = context;
  ptrdiff_t at = begin * r->n;
  TH__CALL(r->x->dtype, layer_norm_fwd, end - begin, r->n, r->eps, th__at(r->x, at),
           data_at(r->gain, 0), data_at(r->bias, 0), th__at(r->y, at), stats_at(r, begin));
}

/* ---- backward: dx by rows, dgain and dbias by columns, side by side ---- */

static void backward_rows(const rows_of *r, ptrdiff_t begin) {
  ptrdiff_t rows = r->rows - begin < r->row_grain ? r->rows - begin : r->row_grain;
  ptrdiff_t at = begin * r->n;
  TH__CALL(r->x->dtype, layer_norm_bwd, rows, r->n, th__at(r->x, at), data_at(r->gain, 0),
           stats_at(r, begin), th__at(r->dy, at), th__at(r->dx, at));
}

static void backward_columns(const rows_of *r, ptrdiff_t begin) {
  ptrdiff_t columns = r->n - begin < r->column_grain ? r->n - begin : r->column_grain;
  TH__CALL(r->x->dtype, layer_norm_dgain, r->rows, columns, r->n, th__at(r->x, begin), r->stats,
           th__at(r->dy, begin), data_at(r->dgain, begin), data_at(r->dbias, begin));
}

static void backward_pieces(const void *context, ptrdiff_t begin, ptrdiff_t end) {
  const rows_of *r = context;
  for (ptrdiff_t i = begin; i < end; i++)
    if (i < r->row_pieces)
      backward_rows(r, i * r->row_grain);
    else
      backward_columns(r, (i - r->row_pieces) * r->column_grain);
}

static ptrdiff_t pieces_of(ptrdiff_t count, ptrdiff_t grain) { return (count + grain - 1) / grain; }

#define LINE 16 /* columns: pieces do not share a cache line of dgain */

static th_status backward(th_node *node) {
  rows_of r = {.x = th_node_input(node, 0),
               .gain = th_node_input(node, 1),
               .dy = th_node_upstream(node),
               .stats = *(void **)th_node_saved(node),
               .dx = th_node_grad(node, 0),
               .dgain = th_node_grad(node, 1),
               .dbias = th_node_grad(node, 2)};
  const th_tensor *bias = th_node_input(node, 2);
  r.n = th__dim(r.x, -1);
  if (r.x->count == 0) return TH_OK;
  r.rows = r.x->count / r.n;
  r.row_grain = th__grain(6 * r.n);
  r.row_pieces = r.dx == NULL ? 0 : pieces_of(r.rows, r.row_grain);
  r.column_grain = pieces_of(th__grain(4 * r.rows), LINE) * LINE;
  bool columns = r.dgain != NULL || r.dbias != NULL;
  ptrdiff_t pieces = r.row_pieces + (columns ? pieces_of(r.n, r.column_grain) : 0);
  bool shared = th__share_grad(r.x, r.gain) || th__share_grad(r.x, bias);
  bool small = r.row_pieces <= 1 && r.n <= r.column_grain;
  th__parallel(pieces, shared || small ? pieces : 1, backward_pieces, &r);
  return TH_OK;
}

/* ---- checks ---- */

typedef struct form {
  bool gain, bias;
} form;

static th_tensor *run(th_tape *tape, th_tensor *const *in, const void *context) {
  const form *f = context;
  return th_layer_norm(tape, in[0], f->gain ? in[1] : NULL, f->bias ? in[1 + f->gain] : NULL, 1e-5);
}

static const form neither = {false, false}, gain_only = {true, false}, bias_only = {false, true},
                  both = {true, true};

/* clang-format off */
#define IN(name, ...) {name, TH_FILL_NORMAL, 0, __VA_ARGS__}
static const th_check checks[] = {
    {"", run, &both, .input_count = 3, .inputs = {IN("x", 3, {2, 3, 5}), IN("gain", 1, {5}), IN("bias", 1, {5})}},
    {"plain", run, &neither, .input_count = 1, .inputs = {IN("x", 2, {3, 5})}},
    {"gain", run, &gain_only, .input_count = 2, .inputs = {IN("x", 2, {3, 5}), IN("gain", 1, {5})}},
    {"bias", run, &bias_only, .input_count = 2, .inputs = {IN("x", 2, {3, 5}), IN("bias", 1, {5})}},
    {"large", run, &both, .large = true, .input_count = 3, .inputs = {IN("x", 3, {4, 64, 96}), IN("gain", 1, {96}), IN("bias", 1, {96})}},
    {0}};
/* clang-format on */

const th_op th__op_layer_norm = {"layer_norm", backward, checks};

/* ---- recording ---- */

static bool fits(th_tape *tape, const th_tensor *x, const th_tensor *vector, const char *name) {
  if (vector == NULL || (vector->ndim == 1 && vector->shape[0] == th__dim(x, -1))) return true;
  th_fail(tape, TH_ERR_SHAPE, "layer_norm", "the %s is %s but x is %s; a %s of [%td] is expected",
          name, TH__TEXT(vector), TH__TEXT(x), name, th__dim(x, -1));
  return false;
}

th_tensor *th_layer_norm(th_tape *tape, th_tensor *x, th_tensor *gain, th_tensor *bias, double eps) {
  if (!TH__READY(tape, "layer_norm", x, gain != NULL ? gain : x, bias != NULL ? bias : x))
    return NULL;
  th_tensor *in[] = {x, gain, bias};
  if (!th__same_dtype(tape, "layer_norm", 3, in)) return NULL;
  TH__REQUIRE(tape, x->ndim >= 1, TH_ERR_SHAPE, "layer_norm",
              "a scalar has no last axis; give at least one dimension");
  TH__REQUIRE(tape, eps > 0 && isfinite(eps), TH_ERR_VALUE, "layer_norm",
              "eps is %g; a finite number above 0 is expected, for example 1e-5", eps);
  if (!fits(tape, x, gain, "gain") || !fits(tape, x, bias, "bias")) return NULL;
  for (int i = 0; i < 3; i++)
    if (in[i] != NULL && (in[i] = th_contiguous(tape, in[i])) == NULL) return NULL;

  th_tensor *y = th_output(tape, x->dtype, x->ndim, x->shape);
  if (y == NULL) return NULL;
  rows_of r = {.n = th__dim(x, -1), .eps = eps, .x = in[0], .gain = in[1], .bias = in[2], .y = y};
  if (x->count > 0) {
    r.rows = x->count / r.n;
    r.stats = th_tape_alloc(tape, 4 * (size_t)r.rows * th_dtype_size(x->dtype));
    if (r.stats == NULL) return NULL;
    th__parallel(r.rows, th__grain(6 * r.n), forward_rows, &r);
  }
  return th_record(tape, &th__op_layer_norm, y, in, 3, &r.stats, sizeof r.stats);
}
