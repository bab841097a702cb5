/* power.h: what the checker is worth: the catalogue's faults against every mode. */
#ifndef TH_AUTOGRAD_POWER_POWER_H
#define TH_AUTOGRAD_POWER_POWER_H

#include "autograd/power/faults.h"

typedef struct th__power_result {
  bool caught; /* the verdict is a failure */
  bool named;  /* and the diagnosis is the fault's kind */
  char diagnosis[24], cause[320];
} th__power_result;

/* Plants one fault and checks it in one mode. */
th_status th__power_run(const th__fault *fault, th_check_mode mode, uint64_t seed,
                        th__power_result *result, th_error *error);

#endif
