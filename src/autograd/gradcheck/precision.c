/* precision.c: what rounding errors can do to a gradient, and the f32 backward against the f64 one.
 *
 * The limits come from an error bound, not from a guessed tolerance. A backward that is stable in the
 * usual sense (Higham 2002, chapter 1) returns the exact result for values that were changed by a
 * modest multiple of the unit round-off u (2^-24 in f32, 2^-53 in f64). How much such changes move
 * entry i is measured, in f64: the backward is repeated with every input, and every gradient on its
 * way back, multiplied by 1 + d r, r random in -1 .. 1 and d = 2^-24; the largest |change| / d of entry
 * i over a few draws is its condition c_i. Sums of n terms grow their error like sqrt(n) (Higham & Mary
 * 2019, doi:10.1137/18M1226312). So
 *     |computed g_i - exact g_i| <= K sqrt(n) u (c_i + |g_i| + s),
 * with n the largest number of elements of any tensor here and s a thousandth of the largest |g|. */
#include <math.h>

#include "autograd/gradcheck/gradcheck.h"
#include "tensor/alloc.h"

#define UNIT 0x1p-24 /* of f32 */
#define DRAWS 6
#define FACTOR 8.0    /* K */
#define FLUSHED 1e-35 /* of f32: values below 1.2e-38 become 0, and may be multiplied afterwards */

/* change[i][k]: the largest change of an entry over the draws. */
static th_status largest_changes(const th__subject *subject, const th__gradients *exact,
                                 bool round_inputs, th__gradients *change, th_error *error) {
  for (uint64_t draw = 0; draw < DRAWS; draw++) {
    th__gradients moved;
    th__backward_run run = {
        .dtype = TH_F64, .round_inputs = round_inputs, .jitter = UNIT, .draw = draw};
    th_status status = th__backward(subject, &run, &moved, error);
    if (status != TH_OK) return status;
    for (int i = 0; i < subject->input_count; i++)
      for (ptrdiff_t k = 0; th__checked(subject, i) && k < subject->inputs[i]->count; k++) {
        double now = fabs(moved.of[i][k] - exact->of[i][k]);
        moved.of[i][k] = draw == 0 ? now : fmax(now, change->of[i][k]);
      }
    th__gradients_free(change);
    *change = moved;
  }
  return TH_OK;
}

static double largest_count(const th__subject *subject) {
  ptrdiff_t n = subject->output_count > 0 ? subject->output_count : 1;
  for (int i = 0; i < subject->input_count; i++)
    if (subject->inputs[i]->count > n) n = subject->inputs[i]->count;
  return (double)n;
}

static double share_of_largest(const double *values, ptrdiff_t count) {
  double largest = 0;
  for (ptrdiff_t k = 0; k < count; k++)
    if (isfinite(values[k])) largest = fmax(largest, fabs(values[k]));
  return TH__SHARE * largest;
}

th_status th__rounding_bound(const th__subject *subject, const th__gradients *exact,
                             bool round_inputs, double unit, th__gradients *bound, th_error *error) {
  *bound = (th__gradients){0};
  th_status status = largest_changes(subject, exact, round_inputs, bound, error);
  double growth = FACTOR * sqrt(largest_count(subject)) * unit;
  for (int i = 0; i < subject->input_count && status == TH_OK; i++) {
    if (!th__checked(subject, i)) continue;
    ptrdiff_t count = subject->inputs[i]->count;
    double share = share_of_largest(exact->of[i], count);
    for (ptrdiff_t k = 0; k < count; k++) {
      double condition = bound->of[i][k] / UNIT;
      bound->of[i][k] = growth * (condition + fabs(exact->of[i][k]) + share);
    }
  }
  return status;
}

/* ---- f32 against f64 ---- */

static void judge_input(th_gradcheck_row *row, const double *exact, const double *single,
                        const double *bound) {
  double worst = -1, share = share_of_largest(exact, row->elements);
  for (ptrdiff_t k = 0; k < row->elements; k++) {
    double error = fabs(single[k] - exact[k]);
    double limit = bound[k] + FLUSHED;
    double scale = fmax(fmax(fabs(exact[k]), fabs(single[k])), share);
    if (isnan(error)) error = INFINITY;
    double relative = error == 0 ? 0 : error / scale;
    row->compared++;
    row->max_abs_error = fmax(row->max_abs_error, error);
    row->max_rel_error = fmax(row->max_rel_error, relative);
    bool within = error <= limit;
    double rank = error == 0 ? 0 : error / limit; /* how much of its limit it takes */
    if (rank <= worst) continue;
    worst = rank;
    row->index = k;
    row->analytic = single[k];
    row->numeric = exact[k];
    row->error_bar = limit;
    if (!within) {
      row->verdict = TH_PASS, row->detail[0] = '\0';
      th__row_verdict(row, TH_WRONG,
                      "f32 gradient [%td] is %.9g, in f64 %.9g; rounding explains %.1g", k,
                      single[k], exact[k], limit);
    }
  }
}

th_status th__precision(const th__subject *subject, th_gradcheck_result *result, th_error *error) {
  th__gradients exact = {0}, single = {0}, onto = {0}, bound = {0};
  th_status status = th__backward(
      subject, &(th__backward_run){.dtype = TH_F64, .round_inputs = true}, &exact, error);
  if (status == TH_OK)
    status = th__backward(subject, &(th__backward_run){.dtype = TH_F32}, &single, error);
  if (status == TH_OK)
    status = th__backward(subject, &(th__backward_run){.dtype = TH_F32, .from_nonzero = true},
                          &onto, error);
  if (status == TH_OK) status = th__rounding_bound(subject, &exact, true, UNIT, &bound, error);
  for (int i = 0; i < subject->input_count && status == TH_OK; i++) {
    if (!th__checked(subject, i)) continue;
    th_gradcheck_row *row = th__new_row(subject, result, i, TH_F32, TH_CHECK_PRECISION);
    judge_input(row, exact.of[i], single.of[i], bound.of[i]);
    th__judge_accumulation(subject, row, single.of[i], onto.of[i], UNIT);
    if (!single.arrived[i])
      th__row_verdict(row, TH_VACUOUS,
                      "the gradient never arrived: no recorded operation leads here");
    if (row->elements == 0) th__row_verdict(row, TH_VACUOUS, "nothing to compare");
  }
  th__gradients_free(&exact);
  th__gradients_free(&single);
  th__gradients_free(&onto);
  th__gradients_free(&bound);
  return status;
}
