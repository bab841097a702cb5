/* long training: memory stays flat over 10,000 steps that add up the loss for a log (C11), and the toy
 * tasks are learned: held-out accuracy is what the model was trained for.
 * ctest: full */
#include "loop.h"

#include <malloc.h>
#include <stdio.h>
#include <unistd.h>

static long resident_pages(void) {
  long size = 0, resident = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  cr_assert_not_null(file);
  cr_assert_eq(fscanf(file, "%ld %ld", &size, &resident), 2);
  fclose(file);
  return resident;
}

Test(long_training, memory_is_flat_over_ten_thousand_steps, .timeout = 900) {
  th_set_threads(1); /* so small a step gains little from more */
  loop l = loop_new((th_task_options){.kind = TH_TASK_COPY, .seq = 16, .batch = 32, .seed = 1},
                    (th_gpt){.layers = 1, .heads = 2, .width = 32, .init = TH_INIT_WIDTH}, 1e-3);
  double sum = 0;
  for (int i = 0; i < 100; i++) sum += loop_step(&l);
  size_t heap = mallinfo2().uordblks, held = th_tape_bytes(l.tape);
  long pages = resident_pages();
  for (int i = 100; i < 10000; i++) sum += loop_step(&l);
  cr_assert_eq(mallinfo2().uordblks, heap);
  cr_assert_eq(th_tape_bytes(l.tape), held);
  long grown = (resident_pages() - pages) * sysconf(_SC_PAGESIZE);
  cr_assert_lt(grown, 1 << 20, "%ld bytes more than after 100 steps", grown);
  cr_assert(isfinite(sum));
  loop_free(&l);
}

/* From a model's first values to right answers on sequences it has never seen. Recall needs two
 * attention layers that work together, and the default initialisation and rate to find them. */
static void learns(th_task_kind kind, int steps) {
  loop l = loop_new((th_task_options){.kind = kind, .seq = 16, .batch = 32, .seed = 1},
                    (th_gpt){.layers = 2, .heads = 4, .width = 64, .init = TH_INIT_WIDTH}, 1e-3);
  for (int i = 0; i < steps; i++) loop_step(&l);
  double accuracy = 0;
  for (uint64_t i = 0; i < 8; i++) accuracy += loop_accuracy(&l, i) / 8;
  cr_assert_gt(accuracy, 0.95, "task %d: accuracy %.3f after %d steps", (int)kind, accuracy, steps);
  loop_free(&l);
}

Test(long_training, reverse_is_learned, .timeout = 300) { learns(TH_TASK_REVERSE, 200); }
Test(long_training, sort_is_learned, .timeout = 300) { learns(TH_TASK_SORT, 400); }
Test(long_training, recall_is_learned, .timeout = 300) { learns(TH_TASK_RECALL, 800); }
