/* lines.h: a file that grows by whole lines while something runs, so that it can be followed. */
#ifndef TH_IO_LINES_H
#define TH_IO_LINES_H

#include <stdint.h>

#include "tapehead.h"

typedef struct th__lines {
  const char *path;
  int file; /* descriptor, -1: closed */
  bool regular, created, started;
  int64_t whole; /* bytes in whole lines */
} th__lines;

/* Opens `path` (kept, not copied) for writing. A file that was there stays as it is until the first
 * line, which replaces it; a new one that gets no line is removed by th__lines_close. */
th_status th__lines_open(th__lines *lines, const char *path, th_error *error);

/* Appends `count` bytes, one or more whole lines, at once. When that fails (a full disk) the file is
 * cut to the whole lines before, and the message says so. */
th_status th__lines_put(th__lines *lines, const char *text, size_t count, th_error *error);

/* Closes; nothing happens if it is closed already. */
th_status th__lines_close(th__lines *lines, th_error *error);

#endif
