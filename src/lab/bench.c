#include "lab/bench.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "ops/kernels.h"
#include "tensor/alloc.h"
#include "tensor/error.h"
#include "tensor/parallel.h"

const th__bench_shape th__bench_shapes[] = {{"micro", 1, 2, 32, 16, 32, 16, TH__BENCH_GPT2},
                                            {"toy", 2, 4, 64, 64, 16, 64, TH__BENCH_GPT2},
                                            {"chars", 4, 4, 128, 64, 12, 65, TH__BENCH_GPT2},
                                            {"small", 6, 6, 384, 256, 8, 65, TH__BENCH_GPT2},
                                            {"gpt2-124m", 12, 12, 768, 64, 4, 50257, TH__BENCH_GPT2},
                                            {"llama", 4, 4, 128, 64, 12, 65, TH__BENCH_LLAMA},
                                            {"lstm", 1, 0, 128, 64, 32, 65, TH__BENCH_LSTM},
                                            {0}};

const th__bench_shape *th__bench_find(const char *name) {
  for (const th__bench_shape *shape = th__bench_shapes; shape->name != NULL; shape++)
    if (strcmp(shape->name, name) == 0) return shape;
  return NULL;
}

static ptrdiff_t llama_hidden(ptrdiff_t width) { return (8 * width / 3 + 7) / 8 * 8; }

/* Elements of one layer's matrices. */
static double layer_elements(const th__bench_shape *shape) {
  double width = (double)shape->width;
  switch (shape->layout) {
  case TH__BENCH_GPT2: return 12 * width * width;
  case TH__BENCH_LLAMA: return width * (3 * width + 3 * (double)llama_hidden(shape->width));
  case TH__BENCH_LSTM: return 8 * width * width;
  }
  return 0;
}

