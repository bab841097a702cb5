#include "lab/machine.h"

#include <math.h>
#include <stdbool.h>
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

/* ---- memory ---- */

/* The number in a file's first line, or behind `key` in the line that begins with it. Infinity without
 * one, which is also what "max" means in a limit. */
static double number_in(const char *folder, const char *name, const char *key) {
  char path[4096], line[256];
  double value = (double)INFINITY;
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "re");
  if (file == NULL) return value;
  while (fgets(line, sizeof line, file) != NULL)
    if (strncmp(line, key, strlen(key)) == 0 && sscanf(line + strlen(key), "%lf", &value) == 1)
      break;
  fclose(file);
  return value;
}

/* What a group of processes may still take: its limit less what it holds, not counting the part of the
 * page cache that the system gives back first. */
static double left_in_group(const char *folder, const char *limit, const char *held,
                            const char *cache) {
  double most = number_in(folder, limit, ""), used = number_in(folder, held, "");
  double spare = number_in(folder, "memory.stat", cache);
  if (isinf(most) || isinf(used)) return (double)INFINITY;
  return fmax(0, most - used + (isinf(spare) ? 0 : spare));
}

double th__machine_group_memory(const char *root, const char *groups) {
  double least = (double)INFINITY;
  char line[2048], folder[4096];
  FILE *file = fopen(groups, "re");
  if (file == NULL) return least;
  while (fgets(line, sizeof line, file) != NULL) {
    line[strcspn(line, "\n")] = '\0';
    const char *path = strrchr(line, ':');
    bool second = strncmp(line, "0::", 3) == 0, first = strstr(line, ":memory:") != NULL;
    if (path == NULL || !(first || second)) continue;
    snprintf(folder, sizeof folder, "%s%s%s", root, first ? "/memory" : "", path + 1);
    /* The group and all that contain it. A container may not see its own path: then the root is its. */
    for (char *end; strlen(folder) >= strlen(root); *end = '\0') {
      double left = first ? left_in_group(folder, "memory.limit_in_bytes", "memory.usage_in_bytes",
                                          "total_inactive_file ")
                          : left_in_group(folder, "memory.max", "memory.current", "inactive_file ");
      least = fmin(least, left);
      if ((end = strrchr(folder, '/')) == NULL) break;
    }
  }
  fclose(file);
  return least;
}

double th__machine_memory(void) {
  double kib = number_in("/proc", "meminfo", "MemAvailable:");
  return fmin(1024 * kib, th__machine_group_memory("/sys/fs/cgroup", "/proc/self/cgroup"));
}
