/* machine.h: which machine a number was measured on. */
#ifndef TH_LAB_MACHINE_H
#define TH_LAB_MACHINE_H

#include <stddef.h>

/* The processor's name as the system gives it, or "unknown". */
void th__machine_cpu(char *name, size_t room);

#endif
