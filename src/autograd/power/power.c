/* power.c: one fault against one mode. */
#include "autograd/power/power.h"

#include <stdio.h>
#include <string.h>

th_status th__power_run(const th__fault *fault, th_check_mode mode, uint64_t seed,
                        th__power_result *result, th_error *error) {
  th__planted planted;
  th_check check;
  th__plant(fault, &planted, &check);
  th_gradcheck_result found;
  *result = (th__power_result){0};
  /* Of the small inputs here a sample must leave something out. */
  const th_gradcheck_options options = {.mode = mode, .seed = seed, .samples = 12};
  th_status status = th_gradcheck_case(&check, &options, &found, error);
  if (status != TH_OK) return status;
  result->caught = !th_verdict_ok(found.verdict);
  /* The finding of the spoiled input, or where all are, the first that is known. */
  for (int r = 0; r < found.row_count; r++) {
    const th_gradcheck_row *row = &found.rows[r];
    bool better = result->diagnosis[0] == '\0' || strcmp(result->diagnosis, "unknown") == 0;
    if (row->diagnosis[0] == '\0' || !better) continue;
    snprintf(result->diagnosis, sizeof result->diagnosis, "%s", row->diagnosis);
    snprintf(result->cause, sizeof result->cause, "%s", row->cause);
  }
  result->named = result->caught && strcmp(result->diagnosis, th__bug_name(fault->kind)) == 0;
  return TH_OK;
}
