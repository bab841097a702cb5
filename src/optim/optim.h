/* optim.h: what the optimisers share: the list of parameters with their moments, and taking a step. */
#ifndef TH_OPTIM_OPTIM_H
#define TH_OPTIM_OPTIM_H

#include "optim/flat.h"
#include "tapehead.h"
#include "tensor/tensor.h"

/* What an optimiser keeps per parameter. */
typedef struct th__slot {
  th_tensor *m, *v; /* moments, of the parameter's shape and type; NULL if the rule has none */
  long steps;       /* how often this parameter was stepped: bias correction counts these */
} th__slot;

/* One rule: how it updates `size` elements of a parameter from element `from` on, and zeroes their
 * gradient. It runs for disjoint ranges in parallel. */
typedef void th__update(const th_optim *optim, const th__slot *slot, th_tensor *tensor,
                        ptrdiff_t from, ptrdiff_t size);

struct th_optim {
  const char *name; /* "th_adamw" */
  th__update *update;
  th_params *params;
  th__slot *slots; /* slot_count of them, in the order of params */
  ptrdiff_t slot_count;
  long steps;
  double lr;
  double momentum;                        /* SGD */
  double beta1, beta2, eps, weight_decay; /* Adam, AdamW */
};

/* Makes an optimiser from a filled-in `start`, with the given number of moments (0, 1 or 2) for every
 * parameter. NULL with `error`. */
th_optim *th__optim_new(const th_optim *start, int moments, th_error *error);

/* What a parameter decays with: matrices and tables only. */
static inline double th__decay(const th_optim *optim, const th_tensor *w) {
  return w->ndim >= 2 ? optim->weight_decay : 0;
}

/* Checks shared by the rules: lr finite and not negative. */
th_status th__check_lr(const char *who, double lr, th_error *error);
/* 0 <= value < 1 */
th_status th__check_share(const char *who, const char *what, double value, th_error *error);

#endif
