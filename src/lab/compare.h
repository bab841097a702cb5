/* compare.h: why attention: an RNN, an LSTM and a transformer of one layer, with about the same number
 * of parameters, learn recall at a distance (data/distance.h). For each distance: accuracy after
 * training, the gradient that arrives at the first step from the loss at the last, time per step.
 * docs/compare.md says what each figure means. */
#ifndef TH_LAB_COMPARE_H
#define TH_LAB_COMPARE_H

#include <jansson.h>
#include <stdio.h>

#include "data/distance.h"
#include "tapehead.h"

typedef enum th__compared { TH__RNN, TH__LSTM, TH__TRANSFORMER, TH__COMPARED } th__compared;
extern const char *const th__compared_names[TH__COMPARED]; /* "rnn" */

enum {
  TH__COMPARE_MOST_DISTANCE = 1 << 16,
  TH__COMPARE_MOST_WIDTH = 4096,
  TH__COMPARE_MOST_SEEDS = 99,
  TH__COMPARE_MOST_DISTANCES = 32,
  TH__COMPARE_SEQUENCES = 16, /* whose gradients are measured, one by one */
  TH__COMPARE_EVALUATE = 25   /* steps between two looks at the accuracy */
};

/* Fields left 0 or NULL take the value in brackets. */
typedef struct th__compare_options {
  const long *distances;   /* rising [8, 32, 128, 512] */
  int distance_count;      /* at most TH__COMPARE_MOST_DISTANCES */
  long steps;              /* at most, per run [500] */
  long seeds;              /* runs per distance and model [3] */
  long batch;              /* sequences per step [16] */
  long width;              /* of the transformer; the others follow by parameters [32] */
  double lr[TH__COMPARED]; /* [3e-3 each] */
  uint64_t seed;
  /* Called now and then with the share that is done, from any thread but one at a time; false ends
   * the comparison early: what was not finished is left out. */
  bool (*progress)(void *context, double done);
  void *progress_context;
} th__compare_options;

/* Norms of dL/dx at the first and at the last step, x being what the token table puts in there and L
 * the loss at the last step: medians over TH__COMPARE_SEQUENCES sequences that ask for the first pair. */
typedef struct th__compare_gradient {
  double first, last;
} th__compare_gradient;

typedef struct th__compare_run {
  bool finished;
  long steps;      /* taken */
  bool learnt;     /* ended early: 99 % of 256 held-out answers right, and then of 1024 others */
  double accuracy; /* after the last step, on 1024 held-out answers that nothing else used */
  th__compare_gradient start, end; /* before and after training */
  th_error error;
} th__compare_run;

/* One model at one distance. */
typedef struct th__compare_cell {
  ptrdiff_t distance;
  th__compared model;
  ptrdiff_t width, parameters;
  int finished;                                   /* runs, of `seeds`; what follows is of those */
  th__compare_run *runs;                          /* `seeds` of them */
  double accuracy, accuracy_least, accuracy_most; /* median, least, largest; NaN if none */
  double steps;                                   /* median of the steps taken */
  int learnt;                                     /* runs that ended early */
  th__compare_gradient start, end;                /* medians */
  double step_ms; /* a training step, the fastest of several, nothing beside it; NaN: not timed */
} th__compare_cell;

typedef struct th__compare_result {
  th__compare_options options; /* with brackets filled in */
  long distances[TH__COMPARE_MOST_DISTANCES];
  th__distance task; /* all but the distance */
  int threads;
  bool complete; /* false: ended early */
  int count;     /* cells: for each distance, each model */
  th__compare_cell *cells;
  th__compare_run *runs; /* of all cells, one after the other */
} th__compare_result;

th__compare_result *th__comparison(const th__compare_options *options, th_error *error);
void th__compare_free(th__compare_result *result);

/* ---- parts, for tests (compare_model.c, compare_measure.c) ---- */

/* The task of all distances: 2 pairs of 4 keys and 4 values, 4 fillers. */
th__distance th__compare_task(ptrdiff_t distance);
/* The width at which the model's parameters are closest in number to the transformer's of `width`. */
ptrdiff_t th__compare_width(th__compared model, const th__distance *task, ptrdiff_t width);
th_model *th__compare_model(th__compared model, const th__distance *task, ptrdiff_t width,
                            th_dtype dtype, uint64_t seed, th_error *error);
/* The loss at the last step of `count` sequences, for a model of any precision; NULL: tape's error. */
th_tensor *th__compare_loss(th_tape *tape, th_model *model, const th__distance *task,
                            ptrdiff_t count, const int32_t *tokens, const int32_t *answers,
                            double *right);
/* Measured in f64, on a copy of the model, so that nothing underflows that f64 can tell from 0. */
th_status th__compare_gradients(th__compared kind, th_model *model, const th__distance *task,
                                ptrdiff_t width, uint64_t seed, th__compare_gradient *gradient,
                                th_error *error);
/* Milliseconds of one training step: the fastest of some. */
th_status th__compare_time(th__compared kind, const th__distance *task, ptrdiff_t width,
                           ptrdiff_t batch, double *ms, th_error *error);

/* ---- reports (compare_report.c, compare_text.c, compare_plot.c) ---- */

json_t *th__compare_json(const th__compare_result *result, const char *command); /* NULL: memory */
void th__compare_csv(const th__compare_result *result, const char *command, FILE *out);
void th__compare_table(const th__compare_result *result, FILE *out);
/* A paragraph about what was measured, made of it alone. */
void th__compare_summary(const th__compare_result *result, FILE *out);
char *th__compare_svg(const th__compare_result *result, size_t *size, th_error *error);

#endif
