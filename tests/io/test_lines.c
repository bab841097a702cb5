/* lines: a log replaces what was there with its first line, and always ends with a whole line. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/lines.h"

static char path[] = "/tmp/tapehead-lines-XXXXXX/log";

static void make_folder(void) {
  char *slash = strrchr(path, '/');
  *slash = '\0';
  cr_assert_not_null(mkdtemp(path));
  *slash = '/';
}

static void remove_folder(void) {
  unlink(path);
  *strrchr(path, '/') = '\0';
  cr_assert_eq(rmdir(path), 0, "something is left in %s", path);
}

TestSuite(lines, .init = make_folder, .fini = remove_folder);

static void expect_content(const char *want) {
  char got[256] = "";
  FILE *file = fopen(path, "r");
  cr_assert_not_null(file);
  size_t count = fread(got, 1, sizeof got - 1, file);
  fclose(file);
  cr_assert(count == strlen(want) && memcmp(got, want, count) == 0, "got \"%s\", want \"%s\"", got,
            want);
}

static th__lines opened(void) {
  th__lines lines;
  th_error error = {0};
  cr_assert_eq(th__lines_open(&lines, path, &error), TH_OK, "%s", error.message);
  return lines;
}

static void put(th__lines *lines, const char *text) {
  cr_assert_eq(th__lines_put(lines, text, strlen(text), NULL), TH_OK);
}

Test(lines, are_there_as_soon_as_they_are_put) {
  th__lines lines = opened();
  put(&lines, "one\n");
  expect_content("one\n");
  put(&lines, "two\n");
  expect_content("one\ntwo\n");
  cr_assert_eq(th__lines_close(&lines, NULL), TH_OK);
  cr_assert_eq(th__lines_close(&lines, NULL), TH_OK);
}

Test(lines, the_first_one_replaces_what_was_there) {
  th__lines lines = opened();
  put(&lines, "a long line of an older log\n");
  th__lines_close(&lines, NULL);
  lines = opened();
  expect_content("a long line of an older log\n");
  put(&lines, "new\n");
  expect_content("new\n");
  th__lines_close(&lines, NULL);
}

Test(lines, nothing_put_nothing_changed) {
  th__lines lines = opened();
  th__lines_close(&lines, NULL);
  cr_assert_eq(access(path, F_OK), -1, "an empty file is left");
  lines = opened();
  put(&lines, "old\n");
  th__lines_close(&lines, NULL);
  lines = opened();
  th__lines_close(&lines, NULL);
  expect_content("old\n");
}

/* As on a full disk, where a write may do half of what it should. */
Test(lines, a_full_disk_leaves_whole_lines) {
  signal(SIGXFSZ, SIG_IGN);
  struct rlimit limit;
  getrlimit(RLIMIT_FSIZE, &limit);
  limit.rlim_cur = 10;
  setrlimit(RLIMIT_FSIZE, &limit);
  th__lines lines = opened();
  put(&lines, "1234\n");
  th_error error = {0};
  cr_assert_eq(th__lines_put(&lines, "12345678\n", 9, &error), TH_ERR_IO);
  cr_assert_not_null(strstr(error.message, "cannot write: File too large; it ends with the last"),
                     "%s", error.message);
  expect_content("1234\n");
  cr_assert_eq(th__lines_close(&lines, NULL), TH_OK);
  expect_content("1234\n");
}

Test(lines, a_device_is_written_to_and_stays) {
  th__lines lines;
  th_error error = {0};
  cr_assert_eq(th__lines_open(&lines, "/dev/full", &error), TH_OK);
  cr_assert_eq(th__lines_put(&lines, "x\n", 2, &error), TH_ERR_IO);
  cr_assert_str_eq(error.message, "/dev/full: cannot write: No space left on device");
  th__lines_close(&lines, NULL);
  cr_assert_eq(th__lines_open(&lines, "/dev/null", &error), TH_OK);
  put(&lines, "x\n");
  th__lines_close(&lines, NULL);
  cr_assert_eq(access("/dev/null", F_OK), 0);
}

Test(lines, cannot_be_opened) {
  th__lines lines;
  th_error error = {0};
  cr_assert_eq(th__lines_open(&lines, "/tmp", &error), TH_ERR_IO);
  cr_assert_str_eq(error.message, "/tmp: cannot open for writing: Is a directory");
  cr_assert_eq(th__lines_open(&lines, "/nowhere/log", &error), TH_ERR_IO);
  cr_assert_str_eq(error.message,
                   "/nowhere/log: cannot open for writing: No such file or directory");
}
