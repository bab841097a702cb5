#include "optim/optim.h"

#include <math.h>

#include "tensor/alloc.h"
#include "tensor/error.h"

/* ---- making ---- */

th_status th__check_lr(const char *who, double lr, th_error *error) {
  if (isfinite(lr) && lr >= 0) return TH_OK;
  return th__error(error, TH_ERR_VALUE, "%s: lr is %g; a finite number of 0 or more is expected",
                   who, lr);
}

th_status th__check_share(const char *who, const char *what, double value, th_error *error) {
  if (value >= 0 && value < 1) return TH_OK;
  return th__error(error, TH_ERR_VALUE, "%s: %s is %g; 0 <= %s < 1 is expected", who, what, value,
                   what);
}

static bool add_moment(th_tensor **moment, const th_tensor *like, th_error *error) {
  *moment = th_tensor_new(like->dtype, like->ndim, like->shape, error);
  return *moment != NULL;
}

static bool fill_slots(th_optim *optim, int moments, th_error *error) {
  ptrdiff_t count = th_params_count(optim->params);
  size_t bytes = (size_t)count * sizeof(th__slot);
  optim->slots = th__alloc_zero(bytes);
  if (optim->slots == NULL) {
    th__error_memory(error, optim->name, bytes);
    return false;
  }
  optim->slot_count = count;
  for (ptrdiff_t i = 0; i < count; i++) {
    const th_tensor *param = th_params_at(optim->params, i);
    if (moments >= 1 && !add_moment(&optim->slots[i].m, param, error)) return false;
    if (moments >= 2 && !add_moment(&optim->slots[i].v, param, error)) return false;
  }
  return true;
}

th_optim *th__optim_new(const th_optim *start, int moments, th_error *error) {
  if (start->params == NULL) {
    th__error(error, TH_ERR_VALUE, "%s: the list of parameters is NULL; did making the model fail?",
              start->name);
    return NULL;
  }
  th_optim *optim = th__alloc(sizeof *optim);
  if (optim == NULL) {
    th__error_memory(error, start->name, sizeof *optim);
    return NULL;
  }
  *optim = *start;
  if (fill_slots(optim, moments, error)) return optim;
  th_optim_free(optim);
  return NULL;
}

void th_optim_free(th_optim *optim) {
  if (optim == NULL) return;
  for (ptrdiff_t i = 0; i < optim->slot_count; i++) {
    th_tensor_free(optim->slots[i].m);
    th_tensor_free(optim->slots[i].v);
  }
  th__free(optim->slots);
  th__free(optim);
}

th_status th_optim_set_lr(th_optim *optim, double lr) {
  if (optim == NULL) return TH_ERR_VALUE;
  th_status status = th__check_lr(optim->name, lr, NULL);
  if (status == TH_OK) optim->lr = lr;
  return status;
}

double th_optim_lr(const th_optim *optim) { return optim == NULL ? 0 : optim->lr; }
long th_optim_steps(const th_optim *optim) { return optim == NULL ? 0 : optim->steps; }

double th_optim_weight_decay(const th_optim *optim, ptrdiff_t i) {
  const th_tensor *param = optim != NULL ? th_params_at(optim->params, i) : NULL;
  return param != NULL ? th__decay(optim, param) : 0;
}

/* ---- one step ---- */

/* Everything that can go wrong is found here, before anything changes. */
static th_status check_step(const th_optim *optim, th_error *error) {
  if (th_params_count(optim->params) != optim->slot_count)
    return th__error(error, TH_ERR_STATE,
                     "th_optim_step: the list has %td parameters but had %td when the optimiser was "
                     "made; add all parameters first",
                     th_params_count(optim->params), optim->slot_count);
  bool arrived = false;
  for (ptrdiff_t i = 0; i < optim->slot_count; i++) {
    const th_tensor *param = th_params_at(optim->params, i);
    if (param->grad_broken)
      return th__error(error, TH_ERR_STATE,
                       "th_optim_step: the gradient of %s is incomplete, because a backward pass "
                       "failed half-way; see th_tape_message(), then call th_params_zero_grad()",
                       param->name);
    arrived = arrived || param->grad_arrived;
  }
  if (arrived) return TH_OK;
  return th__error(error, TH_ERR_STATE,
                   "th_optim_step: no gradient has arrived since the last step; call th_backward() "
                   "first, and see th_tape_message() if it did nothing");
}

static void piece(const void *context, ptrdiff_t begin, ptrdiff_t end) {
  const th_optim *optim = context;
  for (th__flat f = th__flat_first(optim->params, begin, end); f.tensor != NULL; th__flat_next(&f))
    if (f.tensor->grad_arrived)
      optim->update(optim, &optim->slots[f.index], f.tensor, f.from, f.size);
}

th_status th_optim_step(th_optim *optim, th_error *error) {
  if (optim == NULL)
    return th__error(error, TH_ERR_VALUE,
                     "th_optim_step: the optimiser is NULL; did making it fail?");
  th_status status = check_step(optim, error);
  if (status != TH_OK) return status;
  for (ptrdiff_t i = 0; i < optim->slot_count; i++)
    if (th_params_at(optim->params, i)->grad_arrived) optim->slots[i].steps++;
  ptrdiff_t elements = th_params_elements(optim->params);
  th__parallel(elements, th__flat_grain(elements), piece, optim);
  for (ptrdiff_t i = 0; i < optim->slot_count; i++)
    th_params_at(optim->params, i)->grad_arrived = false;
  optim->steps++;
  return TH_OK;
}
