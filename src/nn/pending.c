/* pending.c: stands in for operations until their files are there; a weak symbol gives way to them. */
#include "tapehead.h"

__attribute__((weak)) th_tensor *th_rope(th_tape *tape, th_tensor *x,
                                         const th_rope_options *options) {
  (void)x, (void)options;
  return th_fail(tape, TH_ERR_STATE, "rope", "not in this build");
}

__attribute__((weak)) th_tensor *th_sinusoidal(th_tape *tape, th_dtype dtype, ptrdiff_t offset,
                                               ptrdiff_t length, ptrdiff_t width) {
  (void)dtype, (void)offset, (void)length, (void)width;
  return th_fail(tape, TH_ERR_STATE, "sinusoidal", "not in this build");
}
