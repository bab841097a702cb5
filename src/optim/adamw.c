/* AdamW, and Adam, which is the same without decay: the rule of src/ops/adamw.c over a list of
 * parameters. */
#include <float.h>
#include <math.h>

#include "ops/kernels.h"
#include "optim/optim.h"
#include "tensor/error.h"

static void update(const th_optim *o, const th__slot *slot, th_tensor *w, ptrdiff_t from,
                   ptrdiff_t size) {
  double t = (double)slot->steps;
  /* 1 - beta^t; expm1 keeps its digits for a beta close to 1 and a small t. */
  double correct1 = o->beta1 > 0 ? -expm1(t * log(o->beta1)) : 1;
  double correct2 = o->beta2 > 0 ? -expm1(t * log(o->beta2)) : 1;
  TH__CALL(w->dtype, adamw, size, o->lr, o->beta1, o->beta2, o->eps, th__decay(o, w), correct1,
           correct2, th__at(w, from), th__at(slot->m, from), th__at(slot->v, from),
           th__at(w->grad, from));
}

/* eps must not round to 0 in a parameter's type: a weight without gradient would become 0/0. */
static th_status check_eps(const char *who, const th_params *params, double eps, th_error *error) {
  if (!(isfinite(eps) && eps > 0))
    return th__error(error, TH_ERR_VALUE, "%s: eps is %g; a finite number above 0 is expected", who,
                     eps);
  for (ptrdiff_t i = 0; params != NULL && i < th_params_count(params); i++) {
    const th_tensor *param = th_params_at(params, i);
    double least = param->dtype == TH_F32 ? (double)FLT_MIN : DBL_MIN;
    if (eps < least)
      return th__error(error, TH_ERR_VALUE, "%s: eps is %g, too small for %s, which is %s; use 1e-8",
                       who, eps, param->name, th_dtype_name(param->dtype));
  }
  return TH_OK;
}

static th_optim *make(const char *who, th_params *params, th_adamw o, th_error *error) {
  if (o.lr == 0) o.lr = 1e-3;
  if (o.beta1 == 0) o.beta1 = 0.9;
  if (o.beta2 == 0) o.beta2 = 0.999;
  if (o.eps == 0) o.eps = 1e-8;
  if (th__check_lr(who, o.lr, error) != TH_OK ||
      th__check_share(who, "beta1", o.beta1, error) != TH_OK ||
      th__check_share(who, "beta2", o.beta2, error) != TH_OK ||
      check_eps(who, params, o.eps, error) != TH_OK)
    return NULL;
  if (!(isfinite(o.weight_decay) && o.weight_decay >= 0)) {
    th__error(error, TH_ERR_VALUE,
              "%s: weight_decay is %g; a finite number of 0 or more is expected", who,
              o.weight_decay);
    return NULL;
  }
  return th__optim_new(&(th_optim){.name = who,
                                   .update = update,
                                   .params = params,
                                   .lr = o.lr,
                                   .beta1 = o.beta1,
                                   .beta2 = o.beta2,
                                   .eps = o.eps,
                                   .weight_decay = o.weight_decay},
                       2, error);
}

th_optim *th_adamw_new(th_params *params, const th_adamw *options, th_error *error) {
  return make("th_adamw", params, options != NULL ? *options : (th_adamw){0}, error);
}

th_optim *th_adam_new(th_params *params, const th_adamw *options, th_error *error) {
  th_adamw o = options != NULL ? *options : (th_adamw){0};
  if (o.weight_decay != 0) {
    th__error(error, TH_ERR_VALUE,
              "th_adam: weight_decay is %g, but Adam has none; use th_adamw_new", o.weight_decay);
    return NULL;
  }
  return make("th_adam", params, o, error);
}
