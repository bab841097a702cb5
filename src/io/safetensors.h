/* safetensors.h: files of named tensors in the safetensors format (docs/files.md): 8 bytes with the
 * length of a JSON header, the header, then the data, without gaps.
 *
 * Reading checks the whole header against the file's size before anything else can be asked. Data is
 * read when it is asked for, straight into its tensor: a large file is never in memory twice. */
#ifndef TH_IO_SAFETENSORS_H
#define TH_IO_SAFETENSORS_H

#include <jansson.h>

#include "tapehead.h"

/* Element types by their names in a file: name, bytes. The last group is known by size only: such
 * tensors may stand in a file, but are not read. */
#define TH__STORED_LIST(X)                                                                         \
  X(F64, 8)                                                                                        \
  X(F32, 4)                                                                                        \
  X(F16, 2)                                                                                        \
  X(BF16, 2)                                                                                       \
  X(I64, 8)                                                                                        \
  X(I32, 4)                                                                                        \
  X(I16, 2)                                                                                        \
  X(I8, 1)                                                                                         \
  X(U8, 1)                                                                                         \
  X(BOOL, 1)                                                                                       \
  X(U64, 8)                                                                                        \
  X(U32, 4)                                                                                        \
  X(U16, 2)                                                                                        \
  X(C64, 8)                                                                                        \
  X(F8_E4M3, 1)                                                                                    \
  X(F8_E5M2, 1)                                                                                    \
  X(F8_E8M0, 1)

typedef enum th__stored {
#define X(name, bytes) TH__STORED_##name,
  TH__STORED_LIST(X)
#undef X
} th__stored;
const char *th__stored_name(th__stored stored); /* "F32" */
size_t th__stored_size(th__stored stored);
th__stored th__stored_of(th_dtype dtype); /* as what a tensor of ours is written */

/* The longest header that is read, as in the format's reference implementation. */
#define TH__HEADER_LIMIT ((uint64_t)100000000)

/* One tensor of a file. */
typedef struct th__entry {
  const char *name;
  th__stored stored;
  int ndim;
  ptrdiff_t shape[TH_MAX_DIMS];
  ptrdiff_t count;     /* elements */
  uint64_t begin, end; /* bytes from the first byte of data */
} th__entry;

typedef struct th__safetensors th__safetensors;

/* Opens a file and checks its header. NULL with an error that names file, tensor and field. */
th__safetensors *th__safetensors_open(const char *path, th_error *error);
/* The same from memory, which must outlive it. `name` is used in messages. */
th__safetensors *th__safetensors_parse(const char *name, const void *bytes, size_t count,
                                       th_error *error);
void th__safetensors_close(th__safetensors *file);

const char *th__safetensors_path(const th__safetensors *file);
ptrdiff_t th__safetensors_count(const th__safetensors *file);
/* In the order of their data. NULL outside 0 .. count - 1. */
const th__entry *th__safetensors_at(const th__safetensors *file, ptrdiff_t i);
const th__entry *th__safetensors_find(const th__safetensors *file, const char *name); /* or NULL */
/* An object of strings, empty if the file has none. */
const json_t *th__safetensors_metadata(const th__safetensors *file);
uint64_t th__safetensors_bytes(const th__safetensors *file); /* of data */

/* Fills a contiguous tensor of the same shape: floats from F64, F32, F16, BF16; TH_I32 from whole
 * numbers that fit; TH_BOOL from BOOL. A finite number that the tensor's type cannot hold is an error.
 * After an error the tensor's values are not to be used. */
th_status th__safetensors_read(th__safetensors *file, const th__entry *entry, th_tensor *tensor,
                               th_error *error);
/* Into a new tensor that you own: F16 and BF16 become f32, whole numbers TH_I32. */
th_tensor *th__safetensors_load(th__safetensors *file, const th__entry *entry, th_error *error);
/* Fills tensors[i] from entries[i], all or, on an error, none. */
th_status th__safetensors_read_all(th__safetensors *file, const th__entry *const *entries,
                                   th_tensor *const *tensors, ptrdiff_t count, th_error *error);

/* "[96, 32] F32" into a buffer, for messages. Returns it. */
#define TH__ENTRY_TEXT 96
const char *th__entry_text(char buffer[TH__ENTRY_TEXT], const th__entry *entry);

/* A tensor to be written, under a name of its own (the tensor's own name does not matter). */
typedef struct th__item {
  const char *name;
  const th_tensor *tensor; /* contiguous */
} th__item;

/* Replaces `path` by a file with these tensors, whole or not at all (io/file.h). metadata: an object
 * of strings, or NULL. Every tensor's data is aligned to its elements. */
th_status th__safetensors_write(const char *path, const th__item *items, ptrdiff_t count,
                                const json_t *metadata, th_error *error);

#endif
