/* arena.h: memory that is released all at once. Chunks are kept on reset and handed out again in the
 * same order, so a program that asks for the same sizes again makes no system request. */
#ifndef TH_TENSOR_ARENA_H
#define TH_TENSOR_ARENA_H

#include <stddef.h>

typedef struct th__chunk th__chunk;

typedef struct th__arena {
  th__chunk *first, *current;
  size_t used; /* bytes used in `current` */
  size_t held; /* bytes in all chunks */
} th__arena;

/* Uninitialised; aligned to 64 bytes from 64 bytes on, to 16 below. NULL when memory ends. */
void *th__arena_alloc(th__arena *arena, size_t bytes);
void th__arena_reset(th__arena *arena);
void th__arena_free(th__arena *arena);

#endif
