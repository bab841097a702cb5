/* file.h: files that are written whole or not at all. */
#ifndef TH_IO_FILE_H
#define TH_IO_FILE_H

#include <stddef.h>

#include "tapehead.h"

/* A file on its way: what is put goes to a temporary file beside `path`, which th__output_commit syncs
 * and renames over it. Until then, and after any error, what was there is there. A symbolic link stays
 * one: the file that it names is replaced. Devices and pipes (/dev/stdout), which cannot be replaced,
 * are written to directly. */
typedef struct th__output {
  const char *path; /* for messages; kept, not copied */
  char *target;     /* what `path` leads to */
  char *temporary;
  int file; /* descriptor, -1: closed */
  bool special;
} th__output;

/* An error of any of the three names the file and the reason, and has given everything up already. */
th_status th__output_open(th__output *output, const char *path, th_error *error);
th_status th__output_put(th__output *output, const void *bytes, size_t count, th_error *error);
th_status th__output_commit(th__output *output, th_error *error);
/* Gives up; nothing happens if that is done already. */
void th__output_abandon(th__output *output);

/* Replaces `path` by these bytes, the same way. */
th_status th__write_file(const char *path, const void *bytes, size_t count, th_error *error);

/* Whether th__write_file could start: the folder exists and takes files, and path is no folder. */
th_status th__check_writable(const char *path, th_error *error);

/* The whole file, with a 0 byte behind it; *count is its length. Free with th__free. NULL on error. */
char *th__read_file(const char *path, size_t *count, th_error *error);
/* The same, but more than `most` bytes are an error: /dev/zero has no end. */
char *th__read_file_upto(const char *path, size_t most, size_t *count, th_error *error);

#endif
