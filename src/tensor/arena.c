#include "tensor/arena.h"

#include <stdint.h>

#include "tensor/alloc.h"

/* The header fills a cache line, so that what follows is aligned like the chunk itself. */
struct th__chunk {
  _Alignas(64) th__chunk *next;
  size_t size; /* bytes after the header */
};

#define FIRST_CHUNK ((size_t)1 << 18)

static char *chunk_memory(th__chunk *chunk) { return (char *)(chunk + 1); }

/* Chunks double, so that their number stays small, up to a size at which doubling would waste. */
static th__chunk *new_chunk(th__arena *arena, size_t bytes) {
  const size_t largest = (size_t)1 << 26;
  size_t size = arena->held < FIRST_CHUNK ? FIRST_CHUNK : arena->held;
  if (size > largest) size = largest;
  if (size < bytes) size = bytes;
  if (size > (size_t)PTRDIFF_MAX - sizeof(th__chunk)) return NULL;
  th__chunk *chunk = th__alloc(sizeof(th__chunk) + size);
  if (chunk == NULL) return NULL;
  chunk->size = size;
  arena->held += size;
  return chunk;
}

static size_t align_up(size_t offset, size_t bytes) {
  size_t alignment = bytes >= 64 ? 64 : 16;
  return (offset + alignment - 1) & ~(alignment - 1);
}

void *th__arena_alloc(th__arena *arena, size_t bytes) {
  if (bytes > (size_t)PTRDIFF_MAX) return NULL;
  th__chunk *chunk = arena->current;
  size_t offset = align_up(arena->used, bytes);
  while (chunk == NULL || offset > chunk->size || bytes > chunk->size - offset) {
    th__chunk **link = chunk == NULL ? &arena->first : &chunk->next;
    /* A kept chunk that is too small stays for later; a new one goes in front of it. */
    if (*link == NULL || (*link)->size < bytes) {
      th__chunk *fresh = new_chunk(arena, bytes);
      if (fresh == NULL) return NULL;
      fresh->next = *link;
      *link = fresh;
    }
    chunk = arena->current = *link;
    offset = 0;
  }
  arena->used = offset + bytes;
  return chunk_memory(chunk) + offset;
}

void th__arena_reset(th__arena *arena) {
  arena->current = arena->first;
  arena->used = 0;
}

void th__arena_free(th__arena *arena) {
  for (th__chunk *chunk = arena->first; chunk != NULL;) {
    th__chunk *next = chunk->next;
    th__free(chunk);
    chunk = next;
  }
  *arena = (th__arena){0};
}
