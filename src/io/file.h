/* file.h: files that are written whole or not at all. */
#ifndef TH_IO_FILE_H
#define TH_IO_FILE_H

#include <stddef.h>

#include "tapehead.h"

/* Replaces `path` by these bytes: a temporary file in the same folder, synced, then renamed. An error
 * names the file and the reason, and leaves what was there. */
th_status th__write_file(const char *path, const void *bytes, size_t count, th_error *error);

/* Whether th__write_file could start: the folder exists and takes files, and path is no folder. */
th_status th__check_writable(const char *path, th_error *error);

/* The whole file, with a 0 byte behind it; *count is its length. Free with th__free. NULL on error. */
char *th__read_file(const char *path, size_t *count, th_error *error);
/* The same, but more than `most` bytes are an error: /dev/zero has no end. */
char *th__read_file_upto(const char *path, size_t most, size_t *count, th_error *error);

#endif
