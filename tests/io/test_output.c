/* A save never destroys what was saved before (C24): killed at each tenth, disk full, no place to write,
 * left-over temporary files, symbolic links. */
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/file.h"
#include "tapehead.h"
#include "tensor/alloc.h"

#define PATH "test_output.safetensors"
enum { ROWS = 100, COLUMNS = 1000 };

static th_params *params_of(float value) {
  th_params *params = th_params_new(NULL);
  const char *names[] = {"first", "second", "third"};
  for (int i = 0; i < 3; i++) {
    th_tensor *tensor = th_params_add(params, names[i], TH_F32, TH_SHAPE(ROWS, COLUMNS), NULL);
    float *data = th_tensor_data(tensor);
    for (int j = 0; j < ROWS * COLUMNS; j++) data[j] = value + (float)j;
  }
  return params;
}

static void save(float value) {
  th_params *params = params_of(value);
  th_error error = {0};
  cr_assert_eq(th_params_save(params, PATH, &error), TH_OK, "%s", error.message);
  th_params_free(params);
}

static void expect_file(const char *path, float value) {
  th_params *want = params_of(value), *got = params_of(-1);
  th_error error = {0};
  cr_assert_eq(th_params_load(got, path, &error), TH_OK, "%s", error.message);
  for (ptrdiff_t i = 0; i < 3; i++)
    cr_assert_eq(memcmp(th_tensor_data(th_params_at(want, i)), th_tensor_data(th_params_at(got, i)),
                        ROWS * COLUMNS * sizeof(float)),
                 0);
  th_params_free(want);
  th_params_free(got);
}

static off_t size_of(const char *path) {
  struct stat status;
  return stat(path, &status) == 0 ? status.st_size : -1;
}

/* Saves `value` in a child process that may write files of `limit` bytes only. Going beyond kills it,
 * or, if `survives`, makes the write fail as a full disk does. Returns the child's wait status. */
static int save_within(off_t limit, bool survives, float value, pid_t *child) {
  *child = fork();
  cr_assert(*child >= 0);
  if (*child == 0) {
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    signal(SIGXFSZ, survives ? SIG_IGN : SIG_DFL);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){(rlim_t)limit, (rlim_t)limit});
    th_error error = {0};
    th_status status = th_params_save(params_of(value), PATH, &error);
    _exit(status == TH_OK                                                                ? 0
          : status == TH_ERR_IO && strstr(error.message, "cannot write: File too large") ? 1
                                                                                         : 2);
  }
  int status = 0;
  cr_assert_eq(waitpid(*child, &status, 0), *child);
  return status;
}

Test(output, killed_at_each_tenth) {
  save(1);
  off_t size = size_of(PATH);
  for (int tenth = 0; tenth <= 10; tenth++) {
    pid_t child;
    int status = save_within(size * tenth / 10, false, 2, &child);
    char left[128];
    snprintf(left, sizeof left, PATH ".%ld.tmp", (long)child);
    if (tenth < 10) {
      cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ, "tenth %d: %d", tenth, status);
      cr_assert_eq(size_of(left), size * tenth / 10, "tenth %d", tenth);
      expect_file(PATH, 1);
    } else {
      cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%d", status);
      cr_assert_eq(size_of(left), -1);
      expect_file(PATH, 2);
    }
    unlink(left);
  }
  unlink(PATH);
}

Test(output, disk_full_at_each_tenth) {
  save(1);
  off_t size = size_of(PATH);
  for (int tenth = 0; tenth < 10; tenth++) {
    pid_t child;
    int status = save_within(size * tenth / 10, true, 2, &child);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 1, "tenth %d: %d", tenth, status);
    char left[128];
    snprintf(left, sizeof left, PATH ".%ld.tmp", (long)child);
    cr_assert_eq(size_of(left), -1, "%s", left);
    expect_file(PATH, 1);
  }
  unlink(PATH);
}

Test(output, a_full_device) {
  th_params *params = params_of(1);
  th_error error = {0};
  cr_assert_eq(th_params_save(params, "/dev/full", &error), TH_ERR_IO);
  cr_assert_str_eq(error.message, "/dev/full: cannot write: No space left on device");
  th_params_free(params);
}

Test(output, no_place_to_write) {
  th_params *params = params_of(1);
  th_error error = {0};
  cr_assert_eq(th_params_save(params, "missing_folder/x", &error), TH_ERR_IO);
  cr_assert_str_eq(error.message,
                   "missing_folder/x: cannot open for writing: No such file or directory");
  cr_assert_eq(th_params_save(params, ".", &error), TH_ERR_IO);
  th_params_free(params);
}

