/* stats: quantiles and standard errors against values worked out by hand. */
#include <criterion/criterion.h>
#include <math.h>

#include "lab/stats.h"

static void expect(const char *what, double got, double want) {
  cr_assert(fabs(got - want) <= 1e-15 * fmax(1, fabs(want)), "%s: got %.17g, want %.17g", what, got,
            want);
}

/* Type 7: the quantile q of n values stands at place q (n - 1), between neighbours in proportion. */
Test(stats, quantiles_interpolate) {
  const double sorted[] = {1, 2, 4, 8, 16};
  expect("q 0", th__quantile(sorted, 5, 0), 1);
  expect("q 0.1", th__quantile(sorted, 5, 0.1), 1.4);
  expect("q 0.5", th__quantile(sorted, 5, 0.5), 4);
  expect("q 0.6", th__quantile(sorted, 5, 0.6), 5.6);
  expect("q 0.9", th__quantile(sorted, 5, 0.9), 12.8);
  expect("q 1", th__quantile(sorted, 5, 1), 16);
  expect("even count", th__quantile(sorted, 4, 0.5), 3);
  expect("one value", th__quantile(sorted, 1, 0.9), 1);
  cr_assert(isnan(th__quantile(sorted, 0, 0.5)));
}

Test(stats, summary) {
  double values[] = {8, 1, 4, 16, 2}; /* mean 6.2, squares of the deviations 148.8 */
  th__summary s = th__summarise(values, 5);
  expect("mean", s.mean, 6.2);
  expect("standard error", s.standard_error, sqrt(148.8 / 4 / 5));
  expect("median", s.median, 4);
  expect("q10", s.q10, 1.4);
  expect("q90", s.q90, 12.8);
  for (int i = 1; i < 5; i++) cr_assert(values[i - 1] < values[i], "not sorted");
}

Test(stats, one_value_has_no_error) {
  double value = 3;
  th__summary s = th__summarise(&value, 1);
  cr_assert(s.mean == 3 && s.standard_error == 0 && s.median == 3 && s.q10 == 3 && s.q90 == 3);
}

/* Gradients of saturated rows: a dozen tiny values and a large one. */
Test(stats, tiny_values_keep_their_digits) {
  double values[] = {1e-300, 3e-300, 2e-300};
  th__summary s = th__summarise(values, 3);
  cr_assert_float_eq(s.mean / 2e-300, 1, 1e-15);
  cr_assert_eq(s.median, 2e-300);
}

Test(stats, not_a_number_spoils_every_figure) {
  double values[] = {1, (double)NAN, 3};
  th__summary s = th__summarise(values, 3);
  cr_assert(isnan(s.mean) && isnan(s.standard_error) && isnan(s.median) && isnan(s.q10) &&
            isnan(s.q90));
  s = th__summarise(values, 0);
  cr_assert(isnan(s.mean) && isnan(s.median));
}

Test(stats, equal_infinities_have_quantiles) {
  double values[] = {(double)INFINITY, 1, (double)INFINITY, (double)INFINITY};
  th__summary s = th__summarise(values, 4);
  cr_assert(isinf(s.mean) && isinf(s.median) && isinf(s.q90));
  const double sorted[] = {1, 2, (double)INFINITY};
  expect("the median itself, beside an infinity", th__quantile(sorted, 3, 0.5), 2);
  cr_assert(isinf(th__quantile(sorted, 3, 0.75)));
}
