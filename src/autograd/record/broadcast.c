#include "autograd/record/broadcast.h"

#include <string.h>

/* ---- axes ---- */

/* One axis of a loop over several tensors: its length and each tensor's stride, 0 where stretched. */
#define TENSORS 3
typedef struct axis {
  ptrdiff_t n, stride[TENSORS];
} axis;

static bool one_run(const axis *outer, const axis *inner) {
  for (int t = 0; t < TENSORS; t++)
    if (outer->stride[t] != inner->stride[t] * inner->n) return false;
  return true;
}

/* The loop over `shape` for tensors aligned with it at the last axis (NULL: none), outermost first.
 * Axes of length 1 are left out, neighbours that all tensors walk as one are joined. At least one. */
static int loop_axes(int ndim, const ptrdiff_t *shape, const th_tensor *const *tensors,
                     axis axes[TH_MAX_DIMS]) {
  axis reversed[TH_MAX_DIMS];
  int count = 0;
  for (int i = 1; i <= ndim; i++) {
    axis next = {.n = shape[ndim - i]};
    if (next.n == 1) continue;
    for (int t = 0; t < TENSORS; t++) {
      const th_tensor *x = tensors[t];
      if (x != NULL && i <= x->ndim && th__dim(x, -i) != 1) next.stride[t] = th__stride(x, -i);
    }
    if (count > 0 && one_run(&next, &reversed[count - 1]))
      reversed[count - 1].n *= next.n;
    else
      reversed[count++] = next;
  }
  if (count == 0) reversed[count++] = (axis){.n = 1};
  for (int i = 0; i < count; i++) axes[i] = reversed[count - 1 - i];
  return count;
}

/* Adds to each offset what position `at` of the loop is away from its start; returns how many
 * positions follow along the last axis, this one included. */
static ptrdiff_t locate(int count, const axis *axes, ptrdiff_t at, ptrdiff_t offset[TENSORS]) {
  ptrdiff_t left = 0;
  for (int i = count - 1; i >= 0; i--) {
    ptrdiff_t index = i > 0 ? at % axes[i].n : at;
    if (i == count - 1) left = axes[i].n - index;
    for (int t = 0; t < TENSORS; t++) offset[t] += index * axes[i].stride[t];
    at /= axes[i].n;
  }
  return left;
}

static ptrdiff_t positions(int count, const axis *axes) {
  ptrdiff_t product = 1;
  for (int i = 0; i < count; i++) product *= axes[i].n;
  return product;
}

static ptrdiff_t least(ptrdiff_t a, ptrdiff_t b) { return a < b ? a : b; }

/* ---- forward ---- */

typedef struct pair {
  th__pair_kernel kernel;
  const th_tensor *a, *b, *y;
  int axis_count;
  axis axes[TH_MAX_DIMS];
} pair;

static void forward_elements(const void *context, ptrdiff_t begin, ptrdiff_t end) {
  const pair *p = context;
  const axis *last = &p->axes[p->axis_count - 1];
  while (begin < end) {
    ptrdiff_t offset[TENSORS] = {0};
    ptrdiff_t run = least(locate(p->axis_count, p->axes, begin, offset), end - begin);
    const void *a = th__at(p->a, offset[0]), *b = th__at(p->b, offset[1]);
    if (p->y->dtype == TH_F32)
      p->kernel.f32(run, a, last->stride[0], b, last->stride[1], th__at(p->y, begin));
    else
      p->kernel.f64(run, a, last->stride[0], b, last->stride[1], th__at(p->y, begin));
    begin += run;
  }
}

static bool stretched_shape(th_tape *tape, const char *op, const th_tensor *a, const th_tensor *b,
                            int *ndim, ptrdiff_t shape[TH_MAX_DIMS]) {
  *ndim = a->ndim > b->ndim ? a->ndim : b->ndim;
  for (int i = 1; i <= *ndim; i++) {
    ptrdiff_t na = i <= a->ndim ? th__dim(a, -i) : 1, nb = i <= b->ndim ? th__dim(b, -i) : 1;
    if (na != nb && na != 1 && nb != 1) {
      th_fail(tape, TH_ERR_SHAPE, op,
              "a is %s and b is %s; aligned at the last axis, lengths must be equal or 1",
              TH__TEXT(a), TH__TEXT(b));
      return false;
    }
    shape[*ndim - i] = na == 1 ? nb : na;
  }
  return true;
}

th_tensor *th__pair(th_tape *tape, const th_op *op, th__pair_kernel kernel, th_tensor *a,
                    th_tensor *b) {
  th_tensor *inputs[] = {a, b};
  if (!th__ready(tape, op->name, 2, inputs) || !th__same_dtype(tape, op->name, 2, inputs))
    return NULL;
  pair p = {.kernel = kernel, .a = a, .b = b};
  int ndim = a->ndim;
  ptrdiff_t shape[TH_MAX_DIMS];
  bool alike = th__same_shape(a, b);
  if (!alike && !stretched_shape(tape, op->name, a, b, &ndim, shape)) return NULL;
  th_tensor *y = th_output(tape, a->dtype, ndim, alike ? a->shape : shape);
  if (y == NULL) return NULL;
  p.y = y;
  if (alike && th_tensor_is_contiguous(a) && th_tensor_is_contiguous(b)) {
    p.axis_count = 1;
    p.axes[0] = (axis){.n = y->count, .stride = {1, 1}};
  } else
    p.axis_count = loop_axes(ndim, y->shape, (const th_tensor *[TENSORS]){a, b}, p.axes);
  th__parallel(y->count, th__grain(1), forward_elements, &p);
  return th_record(tape, op, y, inputs, 2, NULL, 0);
}

/* ---- backward ---- */

enum { DX, DY, OTHER }; /* places in data and stride */

