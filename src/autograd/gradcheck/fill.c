/* fill.c: inputs of a registered case, drawn from the seed. Every floating-point value is rounded to
 * f32, so that the f32 and the f64 run of a check see the same numbers. */
#include <string.h>

#include "autograd/gradcheck/gradcheck.h"
#include "tensor/error.h"

static th_dtype fill_dtype(th_fill fill) {
  switch (fill) {
  case TH_FILL_NORMAL:
  case TH_FILL_POSITIVE: return TH_F64;
  case TH_FILL_IDS:
  case TH_FILL_LENGTHS:
  case TH_FILL_LABELS: return TH_I32;
  case TH_FILL_MASK: return TH_BOOL;
  }
  return TH_F64;
}

/* Place k lies in row 0 of its matrix (the last two axes). */
static bool in_first_row(const th_tensor *x, ptrdiff_t k) {
  if (x->ndim < 2) return false;
  return k / th__dim(x, -1) % th__dim(x, -2) == 0;
}

static double value_at(const th_check_input *in, const th_tensor *x, th_random stream, ptrdiff_t k) {
  uint64_t place = (uint64_t)k, param = (uint64_t)in->param;
  switch (in->fill) {
  case TH_FILL_NORMAL:
    return (double)(float)((in->param == 0 ? 1 : in->param) * th_random_normal(stream, place));
  case TH_FILL_POSITIVE: return (double)(float)(0.5 + th_random_uniform(stream, place));
  case TH_FILL_IDS: return (double)th_random_below(stream, place, param);
  case TH_FILL_LENGTHS:
    return k + 1 == x->count ? in->param : (double)th_random_below(stream, place, param + 1);
  case TH_FILL_LABELS:
    return k % 4 == 3 ? (double)TH_IGNORE : (double)th_random_below(stream, place, param);
  case TH_FILL_MASK: return !in_first_row(x, k) && th_random_below(stream, place, 4) > 0;
  }
  return 0;
}

th_status th__fill(const th_check *check, uint64_t seed, th_tensor **inputs, th_error *error) {
  for (int i = 0; i < check->input_count; i++) {
    const th_check_input *in = &check->inputs[i];
    inputs[i] = th_tensor_new(fill_dtype(in->fill), in->ndim, in->shape, error);
    if (inputs[i] == NULL) {
      while (i-- > 0) th_tensor_free(inputs[i]);
      return error != NULL ? error->status : TH_ERR_MEMORY;
    }
    th_random stream = th__draw(seed, TH__DRAW_INPUT, (uint64_t)i);
    for (ptrdiff_t k = 0; k < inputs[i]->count; k++)
      th__set(inputs[i], k, value_at(in, inputs[i], stream, k));
    if (in->name != NULL) th_tensor_set_name(inputs[i], in->name);
  }
  return TH_OK;
}
