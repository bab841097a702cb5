/* subnormals: does a saturated step take longer than an ordinary one? Forward and backward, f32, on logits whose gaps are 85 to 100 (e^-88 would be subnormal) against 1 to 10.
 * Prints the fastest of many runs of each, turn by turn, and their ratio.
 *     bench_subnormals */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tapehead.h"

enum { ROWS = 512, KEYS = 512, WIDTH = 16, RUNS = 60 };

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* One 0 per row of n, the others low to high below it. */
static void fill_gaps(float *x, double low, double high) {
  const th_random stream = {.seed = 1};
  for (int i = 0; i < ROWS * KEYS; i++)
    x[i] = (float)-(low + (high - low) * th_random_uniform(stream, (uint64_t)i));
  for (int i = 0; i < ROWS; i++) x[i * KEYS + i % KEYS] = 0;
}

static double softmax_step(th_tape *tape, const float *x, const float *upstream) {
  th_tape_reset(tape);
  th_tensor *in = th_input_grad(tape, TH_F32, TH_SHAPE(ROWS, KEYS), x);
  th_tensor *dy = th_input(tape, TH_F32, TH_SHAPE(ROWS, KEYS), upstream);
  double start = now();
  if (th_backward_from(tape, th_softmax(tape, in), dy) != TH_OK) return NAN;
  return now() - start;
}

/* Keys of width 16 whose first number is the logit of every query. */
static double attention_step(th_tape *tape, const float *x, const float *upstream) {
  static float queries[ROWS * WIDTH], keys[KEYS * WIDTH];
  for (int i = 0; i < ROWS; i++) queries[i * WIDTH] = 1;
  for (int i = 0; i < KEYS; i++) keys[i * WIDTH] = x[i];
  th_tape_reset(tape);
  th_tensor *q = th_input_grad(tape, TH_F32, TH_SHAPE(1, 1, ROWS, WIDTH), queries);
  th_tensor *k = th_input_grad(tape, TH_F32, TH_SHAPE(1, 1, KEYS, WIDTH), keys);
  th_tensor *v = th_input_grad(tape, TH_F32, TH_SHAPE(1, 1, KEYS, WIDTH), upstream);
  th_tensor *dy = th_input(tape, TH_F32, TH_SHAPE(1, 1, ROWS, WIDTH), upstream + KEYS * WIDTH);
  double start = now();
  th_tensor *y = th_attention(tape, q, k, v, &(th_attention_options){.scale = TH_SCALE_NONE});
  if (th_backward_from(tape, y, dy) != TH_OK) return NAN;
  return now() - start;
}

static double loss_step(th_tape *tape, const float *x, const float *upstream) {
  (void)upstream;
  static int32_t targets[ROWS];
  for (int i = 0; i < ROWS; i++) targets[i] = (i + 1) % KEYS; /* not the largest */
  th_tape_reset(tape);
  th_tensor *in = th_input_grad(tape, TH_F32, TH_SHAPE(ROWS, KEYS), x);
  th_tensor *labels = th_input(tape, TH_I32, TH_SHAPE(ROWS), targets);
  double start = now();
  if (th_backward(tape, th_cross_entropy(tape, in, labels)) != TH_OK) return NAN;
  return now() - start;
}

static double log_softmax_step(th_tape *tape, const float *x, const float *upstream) {
  th_tape_reset(tape);
  th_tensor *in = th_input_grad(tape, TH_F32, TH_SHAPE(ROWS, KEYS), x);
  th_tensor *dy = th_input(tape, TH_F32, TH_SHAPE(ROWS, KEYS), upstream);
  double start = now();
  if (th_backward_from(tape, th_log_softmax(tape, in), dy) != TH_OK) return NAN;
  return now() - start;
}

int main(void) {
  static float ordinary[ROWS * KEYS], sharp[ROWS * KEYS], upstream[ROWS * KEYS];
  static const struct {
    const char *name;
    double (*step)(th_tape *tape, const float *x, const float *upstream);
  } steps[] = {{"softmax", softmax_step},
               {"log_softmax", log_softmax_step},
               {"attention", attention_step},
               {"cross_entropy", loss_step}};
  fill_gaps(ordinary, 1, 10);
  fill_gaps(sharp, 85, 100);
  for (int i = 0; i < ROWS * KEYS; i++)
    upstream[i] = (float)th_random_normal((th_random){.seed = 2}, (uint64_t)i);
  th_tape *tape = th_tape_new();
  printf("%s kernels, %d threads, %d x %d, forward and backward, f32, fastest of %d\n", th_isa(),
         th_threads(), ROWS, KEYS, RUNS);
  for (size_t s = 0; s < sizeof steps / sizeof *steps; s++) {
    double fast[2] = {INFINITY, INFINITY};
    for (int run = 0; run < 2 * RUNS; run++) {
      double seconds = steps[s].step(tape, run % 2 == 0 ? ordinary : sharp, upstream);
      fast[run % 2] = fmin(fast[run % 2], seconds);
    }
    printf("%-14s gaps 1-10: %.3f ms   gaps 85-100: %.3f ms   ratio %.2f\n", steps[s].name,
           1e3 * fast[0], 1e3 * fast[1], fast[1] / fast[0]);
  }
  th_tape_free(tape);
  return 0;
}
