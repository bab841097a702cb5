/* version.c: what this build is. */
#include "tapehead.h"
#include "tapehead_config.h"

const char *th_version(void) { return TH_VERSION_STRING; }
