/* tapehead version: what this build is and what it uses here. */
#include "cli/cli.h"

int command_version(int argc, char **argv) {
  cli_common options = {0};
  cli_parse(argc, argv, NULL, NULL, NULL, "Print version, compiler, BLAS, kernels and threads.",
            &options);
  if (options.json != NULL) {
    json_t *document = json_pack("{s:s, s:s, s:s, s:i}", "version", th_version(), "build",
                                 th_build_info(), "isa", th_isa(), "threads", th_threads());
    if (!cli_write_json("version", options.json, document)) return EXIT_USAGE;
    if (options.json[0] == '-') return EXIT_OK;
  }
  printf("tapehead %s\n%s\nkernels: %s\nthreads: %d\n", th_version(), th_build_info(), th_isa(),
         th_threads());
  return EXIT_OK;
}
