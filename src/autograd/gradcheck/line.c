/* line.c: the loss along one coordinate or one direction of one input. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "autograd/gradcheck/gradcheck.h"

#define HALF_ULP (DBL_EPSILON / 2)

/* Moves the worker's copy to x + t * direction and returns the t that was really reached (a sum of
 * two doubles is rounded; along a direction, entries and steps are chosen to be exact). */
static double move(const th__line *line, double t) {
  const double *x = line->worker->subject->inputs[line->input]->data;
  double *moved = line->worker->inputs[line->input]->data;
  if (line->direction == NULL) {
    moved[line->entry] = x[line->entry] + t;
    return moved[line->entry] - x[line->entry];
  }
  ptrdiff_t count = line->worker->subject->inputs[line->input]->count;
  for (ptrdiff_t k = 0; k < count; k++) moved[k] = x[k] + t * line->direction[k];
  return t;
}

static void move_back(const th__line *line) {
  const th_tensor *x = line->worker->subject->inputs[line->input];
  double *moved = line->worker->inputs[line->input]->data;
  if (line->direction == NULL)
    moved[line->entry] = ((const double *)x->data)[line->entry];
  else
    memcpy(moved, x->data, (size_t)x->count * sizeof *moved);
}

void th__line_begin(const th__line *line) {
  th__worker *worker = line->worker;
  const th__subject *subject = worker->subject;
  worker->affected_noise = worker->other_noise = 0;
  for (ptrdiff_t k = 0; k < subject->output_count; k++) {
    worker->affected[k] = false;
    worker->other_noise += fabs(subject->upstream[k]) * subject->noise[k];
  }
}

/* What the outputs add up to, weighted by the upstream gradient. */
typedef struct sums {
  double central, right, left, rounded;
  bool moved;
} sums;

static void mark_affected(th__worker *worker, ptrdiff_t k) {
  double noise = fabs(worker->subject->upstream[k]) * worker->subject->noise[k];
  worker->affected[k] = true;
  worker->affected_noise += noise;
  worker->other_noise -= noise;
}

static sums weigh(th__worker *worker) {
  const th__subject *subject = worker->subject;
  const double *plus = worker->plus, *minus = worker->minus;
  sums s = {0};
  for (ptrdiff_t k = 0; k < subject->output_count; k++) {
    double v = subject->upstream[k], y = subject->output[k];
    if (plus[k] == y && minus[k] == y) continue;
    if (!worker->affected[k]) mark_affected(worker, k);
    s.moved = true;
    s.central += v * (plus[k] - minus[k]);
    s.right += v * (plus[k] - y);
    s.left += v * (y - minus[k]);
    s.rounded += fabs(v) * fmax(fabs(plus[k]), fabs(minus[k]));
  }
  return s;
}

static bool all_finite(const double *values, ptrdiff_t count) {
  double sum = 0; /* 0 * x is NaN exactly for what is not finite */
  for (ptrdiff_t k = 0; k < count; k++) sum += 0 * values[k];
  return sum == 0;
}

th_status th__line_level(const th__line *line, double step, th__level *level, th_error *error) {
  th__worker *worker = line->worker;
  const th__subject *subject = worker->subject;
  double up = move(line, step);
  th_status status = th__worker_run(worker, worker->plus, error);
  double down = status == TH_OK ? -move(line, -step) : step;
  if (status == TH_OK) status = th__worker_run(worker, worker->minus, error);
  move_back(line);
  if (status != TH_OK) return status;

  *level = (th__level){.step = step};
  level->finite = up > 0 && down > 0 && all_finite(worker->plus, subject->output_count) &&
                  all_finite(worker->minus, subject->output_count);
  if (!level->finite) return TH_OK;
  sums s = weigh(worker);
  level->moved = s.moved;
  level->central = s.central / (up + down);
  level->right = s.right / up;
  level->left = s.left / down;
  level->rounded = HALF_ULP * s.rounded / step;
  return TH_OK;
}
