/* source.h: a text as it was read, and where something stands in it. */
#ifndef TH_DATA_SOURCE_H
#define TH_DATA_SOURCE_H

#include <jansson.h>

#include "tapehead.h"

/* Nothing is owned: name and bytes belong to the caller. */
typedef struct th__source {
  const char *name; /* for messages: a path, "the prompt" */
  const char *bytes;
  size_t count;
} th__source;

/* Which contents: 64 bits of the bytes and their number (FNV-1a). Notices changes, not attacks. */
uint64_t th__source_hash(const th__source *source);

/* [{"file": name, "bytes": count, "hash": "16 hex digits"}, ...]: for a checkpoint. NULL when memory
 * ends. */
json_t *th__sources_to_json(const th__source *sources, int count);
/* Whether these are the same texts in the same order, whatever their names: TH_ERR_VALUE names the first
 * file that differs, with both lengths. TH_ERR_IO: `stored` is not of the form above. */
th_status th__sources_check(const json_t *stored, const th__source *sources, int count,
                            th_error *error);

/* The code point at bytes[*at], behind which *at is moved. -1, and *at stays, if the bytes there are not
 * valid UTF-8: overlong, a surrogate, beyond U+10FFFF, cut off. */
int32_t th__utf8_next(const char *bytes, size_t count, size_t *at);
/* Writes a code point and returns the number of bytes, 1 to 4. */
int th__utf8_put(uint32_t code, char bytes[4]);

/* Starts an error with "NAME:LINE: byte offset N: " (lines count from 1, offsets from 0; a long name
 * loses its beginning) and goes on as printf. */
th_status th__source_error(th_error *error, const th__source *source, size_t at, const char *format,
                           ...) __attribute__((format(printf, 4, 5)));

#endif
