/* machine: how much memory a process may take, in a container, too. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lab/machine.h"

static char root[64];

static void write_file(const char *name, const char *text) {
  char path[256];
  snprintf(path, sizeof path, "%s/%s", root, name);
  for (char *slash = strchr(path + strlen(root) + 1, '/'); slash != NULL;
       slash = strchr(slash + 1, '/')) {
    *slash = '\0';
    mkdir(path, 0777);
    *slash = '/';
  }
  FILE *file = fopen(path, "w");
  cr_assert_not_null(file, "%s", path);
  fputs(text, file);
  fclose(file);
}

static void make_root(void) {
  snprintf(root, sizeof root, "/tmp/tapehead-machine-XXXXXX");
  cr_assert_not_null(mkdtemp(root));
}

static void remove_root(void) {
  char command[128];
  snprintf(command, sizeof command, "rm -rf %s", root);
  cr_assert_eq(system(command), 0);
}

static double left(void) {
  char groups[128];
  snprintf(groups, sizeof groups, "%s/self", root);
  return th__machine_group_memory(root, groups);
}

TestSuite(machine, .init = make_root, .fini = remove_root);

Test(machine, the_system_says) {
  double bytes = th__machine_memory();
  cr_assert(bytes > 0x1p20 && bytes < 0x1p50, "%g", bytes);
}

Test(machine, no_limit) {
  cr_assert(isinf(left())); /* no list of groups at all */
  write_file("self", "0::/user/shell\n");
  cr_assert(isinf(left())); /* no files */
  write_file("user/shell/memory.max", "max\n");
  write_file("user/shell/memory.current", "1000\n");
  cr_assert(isinf(left()));
}

Test(machine, the_tightest_group_counts) {
  write_file("self", "0::/user/shell\n");
  write_file("user/shell/memory.max", "9000000\n");
  write_file("user/shell/memory.current", "1000000\n");
  cr_assert_eq(left(), 8e6);
  write_file("user/memory.max", "5000000\n");
  write_file("user/memory.current", "3000000\n");
  cr_assert_eq(left(), 2e6);
  write_file("user/memory.stat", "anon 5\nfile 7\ninactive_file 500000\n");
  cr_assert_eq(left(), 2.5e6);
  write_file("user/memory.current", "6000000\n");
  cr_assert_eq(left(), 0);
  write_file("memory.max", "max\n"); /* the root, as a container sees its own group */
  cr_assert_eq(left(), 0);
}

Test(machine, a_container_that_does_not_see_its_path) {
  write_file("self", "0::/\n");
  write_file("memory.max", "4000\n");
  write_file("memory.current", "1000\n");
  cr_assert_eq(left(), 3000);
}

Test(machine, first_version_of_groups) {
  write_file("self", "5:cpu:/\n4:memory:/docker/abc\n0::/\n");
  write_file("memory/memory.limit_in_bytes", "7000\n");
  write_file("memory/memory.usage_in_bytes", "6000\n");
  write_file("memory/memory.stat", "inactive_file 1\ntotal_inactive_file 2000\n");
  cr_assert_eq(left(), 3000);
}