/* The loop over dy, taken apart into axes that dx has and axes that are summed. */
typedef struct fold {
  th_dtype dtype;
  double sign;
  char *data[TENSORS]; /* of dx, dy and other (NULL: none) */
  int kept_count, summed_count;
  axis kept[TH_MAX_DIMS], summed[TH_MAX_DIMS];
  char *parts; /* for the sum to one element: one number per piece */
  ptrdiff_t grain;
} fold;

static void *element(const fold *f, int tensor, ptrdiff_t offset) {
  if (f->data[tensor] == NULL) return NULL;
  return f->data[tensor] + offset * (ptrdiff_t)th_dtype_size(f->dtype);
}

/* Elements begin .. end-1 of dx: for a run of them along the last kept axis, the kernel sums over the
 * last summed axis, and the loop here over the others. */
static void fold_elements(const void *context, ptrdiff_t begin, ptrdiff_t end) {
  const fold *f = context;
  const axis *along = &f->kept[f->kept_count - 1], *over = &f->summed[f->summed_count - 1];
  ptrdiff_t rounds = positions(f->summed_count - 1, f->summed);
  while (begin < end) {
    ptrdiff_t start[TENSORS] = {0};
    ptrdiff_t run = least(locate(f->kept_count, f->kept, begin, start), end - begin);
    for (ptrdiff_t round = 0; round < rounds; round++) {
      ptrdiff_t at[TENSORS] = {start[DX], start[DY], start[OTHER]};
      locate(f->summed_count - 1, f->summed, round, at);
      TH__CALL(f->dtype, sum_fwd, over->n, run, f->sign, element(f, DY, at[DY]), over->stride[DY],
               along->stride[DY], element(f, OTHER, at[OTHER]), over->stride[OTHER],
               along->stride[OTHER], element(f, DX, at[DX]), along->stride[DX]);
    }
    begin += run;
  }
}

/* Positions begin .. end-1 of the sum to one element, into this piece's part. */
static void fold_part(const void *context, ptrdiff_t begin, ptrdiff_t end) {
  const fold *f = context;
  const axis *over = &f->summed[f->summed_count - 1];
  char *part = f->parts + begin / f->grain * (ptrdiff_t)th_dtype_size(f->dtype);
  memset(part, 0, th_dtype_size(f->dtype));
  while (begin < end) {
    ptrdiff_t at[TENSORS] = {0};
    ptrdiff_t run = least(locate(f->summed_count, f->summed, begin, at), end - begin);
    TH__CALL(f->dtype, sum_fwd, run, 1, f->sign, element(f, DY, at[DY]), over->stride[DY], 0,
             element(f, OTHER, at[OTHER]), over->stride[OTHER], 0, (void *)part, 1);
    begin += run;
  }
}

static th_status fold_to_one(th_node *node, fold *f, ptrdiff_t count) {
  f->grain = th__grain(1);
  ptrdiff_t pieces = (count - 1) / f->grain + 1;
  f->parts = th_node_workspace(node, (size_t)pieces * th_dtype_size(f->dtype));
  if (f->parts == NULL) return TH_ERR_MEMORY;
  th__parallel(count, f->grain, fold_part, f);
  TH__CALL(f->dtype, sum_fwd, pieces, 1, 1.0, (void *)f->parts, 1, 0, NULL, 0, 0,
           (void *)f->data[DX], 1);
  return TH_OK;
}

static th_status fold_stretched(th_node *node, fold *f, const th_tensor *dy,
                                const th_tensor *const *tensors) {
  axis axes[TH_MAX_DIMS];
  int count = loop_axes(dy->ndim, dy->shape, tensors, axes);
  for (int i = 0; i < count; i++)
    if (axes[i].stride[DX] != 0)
      f->kept[f->kept_count++] = axes[i];
    else
      f->summed[f->summed_count++] = axes[i];
  if (f->kept_count == 0) return fold_to_one(node, f, dy->count);
  if (f->summed_count == 0) f->summed[f->summed_count++] = (axis){.n = 1};
  /* Side by side, fewer than 64 columns per piece would share cache lines between threads. */
  ptrdiff_t grain = th__grain(positions(f->summed_count, f->summed));
  if (f->kept[f->kept_count - 1].stride[DY] == 1 && grain < 64) grain = 64;
  th__parallel(positions(f->kept_count, f->kept), grain, fold_elements, f);
  return TH_OK;
}

static bool dense_like(const th_tensor *x, const th_tensor *y) {
  return th__same_shape(x, y) && th_tensor_is_contiguous(x);
}

static void dense_elements(const void *context, ptrdiff_t begin, ptrdiff_t end) {
  const fold *f = context;
  void *dx = element(f, DX, begin), *dy = element(f, DY, begin), *other = element(f, OTHER, begin);
  if (other != NULL)
    TH__CALL(f->dtype, mul_bwd, end - begin, dy, other, dx);
  else
    TH__CALL(f->dtype, add_bwd, end - begin, f->sign, dy, 1, dx);
}

th_status th__operand_backward(th_node *node, int i, double sign, const th_tensor *other) {
  const th_tensor *dx = th_node_grad(node, i), *dy = th_node_upstream(node);
  if (dx == NULL || dy->count == 0) return TH_OK;
  fold f = {.dtype = dy->dtype, .sign = sign, .data = {dx->data, dy->data}};
  if (other != NULL) f.data[OTHER] = other->data;
  if (dense_like(dx, dy) && (other == NULL || (sign == 1.0 && dense_like(other, dy)))) {
    th__parallel(dy->count, th__grain(1), dense_elements, &f);
    return TH_OK;
  }
  return fold_stretched(node, &f, dy, (const th_tensor *[TENSORS]){dx, dy, other});
}
