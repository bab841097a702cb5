/* gradcheck.h: the parts of the gradient checker.
 *
 *   subject.c    the function under test and its inputs; runs forward and backward
 *   fill.c       inputs of a registered case
 *   jitter.c     a backward pass with rounding errors put in, to measure what they do
 *   noise.c      the round-off of each output
 *   line.c       values of the loss along one coordinate or direction
 *   sweep.c      the derivative along a line, with an error bar, from a sweep over step sizes
 *   jobs.c       many derivatives in parallel
 *   modes.c      which derivatives are compared (sample.c: of which coordinates)
 *   hessian.c    second order: the symmetry of the gradient's own derivative
 *   judge.c      one claimed gradient against one measured derivative
 *   precision.c  the f32 backward against the f64 backward
 *   diagnosis.c  the mistake in a wrong gradient, named (with jacobian.c, structure.c, locate.c)
 *   shrink.c     the smallest case that still fails
 *   gradcheck.c  the whole check, and the public functions */
#ifndef TH_AUTOGRAD_GRADCHECK_H
#define TH_AUTOGRAD_GRADCHECK_H

#include "autograd/tape.h"
#include "tapehead.h"
#include "tensor/purpose.h"

/* Streams of random numbers of one check: TH__PURPOSE_GRADCHECK + one of these. */
enum {
  TH__DRAW_INPUT,
  TH__DRAW_UPSTREAM,
  TH__DRAW_DIRECTION,
  TH__DRAW_START,
  TH__DRAW_JITTER,
  TH__DRAW_ROUNDING,
  TH__DRAW_NOISE,
  TH__DRAW_SAMPLE
};
static inline th_random th__draw(uint64_t seed, unsigned what, uint64_t step) {
  return (th_random){seed, TH__PURPOSE_GRADCHECK + what, step};
}

/* ---- subject.c ---- */

/* What is checked: a function and f64 (or integer) master copies of its inputs, which nobody writes
 * to. An input that stands in the list twice has one copy: `slot` is the place of the first. */
typedef struct th__subject {
  th_function *function;
  const void *context;
  int input_count;
  th_tensor *inputs[TH_MAX_INPUTS];
  int slot[TH_MAX_INPUTS];
  uint64_t seed;
  double tolerance;
  bool serial;

  int output_ndim;
  ptrdiff_t output_shape[TH_MAX_DIMS];
  ptrdiff_t output_count;
  double *output;   /* at the inputs */
  double *upstream; /* v: random, non-uniform, exact in f32 */
  double *noise;    /* round-off of each output */
} th__subject;

static inline bool th__checked(const th__subject *s, int i) {
  return s->slot[i] == i && th__is_float(s->inputs[i]);
}

/* A thread's own tape and copies of the inputs, which it may change. */
typedef struct th__worker {
  const th__subject *subject;
  th_tape *tape;
  th_tensor *inputs[TH_MAX_INPUTS];
  double *plus, *minus; /* outputs, output_count each */
  /* While one line is followed: which outputs have changed so far, and their sum of |v| noise. */
  bool *affected;
  double affected_noise, other_noise;
} th__worker;

/* Evaluates the function and draws the upstream gradient. *spread is the largest change of an output
 * between evaluations at the same point (0: deterministic). */
th_status th__subject_start(th__subject *subject, double *spread, th_error *error);
/* Once more at the end: has the function changed meanwhile? */
th_status th__subject_again(const th__subject *subject, double *spread, th_error *error);
void th__subject_free(th__subject *subject);

bool th__worker_start(th__worker *worker, const th__subject *subject);
void th__worker_free(th__worker *worker);
/* Runs the function on the worker's inputs, recording off. */
th_status th__worker_run(th__worker *worker, double *output, th_error *error);

/* Gradients of all inputs (NULL for the constant ones), and whether backward reached them. */
typedef struct th__gradients {
  double *of[TH_MAX_INPUTS];
  bool arrived[TH_MAX_INPUTS];
} th__gradients;
void th__gradients_free(th__gradients *gradients);

/* How backward is run. */
typedef struct th__backward_run {
  th_dtype dtype;
  bool round_inputs; /* to f32 first: what an f32 run is compared with */
  bool from_nonzero; /* onto th__start_value; the result is what then stands there */
  double jitter; /* relative changes of inputs and of every gradient on the way; draw number `draw` */
  uint64_t draw;
  const double *upstream; /* instead of the subject's own */
  double *const *along;   /* not NULL: inputs moved by distance * along[i] */
  double distance;
} th__backward_run;
th_status th__backward(const th__subject *subject, const th__backward_run *run,
                       th__gradients *gradients, th_error *error);
/* What the gradient of input i, entry k, starts from when from_nonzero. */
double th__start_value(const th__subject *subject, int input, ptrdiff_t entry);

/* ---- noise.c ---- */

th_status th__measure_noise(th__subject *subject, th__worker *worker, th_error *error);
/* A power of two near the larger of |own| and the root mean square of x. */
double th__step_scale(const th_tensor *x, double own);

/* ---- jitter.c ---- */

/* Makes the recorded nodes change their upstream gradients by up to `size`, relatively. */
th_status th__jitter_nodes(th_tape *tape, uint64_t seed, uint64_t draw, double size);

/* ---- fill.c ---- */

/* Tensors for a case, f64 and integers; floating-point values are exact in f32. */
th_status th__fill(const th_check *check, uint64_t seed, th_tensor **inputs, th_error *error);

