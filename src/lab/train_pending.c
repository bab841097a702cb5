/* train_pending.c: stands in for recurrent models until their file is there. */
#include "tensor/error.h"

__attribute__((weak)) th_model *th_recurrent_new(const th_recurrent *config, uint64_t seed,
                                                 th_error *error) {
  (void)config, (void)seed;
  th__error(error, TH_ERR_STATE, "recurrent models are not in this build");
  return NULL;
}

__attribute__((weak)) const th_recurrent *th_model_recurrent(const th_model *model) {
  (void)model;
  return NULL;
}
