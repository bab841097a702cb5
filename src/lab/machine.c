#include "lab/machine.h"

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
