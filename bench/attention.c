/* attention: one call forward and backward at the shapes of the training-step benchmark, f32, causal, on a
 * fused projection; beside it the same arithmetic at this machine's multiply-add rate.
 *   bench/attention [threads]        fastest of many runs; microseconds, and GFLOP/s of the causal half */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tapehead.h"

typedef struct shape {
  const char *name;
  ptrdiff_t batch, heads, tokens, width; /* width of one head */
} shape;

static const shape shapes[] = {
    {"micro", 32, 2, 16, 16}, {"toy", 16, 4, 64, 16},       {"chars", 12, 4, 64, 32},
    {"small", 8, 6, 256, 64}, {"gpt2-124m", 4, 12, 64, 64}, {"wide heads", 4, 32, 64, 256},
    {"long", 1, 4, 2048, 64},
};

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct seconds {
  double forward, backward;
} seconds;

/* Forward and backward of one call, timed apart. */
static seconds run(th_tape *tape, const shape *s, th_tensor *x, th_tensor *upstream) {
  ptrdiff_t width = s->heads * s->width;
  th_tensor *part[3];
  for (int i = 0; i < 3; i++)
    part[i] = th_split_heads(tape, th_slice(tape, x, 2, i * width, (i + 1) * width), s->heads);
  th_attention_options options = {.causal = true};
  double start = now();
  th_tensor *y = th_merge_heads(tape, th_attention(tape, part[0], part[1], part[2], &options));
  double middle = now();
  th_backward_from(tape, y, upstream);
  double end = now();
  th_tape_reset(tape);
  return (seconds){middle - start, end - middle};
}

static void measure(th_tape *tape, const shape *s) {
  ptrdiff_t width = s->heads * s->width;
  th_tensor *x = th_tensor_new(TH_F32, TH_SHAPE(s->batch, s->tokens, 3 * width), NULL);
  th_tensor *upstream = th_tensor_new(TH_F32, TH_SHAPE(s->batch, s->tokens, width), NULL);
  if (x == NULL || upstream == NULL || th_tensor_require_grad(x, NULL) != TH_OK) exit(1);
  th_init_normal(x, 0, 1, (th_random){1, 1, 1});
  th_init_normal(upstream, 0, 1, (th_random){1, 2, 1});

  seconds best = {1e9, 1e9};
  double begin = now();
  for (int i = 0; i < 200 && (i < 5 || now() - begin < 1.0); i++) {
    seconds t = run(tape, s, x, upstream);
    if (t.forward < best.forward) best.forward = t.forward;
    if (t.backward < best.backward) best.backward = t.backward;
  }
  /* Two products forward and four backward over the half of the matrix that is seen. */
  double product = (double)(s->batch * s->heads) * (double)s->tokens * ((double)s->tokens + 1) *
                   (double)s->width;
  printf("%-11s %10.1f %10.1f %8.1f %8.1f\n", s->name, 1e6 * best.forward, 1e6 * best.backward,
         2e-9 * product / best.forward, 4e-9 * product / best.backward);
  th_tensor_free(x);
  th_tensor_free(upstream);
}

int main(int argc, char **argv) {
  if (argc > 1) th_set_threads(atoi(argv[1]));
  th_tape *tape = th_tape_new();
  if (tape == NULL) return 1;
  printf("%s, %d threads\n%-11s %10s %10s %8s %8s\n", th_isa(), th_threads(), "shape", "fwd us",
         "bwd us", "fwd GF/s", "bwd GF/s");
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) measure(tape, &shapes[i]);
  if (th_tape_status(tape) != TH_OK) fprintf(stderr, "%s\n", th_tape_message(tape));
  int failed = th_tape_status(tape) != TH_OK;
  th_tape_free(tape);
  return failed;
}
