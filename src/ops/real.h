/* real.h: what an op file is written in. Every src/ops/NAME.c is compiled once per precision
 * (TH_REAL_BITS 32, 64) and instruction set (TH_ISA base, avx2, avx512); it says `real`, never float
 * or double.
 *
 *   real      the element type            RN(name)   the kernel's name in this precision and set
 *   RC(0.5)   a constant of that type     RF(sqrt)   the C function for that type
 *   RMIN      the smallest normal number   RINF       infinity
 *   acc       the type of long sums (loss over tokens, norms): double in both
 *
 * Kernels take sizes, then const inputs, then outputs; they do not allocate, print or fail, and know
 * nothing of threads. All checks happen once, where the op is recorded. */
#ifndef TH_OPS_REAL_H
#define TH_OPS_REAL_H

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ops/attention.h"

#if TH_REAL_BITS == 32
#define real float
#define RC(x) x##f
#define RF(function) function##f
#define RMIN FLT_MIN
#define TH__REAL_NAME f32
#elif TH_REAL_BITS == 64
#define real double
#define RC(x) x
#define RF(function) function
#define RMIN DBL_MIN
#define TH__REAL_NAME f64
#else
#error "compile src/ops with -DTH_REAL_BITS=32 or 64"
#endif

#define RINF ((real)INFINITY)

typedef double acc;

#define TH__JOIN2(name, bits, isa) th__##name##_##bits##_##isa
#define TH__JOIN(name, bits, isa) TH__JOIN2(name, bits, isa)
#define RN(name) TH__JOIN(name, TH__REAL_NAME, TH_ISA)

/* Prototypes of all kernels in this precision and instruction set. */
#define KERNEL(name, ...) void RN(name) __VA_ARGS__;
#include "ops/kernels.def"
#undef KERNEL

#endif
