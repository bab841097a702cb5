/* file: reading with a limit. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "io/file.h"
#include "tensor/alloc.h"

static void refused(const char *path, size_t most, th_status status, const char *sentence) {
  size_t count = 0;
  th_error error = {0};
  cr_assert_null(th__read_file_upto(path, most, &count, &error));
  cr_assert_eq(error.status, status, "%s", error.message);
  cr_assert_not_null(strstr(error.message, sentence), "%s", error.message);
}

Test(file, reading_stops_at_the_limit) {
  refused("/dev/zero", 1 << 20, TH_ERR_VALUE, "/dev/zero: longer than 1048576 bytes; take a part");
  refused("/dev/zero", 0, TH_ERR_VALUE, "longer than 0 bytes");
  refused("/", 100, TH_ERR_IO, "/: cannot read: Is a directory");
  refused("/nowhere/x", 100, TH_ERR_IO, "/nowhere/x: cannot open: No such file");
}

/* Also beyond the room that reading begins with. */
Test(file, a_file_of_just_the_limit) {
  enum { COUNT = 200000 };
  static char bytes[COUNT];
  const char *path = "test_file.bytes";
  for (int i = 0; i < COUNT; i++) bytes[i] = (char)(i * 7);
  cr_assert_eq(th__write_file(path, bytes, COUNT, NULL), TH_OK);
  refused(path, COUNT - 1, TH_ERR_VALUE, "longer than 199999 bytes");
  refused(path, 10, TH_ERR_VALUE, "longer than 10 bytes");
  size_t count = 0;
  char *read = th__read_file_upto(path, COUNT, &count, NULL);
  cr_assert(read != NULL && count == COUNT && memcmp(read, bytes, COUNT) == 0);
  cr_assert_eq(read[COUNT], '\0');
  th__free(read);
  remove(path);
}
