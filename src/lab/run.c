/* run.c: a run's folder: whose it is, what is written when, and how it is taken up again. */
#include "lab/run.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/file.h"
#include "tensor/alloc.h"
#include "tensor/error.h"

static th_status failed(th_error *error, const char *path, const char *what) {
  return th__error(error, TH_ERR_IO, "%.150s: cannot %s: %s", path, what, strerror(errno));
}

static bool exists(const char *path) { return access(path, F_OK) == 0; }

/* ---- opening ---- */

static char *path_of(const char *folder, const char *name) {
  size_t size = strlen(folder) + strlen(name) + 2;
  char *path = th__alloc(size);
  if (path != NULL) snprintf(path, size, "%s/%s", folder, name);
  return path;
}

static bool make_paths(th__run *run, const char *folder) {
  run->config = path_of(folder, "config.json");
  run->log_path = path_of(folder, "log.jsonl");
  run->last = path_of(folder, "last.safetensors");
  run->best = path_of(folder, "best.safetensors");
  run->plots = path_of(folder, "plots.svg");
  return run->config != NULL && run->log_path != NULL && run->last != NULL && run->best != NULL &&
         run->plots != NULL;
}

/* A lock on the folder itself: it goes with the process, however that ends. */
static th_status lock_folder(th__run *run, th_error *error) {
  run->lock = open(run->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (run->lock < 0) return failed(error, run->folder, "open");
  if (flock(run->lock, LOCK_EX | LOCK_NB) == 0) return TH_OK;
  if (errno != EWOULDBLOCK) return TH_OK; /* a file system without locks */
  return th__error(error, TH_ERR_STATE, "%.150s: another run is writing there now", run->folder);
}

static th_status check_place(const char *folder, th_error *error) {
  char *parent = path_of(folder, "..");
  if (parent == NULL) return th__error_memory(error, "run", strlen(folder));
  size_t length = strlen(folder);
  while (length > 1 && folder[length - 1] == '/') length--;
  while (length > 0 && folder[length - 1] != '/') length--;
  snprintf(parent, length + 1, "%s", folder);
  if (length == 0) strcpy(parent, ".");
  th_status status =
      access(parent, W_OK | X_OK) == 0 ? TH_OK : failed(error, folder, "make the folder");
  th__free(parent);
  return status;
}

th_status th__run_open(th__run *run, const char *folder, bool resume, bool force, th_error *error) {
  *run = (th__run){.folder = folder, .lock = -1, .log.file = -1, .saved = -1};
  if (!make_paths(run, folder)) return th__error_memory(error, "run", strlen(folder));
  bool there =
      exists(run->config) || exists(run->last) || exists(run->log_path) || exists(run->best);
  if (there && !resume && !force)
    return th__error(error, TH_ERR_STATE,
                     "%.100s holds a run; go on with it (--resume), replace it (--force), or name "
                     "another folder",
                     folder);
  if (resume && !exists(run->config) && !exists(run->last))
    return th__error(error, TH_ERR_STATE, "%.150s holds no run that could be resumed", folder);
  struct stat status;
  if (stat(folder, &status) != 0) return check_place(folder, error);
  th_status result = lock_folder(run, error);
  if (result == TH_OK) result = th__check_writable(run->config, error);
  if (result == TH_OK && resume && exists(run->last)) {
    run->checkpoint = th__checkpoint_open(run->last, error);
    if (run->checkpoint == NULL) return TH_ERR_IO;
  }
  return result;
}

void th__run_close(th__run *run) {
  th__lines_close(&run->log, NULL);
  th__checkpoint_close(run->checkpoint);
  if (run->lock >= 0) close(run->lock);
  th__free(run->config);
  th__free(run->log_path);
  th__free(run->last);
  th__free(run->best);
  th__free(run->plots);
  *run = (th__run){.lock = -1, .log.file = -1};
}

th_status th__run_stored_config(th__run *run, th__train *config, th_error *error) {
  th__train edited = {0};
  th_status status = TH_OK;
  if (run->checkpoint == NULL) return th__train_read(config, run->config, error);
  status = th__trainer_stored_config(run->checkpoint, run->last, config, error);
  if (status == TH_OK && exists(run->config)) status = th__train_read(&edited, run->config, error);
  if (status == TH_OK) status = th__train_merge_resume(config, &edited, run->last, error);
  th__train_free(&edited);
  return status;
}

/* ---- beginning, going on ---- */

/* Temporary files of a writer that was killed: "last.safetensors.123.tmp". The folder is locked, so that
 * nobody is writing them now. */
static void remove_leftovers(const th__run *run) {
  DIR *list = opendir(run->folder);
  if (list == NULL) return;
  for (struct dirent *entry; (entry = readdir(list)) != NULL;) {
    const char *name = entry->d_name;
    size_t length = strlen(name);
    bool ours = strncmp(name, "last.safetensors.", 17) == 0 ||
                strncmp(name, "best.safetensors.", 17) == 0 ||
                strncmp(name, "config.json.", 12) == 0 || strncmp(name, "plots.svg.", 10) == 0;
    if (ours && length > 4 && strcmp(name + length - 4, ".tmp") == 0)
      unlinkat(dirfd(list), name, 0);
  }
  closedir(list);
}

/* With as few digits as give the same numbers again: 0.1 and not 0.10000000000000001, but all of those
 * that a rate has. */
static char *exact_text(const json_t *json) {
  for (size_t digits = 15;; digits++) {
    char *text = json_dumps(json, JSON_INDENT(2) | JSON_REAL_PRECISION(digits));
    json_t *again = text == NULL ? NULL : json_loads(text, 0, NULL);
    bool same = json_equal(json, again);
    json_decref(again);
    if (same || text == NULL || digits == 17) return text;
    th__free(text);
  }
}

static th_status write_config(const th__run *run, const th__train *config, th_error *error) {
  json_t *json = th__train_to_json(config);
  char *text = json == NULL ? NULL : exact_text(json);
  json_decref(json);
  if (text == NULL)
    return th__error(error, TH_ERR_VALUE,
                     "%.100s: the configuration cannot be written as JSON: memory ends, or a file's "
                     "name is not UTF-8",
                     run->config);
  size_t length = strlen(text);
  text[length] = '\n'; /* in place of the 0 */
  th_status status = th__write_file(run->config, text, length + 1, error);
  th__free(text);
  return status;
}

/* The length of the log up to the last line that belongs to the steps done. */
static off_t log_length(const char *path, long step) {
  FILE *file = fopen(path, "rbe");
  if (file == NULL) return 0;
  char *line = NULL;
  size_t room = 0;
  off_t length = 0;
  for (ssize_t got; (got = getline(&line, &room, file)) > 0; length += got) {
    if (line[got - 1] != '\n') break;
    /* As doubles: a seed may be too large for JSON's whole numbers as jansson has them. */
    json_t *json = json_loadb(line, (size_t)got, JSON_DECODE_INT_AS_REAL, NULL);
    const json_t *number = json_object_get(json, "step");
    bool keep = json_is_real(number) && json_real_value(number) <= (double)step &&
                !json_is_true(json_object_get(json, "final"));
    json_decref(json);
    if (!keep) break;
  }
  th__free(line);
  fclose(file);
  return length;
}

static th_status open_log(th__run *run, long step, th_error *error) {
  struct stat status;
  if (stat(run->log_path, &status) == 0 && !S_ISREG(status.st_mode)) /* /dev/full has no end */
    return th__error(error, TH_ERR_IO, "%.150s: it is no regular file", run->log_path);
  off_t length = log_length(run->log_path, step);
  int file = open(run->log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file < 0) return failed(error, run->log_path, "open for writing");
  run->log = (th__lines){
      .path = run->log_path, .file = file, .regular = true, .started = true, .whole = length};
  return ftruncate(file, length) == 0 ? TH_OK : failed(error, run->log_path, "cut");
}

th_status th__run_begin(th__run *run, const th__train *config, long step, th_error *error) {
  if (run->lock < 0) {
    if (mkdir(run->folder, 0777) != 0 && errno != EEXIST)
      return failed(error, run->folder, "make the folder");
    th_status status = lock_folder(run, error);
    if (status != TH_OK) return status;
  }
  remove_leftovers(run);
  if (step == 0) { /* new, or nothing of it was saved */
    const char *const old[] = {run->log_path, run->last, run->best, run->plots};
    for (int i = 0; i < 4; i++)
      if (unlink(old[i]) != 0 && errno != ENOENT) return failed(error, old[i], "remove");
  }
  th_status status = write_config(run, config, error);
  if (status == TH_OK) status = open_log(run, step, error);
  run->begun = status == TH_OK;
  if (step > 0) run->saved = step;
  return status;
}

/* ---- saving ---- */

th_status th__run_save(th__run *run, const th__trainer *trainer, th_error *error) {
  if (run->log.file >= 0 && fsync(run->log.file) != 0 && errno != EINVAL)
    return failed(error, run->log_path, "write");
  th_status status = th__trainer_save(trainer, run->last, true, error);
  if (status == TH_OK) run->saved = trainer->state.step;
  return status;
}

th_status th__run_save_best(th__run *run, const th__trainer *trainer, th_error *error) {
  return th__trainer_save(trainer, run->best, false, error);
}