double th__bench_flops(const th__bench_shape *shape) {
  double width = (double)shape->width, layers = (double)shape->layers;
  double matrices = layers * layer_elements(shape) + width * (double)shape->vocab;
  bool attends = shape->layout != TH__BENCH_LSTM;
  double per_token = 6 * matrices + (attends ? 12 * layers * (double)shape->tokens * width : 0);
  return per_token * (double)shape->tokens * (double)shape->batch;
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static double peak_rss_mib(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (double)usage.ru_maxrss / 1024; /* Linux counts KiB */
}

/* ---- one training step ---- */

typedef struct trainer {
  th_model *model;
  th_optim *optim;
  th_tape *tape;
  th_tensor *tokens, *targets;
} trainer;

static void trainer_free(trainer *t) {
  th_optim_free(t->optim);
  th_model_free(t->model);
  th_tape_free(t->tape);
  th_tensor_free(t->tokens);
  th_tensor_free(t->targets);
}

static th_tensor *random_tokens(const th__bench_shape *shape, th_random stream, th_error *error) {
  th_tensor *tokens = th_tensor_new(TH_I32, TH_SHAPE(shape->batch, shape->tokens), error);
  if (tokens == NULL) return NULL;
  int32_t *ids = th_tensor_data(tokens);
  for (ptrdiff_t i = 0; i < th_tensor_count(tokens); i++)
    ids[i] = (int32_t)th_random_below(stream, (uint64_t)i, (uint64_t)shape->vocab);
  return tokens;
}

static th_model *model_of(const th__bench_shape *shape, uint64_t seed, th_error *error) {
  if (shape->layout == TH__BENCH_LSTM) {
    const th_recurrent lstm = {
        .layers = shape->layers, .width = shape->width, .vocab = shape->vocab, .lstm = true};
    return th_recurrent_new(&lstm, seed, error);
  }
  const th_gpt gpt2 = {.layers = shape->layers,
                       .heads = shape->heads,
                       .width = shape->width,
                       .context = shape->tokens,
                       .vocab = shape->vocab};
  const th_gpt llama = {TH_LLAMA,
                        .layers = shape->layers,
                        .heads = shape->heads,
                        .kv_heads = shape->heads / 2,
                        .width = shape->width,
                        .hidden = llama_hidden(shape->width),
                        .context = shape->tokens,
                        .vocab = shape->vocab};
  return th_gpt_new(shape->layout == TH__BENCH_LLAMA ? &llama : &gpt2, seed, error);
}

static bool trainer_new(trainer *t, const th__bench_shape *shape, uint64_t seed, th_error *error) {
  *t = (trainer){0};
  t->model = model_of(shape, seed, error);
  if (t->model == NULL) return false;
  t->optim = th_adamw_new(th_model_params(t->model), &(th_adamw){.weight_decay = 0.01}, error);
  t->tokens = random_tokens(shape, (th_random){seed, 1, 0}, error);
  t->targets = random_tokens(shape, (th_random){seed, 1, 1}, error);
  t->tape = th_tape_new();
  if (t->tape == NULL) th__error_memory(error, "bench", sizeof(void *));
  return t->optim != NULL && t->tokens != NULL && t->targets != NULL && t->tape != NULL;
}

static th_status step(trainer *t, th_error *error) {
  th_tensor *logits = th_model_forward(t->tape, t->model, t->tokens, NULL);
  th_backward(t->tape, th_cross_entropy(t->tape, logits, t->targets));
  if (th_tape_status(t->tape) != TH_OK)
    return th__error(error, th_tape_status(t->tape), "%s", th_tape_message(t->tape));
  th_status status = th_optim_step(t->optim, error);
  th_tape_reset(t->tape);
  return status;
}

/* ---- timing ---- */

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static th_status time_steps(trainer *t, int steps, double *ms, th_error *error) {
  enum { WARM_UP = 3 };
  for (int i = -WARM_UP; i < steps; i++) {
    double start = seconds();
    th_status status = step(t, error);
    if (status != TH_OK) return status;
    if (i >= 0) ms[i] = 1e3 * (seconds() - start);
  }
  return TH_OK;
}

th_status th__bench_run(const th__bench_shape *shape, int steps, uint64_t seed,
                        th__bench_result *result, th_error *error) {
  double *ms = th__alloc((size_t)steps * sizeof *ms);
  if (ms == NULL) return th__error_memory(error, "bench", (size_t)steps * sizeof *ms);
  trainer t;
  th_error local = {0};
  th_status status =
      trainer_new(&t, shape, seed, &local) ? time_steps(&t, steps, ms, &local) : local.status;
  if (status == TH_OK) {
    qsort(ms, (size_t)steps, sizeof *ms, compare);
    double median = steps % 2 ? ms[steps / 2] : (ms[steps / 2 - 1] + ms[steps / 2]) / 2;
    *result = (th__bench_result){.steps = steps,
                                 .median_ms = median,
                                 .min_ms = ms[0],
                                 .tokens_per_second =
                                     (double)(shape->tokens * shape->batch) / (1e-3 * median),
                                 .gflops = th__bench_flops(shape) / (1e6 * median),
                                 .peak_rss_mib = peak_rss_mib()};
  } else
    th__error(error, status, "bench %s: %s", shape->name, local.message);
  trainer_free(&t);
  th__free(ms);
  return status;
}

/* ---- the machine's peak ---- */

enum { CHAIN_STEPS = 1 << 20 };

static void burn(const void *context, ptrdiff_t begin, ptrdiff_t end) {
  double *flops = (double *)(uintptr_t)context;
  for (ptrdiff_t i = begin; i < end; i++) th__f32->multiply_add(CHAIN_STEPS, &flops[i]);
}

double th__bench_peak(void) {
  enum { MOST = 1024, TRIES = 10 };
  static double flops[MOST];
  int threads = th_threads() < MOST ? th_threads() : MOST;
  double best = 0;
  for (int i = 0; i < TRIES; i++) {
    double start = seconds();
    th__parallel(threads, 1, burn, flops);
    double elapsed = seconds() - start, total = 0;
    for (int j = 0; j < threads; j++) total += flops[j];
    if (total / elapsed > best) best = total / elapsed;
  }
  return best * 1e-9;
}
