#include "tensor/alloc.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 64

static atomic_size_t requests;
static atomic_size_t fail_at; /* the request number that fails first; 0: none */

size_t th__alloc_count(void) { return atomic_load(&requests); }

void th__alloc_fail_at(size_t n) {
  atomic_store(&fail_at, n == 0 ? 0 : atomic_load(&requests) + n);
}

void *th__alloc(size_t bytes) {
  size_t number = atomic_fetch_add(&requests, 1) + 1;
  size_t fail = atomic_load(&fail_at);
  if (fail != 0 && number >= fail) return NULL;
  if (bytes > (size_t)PTRDIFF_MAX - ALIGNMENT) return NULL;
  size_t rounded = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  return aligned_alloc(ALIGNMENT, rounded == 0 ? ALIGNMENT : rounded);
}

void *th__alloc_zero(size_t bytes) {
  void *memory = th__alloc(bytes);
  if (memory != NULL) memset(memory, 0, bytes);
  return memory;
}

void th__free(void *memory) { free(memory); }
