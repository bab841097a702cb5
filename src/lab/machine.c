#include "lab/machine.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void th__machine_cpu(char *name, size_t room) {
  snprintf(name, room, "unknown");
  FILE *file = fopen("/proc/cpuinfo", "re");
  if (file == NULL) return;
  char line[256];
  while (fgets(line, sizeof line, file) != NULL) {
    const char *value = strncmp(line, "model name", 10) == 0 ? strchr(line, ':') : NULL;
    if (value == NULL) continue;
    value += strspn(value, ": \t");
    snprintf(name, room, "%.*s", (int)strcspn(value, "\n"), value);
    break;
  }
  fclose(file);
}

double th__machine_memory(void) {
  double bytes = (double)INFINITY;
  FILE *file = fopen("/proc/meminfo", "re");
  if (file == NULL) return bytes;
  char line[256];
  double kib;
  while (fgets(line, sizeof line, file) != NULL)
    if (sscanf(line, "MemAvailable: %lf kB", &kib) == 1) bytes = 1024 * kib;
  fclose(file);
  return bytes;
}