/* ---- line.c ---- */

/* The loss along one coordinate (direction NULL) or one direction of one input. */
typedef struct th__line {
  th__worker *worker;
  int input;
  ptrdiff_t entry;
  const double *direction;
  double scale; /* step sizes are powers of two times this */
  double own;   /* size of the coordinate itself, if it is much smaller; else 0 */
} th__line;

/* Differences of the loss for one step size. The outputs are subtracted before they are weighted and
 * summed, so what does not change contributes no round-off. */
typedef struct th__level {
  double step;
  double central, left, right;
  double noise;   /* round-off of `central`; known only when all levels are */
  double rounded; /* what the outputs at this step, which may be larger, add to it */
  bool finite;
  bool moved; /* some output changed */
} th__level;
void th__line_begin(const th__line *line);
th_status th__line_level(const th__line *line, double step, th__level *level, th_error *error);

/* ---- sweep.c ---- */

typedef struct th__estimate {
  double value, bar; /* the derivative and its error bar */
  double floor;      /* the part of the bar that is round-off */
  double left, right;
  bool kink, finite, moved, rough;
} th__estimate;

/* What is claimed, so that the sweep may stop as soon as the claim is settled: analytic, and the error
 * that counts as none. NaN: no claim, measure as well as possible. */
th_status th__sweep(const th__line *line, double analytic, double allowed, th__estimate *estimate,
                    th_error *error);

/* ---- jobs.c ---- */

/* One derivative to be measured. */
typedef struct th__job {
  int input;
  ptrdiff_t entry;                 /* coordinate, or number of the direction */
  double scale, own;               /* as in th__line */
  double analytic, doubt, allowed; /* `allowed` includes the doubt */
  th__estimate estimate;
} th__job;

/* Where along coordinate `entry` of x to look: job->scale and job->own. */
void th__job_steps(th__job *job, const th_tensor *x, double typical);
/* directions: NULL for coordinates, else one per job. */
th_status th__run_jobs(const th__subject *subject, th__job *jobs, ptrdiff_t count,
                       const double *const *directions, th_error *error);
/* The whole gradient of one input by differences, to about `allowed`. */
th_status th__measure(const th__subject *subject, int input, double allowed, double *values,
                      th_error *error);

/* ---- modes.c ---- */

/* rows[i]: the row of input i, or NULL. bound: what rounding may do to each entry of the gradients.
 * samples: coordinates per input, 0 for all. */
th_status th__check_entries(const th__subject *subject, const th__gradients *gradients,
                            const th__gradients *bound, ptrdiff_t samples,
                            th_gradcheck_row *const *rows, th_error *error);
th_status th__check_projections(const th__subject *subject, const th__gradients *gradients,
                                const th__gradients *bound, int projections,
                                th_gradcheck_row *const *rows, th_error *error);

/* ---- sample.c ---- */

ptrdiff_t th__entries_wanted(const th_tensor *x, ptrdiff_t samples);
/* Fills entries[], th__entries_wanted() of them, and returns how many. *miss: the probability that one
 * wrong entry, wherever it stands, is not among them. */
ptrdiff_t th__choose_entries(const th_tensor *x, ptrdiff_t samples, th_random stream,
                             ptrdiff_t *entries, double *miss);

/* ---- hessian.c ---- */

/* All inputs together, in one row. */
th_status th__check_hessian(const th__subject *subject, int pairs, th_gradcheck_row *row,
                            th_error *error);

/* ---- judge.c ---- */

/* What one row gathers entry by entry. */
typedef struct th__tally {
  th_gradcheck_row *row;
  double tolerance;
  double least; /* errors are relative to at least this */
  bool any;
  double worst;
} th__tally;
/* `doubt`: how far the claim may be off by the rounding errors of the backward itself. */
void th__tally_entry(th__tally *tally, ptrdiff_t index, double analytic, double doubt,
                     const th__estimate *estimate);

/* The share of an input's largest gradient below which errors are no longer relative to the entry. */
#define TH__SHARE 1e-3
#define TH__SHARE_PROJECTION 0.1

/* ---- precision.c ---- */

/* How far each entry of a gradient may be off by rounding errors of relative size `unit`. */
th_status th__rounding_bound(const th__subject *subject, const th__gradients *exact,
                             bool round_inputs, double unit, th__gradients *bound, th_error *error);

/* Adds a row for each checked input. */
th_status th__precision(const th__subject *subject, th_gradcheck_result *result, th_error *error);

/* ---- diagnosis.c ---- */

/* Names the mistake in every row that is wrong in f64. */
th_status th__name_mistakes(const th__subject *subject, const th__gradients *gradients,
                            th_gradcheck_result *result, th_error *error);

/* ---- gradcheck.c ---- */

/* A new row of the result for input i. */
th_gradcheck_row *th__new_row(const th__subject *subject, th_gradcheck_result *result, int input,
                              th_dtype dtype, th_check_mode mode);
/* Raises a row's verdict, with its evidence, unless it has a worse one. */
void th__row_verdict(th_gradcheck_row *row, th_verdict verdict, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Compares what a backward onto a non-zero start left with start + gradient. */
void th__judge_accumulation(const th__subject *subject, th_gradcheck_row *row,
                            const double *gradient, const double *left_there, double unit);

th_status th__gradcheck_subject(th__subject *subject, const th_gradcheck_options *options,
                                th_gradcheck_result *result, th_error *error);

#endif
