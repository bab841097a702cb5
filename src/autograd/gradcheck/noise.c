/* noise.c: how rough each output of the function is: the round-off with which it is computed.
 *
 * A smooth function has tiny high differences: the fourth ones at spacing e are f'''' e^4, below 1e-20.
 * What is seen instead is noise: a fourth difference of values with independent errors s has standard
 * deviation sqrt(1 + 16 + 36 + 16 + 1) s (Hamming; Moré & Wild 2011, doi:10.1137/100786125). So f is
 * evaluated at nine points in a row along one random direction. That is done at two places, away from
 * the point itself, and the smaller result counts: a kink may lie in one of the two. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "autograd/gradcheck/gradcheck.h"
#include "tensor/alloc.h"
#include "tensor/error.h"

double th__step_scale(const th_tensor *x, double own) {
  const double *values = x->data;
  double largest = 0, sum = 0;
  for (ptrdiff_t k = 0; k < x->count; k++) largest = fmax(largest, fabs(values[k]));
  if (largest > 0 && isfinite(largest))
    for (ptrdiff_t k = 0; k < x->count; k++) sum += values[k] / largest * (values[k] / largest);
  double scale = fmax(fabs(own), largest * sqrt(sum / (double)(x->count > 0 ? x->count : 1)));
  return scale > 0 && isfinite(scale) ? ldexp(1, ilogb(scale)) : 1;
}

enum { POINTS = 9, ORDER = 4 };
#define SPACING 0x1p-18
static const double places[] = {0x1p-12, -0x1p-12}; /* distance of the first point */

/* Small entries move little: what is far away, beside large ones, says nothing about the point. */
static void displace(const th__worker *worker, double t) {
  const th__subject *subject = worker->subject;
  for (int i = 0; i < subject->input_count; i++) {
    if (!th__checked(subject, i)) continue;
    const th_tensor *x = subject->inputs[i];
    double *moved = worker->inputs[i]->data, typical = th__step_scale(x, 0);
    const double *values = x->data;
    th_random stream = th__draw(subject->seed, TH__DRAW_NOISE, (uint64_t)i);
    for (ptrdiff_t k = 0; k < x->count; k++) {
      double scale = values[k] != 0 ? fmin(fabs(values[k]), typical) : typical;
      moved[k] = values[k] + t * scale * (2 * th_random_uniform(stream, (uint64_t)k) - 1);
    }
  }
}

/* values[]: POINTS rows of outputs; noise[k] becomes the smaller of itself and what they show. */
static void read_differences(ptrdiff_t count, const double *values, double *noise) {
  for (ptrdiff_t k = 0; k < count; k++) {
    double row[POINTS], most = 0;
    for (int p = 0; p < POINTS; p++) row[p] = values[p * count + k];
    for (int order = 0; order < ORDER; order++)
      for (int p = 0; p + 1 < POINTS - order; p++) row[p] = row[p + 1] - row[p];
    for (int p = 0; p < POINTS - ORDER; p++) most = fmax(most, fabs(row[p]));
    most /= sqrt(70);
    if (isfinite(most)) noise[k] = fmin(noise[k], most);
  }
}

th_status th__measure_noise(th__subject *subject, th__worker *worker, th_error *error) {
  ptrdiff_t count = subject->output_count;
  double *values = th__alloc((size_t)(POINTS * count) * sizeof *values);
  th_status status = TH_OK;
  if (values == NULL) return th__error_memory(error, "gradcheck", 0);
  for (ptrdiff_t k = 0; k < count; k++) subject->noise[k] = INFINITY;
  for (size_t place = 0; place < sizeof places / sizeof *places && status == TH_OK; place++) {
    for (int p = 0; p < POINTS && status == TH_OK; p++) {
      displace(worker, places[place] + p * SPACING);
      status = th__worker_run(worker, values + p * count, error);
    }
    if (status == TH_OK) read_differences(count, values, subject->noise);
  }
  for (ptrdiff_t k = 0; k < count; k++) {
    /* Where y hardly moves, differences miss its rounding: a few units of a product, quotient, sum. */
    double rounding = 2 * DBL_EPSILON * fabs(subject->output[k]);
    bool measured = isfinite(subject->noise[k]);
    subject->noise[k] = measured ? fmax(subject->noise[k], rounding) : rounding;
  }
  th__free(values);
  return status;
}
