/* matmul: batches of matrix products, strided operands taken as they lie.
 * Shapes    a (..., m, k)   b (..., k, n)   y (..., m, n); a or b stored transposed if its flag says so; a
 *           2-D operand serves the whole batch
 * Forward   y = op(a) op(b):  y_ij = sum_l op(a)_il op(b)_lj
 * Saves     the transpose flags; a and b are on the tape.
 * Backward  with g = dL/dy, from dy_ij/d op(a)_il = op(b)_lj and dy_ij/d op(b)_lj = op(a)_il:
 *           d op(a)_il = sum_j g_ij op(b)_lj     d op(a) = g op(b)^T
 *           d op(b)_lj = sum_i op(a)_il g_ij     d op(b) = op(a)^T g
 *           Of a stored transpose the transposed product: da = op(b) g^T, db = g^T op(a). A 2-D
 *           operand gets the sum over the batch.
 * Writes    y: overwrites.  da, db: accumulate (+=); one after the other where they share memory.
 * Edges     k = 0: y = 0.  m, n or the batch 0: nothing.
 * Checks    against the plain loop for sizes 1..33 (tests/ops/test_gemm.c), every flag and batch form
 *           against goldens.   tests/ops/test_matmul.c
 *
 * The products are gemm.c's, cut and run by autograd/gemm.c. */
#include <string.h>

#include "autograd/gemm.h"
#include "autograd/tape.h"

/* op(a) (m, k) times op(b) (k, n) as BLAS sees it: at, bt say how the operands are stored, whether
 * that comes from the caller's flag or from a view's strides. Computed anew for the backward. */
typedef struct plan {
  ptrdiff_t m, n, k, lda, ldb;
  bool at, bt;
  int axes; /* leading axes; an operand that serves all moves by 0 along each */
  ptrdiff_t length[TH_MAX_DIMS], move_a[TH_MAX_DIMS], move_b[TH_MAX_DIMS], move_y[TH_MAX_DIMS];
} plan;

static ptrdiff_t at_least_1(ptrdiff_t n) { return n > 1 ? n : 1; }

static void plan_batch(const th_tensor *a, const th_tensor *b, plan *p) {
  const th_tensor *longer = a->ndim >= b->ndim ? a : b;
  ptrdiff_t move = p->m * p->n;
  p->axes = longer->ndim - 2;
  for (int i = p->axes - 1; i >= 0; i--) {
    p->length[i] = longer->shape[i];
    p->move_a[i] = a->ndim > 2 ? a->strides[i] : 0;
    p->move_b[i] = b->ndim > 2 ? b->strides[i] : 0;
    p->move_y[i] = move;
    move *= longer->shape[i];
  }
}

/* False if an operand has to be copied first: neither of its last two axes is contiguous. */
static bool plan_of(const th_tensor *a, const th_tensor *b, int transpose, plan *p) {
  bool ta = transpose & TH_TRANSPOSE_A, tb = transpose & TH_TRANSPOSE_B;
  th__matrix ma, mb;
  if (!th__matrix_of(a, &ma) || !th__matrix_of(b, &mb)) return false;
  p->m = th__dim(a, ta ? -1 : -2);
  p->k = th__dim(a, ta ? -2 : -1);
  p->n = th__dim(b, tb ? -2 : -1);
  p->at = ta != ma.transposed;
  p->bt = tb != mb.transposed;
  p->lda = ma.ld;
  p->ldb = mb.ld;
  ptrdiff_t rows, ld;
  if (b->ndim == 2 && a->ndim > 2 && !ta && th__rows_of(a, &rows, &ld)) {
    /* One b for all: the batch is one tall matrix. */
    p->axes = 0;
    p->m = rows;
    p->lda = ld;
    p->at = false;
  } else
    plan_batch(a, b, p);
  return true;
}

static void set_batch(th__product *product, const plan *p, const ptrdiff_t *move_a,
                      const ptrdiff_t *move_b, const ptrdiff_t *move_c) {
  size_t bytes = (size_t)p->axes * sizeof *p->length;
  product->axes = p->axes;
  if (p->axes == 0) return;
  memcpy(product->length, p->length, bytes);
  memcpy(product->move_a, move_a, bytes);
  memcpy(product->move_b, move_b, bytes);
  memcpy(product->move_c, move_c, bytes);
}

/* ---- y = op(a) op(b) and its two gradients, d op(a) = dy op(b)^T and d op(b) = op(a)^T dy ---- */

