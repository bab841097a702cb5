/* hessian.c: second order. The gradient of a smooth function has a symmetric derivative, the Hessian H,
 * so u.(Hv) = v.(Hu) for any directions u, v. Hv is measured by differences of the claimed gradient
 * along v. What is no gradient of anything (a missing term, a transposed matrix) shows without a single
 * evaluation of the loss; a constant factor does not. */
#include <float.h>
#include <math.h>
#include <stdio.h>

#include "autograd/gradcheck/gradcheck.h"
#include "tensor/alloc.h"
#include "tensor/error.h"

enum { LEVELS = 5 };
#define SETTLED 0.1 /* how far the smallest step's difference may lie from the value, relatively */

typedef struct pair {
  double *along[TH_MAX_INPUTS], *across[TH_MAX_INPUTS]; /* v and u, of the size of each input */
  bool claimed[TH_MAX_INPUTS];                          /* anything but 0, at any point so far */
} pair;

/* A pair, or the same with v and u exchanged. */
typedef struct sides {
  double *const *along, *const *across;
  bool *claimed;
} sides;

static void draw_pair(const th__subject *subject, int number, pair *p) {
  for (int i = 0; i < subject->input_count; i++) {
    if (p->along[i] == NULL) continue;
    double scale = th__step_scale(subject->inputs[i], 0);
    for (int side = 0; side < 2; side++) {
      th_random stream =
          th__draw(subject->seed, TH__DRAW_DIRECTION,
                   ((uint64_t)number * 2 + (uint64_t)side + 1) * TH_MAX_INPUTS + (uint64_t)i);
      double *values = side == 0 ? p->along[i] : p->across[i];
      for (ptrdiff_t k = 0; k < subject->inputs[i]->count; k++)
        values[k] = scale * th_random_normal(stream, (uint64_t)k);
    }
  }
}

/* u.g at x + t v; *size: the sum of |u g|, whose rounding is that of the result. */
static th_status gradient_across(const th__subject *subject, sides p, double t, double *value,
                                 double *size, th_error *error) {
  th__gradients g;
  th_status status = th__backward(
      subject, &(th__backward_run){.dtype = TH_F64, .along = p.along, .distance = t}, &g, error);
  if (status != TH_OK) return status;
  *value = *size = 0;
  for (int i = 0; i < subject->input_count; i++)
    for (ptrdiff_t k = 0; p.along[i] != NULL && k < subject->inputs[i]->count; k++) {
      *value += p.across[i][k] * g.of[i][k];
      *size += fabs(p.across[i][k] * g.of[i][k]);
      p.claimed[i] = p.claimed[i] || g.of[i][k] != 0;
    }
  th__gradients_free(&g);
  return TH_OK;
}

/* u.(Hv) with an error bar: central differences at falling steps, extrapolated (sweep.c). */
static th_status second_derivative(const th__subject *subject, sides p, th__estimate *e,
                                   th_error *error) {
  double table[LEVELS][LEVELS], noise[LEVELS];
  *e = (th__estimate){.bar = INFINITY, .finite = true, .moved = true};
  for (int j = 0; j < LEVELS; j++) {
    double h = ldexp(1, -5 - 2 * j), plus, minus, size;
    th_status status = gradient_across(subject, p, h, &plus, &size, error);
    if (status == TH_OK) status = gradient_across(subject, p, -h, &minus, &size, error);
    if (status != TH_OK) return status;
    table[j][0] = (plus - minus) / (2 * h);
    noise[j] = 8 * DBL_EPSILON * size / h;
    double factor = 1;
    for (int m = 1; m <= j; m++) {
      factor *= 16;
      table[j][m] = table[j][m - 1] + (table[j][m - 1] - table[j - 1][m - 1]) / (factor - 1);
      double bar =
          fmax(fabs(table[j][m] - table[j][m - 1]), fabs(table[j][m] - table[j - 1][m - 1]));
      if (bar + noise[j] >= e->bar) continue;
      e->value = table[j][m];
      e->bar = bar + noise[j];
      e->floor = noise[j];
    }
  }
  /* Across kinks the differences jump from step to step, and two of them agree by chance. */
  double last = fabs(table[LEVELS - 1][0] - e->value);
  if (last > SETTLED * fabs(e->value) + noise[LEVELS - 1]) e->bar = INFINITY;
  e->finite = isfinite(e->value);
  return TH_OK;
}

