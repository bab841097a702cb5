/* machine.h: which machine a number was measured on. */
#ifndef TH_LAB_MACHINE_H
#define TH_LAB_MACHINE_H

#include <stddef.h>

/* The processor's name as the system gives it, or "unknown". */
void th__machine_cpu(char *name, size_t room);

/* Bytes of memory that could be had now: what the system has left, or the control groups (containers)
 * of this process if that is less; infinity if nobody says. */
double th__machine_memory(void);
/* The groups' part of it: `groups` lists them as /proc/self/cgroup does, `root` holds their files. */
double th__machine_group_memory(const char *root, const char *groups);

#endif
