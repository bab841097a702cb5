/* row: the figures of a row of weights, against the plain formulas where these hold, and against exact
 * values where they would cancel. */
#include <criterion/criterion.h>
#include <math.h>

#include "lab/row.h"
#include "tapehead.h"

static void expect(const char *what, double got, double want, double limit) {
  cr_assert(fabs(got - want) <= limit * fabs(want), "%s: got %.17g, want %.17g", what, got, want);
}

/* Softmax of n normal logits with this standard deviation. */
static void draw_weights(double *p, ptrdiff_t n, double sd, uint64_t seed) {
  double most = -(double)INFINITY, sum = 0;
  for (ptrdiff_t j = 0; j < n; j++) {
    p[j] = sd * th_random_normal((th_random){seed, 1, 0}, (uint64_t)j);
    most = fmax(most, p[j]);
  }
  for (ptrdiff_t j = 0; j < n; j++) sum += p[j] = exp(p[j] - most);
  for (ptrdiff_t j = 0; j < n; j++) p[j] /= sum;
}

Test(row, plain_formulas_where_nothing_cancels) {
  double p[64];
  for (uint64_t seed = 0; seed < 50; seed++) {
    draw_weights(p, 64, 1, seed);
    double s2 = 0, s3 = 0, entropy = 0;
    ptrdiff_t top = 0;
    for (ptrdiff_t j = 0; j < 64; j++) {
      s2 += p[j] * p[j];
      s3 += p[j] * p[j] * p[j];
      entropy -= p[j] * log(p[j]);
      if (p[j] > p[top]) top = j;
    }
    th__row r = th__row_figures(p, 64);
    cr_assert_eq(r.top, top);
    cr_assert_eq(r.largest, p[top]);
    cr_assert_eq(r.zeros, 0);
    expect("one minus max", r.one_minus_max, 1 - p[top], 1e-14);
    expect("entropy", r.entropy, entropy, 1e-14);
    expect("trace", r.jacobian_trace, 1 - s2, 1e-14);
    expect("norm", r.jacobian_norm, sqrt(s2 - 2 * s3 + s2 * s2), 1e-13);
  }
}

/* Two weights 1 - e and e: trace = norm = 2 e (1 - e), entropy = e (1 - ln e) to order e^2. The plain
 * formulas give 0 from e = 1e-16 on, and squares of weights underflow from 1e-162 on. */
Test(row, sharp_rows_keep_their_relative_accuracy) {
  const double small[] = {1e-6, 1.6038108905e-28, 1e-100, 1e-200, 1e-300};
  for (int i = 0; i < 5; i++) {
    double e = small[i], p[] = {0, e, 1 - e, 0};
    th__row r = th__row_figures(p, 4);
    cr_assert_eq(r.top, 2);
    cr_assert_eq(r.zeros, 2);
    cr_assert_eq(r.one_minus_max, e);
    expect("trace", r.jacobian_trace, 2 * e * (1 - e), 1e-15);
    expect("norm", r.jacobian_norm, 2 * e * (1 - e), 1e-15);
    expect("entropy", r.entropy, -e * log(e) - (1 - e) * log1p(-e), 1e-14);
  }
}

/* With small weights a and b beside the largest: J's entries are a, b and -(a + b) to first order, so
 * norm^2 = (a + b)^2 + a^2 + b^2 + 2 a^2 + 2 b^2. */
Test(row, three_weights) {
  double a = 1e-40, b = 3e-40, p[] = {a, 1, b};
  th__row r = th__row_figures(p, 3);
  expect("one minus max", r.one_minus_max, a + b, 1e-15);
  expect("trace", r.jacobian_trace, 2 * (a + b), 1e-15);
  expect("norm", r.jacobian_norm, 1e-40 * sqrt(16 + 3 * 1 + 3 * 9), 1e-14);
}

/* |J| <= trace J <= 1 - 1/n, also where they are equal and for weights rounded to f32. */
Test(row, norm_trace_and_their_bound) {
  double p[37];
  for (uint64_t seed = 0; seed < 400; seed++)
    for (ptrdiff_t n = 1; n <= 37; n += n < 4 ? 1 : 11) {
      draw_weights(p, n, (double)(seed % 8) * (double)(seed % 8), seed);
      if (seed % 2 == 0)
        for (ptrdiff_t j = 0; j < n; j++) p[j] = (double)(float)p[j];
      th__row r = th__row_figures(p, n);
      cr_assert(0 <= r.jacobian_norm && r.jacobian_norm <= r.jacobian_trace);
      cr_assert(r.jacobian_trace <= 1 - 1 / (double)n);
      cr_assert(r.entropy >= 0 && r.entropy <= log((double)n) + 1e-6);
      if (n == 2) expect("norm", r.jacobian_norm, r.jacobian_trace, 1e-15);
    }
}

Test(row, edges) {
  double one = 1, uniform[] = {0.25, 0.25, 0.25, 0.25}, nothing[] = {0, 0, 0};
  th__row r = th__row_figures(&one, 1);
  cr_assert(r.one_minus_max == 0 && r.entropy == 0 && r.jacobian_trace == 0 && r.jacobian_norm == 0);
  r = th__row_figures(uniform, 4); /* J = 1/4 (identity - 1/4): 3 eigenvalues of 1/4 */
  cr_assert_eq(r.top, 0);
  expect("entropy", r.entropy, log(4), 1e-15);
  expect("trace", r.jacobian_trace, 0.75, 1e-15);
  expect("norm", r.jacobian_norm, sqrt(3) / 4, 1e-15);
  r = th__row_figures(nothing, 3); /* a query that sees nothing */
  cr_assert(r.zeros == 3 && r.largest == 0 && r.entropy == 0 && r.jacobian_norm == 0);
  cr_assert_eq(th__row_figures(NULL, 0).zeros, 0);
  double bad[] = {0.5, (double)NAN};
  cr_assert(isnan(th__row_figures(bad, 2).entropy) && isnan(th__row_figures(bad, 2).jacobian_norm));
}