static th_status check_pairs(const th__subject *subject, int pairs, pair *p, th_gradcheck_row *row,
                             th_error *error) {
  double least = 0;
  th__tally tally = {.row = row, .tolerance = subject->tolerance};
  for (int number = 0; number < pairs; number++) {
    th__estimate forth, back;
    draw_pair(subject, number, p);
    const sides vu = {p->along, p->across, p->claimed}, uv = {p->across, p->along, p->claimed};
    th_status status = second_derivative(subject, vu, &forth, error);
    if (status == TH_OK) status = second_derivative(subject, uv, &back, error);
    if (status != TH_OK) return status;
    least = fmax(least, TH__SHARE_PROJECTION * fmax(fabs(forth.value), fabs(back.value)));
    tally.least = least;
    forth.bar += back.bar;
    th__tally_entry(&tally, number, back.value, 0, &forth);
  }
  if (row->verdict == TH_WRONG)
    snprintf(row->detail, sizeof row->detail,
             "u.Hv is %.9g but v.Hu is %.9g +- %.1g: this is the gradient of no function",
             row->numeric, row->analytic, row->error_bar);
  return TH_OK;
}

/* ---- gradients that are 0 wherever they were looked at: symmetric, whatever the function is ---- */

/* Does any output change when input i alone moves along v? */
static th_status output_moves(const th__subject *subject, int i, const pair *p, bool *moves,
                              th_error *error) {
  th__worker worker;
  *moves = false;
  if (!th__worker_start(&worker, subject)) return th__error_memory(error, "gradcheck", 0);
  double *x = worker.inputs[i]->data;
  for (ptrdiff_t k = 0; k < subject->inputs[i]->count; k++) x[k] += p->along[i][k];
  th_status status = th__worker_run(&worker, worker.plus, error);
  for (ptrdiff_t k = 0; k < subject->output_count && status == TH_OK; k++)
    *moves = *moves || worker.plus[k] != subject->output[k];
  th__worker_free(&worker);
  return status;
}

static th_status judge_zeros(const th__subject *subject, const pair *p, th_gradcheck_row *row,
                             th_error *error) {
  bool any = row->elements == 0 || subject->output_count == 0; /* that is said elsewhere */
  th_status status = TH_OK;
  for (int i = 0; i < subject->input_count && status == TH_OK; i++) {
    if (p->along[i] == NULL || subject->inputs[i]->count == 0) continue;
    any = any || p->claimed[i];
    bool moves = true;
    if (!p->claimed[i]) status = output_moves(subject, i, p, &moves, error);
    if (status == TH_OK && !moves)
      th__row_verdict(row, TH_VACUOUS, "the loss is constant in input %d%s%.31s: no step changed it",
                      i, subject->inputs[i]->name[0] != '\0' ? ", " : "", subject->inputs[i]->name);
  }
  if (!any && status == TH_OK)
    th__row_verdict(row, TH_VACUOUS,
                    "the claimed gradient is 0 at every point tried, so its derivative is symmetric "
                    "whatever the function is");
  return status;
}

th_status th__check_hessian(const th__subject *subject, int pairs, th_gradcheck_row *row,
                            th_error *error) {
  pair p = {{NULL}, {NULL}, {false}};
  bool good = true;
  row->elements = 0;
  for (int i = 0; i < subject->input_count && good; i++) {
    if (!th__checked(subject, i)) continue;
    size_t bytes = (size_t)subject->inputs[i]->count * sizeof(double);
    p.along[i] = th__alloc(bytes);
    p.across[i] = th__alloc(bytes);
    row->elements += subject->inputs[i]->count;
    good = p.along[i] != NULL && p.across[i] != NULL;
  }
  th_status status =
      good ? check_pairs(subject, pairs, &p, row, error) : th__error_memory(error, "gradcheck", 0);
  if (status == TH_OK) status = judge_zeros(subject, &p, row, error);
  for (int i = 0; i < TH_MAX_INPUTS; i++) {
    th__free(p.along[i]);
    th__free(p.across[i]);
  }
  return status;
}
