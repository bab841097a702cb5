/* kernels.h: the kernels as the floors above see them: a table per precision, chosen at load. */
#ifndef TH_OPS_KERNELS_H
#define TH_OPS_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ops/attention.h"
#include "tapehead.h"

#define KERNEL(name, ...) void(*name) __VA_ARGS__;
#define real float
typedef struct th__kernels_f32 {
#include "ops/kernels.def"
} th__kernels_f32;
#undef real
#define real double
typedef struct th__kernels_f64 {
#include "ops/kernels.def"
} th__kernels_f64;
#undef real
#undef KERNEL

/* The tables in use, and their instruction set's name. */
extern const th__kernels_f32 *th__f32;
extern const th__kernels_f64 *th__f64;

/* Calls a kernel in a tensor's precision. Arrays are passed as void pointers (th__at). */
#define TH__CALL(dtype, name, ...)                                                                 \
  ((dtype) == TH_F32 ? th__f32->name(__VA_ARGS__) : th__f64->name(__VA_ARGS__))

#endif
