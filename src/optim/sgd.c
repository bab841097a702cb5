/* Stochastic gradient descent with momentum: the rule of src/ops/sgd.c over a list of parameters. */
#include "ops/kernels.h"
#include "optim/optim.h"
#include "tensor/error.h"

static void update(const th_optim *optim, const th__slot *slot, th_tensor *w, ptrdiff_t from,
                   ptrdiff_t size) {
  if (slot->m == NULL)
    TH__CALL(w->dtype, sgd, size, optim->lr, th__at(w, from), th__at(w->grad, from));
  else
    TH__CALL(w->dtype, sgd_momentum, size, optim->lr, optim->momentum, th__at(w, from),
             th__at(slot->m, from), th__at(w->grad, from));
}

th_optim *th_sgd_new(th_params *params, const th_sgd *options, th_error *error) {
  th_sgd o = options != NULL ? *options : (th_sgd){0};
  if (o.lr == 0) o.lr = 1e-3;
  if (th__check_lr("th_sgd", o.lr, error) != TH_OK ||
      th__check_share("th_sgd", "momentum", o.momentum, error) != TH_OK)
    return NULL;
  return th__optim_new(
      &(th_optim){
          .name = "th_sgd", .update = update, .params = params, .lr = o.lr, .momentum = o.momentum},
      o.momentum > 0 ? 1 : 0, error);
}
