/* version.c: what this build is and what it runs on. */
#include <cblas.h>
#include <pthread.h>
#include <stdio.h>

#include "tapehead.h"
#include "tapehead_config.h"

static char info[512];

static void fill_info(void) {
#if defined(__SSE2__) /* tensor/parallel.c */
  const char *subnormals = "flushed to 0";
#else
  const char *subnormals = "kept";
#endif
  snprintf(info, sizeof info, "%s, flags \"%s\"; subnormals: %s; BLAS: %s (%s)", TH_COMPILER,
           TH_BUILD_FLAGS, subnormals, openblas_get_config(), openblas_get_corename());
}

const char *th_version(void) { return TH_VERSION_STRING; }

const char *th_build_info(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, fill_info);
  return info;
}
