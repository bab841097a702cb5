/* The checker is quick enough to be run at each build: one attention layer at every coordinate within 5 s
 * of two cores, all operations within 20 s. Counted is the time of the processor, so that a busy machine
 * does not matter.
 * ctest: full, serial */
#include <time.h>

#include "support.h"

static th_tensor *attend(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  return th_attention(tape, in[0], in[1], in[2], NULL);
}

static th_tensor *multi_head(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  const th_mha_weights w = {in[1], in[2], in[3], in[4], NULL, NULL, NULL, NULL};
  return th_multi_head_attention(tape, in[0], in[0], &w, 4, NULL);
}

/* Seconds that two cores would need. */
static double seconds_for(const th_check *check, th_check_mode mode) {
  th_gradcheck_result r;
  th_error error = {TH_OK, ""};
  clock_t start = clock();
  cr_assert_eq(
      th_gradcheck_case(check, &(th_gradcheck_options){.mode = mode, .f32 = true}, &r, &error),
      TH_OK, "%s", error.message);
  cr_assert(th_verdict_ok(r.verdict), "%s", th_verdict_name(r.verdict));
  return (double)(clock() - start) / CLOCKS_PER_SEC / 2;
}

#if defined(__SANITIZE_ADDRESS__)
#define SLOWER 10 /* what the sanitizers cost */
#else
#define SLOWER 1
#endif

Test(check_time, one_attention_layer) {
  const th_check attention = {.forward = attend,
                              .input_count = 3,
                              .inputs = {{"q", TH_FILL_NORMAL, 0, 4, {2, 4, 16, 32}},
                                         {"k", TH_FILL_NORMAL, 0, 4, {2, 4, 16, 32}},
                                         {"v", TH_FILL_NORMAL, 0, 4, {2, 4, 16, 32}}}};
  double seconds = seconds_for(&attention, TH_CHECK_EVERY);
  cr_assert_lt(seconds, 5 * SLOWER, "%.1f s", seconds);
  const th_check layer = {.forward = multi_head,
                          .input_count = 5,
                          .inputs = {{"x", TH_FILL_NORMAL, 0, 3, {2, 16, 32}},
                                     {"wq", TH_FILL_NORMAL, 0.2, 2, {32, 32}},
                                     {"wk", TH_FILL_NORMAL, 0.2, 2, {32, 32}},
                                     {"wv", TH_FILL_NORMAL, 0.2, 2, {32, 32}},
                                     {"wo", TH_FILL_NORMAL, 0.2, 2, {32, 32}}}};
  seconds = seconds_for(&layer, TH_CHECK_EVERY);
  cr_assert_lt(seconds, 5 * SLOWER, "%.1f s", seconds);
}

Test(check_time, all_operations) {
  double seconds = 0;
  for (const th_op *const *op = th__ops; *op != NULL; op++)
    for (const th_check *check = (*op)->checks; check->forward != NULL; check++)
      seconds += seconds_for(check, TH_CHECK_AUTO);
  cr_assert_lt(seconds, 20 * SLOWER, "%.1f s", seconds);
}
