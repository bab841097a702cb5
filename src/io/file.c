#include "io/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tensor/alloc.h"
#include "tensor/error.h"

static th_status failed(th_error *error, const char *path, const char *what) {
  return th__error(error, TH_ERR_IO, "%s: cannot %s: %s", path, what, strerror(errno));
}

static bool write_all(int file, const char *bytes, size_t count) {
  while (count > 0) {
    ssize_t written = write(file, bytes, count);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes += written;
    count -= (size_t)written;
  }
  return true;
}

/* The name of the temporary file, unique to this process, in the same folder. NULL: out of memory. */
static char *temporary_name(const char *path) {
  size_t size = strlen(path) + 32;
  char *name = th__alloc(size);
  if (name != NULL) snprintf(name, size, "%s.%ld.tmp", path, (long)getpid());
  return name;
}

/* What may be renamed over: a file, or nothing yet. Devices and pipes (/dev/stdout) are written to
 * directly, because they cannot be replaced. */
static bool is_special(const char *path) {
  struct stat status;
  return stat(path, &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
}

static th_status write_special(const char *path, const void *bytes, size_t count, th_error *error) {
  int file = open(path, O_WRONLY | O_CLOEXEC);
  if (file < 0) return failed(error, path, "open for writing");
  bool written = write_all(file, bytes, count);
  if (close(file) != 0) written = false;
  return written ? TH_OK : failed(error, path, "write");
}

/* A name in a folder is safe only once the folder itself is synced; best effort, not all have it. */
static void sync_folder(const char *path) {
  const char *slash = strrchr(path, '/');
  char folder[4096] = ".";
  if (slash != NULL)
    snprintf(folder, sizeof folder, "%.*s", (int)(slash == path ? 1 : slash - path), path);
  int file = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) return;
  fsync(file);
  close(file);
}

th_status th__write_file(const char *path, const void *bytes, size_t count, th_error *error) {
  if (is_special(path)) return write_special(path, bytes, count, error);
  char *temporary = temporary_name(path);
  if (temporary == NULL) return th__error_memory(error, path, strlen(path));
  th_status status = TH_OK;
  int file = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0)
    status = failed(error, path, "open for writing");
  else {
    bool written = write_all(file, bytes, count) && fsync(file) == 0;
    if (!written) status = failed(error, path, "write");
    if (close(file) != 0 && status == TH_OK) status = failed(error, path, "close");
    if (status == TH_OK && rename(temporary, path) != 0) status = failed(error, path, "replace");
    if (status == TH_OK)
      sync_folder(path);
    else
      unlink(temporary);
  }
  th__free(temporary);
  return status;
}

th_status th__check_writable(const char *path, th_error *error) {
  struct stat status;
  if (stat(path, &status) == 0 && S_ISDIR(status.st_mode)) {
    errno = EISDIR;
    return failed(error, path, "open for writing");
  }
  if (is_special(path))
    return access(path, W_OK) == 0 ? TH_OK : failed(error, path, "open for writing");
  char *temporary = temporary_name(path);
  if (temporary == NULL) return th__error_memory(error, path, strlen(path));
  int file = open(temporary, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  th_status result = file < 0 ? failed(error, path, "open for writing") : TH_OK;
  if (file >= 0) {
    close(file);
    unlink(temporary);
  }
  th__free(temporary);
  return result;
}

char *th__read_file(const char *path, size_t *count, th_error *error) {
  return th__read_file_upto(path, SIZE_MAX, count, error);
}

static void too_long(const char *path, size_t most, th_error *error) {
  th__error(error, TH_ERR_VALUE, "%s: longer than %zu bytes; take a part of it (head -c)", path,
            most);
}

/* Twice the room, or NULL. */
static char *enlarge(char *bytes, size_t used, size_t room) {
  char *larger = room <= SIZE_MAX / 2 ? th__alloc(2 * room) : NULL;
  if (larger != NULL) memcpy(larger, bytes, used);
  th__free(bytes);
  return larger;
}

char *th__read_file_upto(const char *path, size_t most, size_t *count, th_error *error) {
  FILE *file = fopen(path, "rbe");
  if (file == NULL) {
    failed(error, path, "open");
    return NULL;
  }
  size_t room = 1 << 16, used = 0;
  struct stat status;
  /* A file says how long it is; a pipe or a device shows when it is read. */
  if (fstat(fileno(file), &status) == 0 && S_ISREG(status.st_mode) && (size_t)status.st_size > most) {
    fclose(file);
    too_long(path, most, error);
    return NULL;
  }
  char *bytes = th__alloc(room);
  while (bytes != NULL) {
    used += fread(bytes + used, 1, room - 1 - used, file);
    if (used < room - 1 || used > most) break;
    bytes = enlarge(bytes, used, room);
    room *= 2;
  }
  bool good = false;
  if (bytes == NULL)
    th__error_memory(error, path, room);
  else if (ferror(file) != 0)
    failed(error, path, "read");
  else if (used > most)
    too_long(path, most, error);
  else
    good = true;
  fclose(file);
  if (good) {
    bytes[used] = '\0';
    *count = used;
    return bytes;
  }
  th__free(bytes);
  return NULL;
}