/* Nobody writes into a folder that is read-only; root does, and becomes somebody else for the test. */
Test(output, read_only_folder) {
  const char *folder = "test_output.folder";
  mkdir(folder, 0755);
  save(1);
  cr_assert_eq(rename(PATH, "test_output.folder/x"), 0);
  cr_assert_eq(chmod(folder, 0555), 0);
  bool root = geteuid() == 0, changed = !root || seteuid(65534) == 0;
  th_params *params = params_of(2);
  th_error error = {0};
  th_status status = th_params_save(params, "test_output.folder/x", &error);
  th_status check = th__check_writable("test_output.folder/x", NULL);
  if (root && changed) cr_assert_eq(seteuid(0), 0);
  if (changed) {
    cr_assert(status == TH_ERR_IO && check == TH_ERR_IO);
    cr_assert_not_null(strstr(error.message, "x: cannot open for writing: Permission denied"), "%s",
                       error.message);
    expect_file("test_output.folder/x", 1);
  }
  th_params_free(params);
  chmod(folder, 0755);
  unlink("test_output.folder/x");
  cr_assert_eq(rmdir(folder), 0, "%s", strerror(errno)); /* nothing else was left in it */
}

/* A temporary file of a process that was killed, even of our own number, does no harm. */
Test(output, left_over_temporary_file) {
  char mine[128];
  snprintf(mine, sizeof mine, PATH ".%ld.tmp", (long)getpid());
  const char *names[] = {mine, PATH ".1.tmp"};
  save(1);
  off_t size = size_of(PATH);
  for (int i = 0; i < 2; i++) {
    FILE *file = fopen(names[i], "wb");
    for (off_t j = 0; j < 2 * size; j++) fputc('x', file);
    fclose(file);
  }
  expect_file(PATH, 1);
  save(2);
  expect_file(PATH, 2);
  cr_assert_eq(size_of(PATH), size);
  cr_assert_eq(size_of(mine), -1);
  unlink(PATH ".1.tmp");
  unlink(PATH);
}

static bool is_link(const char *path) {
  struct stat status;
  return lstat(path, &status) == 0 && S_ISLNK(status.st_mode);
}

/* The target is replaced, in its own folder; the link stays. Also where the target is not there yet. */
Test(output, symbolic_links) {
  mkdir("test_output.links", 0755);
  const char *target = "test_output.links/target", *chain = "test_output.links/chain";
  unlink(PATH);
  cr_assert_eq(symlink("target", chain), 0); /* relative to its own folder */
  cr_assert_eq(symlink("test_output.links/chain", PATH), 0);
  save(1);
  expect_file(target, 1);
  save(2);
  expect_file(target, 2);
  expect_file(PATH, 2);
  cr_assert(is_link(PATH) && is_link(chain) && !is_link(target));
  cr_assert_eq(unlink(chain), 0);
  cr_assert_eq(symlink("../" PATH, chain), 0);
  th_params *params = params_of(3);
  th_error error = {0};
  cr_assert_eq(th_params_save(params, PATH, &error), TH_ERR_IO);
  cr_assert_str_eq(error.message,
                   PATH ": cannot open for writing: Too many levels of symbolic links");
  cr_assert(is_link(PATH) && is_link(chain));
  expect_file(target, 2);
  th_params_free(params);
  unlink(chain);
  unlink(target);
  unlink(PATH);
  cr_assert_eq(rmdir("test_output.links"), 0);
}

Test(output, an_absolute_link) {
  char folder[4096], target[4200];
  cr_assert_not_null(getcwd(folder, sizeof folder));
  snprintf(target, sizeof target, "%s/test_output.target", folder);
  unlink(PATH);
  cr_assert_eq(symlink(target, PATH), 0);
  save(1);
  cr_assert(is_link(PATH));
  expect_file("test_output.target", 1);
  unlink(target);
  unlink(PATH);
}

/* A file that only its owner may read does not become one that everybody may read. */
Test(output, mode_is_kept) {
  save(1);
  cr_assert_eq(chmod(PATH, 0600), 0);
  save(2);
  struct stat status;
  cr_assert_eq(stat(PATH, &status), 0);
  cr_assert_eq(status.st_mode & 07777, 0600);
  unlink(PATH);
}

Test(output, giving_up_twice) {
  th__output output;
  cr_assert_eq(th__output_open(&output, PATH, NULL), TH_OK);
  cr_assert_eq(th__output_put(&output, "abc", 3, NULL), TH_OK);
  th__output_abandon(&output);
  th__output_abandon(&output);
  cr_assert_eq(size_of(PATH), -1);
}
