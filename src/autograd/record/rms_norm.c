/* Recording rms_norm: last axis, any leading shape; saves two numbers per row. */
#include "autograd/gemm.h"
#include "autograd/record/norm.h"

typedef struct kept {
  void *stats; /* [rows, 2] of x's type */
  double eps;
} kept;

typedef struct rows_of {
  ptrdiff_t rows, n;
  kept saved;
  const th_tensor *x, *gain, *y, *dy;
  th_tensor *dx, *dgain;
} rows_of;

static void *gain_at(const rows_of *r) { return r->gain == NULL ? NULL : th__at(r->gain, 0); }

static void *stats_at(const rows_of *r, ptrdiff_t row) {
  return (char *)r->saved.stats + 2 * row * (ptrdiff_t)th_dtype_size(r->x->dtype);
}

static void forward_rows(const void *context, ptrdiff_t begin, ptrdiff_t end) {
  const rows_of *r = context;
  ptrdiff_t at = begin * r->n;
  TH__CALL(r->x->dtype, rms_norm_fwd, end - begin, r->n, r->saved.eps, th__at(r->x, at), gain_at(r),
           th__at(r->y, at), stats_at(r, begin));
}

/* ---- backward: dx by rows, dgain by columns, side by side ---- */

static void backward_rows(const void *context, ptrdiff_t begin, ptrdiff_t end) {
  const rows_of *r = context;
  ptrdiff_t at = begin * r->n;
  TH__CALL(r->x->dtype, rms_norm_bwd, end - begin, r->n, r->saved.eps, th__at(r->x, at), gain_at(r),
           stats_at(r, begin), th__at(r->dy, at), th__at(r->dx, at));
}

static void backward_columns(const void *context, ptrdiff_t begin, ptrdiff_t end) {
  const rows_of *r = context;
  TH__CALL(r->x->dtype, rms_norm_dgain, r->rows, end - begin, r->n, th__at(r->x, begin),
           stats_at(r, 0), th__at(r->dy, begin), th__at(r->dgain, begin));
}

static th_status backward(th_node *node) {
  rows_of r = {.saved = *(kept *)th_node_saved(node),
               .x = th_node_input(node, 0),
               .gain = th_node_input(node, 1),
               .dy = th_node_upstream(node),
               .dx = th_node_grad(node, 0),
               .dgain = th_node_grad(node, 1)};
  if (r.x->count == 0) return TH_OK;
  r.n = th__dim(r.x, -1);
  r.rows = r.x->count / r.n;
  th__rows_and_columns((th__side){backward_rows, r.dx == NULL ? 0 : r.rows, 4 * r.n},
                       (th__side){backward_columns, r.dgain == NULL ? 0 : r.n, 3 * r.rows},
                       th__share_grad(r.x, r.gain), &r);
  return TH_OK;
}

/* ---- checks ---- */

static th_tensor *run(th_tape *tape, th_tensor *const *in, const void *context) {
  return th_rms_norm(tape, in[0], context != NULL ? in[1] : NULL, 1e-5);
}

static const bool with_gain = true;

/* clang-format off */
#define IN(name, ...) {name, TH_FILL_NORMAL, 0, __VA_ARGS__}
static const th_check checks[] = {
    {"", run, &with_gain, .input_count = 2, .inputs = {IN("x", 3, {2, 3, 5}), IN("gain", 1, {5})}},
    {"plain", run, NULL, .input_count = 1, .inputs = {IN("x", 2, {3, 5})}},
    {"large", run, &with_gain, .large = true, .input_count = 2, .inputs = {IN("x", 3, {4, 64, 96}), IN("gain", 1, {96})}},
    {0}};
/* clang-format on */

const th_op th__op_rms_norm = {"rms_norm", backward, checks};

/* ---- recording ---- */

th_tensor *th_rms_norm(th_tape *tape, th_tensor *x, th_tensor *gain, double eps) {
  th_tensor *in[] = {x, gain};
  if (!TH__READY(tape, "rms_norm", x, gain != NULL ? gain : x) ||
      !th__same_dtype(tape, "rms_norm", 2, in))
    return NULL;
  if (!th__norm_valid(tape, "rms_norm", x, eps) || !th__norm_fits(tape, "rms_norm", x, gain, "gain"))
    return NULL;
  for (int i = 0; i < 2; i++)
    if (in[i] != NULL && (in[i] = th_contiguous(tape, in[i])) == NULL) return NULL;

  th_tensor *y = th_output(tape, x->dtype, x->ndim, x->shape);
  if (y == NULL) return NULL;
  rows_of r = {.n = th__dim(x, -1), .saved = {NULL, eps}, .x = in[0], .gain = in[1], .y = y};
  if (x->count > 0) {
    r.rows = x->count / r.n;
    r.saved.stats = th_tape_alloc(tape, 2 * (size_t)r.rows * th_dtype_size(x->dtype));
    if (r.saved.stats == NULL) return NULL;
    th__parallel(r.rows, th__grain(4 * r.n), forward_rows, &r);
  }
  return th_record(tape, &th__op_rms_norm, y, in, 2, &r.saved, sizeof r.saved);
}
