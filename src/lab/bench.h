/* bench.h: how fast full training steps run here, in figures that compare. */
#ifndef TH_LAB_BENCH_H
#define TH_LAB_BENCH_H

#include "tapehead.h"

/* In Llama's layout keys and values have half as many heads as queries. */
typedef enum th__bench_layout { TH__BENCH_GPT2, TH__BENCH_LLAMA, TH__BENCH_LSTM } th__bench_layout;

/* A training step to time: forward, mean cross-entropy over all tokens, backward and AdamW on every
 * parameter of a model (f32, causal, no dropout), on random tokens. */
typedef struct th__bench_shape {
  const char *name;
  ptrdiff_t layers, heads, width, tokens, batch, vocab;
  th__bench_layout layout;
} th__bench_shape;

/* The named shapes, ended by one without a name; and a look-up, NULL if there is none. */
extern const th__bench_shape th__bench_shapes[];
const th__bench_shape *th__bench_find(const char *name);

typedef struct th__bench_result {
  int steps;
  double median_ms, min_ms;
  double tokens_per_second, gflops; /* at the median */
  double peak_rss_mib;              /* of the process so far */
} th__bench_result;

/* Times `steps` steps (at least 1) after three that are not counted. */
th_status th__bench_run(const th__bench_shape *shape, int steps, uint64_t seed,
                        th__bench_result *result, th_error *error);

/* Floating-point operations of one step: 6 per matrix element and token (2 forward, 4 backward), a
 * token table only as output matrix; and 12 layers * tokens * width per token for the two products of
 * attention, where there is one, over the full square, as is usual although a causal step needs half. */
double th__bench_flops(const th__bench_shape *shape);

/* The machine's own f32 multiply-add rate over th_threads() threads, in GFLOP/s: independent chains
 * in registers, best of several tries. */
double th__bench_peak(void);

#endif
