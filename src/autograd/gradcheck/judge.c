/* judge.c: one claimed gradient against one measured derivative; what a row gathers from them. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "autograd/gradcheck/gradcheck.h"

const char *th_verdict_name(th_verdict verdict) {
  switch (verdict) {
#define X(code, text)                                                                              \
  case code: return text;
    TH_VERDICT_LIST(X)
#undef X
  }
  return "unknown";
}

const char *th_check_mode_name(th_check_mode mode) {
  switch (mode) {
#define X(code, text)                                                                              \
  case code: return text;
    TH_CHECK_MODE_LIST(X)
#undef X
  }
  return "unknown";
}

bool th_verdict_ok(th_verdict verdict) {
  return verdict == TH_PASS || verdict == TH_BELOW_FLOOR || verdict == TH_KINK;
}

void th__row_verdict(th_gradcheck_row *row, th_verdict verdict, const char *format, ...) {
  if (verdict < row->verdict || (verdict == row->verdict && row->detail[0] != '\0')) return;
  row->verdict = verdict;
  va_list args;
  va_start(args, format);
  vsnprintf(row->detail, sizeof row->detail, format, args);
  va_end(args);
}

/* ---- one entry ---- */

/* An entry counts as resolved when its error bar is at most this share of what errors are measured
 * against: coarser than that, agreement would say little. */
#define RESOLVED 1e-3

static th_verdict verdict_of(double analytic, const th__estimate *e, double scale, double allowed) {
  if (!isfinite(analytic) || !e->finite) return TH_WRONG;
  double error = fabs(analytic - e->value), slack = allowed + e->bar;
  /* Curvatures that cancel may look like a kink; then the central differences agree with the claim. */
  if (e->kink) {
    double low = fmin(e->left, e->right), high = fmax(e->left, e->right);
    double tolerated = allowed + 1e-6 * (high - low);
    bool between = analytic >= low - tolerated && analytic <= high + tolerated;
    if (between || !(error <= slack)) return between ? TH_KINK : TH_WRONG;
  }
  if (!(error <= slack)) return TH_WRONG;
  if (e->bar <= RESOLVED * scale || e->bar == 0) return TH_PASS;
  return e->rough ? TH_NOISY : TH_BELOW_FLOOR;
}

static void explain(th_gradcheck_row *row, th_verdict verdict, const th__estimate *e) {
  row->detail[0] = '\0';
  row->verdict = verdict;
  int n = (int)sizeof row->detail;
  switch (verdict) {
  case TH_WRONG:
    if (!isfinite(row->analytic))
      snprintf(row->detail, (size_t)n, "gradient [%td] is %g", row->index, row->analytic);
    else if (!e->finite)
      snprintf(row->detail, (size_t)n,
               "the function is not finite at any distance from entry [%td]", row->index);
    else if (e->kink)
      snprintf(row->detail, (size_t)n,
               "gradient [%td] is %.9g, outside the one-sided slopes %.9g and %.9g", row->index,
               row->analytic, e->left, e->right);
    else
      snprintf(row->detail, (size_t)n, "gradient [%td] is %.9g, measured %.9g +- %.1g", row->index,
               row->analytic, row->numeric, e->bar);
    break;
  case TH_KINK:
    snprintf(row->detail, (size_t)n, "no derivative at [%td]: slopes %.6g and %.6g on its two sides",
             row->index, e->left, e->right);
    break;
  case TH_NOISY:
    snprintf(row->detail, (size_t)n,
             "the function is rougher than f64 round-off: [%td] measured only as %.3g +- %.1g",
             row->index, row->numeric, e->bar);
    break;
  case TH_BELOW_FLOOR:
    snprintf(row->detail, (size_t)n, "[%td] cannot be told from %.3g +- %.1g beside round-off",
             row->index, row->numeric, e->bar);
    break;
  default: break;
  }
}

void th__tally_entry(th__tally *tally, ptrdiff_t index, double analytic, double doubt,
                     const th__estimate *e) {
  th_gradcheck_row *row = tally->row;
  double claimed = isfinite(analytic) ? fabs(analytic) : 0;
  double measured = e->kink || !e->finite ? 0 : fabs(e->value);
  double scale = fmax(fmax(claimed, measured), tally->least);
  th_verdict verdict = verdict_of(analytic, e, scale, tally->tolerance * scale + doubt);
  double error = fabs(analytic - e->value);
  if (isnan(error)) error = INFINITY;
  double relative = error == 0 ? 0 : error / scale;

  row->compared++;
  if (verdict == TH_KINK) row->kinks++;
  if (verdict == TH_BELOW_FLOOR) row->below_floor++;
  if (verdict != TH_KINK) row->max_abs_error = fmax(row->max_abs_error, error);
  if (verdict == TH_PASS || verdict == TH_WRONG)
    row->max_rel_error = fmax(row->max_rel_error, relative);

  if (tally->any &&
      (verdict < row->verdict || (verdict == row->verdict && relative <= tally->worst)))
    return;
  tally->any = true;
  tally->worst = relative;
  row->index = index;
  row->analytic = analytic;
  row->numeric = e->value;
  row->error_bar = e->bar;
  row->left = e->kink ? e->left : 0;
  row->right = e->kink ? e->right : 0;
  explain(row, verdict, e);
}

/* ---- accumulation ---- */

void th__judge_accumulation(const th__subject *subject, th_gradcheck_row *row,
                            const double *gradient, const double *left_there, double unit) {
  double largest = 2; /* start values lie in 1 .. 2 */
  bool any = false;   /* a gradient of zeros is another mistake */
  for (ptrdiff_t k = 0; k < row->elements; k++) {
    if (isfinite(gradient[k])) largest = fmax(largest, fabs(gradient[k]));
    any = any || gradient[k] != 0;
  }
  double allowed = 64 * unit * sqrt((double)row->elements + 1) * largest;
  for (ptrdiff_t k = 0; k < row->elements; k++) {
    double start = th__start_value(subject, row->input_index, k);
    double error = fabs(left_there[k] - (start + gradient[k]));
    if (error <= allowed || !isfinite(gradient[k])) continue;
    bool replaced = fabs(left_there[k] - gradient[k]) <= allowed;
    if (replaced && any) {
      snprintf(row->diagnosis, sizeof row->diagnosis, "overwritten");
      snprintf(row->cause, sizeof row->cause,
               "d%s is overwritten: what stood in the gradient before is lost (use +=)", row->input);
    } else if (!replaced && row->verdict != TH_WRONG) {
      snprintf(row->diagnosis, sizeof row->diagnosis, "unknown");
      snprintf(row->cause, sizeof row->cause,
               "d%s is right, but adds something else to a gradient that does not start at zero",
               row->input);
    }
    th__row_verdict(row, TH_WRONG, "[%td] started at %.9g and ended at %.9g: %s", k, start,
                    left_there[k],
                    replaced ? "the gradient is overwritten, not added"
                             : "the gradient added differs from the one onto zero");
    return;
  }
}
