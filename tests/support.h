/* support.h: what the tests share: tolerances, tensors from doubles, comparisons.
 *
 * Tests of ops run in both precisions: write one function that takes a th_dtype and call it from
 * TEST_BOTH(suite, name), which makes two Criterion tests of it. */
#ifndef TESTS_SUPPORT_H
#define TESTS_SUPPORT_H

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "autograd/tape.h"
#include "tapehead.h"

/* Relative to max(1, |expected|): the goldens are float64, f32 results differ by rounding only. */
typedef struct tolerance {
  double value, gradient;
} tolerance;
static const tolerance tolerances[] = {[TH_F32] = {4e-6, 2e-5}, [TH_F64] = {1e-13, 1e-12}};

#define TEST_BOTH(suite, name)                                                                     \
  static void name##_in(th_dtype dtype);                                                           \
  Test(suite, name##_f32) { name##_in(TH_F32); }                                                   \
  Test(suite, name##_f64) { name##_in(TH_F64); }                                                   \
  static void name##_in(th_dtype dtype)

/* A tensor on the tape with the given values (row-major doubles, rounded to dtype). */
static inline th_tensor *make(th_tape *tape, th_dtype dtype, int ndim, const ptrdiff_t *shape,
                              const double *values) {
  th_tensor *x = dtype == TH_F32 || dtype == TH_F64 ? th_input_grad(tape, dtype, ndim, shape, NULL)
                                                    : th_input(tape, dtype, ndim, shape, NULL);
  cr_assert_not_null(x, "%s", th_tape_message(tape));
  th_tensor_write(x, values);
  return x;
}

/* max over i of |got - want| / max(1, |want|) must not exceed the tolerance; NaN fails. */
static inline void expect_values(const char *what, const th_tensor *got, const double *want,
                                 double limit) {
  cr_assert_not_null(got, "%s is missing", what);
  ptrdiff_t count = th_tensor_count(got);
  double *values = malloc(((size_t)count + 1) * sizeof *values);
  th_tensor_read(got, values);
  for (ptrdiff_t i = 0; i < count; i++) {
    double error = fabs(values[i] - want[i]) / fmax(1.0, fabs(want[i]));
    cr_assert(error <= limit, "%s[%td]: got %.17g, want %.17g, error %.3g > %.3g", what, i,
              values[i], want[i], error, limit);
  }
  free(values);
}

/* The same, relative to |want| alone: for results whose smallness matters. */
static inline void expect_relative(const char *what, const th_tensor *got, const double *want,
                                   double limit) {
  cr_assert_not_null(got, "%s is missing", what);
  ptrdiff_t count = th_tensor_count(got);
  double *values = malloc(((size_t)count + 1) * sizeof *values);
  th_tensor_read(got, values);
  for (ptrdiff_t i = 0; i < count; i++)
    cr_assert(fabs(values[i] - want[i]) <= limit * fabs(want[i]),
              "%s[%td]: got %.17g, want %.17g (relative limit %.3g)", what, i, values[i], want[i],
              limit);
  free(values);
}

/* th_backward_from with the upstream gradient given as doubles. */
static inline void backward_from(th_tape *tape, th_tensor *y, const double *upstream) {
  th_tensor *g = th_input(tape, th_tensor_dtype(y), th_tensor_ndim(y), th_tensor_shape(y), NULL);
  cr_assert_not_null(g, "%s", th_tape_message(tape));
  th_tensor_write(g, upstream);
  cr_assert_eq(th_backward_from(tape, y, g), TH_OK, "%s", th_tape_message(tape));
}

/* The tape holds an error of this kind whose sentence contains the text; clears it. */
static inline void expect_error(th_tape *tape, th_status status, const char *text) {
  cr_assert_eq(th_tape_status(tape), status, "status %d (%s)", (int)th_tape_status(tape),
               th_tape_message(tape));
  cr_assert_not_null(strstr(th_tape_message(tape), text), "\"%s\" does not contain \"%s\"",
                     th_tape_message(tape), text);
  th_tape_clear_error(tape);
}

#endif
