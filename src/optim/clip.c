/* Clipping by the global norm. The sum of squares is taken in double, piece by piece, and the pieces
 * are added in order: the same bits at any number of threads. f32 cannot overflow that way; where f64
 * does (or where something is not finite) a second, slower pass finds out. */
#include <math.h>

#include "ops/kernels.h"
#include "optim/flat.h"
#include "tensor/error.h"
#include "tensor/tensor.h"

typedef struct job {
  const th_params *params;
  ptrdiff_t grain;
  double unit;        /* squares are of x / unit */
  double norm, limit; /* for rescaling */
  double *sums;       /* one per piece */
} job;

static void sum_piece(const void *context, ptrdiff_t begin, ptrdiff_t end) {
  const job *j = context;
  double total = 0;
  for (th__flat f = th__flat_first(j->params, begin, end); f.tensor != NULL; th__flat_next(&f)) {
    double sum;
    TH__CALL(f.tensor->dtype, sum_squares, f.size, j->unit, th__at(f.tensor->grad, f.from), &sum);
    total += sum;
  }
  j->sums[begin / j->grain] = total;
}

static void rescale_piece(const void *context, ptrdiff_t begin, ptrdiff_t end) {
  const job *j = context;
  for (th__flat f = th__flat_first(j->params, begin, end); f.tensor != NULL; th__flat_next(&f))
    TH__CALL(f.tensor->dtype, rescale, f.size, j->norm, j->limit, th__at(f.tensor->grad, f.from));
}

static double sum_of_squares(const th_params *params, double unit) {
  double sums[TH__FLAT_PIECES];
  ptrdiff_t elements = th_params_elements(params);
  job j = {.params = params, .grain = th__flat_grain(elements), .unit = unit, .sums = sums};
  th__parallel(elements, j.grain, sum_piece, &j);
  double total = 0;
  for (ptrdiff_t i = 0; i * j.grain < elements; i++) total += sums[i];
  return total;
}

/* The largest |gradient| and whose it is, or the first one that is not finite. */
static double largest(const th_params *params, const th_tensor **owner) {
  double top = 0;
  for (ptrdiff_t i = 0; i < th_params_count(params); i++) {
    const th_tensor *param = th_params_at(params, i);
    double size;
    TH__CALL(param->dtype, largest, param->count, th__at(param->grad, 0), &size);
    if (size <= top) continue;
    top = size;
    *owner = param;
    if (!isfinite(size)) break;
  }
  return top;
}

/* Not finite, or f64 squares that overflow or vanish: the norm in units of the largest entry. */
static th_status careful_norm(const th_params *params, double *norm, th_error *error) {
  const th_tensor *owner = NULL;
  double top = largest(params, &owner);
  *norm = top;
  if (top == 0) return TH_OK;
  if (!isfinite(top))
    return th__error(error, TH_ERR_NONFINITE,
                     "th_clip_grad_norm: the gradient of %s holds %s; nothing was changed: take no "
                     "step, and look at the learning rate and the data",
                     owner->name, isnan(top) ? "NaN" : "infinity");
  *norm = top * sqrt(sum_of_squares(params, top));
  if (isfinite(*norm)) return TH_OK;
  return th__error(error, TH_ERR_NONFINITE,
                   "th_clip_grad_norm: the norm of all gradients is beyond the largest number; the "
                   "largest entry is %g, in %s; nothing was changed: take no step",
                   top, owner->name);
}

th_status th_clip_grad_norm(th_params *params, double limit, double *norm, th_error *error) {
  if (params == NULL)
    return th__error(error, TH_ERR_VALUE, "th_clip_grad_norm: the list of parameters is NULL");
  if (!(limit > 0))
    return th__error(error, TH_ERR_VALUE,
                     "th_clip_grad_norm: limit is %g; a number above 0 is expected, or INFINITY to "
                     "measure only",
                     limit);
  double sum = sum_of_squares(params, 1), found = sqrt(sum);
  /* Below the lower bound, f64 squares may have lost digits to underflow. */
  bool sound = isfinite(sum) && sum > 1e-280;
  th_status status = sound ? TH_OK : careful_norm(params, &found, error);
  if (norm != NULL) *norm = found;
  if (status != TH_OK || !(found > limit)) return status;
  ptrdiff_t elements = th_params_elements(params);
  job j = {.params = params, .norm = found, .limit = limit};
  th__parallel(elements, th__flat_grain(elements), rescale_piece, &j);
  return TH_OK;
}
