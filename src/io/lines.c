#include "io/lines.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tensor/error.h"

th_status th__lines_open(th__lines *lines, const char *path, th_error *error) {
  *lines = (th__lines){.path = path, .created = true};
  lines->file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (lines->file < 0 && errno == EEXIST) {
    lines->created = false;
    lines->file = open(path, O_WRONLY | O_CLOEXEC);
  }
  struct stat status;
  if (lines->file < 0 || fstat(lines->file, &status) != 0)
    return th__error(error, TH_ERR_IO, "%s: cannot open for writing: %s", path, strerror(errno));
  lines->regular = S_ISREG(status.st_mode);
  return TH_OK;
}

static bool write_all(int file, const char *text, size_t count) {
  while (count > 0) {
    ssize_t written = write(file, text, count);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text += written;
    count -= (size_t)written;
  }
  return true;
}

th_status th__lines_put(th__lines *lines, const char *text, size_t count, th_error *error) {
  if (!lines->started && lines->regular && ftruncate(lines->file, 0) != 0)
    return th__error(error, TH_ERR_IO, "%s: cannot empty it: %s", lines->path, strerror(errno));
  lines->started = true;
  if (write_all(lines->file, text, count)) {
    lines->whole += (int64_t)count;
    return TH_OK;
  }
  int reason = errno;
  bool cut = lines->regular && ftruncate(lines->file, (off_t)lines->whole) == 0;
  return th__error(error, TH_ERR_IO, "%s: cannot write: %s%s", lines->path, strerror(reason),
                   cut ? "; it ends with the last whole line" : "");
}

th_status th__lines_close(th__lines *lines, th_error *error) {
  if (lines->file < 0) return TH_OK;
  bool closed = close(lines->file) == 0;
  lines->file = -1;
  if (lines->created && lines->regular && !lines->started) unlink(lines->path);
  if (closed) return TH_OK;
  return th__error(error, TH_ERR_IO, "%s: cannot close: %s", lines->path, strerror(errno));
}
