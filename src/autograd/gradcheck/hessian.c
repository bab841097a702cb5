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

typedef struct pair {
  double *along[TH_MAX_INPUTS], *across[TH_MAX_INPUTS]; /* v and u, of the size of each input */
} pair;

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
static th_status gradient_across(const th__subject *subject, double *const *along,
                                 double *const *across, double t, double *value, double *size,
                                 th_error *error) {
  th__gradients g;
  th_status status = th__backward(
      subject, &(th__backward_run){.dtype = TH_F64, .along = along, .distance = t}, &g, error);
  if (status != TH_OK) return status;
  *value = *size = 0;
  for (int i = 0; i < subject->input_count; i++)
    for (ptrdiff_t k = 0; along[i] != NULL && k < subject->inputs[i]->count; k++) {
      *value += across[i][k] * g.of[i][k];
      *size += fabs(across[i][k] * g.of[i][k]);
    }
  th__gradients_free(&g);
  return TH_OK;
}

/* u.(Hv) with an error bar: central differences at falling steps, extrapolated (sweep.c). */
static th_status second_derivative(const th__subject *subject, double *const *along,
                                   double *const *across, th__estimate *e, th_error *error) {
  double table[LEVELS][LEVELS], noise[LEVELS];
  *e = (th__estimate){.bar = INFINITY, .finite = true, .moved = true};
  for (int j = 0; j < LEVELS; j++) {
    double h = ldexp(1, -5 - 2 * j), plus, minus, size;
    th_status status = gradient_across(subject, along, across, h, &plus, &size, error);
    if (status == TH_OK) status = gradient_across(subject, along, across, -h, &minus, &size, error);
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
    th_status status = second_derivative(subject, p->along, p->across, &forth, error);
    if (status == TH_OK) status = second_derivative(subject, p->across, p->along, &back, error);
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

th_status th__check_hessian(const th__subject *subject, int pairs, th_gradcheck_row *row,
                            th_error *error) {
  pair p = {{NULL}, {NULL}};
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
  for (int i = 0; i < TH_MAX_INPUTS; i++) {
    th__free(p.along[i]);
    th__free(p.across[i]);
  }
  return status;
}