static void forward(const plan *p, const th_tensor *a, const th_tensor *b, th_tensor *y) {
  th__product product = {.dtype = y->dtype, .ta = p->at, .tb = p->bt};
  product.m = p->m, product.n = p->n, product.k = p->k;
  product.a = a->data, product.lda = p->lda;
  product.b = b->data, product.ldb = p->ldb;
  product.c = y->data, product.ldc = at_least_1(p->n);
  set_batch(&product, p, p->move_a, p->move_b, p->move_y);
  th__products(&product, 1);
}

/* da, where it is stored (k, m), is op(b) dy^T. */
static void to_a(const plan *p, const th_tensor *b, const th_tensor *dy, th_tensor *da,
                 th__product *product) {
  *product = (th__product){.dtype = dy->dtype, .accumulate = true, .k = p->n};
  if (p->at) {
    product->m = p->k, product->n = p->m;
    product->a = b->data, product->lda = p->ldb, product->ta = p->bt;
    product->b = dy->data, product->ldb = at_least_1(p->n), product->tb = true;
    set_batch(product, p, p->move_b, p->move_y, p->move_a);
  } else {
    product->m = p->m, product->n = p->k;
    product->a = dy->data, product->lda = at_least_1(p->n);
    product->b = b->data, product->ldb = p->ldb, product->tb = !p->bt;
    set_batch(product, p, p->move_y, p->move_b, p->move_a);
  }
  product->c = da->data, product->ldc = p->lda;
}

/* db, where it is stored (n, k), is dy^T op(a). */
static void to_b(const plan *p, const th_tensor *a, const th_tensor *dy, th_tensor *db,
                 th__product *product) {
  *product = (th__product){.dtype = dy->dtype, .accumulate = true, .k = p->m};
  if (p->bt) {
    product->m = p->n, product->n = p->k;
    product->a = dy->data, product->lda = at_least_1(p->n), product->ta = true;
    product->b = a->data, product->ldb = p->lda, product->tb = p->at;
    set_batch(product, p, p->move_y, p->move_a, p->move_b);
  } else {
    product->m = p->k, product->n = p->n;
    product->a = a->data, product->lda = p->lda, product->ta = !p->at;
    product->b = dy->data, product->ldb = at_least_1(p->n);
    set_batch(product, p, p->move_a, p->move_y, p->move_b);
  }
  product->c = db->data, product->ldc = p->ldb;
}

static th_status backward(th_node *node) {
  const th_tensor *a = th_node_input(node, 0), *b = th_node_input(node, 1);
  const th_tensor *dy = th_node_upstream(node);
  th_tensor *da = th_node_grad(node, 0), *db = th_node_grad(node, 1);
  plan p;
  plan_of(a, b, *(const int *)th_node_saved(node), &p);
  th__product products[2];
  int count = 0;
  if (da != NULL) {
    to_a(&p, b, dy, da, &products[count]);
    products[count++].sum = a->ndim == 2 && b->ndim > 2;
  }
  if (db != NULL) {
    to_b(&p, a, dy, db, &products[count]);
    products[count++].sum = b->ndim == 2 && a->ndim > 2;
  }
  if (th__share_grad(a, b)) /* X X^T: one after the other */
    for (int i = 0; i < count; i++) th__products(&products[i], 1);
  else
    th__products(products, count);
  return TH_OK;
}

/* ---- checks ---- */

static th_tensor *run(th_tape *tape, th_tensor *const *in, const void *context) {
  return th_matmul(tape, in[0], in[1], *(const int *)context);
}

/* The views of attention: heads that lie interleaved, and a transposed operand. */
static th_tensor *run_views(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  th_tensor *a = th_split_heads(tape, in[0], 2), *b = th_split_heads(tape, in[1], 2);
  return th_matmul(tape, a, th_transpose(tape, b, 2, 3), 0);
}

static th_tensor *run_square(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  th_tensor *x = in[0];
  return th_matmul(tape, th_matmul(tape, x, x, TH_TRANSPOSE_B), th_matmul(tape, x, x, 0), 0);
}

static const int flags[] = {0, TH_TRANSPOSE_A, TH_TRANSPOSE_B, TH_TRANSPOSE_A | TH_TRANSPOSE_B};

