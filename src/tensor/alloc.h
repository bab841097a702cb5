/* alloc.h: the one place that asks the system for memory, so that a test can make any request fail. */
#ifndef TH_TENSOR_ALLOC_H
#define TH_TENSOR_ALLOC_H

#include <stddef.h>

/* Uninitialised, aligned to 64 bytes (a cache line, an AVX-512 register). NULL when memory ends. */
void *th__alloc(size_t bytes);
/* The same, zeroed. */
void *th__alloc_zero(size_t bytes);
/* Takes memory of the C library as well (open_memstream, json_dumps). NULL is fine. */
void th__free(void *memory);

/* Requests made so far, by all threads. Tests use it to show that a step makes none. */
size_t th__alloc_count(void);
/* Makes the n-th request from now (1 is the next) and every later one fail; 0 ends that. */
void th__alloc_fail_at(size_t n);

#endif
