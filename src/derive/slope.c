#include "derive/slope.h"

#include <float.h>
#include <math.h>

#include "tensor/alloc.h"

th__trial th__trial_start(th__draw *draw) {
  th__trial trial = {.draw = draw};
  trial.values = th__alloc((size_t)draw->graph.count * sizeof *trial.values);
  return trial;
}

void th__trial_free(th__trial *trial) {
  th__arena_free(&trial->arena);
  th__free(trial->values);
}

/* L with x moved by step * direction, and the sum of its terms' sizes, whose rounding L has. NaN on a
 * fault. */
static th__number moved_loss(th__trial *trial, const th__vertex *x, const th__number *direction,
                             th__number step, double *size) {
  th__draw *draw = trial->draw;
  th__arena_reset(&trial->arena);
  th__calc c = {.arena = &trial->arena, .limits = draw->calc.limits};
  th__array *moved = th__array_new(&c, x->value->ndim, x->value->shape);
  if (moved == NULL) return (th__number)NAN;
  for (ptrdiff_t i = 0; i < moved->count; i++)
    moved->v[i] = direction[i] == 0 ? x->value->v[i] : x->value->v[i] + step * direction[i];
  const th__array *end = th__graph_replay(&draw->graph, &c, draw->end, x, moved, trial->values);
  if (end == NULL) return (th__number)NAN;
  th__number sum = 0;
  for (ptrdiff_t i = 0; i < end->count; i++) {
    th__number term = draw->upstream->v[i] * end->v[i];
    sum += term;
    *size += (double)fabsl(term);
  }
  return sum;
}

/* What rounding alone may change in L. Below a certain step it is all that a difference shows. */
static double rounding(const th__draw *draw) {
  double sum = 0;
  for (ptrdiff_t i = 0; i < draw->upstream->count; i++) {
    double g = (double)fabsl(draw->upstream->v[i]);
    sum += g * (draw->end->value->e[i] + (double)(LDBL_EPSILON * fabsl(draw->end->value->v[i])));
  }
  return sum;
}

/* Differences with steps that halve, and in row k of the table their k-th extrapolation to step 0;
 * the best entry is the one that differs least from its neighbours (Ridders 1982). */
enum { ROWS = 26 };

static th__number difference(th__trial *trial, const th__vertex *x, const th__number *direction,
                             th__side side, th__number step, th__number here, double *size) {
  if (side == TH__BOTH)
    return (moved_loss(trial, x, direction, step, size) -
            moved_loss(trial, x, direction, -step, size)) /
           (2 * step);
  th__number signed_step = side == TH__RIGHT ? step : -step;
  return (moved_loss(trial, x, direction, signed_step, size) - here) / signed_step;
}

th__number th__slope(th__trial *trial, const th__vertex *x, const th__number *direction,
                     th__side side, double *error) {
  if (trial->values == NULL) return (th__number)NAN;
  th__number row[ROWS], before[ROWS] = {0}, best = (th__number)NAN;
  double noise = rounding(trial->draw), ignored = 0;
  th__number step = 0.1L, here = side == TH__BOTH ? 0 : moved_loss(trial, x, direction, 0, &ignored);
  *error = (double)INFINITY;
  for (int i = 0; i < ROWS; i++, step /= 2) {
    /* Two entries may agree by chance to the last bit, most of all where L is 0 here. */
    double size = 0;
    row[0] = difference(trial, x, direction, side, step, here, &size);
    double rounded = noise + 4 * (double)LDBL_EPSILON * size;
    th__number factor = side == TH__BOTH ? 4 : 2, power = factor;
    for (int k = 1; k <= i; k++, power *= factor) {
      row[k] = (row[k - 1] * power - before[k - 1]) / (power - 1);
      double away = (double)fmaxl(fabsl(row[k] - row[k - 1]), fabsl(row[k] - before[k - 1]));
      away += rounded / (double)step;
      if (away < *error) {
        *error = away;
        best = row[k];
      }
    }
    for (int k = 0; k <= i; k++) before[k] = row[k];
  }
  return best;
}

/* ---- the truth, proven ---- */

/* A typical size of x's entries, where an entry itself is 0. */
static th__number typical(const th__array *x) {
  th__number sum = 0;
  ptrdiff_t used = 0;
  for (ptrdiff_t i = 0; i < x->count; i++)
    if (isfinite(x->v[i]) && x->v[i] != 0) sum += fabsl(x->v[i]), used++;
  return used > 0 ? sum / (th__number)used : 1;
}

/* Every entry moves by at most about its own size. Infinite entries (masked scores) stay. */
static th__number *random_direction(th__draw *draw, const th__vertex *x) {
  const th__array *value = x->value;
  th__number *direction = th__calc_alloc(&draw->calc, (size_t)value->count * sizeof *direction);
  if (direction == NULL) return NULL;
  th_random stream = {draw->inputs.seed, 0x6447,
                      (uint64_t)draw->inputs.draw << 32 | (uint64_t)x->index};
  th__number usual = typical(value);
  for (ptrdiff_t i = 0; i < value->count; i++) {
    th__number size = value->v[i] == 0 ? usual : fabsl(value->v[i]);
    th__number turn = 2 * (th__number)th_random_uniform(stream, (uint64_t)i) - 1;
    direction[i] = isfinite(value->v[i]) ? turn * size : 0;
  }
  return direction;
}

/* A kink nearer than the smallest step: the differences see both its sides, the gradient one. */
static bool near_kink(th__trial *trial, const th__vertex *x, const th__number *direction,
                      double size) {
  double left_error, right_error;
  th__number left = th__slope(trial, x, direction, TH__LEFT, &left_error);
  th__number right = th__slope(trial, x, direction, TH__RIGHT, &right_error);
  return (double)fabsl(left - right) > 100 * (left_error + right_error) + 1e-6 * size;
}

/* *told: whether the differences could tell. */
static bool agrees(th__trial *trial, const th__vertex *x, bool *told) {
  *told = false;
  const th__array *g = x->gradient;
  th__number *direction = random_direction(trial->draw, x);
  if (direction == NULL) return true;
  th__number along = 0;
  double size = 0, bound = 0, error;
  for (ptrdiff_t i = 0; i < x->value->count; i++) {
    th__number share = g == NULL || direction[i] == 0 ? 0 : g->v[i] * direction[i];
    along += share;
    size += (double)fabsl(share);
    bound += g == NULL ? 0 : g->e[i] * (double)fabsl(direction[i]);
  }
  th__number numeric = th__slope(trial, x, direction, TH__BOTH, &error);
  if (isnan(numeric) || !isfinite(along) || isnan(bound)) return true; /* nobody can tell */
  double allowed = 100 * error + 1e-7 * size + 10 * bound + 1e-300;
  bool close = (double)fabsl(numeric - along) <= allowed;
  *told = close || !near_kink(trial, x, direction, size);
  return close || !*told;
}

const th__vertex *th__proof_find_fault(th__draw *draw, double *budget, int *checked) {
  if (draw->graph.kinks > 0) return NULL;
  th__trial trial = th__trial_start(draw);
  const th__vertex *fault = NULL;
  double cost = 2.0 * ROWS * draw->calc.work;
  for (int i = 0; i < draw->graph.count && i <= draw->end->index && fault == NULL; i++) {
    const th__vertex *x = draw->graph.vertices[i];
    if (!x->wanted || x->value->count == 0 || *budget < cost) continue;
    *budget -= cost;
    bool told;
    if (!agrees(&trial, x, &told)) fault = x;
    *checked += told;
  }
  th__trial_free(&trial);
  return fault;
}