/* clang-format off */
#define A(...) {"a", TH_FILL_NORMAL, 0, __VA_ARGS__}
#define B(...) {"b", TH_FILL_NORMAL, 0, __VA_ARGS__}
static const th_check checks[] = {
    {"", run, &flags[0], .input_count = 2, .inputs = {A(3, {2, 3, 4}), B(3, {2, 4, 5})}},
    {"transpose a", run, &flags[1], .input_count = 2, .inputs = {A(3, {2, 4, 3}), B(3, {2, 4, 5})}},
    {"transpose b", run, &flags[2], .input_count = 2, .inputs = {A(3, {2, 3, 4}), B(3, {2, 5, 4})}},
    {"transpose both", run, &flags[3], .input_count = 2, .inputs = {A(3, {2, 4, 3}), B(3, {2, 5, 4})}},
    {"one b", run, &flags[0], .input_count = 2, .inputs = {A(3, {2, 3, 4}), B(2, {4, 5})}},
    {"one b, transpose a", run, &flags[1], .input_count = 2, .inputs = {A(3, {2, 4, 3}), B(2, {4, 5})}},
    {"one a", run, &flags[2], .input_count = 2, .inputs = {A(2, {3, 4}), B(3, {2, 5, 4})}},
    {"views", run_views, .input_count = 2, .inputs = {A(3, {2, 3, 4}), B(3, {2, 5, 4})}},
    {"with itself", run_square, .input_count = 1, .inputs = {A(2, {3, 3})}},
    {"large", run, &flags[2], .large = true, .input_count = 2, .inputs = {A(4, {3, 4, 64, 32}), B(4, {3, 4, 64, 32})}},
    {0}};
/* clang-format on */

const th_op th__op_matmul = {"matmul", backward, checks};

/* ---- recording ---- */

static bool valid(th_tape *tape, const th_tensor *a, const th_tensor *b, int transpose) {
  const int all = TH_TRANSPOSE_A | TH_TRANSPOSE_B;
  if (transpose & ~all) {
    th_fail(tape, TH_ERR_VALUE, "matmul",
            "transpose is %d; 0, TH_TRANSPOSE_A, TH_TRANSPOSE_B or both are expected", transpose);
    return false;
  }
  if (a->ndim < 2 || b->ndim < 2) {
    th_fail(tape, TH_ERR_SHAPE, "matmul",
            "a is %s and b is %s; both need at least two axes (th_reshape() gives a vector one)",
            TH__TEXT(a), TH__TEXT(b));
    return false;
  }
  bool ta = transpose & TH_TRANSPOSE_A, tb = transpose & TH_TRANSPOSE_B;
  ptrdiff_t inner_a = th__dim(a, ta ? -2 : -1), inner_b = th__dim(b, tb ? -1 : -2);
  if (inner_a != inner_b) {
    th_fail(tape, TH_ERR_SHAPE, "matmul",
            "a is %s%s and b is %s%s: %td columns do not meet %td rows", TH__TEXT(a),
            ta ? " transposed" : "", TH__TEXT(b), tb ? " transposed" : "", inner_a, inner_b);
    return false;
  }
  if (a->ndim > 2 && b->ndim > 2 && !th__shape_equal(a->ndim - 2, a->shape, b->ndim - 2, b->shape)) {
    th_fail(tape, TH_ERR_SHAPE, "matmul",
            "a is %s and b is %s; the leading axes must be equal, or one operand 2-D", TH__TEXT(a),
            TH__TEXT(b));
    return false;
  }
  return true;
}

static th_tensor *output(th_tape *tape, const th_tensor *a, const th_tensor *b, int transpose) {
  const th_tensor *longer = a->ndim >= b->ndim ? a : b;
  int ndim = longer->ndim;
  ptrdiff_t shape[TH_MAX_DIMS];
  for (int i = 0; i < ndim - 2; i++) shape[i] = longer->shape[i];
  shape[ndim - 2] = th__dim(a, transpose & TH_TRANSPOSE_A ? -1 : -2);
  shape[ndim - 1] = th__dim(b, transpose & TH_TRANSPOSE_B ? -2 : -1);
  return th_output(tape, a->dtype, ndim, shape);
}

th_tensor *th_matmul(th_tape *tape, th_tensor *a, th_tensor *b, int transpose) {
  th_tensor *inputs[] = {a, b};
  if (!TH__READY(tape, "matmul", a, b) || !th__same_dtype(tape, "matmul", 2, inputs) ||
      !valid(tape, a, b, transpose))
    return NULL;
  plan p;
  if (!plan_of(a, b, transpose, &p)) {
    th__matrix unused;
    if (!th__matrix_of(a, &unused)) inputs[0] = th_contiguous(tape, a);
    if (!th__matrix_of(b, &unused)) inputs[1] = th_contiguous(tape, b);
    if (inputs[0] == NULL || inputs[1] == NULL) return NULL;
    plan_of(inputs[0], inputs[1], transpose, &p);
  }
  if (!th__blas_sizes(tape, "matmul", 5, (ptrdiff_t[]){p.m, p.n, p.k, p.lda, p.ldb})) return NULL;
  th_tensor *y = output(tape, inputs[0], inputs[1], transpose);
  if (y == NULL) return NULL;
  forward(&p, inputs[0], inputs[1], y);
  return th_record(tape, &th__op_matmul, y, inputs, 2, &transpose, sizeof transpose);
}
