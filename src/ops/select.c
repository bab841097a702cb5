/* select.c: chooses the kernels once, when the library is loaded. Compiled once, unlike the op files. */
#include <stdlib.h>
#include <string.h>

#include "ops/kernels.h"

#define TABLES(isa)                                                                                \
  extern const th__kernels_f32 th__table_f32_##isa;                                                \
  extern const th__kernels_f64 th__table_f64_##isa;
TABLES(base)
#ifdef TH_HAVE_X86_KERNELS
TABLES(avx2)
TABLES(avx512)
#endif

const th__kernels_f32 *th__f32 = &th__table_f32_base;
const th__kernels_f64 *th__f64 = &th__table_f64_base;
static const char *isa = "base";

const char *th_isa(void) { return isa; }

#ifdef TH_HAVE_X86_KERNELS
#define USE(name) (th__f32 = &th__table_f32_##name, th__f64 = &th__table_f64_##name, isa = #name)

static void choose(void) {
  const char *forced = getenv("TAPEHEAD_ISA");
  if (forced != NULL && strcmp(forced, "base") == 0) return;
  __builtin_cpu_init();
  bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw");
  if (forced != NULL && strcmp(forced, "avx2") == 0) avx512 = false;
  if (avx512)
    USE(avx512);
  else if (avx2)
    USE(avx2);
}
#else
static void choose(void) {}
#endif

__attribute__((constructor)) static void at_load(void) { choose(); }
