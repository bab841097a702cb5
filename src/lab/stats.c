#include "lab/stats.h"

#include <math.h>
#include <stdlib.h>

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  if (isnan(x) || isnan(y)) return isnan(x) - isnan(y);
  return (x > y) - (x < y);
}

double th__quantile(const double *sorted, ptrdiff_t count, double q) {
  if (count <= 0) return (double)NAN;
  double place = q * (double)(count - 1);
  ptrdiff_t below = (ptrdiff_t)place;
  if (below >= count - 1) return sorted[count - 1];
  double low = sorted[below], high = sorted[below + 1];
  double part = place - (double)below;
  /* Not computed where there is nothing between: infinities would give inf - inf, or 0 * inf. */
  return part == 0 || low == high ? low : low + part * (high - low);
}

th__summary th__summarise(double *values, ptrdiff_t count) {
  const double nan = (double)NAN;
  if (count <= 0) return (th__summary){nan, nan, nan, nan, nan};
  qsort(values, (size_t)count, sizeof *values, compare);
  if (isnan(values[count - 1])) return (th__summary){nan, nan, nan, nan, nan};
  double sum = 0, squares = 0;
  for (ptrdiff_t i = 0; i < count; i++) sum += values[i];
  double mean = sum / (double)count;
  for (ptrdiff_t i = 0; i < count; i++) squares += (values[i] - mean) * (values[i] - mean);
  double n = (double)count;
  return (th__summary){.mean = mean,
                       .standard_error = count > 1 ? sqrt(squares / (n - 1) / n) : 0,
                       .median = th__quantile(values, count, 0.5),
                       .q10 = th__quantile(values, count, 0.1),
                       .q90 = th__quantile(values, count, 0.9)};
}
