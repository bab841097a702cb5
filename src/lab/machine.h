/* machine.h: which machine a number was measured on. */
#ifndef TH_LAB_MACHINE_H
#define TH_LAB_MACHINE_H

#include <stddef.h>

/* The processor's name as the system gives it, or "unknown". */
void th__machine_cpu(char *name, size_t room);

/* Bytes of memory that could be had now, as the system sees it; infinity if it does not say. */
double th__machine_memory(void);

#endif
