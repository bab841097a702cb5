/* stored.h: the inside of an open safetensors file, shared by the reading of headers and of data. */
#ifndef TH_IO_STORED_H
#define TH_IO_STORED_H

#include "io/safetensors.h"

struct th__safetensors {
  char *path;
  int file; /* descriptor; -1: in memory */
  const unsigned char *memory;
  size_t size;           /* of memory */
  uint64_t start, bytes; /* where data begins, and how long it is */
  bool as_reals;         /* the header's numbers were read as reals, because one is beyond 2^63 */
  json_t *header, *metadata;
  th__entry *entries;
  ptrdiff_t count;
};

/* The format is, and data is copied as it stands: other machines neither read nor write it. */
bool th__little_endian(void);

/* Copies `count` bytes from place `from` of the file. */
bool th__safetensors_fetch(const th__safetensors *file, uint64_t from, void *bytes, size_t count,
                           th_error *error);

/* TH_ERR_IO with "PATH: " before the sentence. */
th_status th__safetensors_fail(const th__safetensors *file, th_error *error, const char *format,
                               ...) __attribute__((format(printf, 3, 4)));

/* A name from a file, safe to print: control characters as ?, long ones cut. Returns buffer. */
#define TH__PRINTABLE 72
const char *th__printable(char buffer[TH__PRINTABLE], const char *text);

#endif
