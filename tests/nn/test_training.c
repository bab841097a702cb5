/* training: what a step must not do: ask for memory, depend on threads, on evaluation or on where it
 * was interrupted (C19). */
#include "loop.h"

#include <malloc.h>

#include "tensor/alloc.h"

static const th_task_options copy = {.kind = TH_TASK_COPY, .seq = 16, .batch = 32, .seed = 1};
static const th_task_options recall = {.kind = TH_TASK_RECALL, .seq = 64, .batch = 16, .seed = 1};
static const th_gpt micro = {.layers = 1, .heads = 2, .width = 32, .init = TH_INIT_WIDTH};
static const th_gpt toy = {
    .layers = 2, .heads = 4, .width = 64, .dropout = 0.1, .init = TH_INIT_WIDTH};

/* After the first step, ten more ask neither us nor the C library for memory that they keep. */
static void allocates_nothing(th_task_options task, th_gpt config, int threads) {
  th_set_threads(threads);
  loop l = loop_new(task, config, 1e-3);
  loop_step(&l);
  size_t count = th__alloc_count(), held = th_tape_bytes(l.tape);
  size_t heap = mallinfo2().uordblks;
  for (int i = 0; i < 10; i++) loop_step(&l);
  cr_assert_eq(th__alloc_count(), count, "%zu allocations in ten steps", th__alloc_count() - count);
  cr_assert_eq(th_tape_bytes(l.tape), held);
  cr_assert_eq(mallinfo2().uordblks, heap);
  loop_free(&l);
  th_set_threads(0);
}

Test(training, a_step_allocates_nothing) {
  for (int threads = 1; threads <= 2; threads++) {
    allocates_nothing(copy, micro, threads);
    allocates_nothing(recall, toy, threads);
  }
}

/* The parameters after five steps, one after another. Free it. */
static double *after_five_steps(int threads, th_dtype dtype, ptrdiff_t *count) {
  th_set_threads(threads);
  th_gpt config = toy;
  config.dtype = dtype;
  loop l = loop_new(recall, config, 1e-3);
  for (int i = 0; i < 5; i++) loop_step(&l);
  th_params *params = th_model_params(l.model);
  *count = th_params_elements(params);
  double *values = malloc((size_t)*count * sizeof *values), *at = values;
  for (ptrdiff_t i = 0; i < th_params_count(params); i++) {
    th_tensor_read(th_params_at(params, i), at);
    at += th_tensor_count(th_params_at(params, i));
  }
  loop_free(&l);
  th_set_threads(0);
  return values;
}

TEST_BOTH(training, same_bits_at_any_number_of_threads) {
  ptrdiff_t count;
  double *one = after_five_steps(1, dtype, &count);
  for (int threads = 2; threads <= 3; threads++) {
    double *several = after_five_steps(threads, dtype, &count);
    for (ptrdiff_t i = 0; i < count; i++)
      cr_assert_eq(one[i], several[i], "parameter %td of %td at %d threads: %.9g against %.9g", i,
                   count, threads, several[i], one[i]);
    free(several);
  }
  free(one);
}

/* C19: losses with dropout are the same bits whether one evaluates every step, every fifth or never,
 * and whether a run goes on with a task and a tape made anew. */
Test(training, evaluation_and_interruption_leave_no_trace) {
  double losses[4][10];
  for (int run = 0; run < 4; run++) {
    loop l = loop_new(copy, toy, 1e-3);
    for (int step = 0; step < 10; step++) {
      losses[run][step] = loop_step(&l);
      int every = (int[]){1, 5, 99, 99}[run];
      if (step % every == 0) loop_accuracy(&l, (uint64_t)step);
      if (run == 3 && step == 4) {
        th_task_free(l.task);
        th_tape_free(l.tape);
        l.task = th_task_new(&copy, NULL);
        l.tape = th_tape_new();
      }
    }
    loop_free(&l);
    cr_assert_eq(memcmp(losses[run], losses[0], sizeof losses[0]), 0, "run %d", run);
  }
}
