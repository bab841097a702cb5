/* sample.c: drawing a token.
 *
 * With m the largest logit and w_i = exp((x_i - m) / T), token i is drawn with probability w_i / sum w
 * over the tokens kept. Kept are those from the top of the order "larger logit first, of equals the
 * lower index", so a set of them is named by its last member. No quotient overflows: x_i - m <= 0. */
#include <math.h>

#include "tensor/alloc.h"
#include "tensor/error.h"
#include "tensor/tensor.h"

typedef struct row {
  const th_tensor *logits;
  ptrdiff_t offset, stride, count;
  double top; /* the largest logit */
  ptrdiff_t top_index;
  double temperature;
  ptrdiff_t last; /* the last token kept, -1: all are */
} row;

static double logit(const row *r, ptrdiff_t i) {
  return th__get(r->logits, r->offset + i * r->stride);
}

static double weight(const row *r, ptrdiff_t i) {
  return exp((logit(r, i) - r->top) / r->temperature);
}

/* Whether i stands before j. */
static bool before(const row *r, ptrdiff_t i, ptrdiff_t j) {
  double x = logit(r, i), y = logit(r, j);
  return x > y || (x == y && i < j);
}

static bool kept(const row *r, ptrdiff_t i) { return r->last < 0 || !before(r, r->last, i); }

/* ---- checks ---- */

static th_status check_options(const th_sampling *o, double uniform, th_error *error) {
  if (!(isfinite(o->temperature) && o->temperature >= 0))
    return th__error(error, TH_ERR_VALUE,
                     "th_sample: temperature is %g; a finite number of 0 or more is expected",
                     o->temperature);
  if (o->top_k < 0)
    return th__error(error, TH_ERR_VALUE,
                     "th_sample: top_k is %td; 1 or more is expected, or 0: all", o->top_k);
  if (!(o->top_p >= 0 && o->top_p <= 1))
    return th__error(error, TH_ERR_VALUE, "th_sample: top_p is %g; 0 < top_p <= 1 is expected",
                     o->top_p);
  if (!(uniform >= 0 && uniform < 1))
    return th__error(error, TH_ERR_VALUE, "th_sample: uniform is %g; 0 <= uniform < 1 is expected",
                     uniform);
  return TH_OK;
}

static th_status find_row(const th_tensor *logits, row *r, th_error *error) {
  if (logits == NULL)
    return th__error(error, TH_ERR_VALUE, "th_sample: the logits are NULL; see th_tape_message()");
  if (!th__is_float(logits))
    return th__error(error, TH_ERR_DTYPE, "th_sample: the logits are %s; f32 or f64 is expected",
                     th_dtype_name(logits->dtype));
  if (logits->ndim < 1 || logits->count == 0)
    return th__error(error, TH_ERR_SHAPE,
                     "th_sample: the logits have no last row; [..., V] with V > 0 is expected");
  *r = (row){
      .logits = logits, .stride = th__stride(logits, -1), .count = th__dim(logits, -1), .last = -1};
  for (int axis = 0; axis < logits->ndim - 1; axis++)
    r->offset += (logits->shape[axis] - 1) * logits->strides[axis];
  return TH_OK;
}

static th_status find_top(row *r, th_error *error) {
  r->top = -(double)INFINITY;
  for (ptrdiff_t i = 0; i < r->count; i++) {
    double x = logit(r, i);
    if (isnan(x) || (isinf(x) && x > 0))
      return th__error(error, TH_ERR_NONFINITE,
                       "th_sample: logit %td of %td is %s; look at the model's weights", i,
                       r->count, isnan(x) ? "NaN" : "infinity");
    if (x <= r->top) continue;
    r->top = x;
    r->top_index = i;
  }
  if (isfinite(r->top)) return TH_OK;
  return th__error(error, TH_ERR_NONFINITE,
                   "th_sample: all %td logits are -infinity: there is nothing to draw", r->count);
}

/* ---- what is kept ---- */

/* A heap whose root stands before all others. */
static void sift(const row *r, ptrdiff_t *heap, ptrdiff_t size, ptrdiff_t at) {
  ptrdiff_t item = heap[at];
  for (;;) {
    ptrdiff_t child = 2 * at + 1;
    if (child >= size) break;
    if (child + 1 < size && before(r, heap[child + 1], heap[child])) child++;
    if (!before(r, heap[child], item)) break;
    heap[at] = heap[child];
    at = child;
  }
  heap[at] = item;
}

static void build(const row *r, ptrdiff_t *heap) {
  for (ptrdiff_t i = 0; i < r->count; i++) heap[i] = i;
  for (ptrdiff_t i = r->count / 2; i-- > 0;) sift(r, heap, r->count, i);
}

/* Removes the root of a heap of `size` and returns it. */
static ptrdiff_t pop(const row *r, ptrdiff_t *heap, ptrdiff_t size) {
  ptrdiff_t root = heap[0];
  heap[0] = heap[size - 1];
  sift(r, heap, size - 1, 0);
  return root;
}

static double total_weight(const row *r) {
  double total = 0;
  for (ptrdiff_t i = 0; i < r->count; i++)
    if (kept(r, i)) total += weight(r, i);
  return total;
}

/* top_p is taken of what top_k leaves. */
static th_status restrict_row(row *r, ptrdiff_t top_k, double top_p, th_error *error) {
  size_t bytes = (size_t)r->count * sizeof(ptrdiff_t);
  ptrdiff_t *heap = th__alloc(bytes), size = r->count;
  if (heap == NULL) return th__error_memory(error, "th_sample", bytes);
  if (top_k < r->count) {
    build(r, heap);
    for (ptrdiff_t i = 0; i < top_k; i++, size--) r->last = pop(r, heap, size);
  }
  if (top_p < 1) {
    double enough = top_p * total_weight(r), sum = 0;
    build(r, heap);
    for (size = r->count; size > r->count - top_k && sum < enough; size--) {
      r->last = pop(r, heap, size);
      sum += weight(r, r->last);
    }
  }
  th__free(heap);
  return TH_OK;
}

/* ---- drawing ---- */

static ptrdiff_t draw(const row *r, double uniform) {
  double threshold = uniform * total_weight(r), sum = 0;
  ptrdiff_t drawn = r->top_index;
  for (ptrdiff_t i = 0; i < r->count && sum <= threshold; i++) {
    double w = kept(r, i) ? weight(r, i) : 0;
    sum += w;
    /* The product may round up to the total: then it is the last one with a weight. */
    if (w > 0) drawn = i;
  }
  return drawn;
}

ptrdiff_t th_sample(const th_tensor *logits, const th_sampling *options, double uniform,
                    th_error *error) {
  const th_sampling o = options != NULL ? *options : (th_sampling){0};
  row r;
  if (check_options(&o, uniform, error) != TH_OK || find_row(logits, &r, error) != TH_OK ||
      find_top(&r, error) != TH_OK)
    return -1;
  if (o.temperature == 0) return r.top_index;
  r.temperature = o.temperature;
  ptrdiff_t top_k = o.top_k == 0 || o.top_k > r.count ? r.count : o.top_k;
  double top_p = o.top_p == 0 ? 1 : o.top_p;
  if ((top_k < r.count || top_p < 1) && restrict_row(&r, top_k, top_p, error) != TH_OK) return -1;
  return draw(&r, uniform);
}
