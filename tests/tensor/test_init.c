/* init: element i gets number i of the stream, across pieces, in views, at any number of threads. */
#include "support.h"

enum { N = 3 * 4096 + 5 };
static const th_random stream = {.seed = 4, .purpose = 5, .step = 6};

TEST_BOTH(init, numbers_of_the_stream_in_order) {
  double *values = malloc(N * sizeof *values);
  th_tensor *x = th_tensor_new(dtype, TH_SHAPE(N), NULL);
  for (int threads = 1; threads <= 3; threads++) {
    th_set_threads(threads);
    double limit = dtype == TH_F32 ? 1e-6 : 0;
    th_init_normal(x, 2, 0.5, stream);
    th_tensor_read(x, values);
    for (int i = 0; i < N; i++)
      cr_assert(fabs(values[i] - (2 + 0.5 * th_random_normal(stream, (uint64_t)i))) <= limit, "%d",
                i);
    th_init_uniform(x, -1, 3, stream);
    th_tensor_read(x, values);
    for (int i = 0; i < N; i++)
      cr_assert(fabs(values[i] - (-1 + 4 * th_random_uniform(stream, (uint64_t)i))) <= limit, "%d",
                i);
  }
  th_set_threads(0);
  th_tensor_free(x);
  free(values);
}

/* A transposed view is filled in its own row-major order. */
TEST_BOTH(init, views) {
  th_tape *tape = th_tape_new();
  th_tensor *x = th_input(tape, dtype, TH_SHAPE(3, 5), NULL);
  th_tensor *view = th_transpose(tape, x, 0, 1);
  th_init_normal(view, 0, 1, stream);
  double want[15];
  for (int i = 0; i < 15; i++) want[i] = th_random_normal(stream, (uint64_t)i);
  expect_values("view", view, want, dtype == TH_F32 ? 1e-7 : 0);
  th_tape_free(tape);
}
