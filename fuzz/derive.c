/* libFuzzer target for `tapehead check`: any bytes must give a report, within the limits, and nothing
 * else. tests/derive/fuzz.sh runs it, with the examples as its first inputs. */
#include <stddef.h>
#include <stdint.h>

#include "derive/derive.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  th__derive_options options = {.seed = 1, .draws = 3};
  options.limits = (th__limits){.elements = 20000, .work = 3e5, .vertices = 500};
  th__report *report = th__derive_check((const char *)data, size, &options);
  th__report_free(report);
  return 0;
}
