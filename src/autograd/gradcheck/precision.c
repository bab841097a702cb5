/* precision.c: the f32 backward against the f64 backward of the same inputs.
 *
 * The limit comes from an error bound, not from a guessed tolerance. A backward that is stable in the
 * usual sense (Higham 2002, chapter 1) returns the exact gradient of inputs that were changed by a
 * modest multiple of the unit round-off u = 2^-24. How much such changes move entry i is measured,
 * in f64: the backward is repeated with every input and upstream value multiplied by 1 + u r, r random
 * in -1 .. 1; the largest |change| of entry i over a few draws is its condition c_i. Sums of n terms
 * grow their error like sqrt(n) u (Higham & Mary 2019, doi:10.1137/18M1226312). So
 *     |g32_i - g64_i| <= K sqrt(n) (c_i + u |g_i| + u s),
 * with n the largest number of elements of any tensor here, s a thousandth of the largest |g|. */
#include <math.h>

#include "autograd/gradcheck/gradcheck.h"
#include "tensor/alloc.h"

#define UNIT 0x1p-24
#define DRAWS 6
#define FACTOR 8.0

/* condition[i][k]: the largest change of an entry under `UNIT` relative changes of everything. */
static th_status measure_condition(const th__subject *subject, const th__gradients *exact,
                                   th__gradients *condition, th_error *error) {
  th_status status = TH_OK;
  for (uint64_t draw = 0; draw < DRAWS && status == TH_OK; draw++) {
    th__gradients moved;
    status = th__backward(
        subject,
        &(th__backward_run){.dtype = TH_F64, .round_inputs = true, .jitter = UNIT, .draw = draw},
        &moved, error);
    if (status != TH_OK) break;
    for (int i = 0; i < subject->input_count; i++) {
      if (!th__checked(subject, i)) continue;
      for (ptrdiff_t k = 0; k < subject->inputs[i]->count; k++) {
        double change = fabs(moved.of[i][k] - exact->of[i][k]);
        double before = draw == 0 ? 0 : condition->of[i][k];
        moved.of[i][k] = change > before ? change : before;
      }
    }
    th__gradients_free(condition);
    *condition = moved;
  }
  return status;
}

static double largest_count(const th__subject *subject) {
  ptrdiff_t n = subject->output_count;
  for (int i = 0; i < subject->input_count; i++)
    if (subject->inputs[i]->count > n) n = subject->inputs[i]->count;
  return (double)(n > 0 ? n : 1);
}

static void judge_input(th_gradcheck_row *row, const double *exact, const double *single,
                        const double *condition, double growth) {
  double largest = 0, worst = -1;
  for (ptrdiff_t k = 0; k < row->elements; k++)
    if (isfinite(exact[k])) largest = fmax(largest, fabs(exact[k]));
  double share = TH__SHARE * largest;
  for (ptrdiff_t k = 0; k < row->elements; k++) {
    double error = fabs(single[k] - exact[k]);
    double limit = growth * (condition[k] + UNIT * (fabs(exact[k]) + share));
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
  th__gradients exact = {0}, single = {0}, onto = {0}, condition = {0};
  th_status status = th__backward(
      subject, &(th__backward_run){.dtype = TH_F64, .round_inputs = true}, &exact, error);
  if (status == TH_OK)
    status = th__backward(subject, &(th__backward_run){.dtype = TH_F32}, &single, error);
  if (status == TH_OK)
    status = th__backward(subject, &(th__backward_run){.dtype = TH_F32, .from_nonzero = true},
                          &onto, error);
  if (status == TH_OK) status = measure_condition(subject, &exact, &condition, error);
  double growth = FACTOR * sqrt(largest_count(subject));
  for (int i = 0; i < subject->input_count && status == TH_OK; i++) {
    if (!th__checked(subject, i)) continue;
    th_gradcheck_row *row = th__new_row(subject, result, i, TH_F32, TH_CHECK_PRECISION);
    judge_input(row, exact.of[i], single.of[i], condition.of[i], growth);
    th__judge_accumulation(subject, row, single.of[i], onto.of[i], UNIT);
    if (!single.arrived[i])
      th__row_verdict(row, TH_VACUOUS,
                      "the gradient never arrived: no recorded operation leads here");
    if (row->elements == 0) th__row_verdict(row, TH_VACUOUS, "nothing to compare");
  }
  th__gradients_free(&exact);
  th__gradients_free(&single);
  th__gradients_free(&onto);
  th__gradients_free(&condition);
  return status;
}
