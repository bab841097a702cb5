/* modes.c: which derivatives are compared: coordinates (all, or a sample), or random projections. */
#include <math.h>

#include "autograd/gradcheck/gradcheck.h"
#include "tensor/alloc.h"
#include "tensor/error.h"

static double largest_finite(const double *values, ptrdiff_t count) {
  double largest = 0;
  for (ptrdiff_t k = 0; k < count; k++)
    if (isfinite(values[k])) largest = fmax(largest, fabs(values[k]));
  return largest;
}

/* ---- coordinates: all of them, or a sample ---- */

static void tally_jobs(const th__subject *subject, th_gradcheck_row *row, const th__job *jobs,
                       ptrdiff_t count, double least) {
  th__tally tally = {.row = row, .tolerance = subject->tolerance, .least = least};
  bool moved = false, zero = true;
  for (ptrdiff_t i = 0; i < count; i++) {
    th__tally_entry(&tally, jobs[i].entry, jobs[i].analytic, jobs[i].doubt, &jobs[i].estimate);
    moved = moved || jobs[i].estimate.moved;
    zero = zero && jobs[i].analytic == 0;
  }
  if (count > 0 && !moved && zero)
    th__row_verdict(row, TH_VACUOUS, "the loss is constant in this input: no step changed it");
}

th_status th__check_entries(const th__subject *subject, const th__gradients *gradients,
                            const th__gradients *bound, ptrdiff_t samples,
                            th_gradcheck_row *const *rows, th_error *error) {
  ptrdiff_t room = 0, starts[TH_MAX_INPUTS + 1] = {0};
  for (int i = 0; i < subject->input_count; i++)
    if (rows[i] != NULL) room += th__entries_wanted(subject->inputs[i], samples);
  th__job *jobs = th__alloc_zero((size_t)room * sizeof *jobs);
  ptrdiff_t *entries = th__alloc((size_t)room * sizeof *entries);
  th_status status = TH_OK;
  if (jobs == NULL || entries == NULL)
    status = th__error_memory(error, "gradcheck", (size_t)room * sizeof *jobs);
  for (int i = 0; i < subject->input_count && status == TH_OK; i++) {
    starts[i + 1] = starts[i];
    if (rows[i] == NULL) continue;
    const th_tensor *x = subject->inputs[i];
    th_random stream = th__draw(subject->seed, TH__DRAW_SAMPLE, (uint64_t)i);
    ptrdiff_t count = th__choose_entries(x, samples, stream, entries, &rows[i]->miss);
    double least = TH__SHARE * largest_finite(gradients->of[i], x->count);
    double typical = th__step_scale(x, 0);
    for (ptrdiff_t n = 0; n < count; n++) {
      ptrdiff_t k = entries[n];
      double claimed = gradients->of[i][k], doubt = bound->of[i][k];
      th__job *job = &jobs[starts[i + 1]++];
      *job = (th__job){.input = i,
                       .entry = k,
                       .analytic = claimed,
                       .doubt = doubt,
                       .allowed = subject->tolerance * fmax(least, fabs(claimed)) + doubt};
      th__job_steps(job, x, typical);
    }
  }
  if (status == TH_OK)
    status = th__run_jobs(subject, jobs, starts[subject->input_count], NULL, error);
  for (int i = 0; i < subject->input_count && status == TH_OK; i++)
    if (rows[i] != NULL)
      tally_jobs(subject, rows[i], jobs + starts[i], starts[i + 1] - starts[i],
                 TH__SHARE * largest_finite(gradients->of[i], rows[i]->elements));
  th__free(jobs);
  th__free(entries);
  return status;
}

/* ---- random projections ---- */

/* Entries +-1/8 .. +-15/8: non-uniform, and x + h u is exact for inputs that f32 can hold. */
static void draw_direction(th_random stream, ptrdiff_t count, double *u) {
  for (ptrdiff_t k = 0; k < count; k++) {
    uint64_t bits = th_random_below(stream, (uint64_t)k, 30);
    u[k] = bits < 15 ? (double)(bits + 1) / 8 : -(double)(bits - 14) / 8;
  }
}

#define KINK_SAMPLES 256

/* Along a direction that passes several kinks at once the claim need not lie between the two slopes,
 * though it does in every coordinate. */
static bool outside_at_kink(const th__job *jobs, int count) {
  for (int p = 0; p < count; p++) {
    const th__estimate *e = &jobs[p].estimate;
    double claim = jobs[p].analytic, slack = jobs[p].allowed + 1e-6 * fabs(e->left - e->right);
    bool below = claim < fmin(e->left, e->right) - slack;
    if (e->kink && (below || claim > fmax(e->left, e->right) + slack)) return true;
  }
  return false;
}

th_status th__check_projections(const th__subject *subject, const th__gradients *gradients,
                                const th__gradients *bound, int projections,
                                th_gradcheck_row *const *rows, th_error *error) {
  th_status status = TH_OK;
  for (int i = 0; i < subject->input_count && status == TH_OK; i++) {
    if (rows[i] == NULL || rows[i]->elements == 0) continue;
    ptrdiff_t n = rows[i]->elements;
    double *room = th__alloc((size_t)(projections * n) * sizeof *room);
    const double **directions = th__alloc((size_t)projections * sizeof *directions);
    th__job *jobs = th__alloc_zero((size_t)projections * sizeof *jobs);
    if (room == NULL || directions == NULL || jobs == NULL)
      status = th__error_memory(error, "gradcheck", (size_t)(projections * n) * sizeof *room);
    double typical = 0;
    for (int p = 0; p < projections && status == TH_OK; p++) {
      double *u = room + p * n, dot = 0, square = 0, doubt = 0;
      draw_direction(th__draw(subject->seed, TH__DRAW_DIRECTION, (uint64_t)(p * TH_MAX_INPUTS + i)),
                     n, u);
      for (ptrdiff_t k = 0; k < n; k++) {
        double term = gradients->of[i][k] * u[k];
        dot += term;
        doubt += bound->of[i][k] * fabs(u[k]);
        square += term * term;
      }
      typical = isfinite(square) ? fmax(typical, sqrt(square)) : typical;
      directions[p] = u;
      jobs[p] = (th__job){.input = i,
                          .entry = p,
                          .analytic = dot,
                          .doubt = doubt,
                          .scale = th__step_scale(subject->inputs[i], 0)};
    }
    double least = TH__SHARE_PROJECTION * typical;
    for (int p = 0; p < projections && status == TH_OK; p++)
      jobs[p].allowed = subject->tolerance * fmax(least, fabs(jobs[p].analytic)) + jobs[p].doubt;
    if (status == TH_OK) status = th__run_jobs(subject, jobs, projections, directions, error);
    th_gradcheck_row *alone[TH_MAX_INPUTS] = {0};
    alone[i] = rows[i];
    if (status == TH_OK && outside_at_kink(jobs, projections))
      status = th__check_entries(subject, gradients, bound, KINK_SAMPLES, alone, error);
    else if (status == TH_OK)
      tally_jobs(subject, rows[i], jobs, projections, least);
    th__free(jobs);
    th__free(directions);
    th__free(room);
  }
  return status;
}
