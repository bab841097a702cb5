/* Recording layer_norm: last axis, any leading shape; saves four numbers per row. */
#include "autograd/gemm.h"
#include "autograd/record/norm.h"

typedef struct rows_of {
  ptrdiff_t rows, n;
  double eps;
  const th_tensor *x, *gain, *bias, *y, *dy;
  void *stats; /* [rows, 4] of x's type */
  th_tensor *dx, *dgain, *dbias;
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

static void backward_rows(const void *context, ptrdiff_t begin, ptrdiff_t end) {
  const rows_of *r = context;
  ptrdiff_t at = begin * r->n;
  TH__CALL(r->x->dtype, layer_norm_bwd, end - begin, r->n, th__at(r->x, at), data_at(r->gain, 0),
           stats_at(r, begin), th__at(r->dy, at), th__at(r->dx, at));
}

static void backward_columns(const void *context, ptrdiff_t begin, ptrdiff_t end) {
  const rows_of *r = context;
  TH__CALL(r->x->dtype, layer_norm_dgain, r->rows, end - begin, r->n, th__at(r->x, begin), r->stats,
           th__at(r->dy, begin), data_at(r->dgain, begin), data_at(r->dbias, begin));
}

static th_status backward(th_node *node) {
  rows_of r = {.x = th_node_input(node, 0),
               .gain = th_node_input(node, 1),
               .dy = th_node_upstream(node),
               .stats = *(void **)th_node_saved(node),
               .dx = th_node_grad(node, 0),
               .dgain = th_node_grad(node, 1),
               .dbias = th_node_grad(node, 2)};
  if (r.x->count == 0) return TH_OK;
  r.n = th__dim(r.x, -1);
  r.rows = r.x->count / r.n;
  bool columns = r.dgain != NULL || r.dbias != NULL;
  bool shared = th__share_grad(r.x, r.gain) || th__share_grad(r.x, th_node_input(node, 2));
  th__rows_and_columns((th__side){backward_rows, r.dx == NULL ? 0 : r.rows, 6 * r.n},
                       (th__side){backward_columns, columns ? r.n : 0, 4 * r.rows}, shared, &r);
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

th_tensor *th_layer_norm(th_tape *tape, th_tensor *x, th_tensor *gain, th_tensor *bias, double eps) {
  if (!TH__READY(tape, "layer_norm", x, gain != NULL ? gain : x, bias != NULL ? bias : x))
    return NULL;
  th_tensor *in[] = {x, gain, bias};
  if (!th__same_dtype(tape, "layer_norm", 3, in)) return NULL;
  if (!th__norm_valid(tape, "layer_norm", x, eps) ||
      !th__norm_fits(tape, "layer_norm", x, gain, "gain") ||
      !th__norm_fits(tape, "layer_norm", x, bias, "bias"))
    return NULL;
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
