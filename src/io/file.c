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

/* ---- writing ---- */

/* Where `path` leads: symbolic links are followed, also one to a file that is not there yet. NULL, and
 * errno: out of memory, or a circle. */
static char *follow_links(const char *path) {
  enum { ROOM = 4096, LINKS = 40 };
  char *name = th__alloc(3 * ROOM);
  if (name == NULL) {
    errno = ENOMEM;
    return NULL;
  }
  char *link = name + ROOM;
  snprintf(name, ROOM, "%s", path);
  for (int i = 0; i < LINKS; i++) {
    const char *slash = strrchr(name, '/');
    size_t folder = slash == NULL ? 0 : (size_t)(slash - name) + 1;
    ssize_t length = readlink(name, link + folder, ROOM);
    if (length < 0) return name;
    if (link[folder] == '/')
      memmove(link, link + folder, (size_t)length);
    else
      memcpy(link, name, folder), length += (ssize_t)folder;
    if (length >= ROOM) break;
    memcpy(name, link, (size_t)length);
    name[length] = '\0';
  }
  th__free(name);
  errno = ELOOP;
  return NULL;
}

/* The name of the temporary file, unique to this process, in the same folder. NULL: out of memory. */
static char *temporary_name(const char *path) {
  size_t size = strlen(path) + 32;
  char *name = th__alloc(size);
  if (name != NULL) snprintf(name, size, "%s.%ld.tmp", path, (long)getpid());
  return name;
}

/* What may be renamed over: a file, or nothing yet. */
static bool is_special(const char *path) {
  struct stat status;
  return stat(path, &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
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

void th__output_abandon(th__output *output) {
  if (output->file >= 0) close(output->file);
  output->file = -1;
  if (output->temporary != NULL) unlink(output->temporary);
  th__free(output->temporary);
  th__free(output->target);
  output->temporary = output->target = NULL;
}

/* Says what failed, by errno, and gives up. */
static th_status give_up(th__output *output, const char *what, th_error *error) {
  th_status status = failed(error, output->path, what);
  th__output_abandon(output);
  return status;
}

/* Who may read the old file may read the new one, and nobody else. */
static void keep_mode(const th__output *output) {
  struct stat status;
  if (output->file >= 0 && stat(output->target, &status) == 0 && S_ISREG(status.st_mode) &&
      fchmod(output->file, status.st_mode & 07777) != 0)
    return; /* some file systems have no modes */
}

th_status th__output_open(th__output *output, const char *path, th_error *error) {
  *output = (th__output){.path = path, .file = -1, .special = is_special(path)};
  if (output->special) {
    output->file = open(path, O_WRONLY | O_CLOEXEC);
  } else {
    output->target = follow_links(path);
    if (output->target == NULL && errno == ELOOP) return give_up(output, "open for writing", error);
    if (output->target != NULL) output->temporary = temporary_name(output->target);
    if (output->temporary == NULL) {
      th__output_abandon(output);
      return th__error_memory(error, path, strlen(path));
    }
    output->file = open(output->temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    keep_mode(output);
  }
  return output->file >= 0 ? TH_OK : give_up(output, "open for writing", error);
}

th_status th__output_put(th__output *output, const void *bytes, size_t count, th_error *error) {
  return write_all(output->file, bytes, count) ? TH_OK : give_up(output, "write", error);
}

th_status th__output_commit(th__output *output, th_error *error) {
  if (!output->special && fsync(output->file) != 0) return give_up(output, "write", error);
  int file = output->file;
  output->file = -1;
  if (close(file) != 0) return give_up(output, "close", error);
  if (!output->special) {
    if (rename(output->temporary, output->target) != 0) return give_up(output, "replace", error);
    sync_folder(output->target);
    th__free(output->temporary);
    output->temporary = NULL;
  }
  th__output_abandon(output);
  return TH_OK;
}

th_status th__write_file(const char *path, const void *bytes, size_t count, th_error *error) {
  th__output output;
  th_status status = th__output_open(&output, path, error);
  if (status == TH_OK) status = th__output_put(&output, bytes, count, error);
  if (status == TH_OK) status = th__output_commit(&output, error);
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
  th__output output;
  th_status result = th__output_open(&output, path, error);
  th__output_abandon(&output);
  return result;
}

/* ---- reading ---- */

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
