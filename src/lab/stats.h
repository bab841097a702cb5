/* stats.h: what is reported of many values. */
#ifndef TH_LAB_STATS_H
#define TH_LAB_STATS_H

#include <stddef.h>

typedef struct th__summary {
  double mean, standard_error, median, q10, q90;
} th__summary;

/* Sorts `values` in place (NaN last, and any NaN makes every figure NaN). The standard error is that
 * of the mean, sd / sqrt(count) with count - 1 in the variance; 0 for one value. Quantiles
 * interpolate between neighbours (Hyndman & Fan 1996, type 7). */
th__summary th__summarise(double *values, ptrdiff_t count);

/* Quantile 0 <= q <= 1 of sorted values, the same way. */
double th__quantile(const double *sorted, ptrdiff_t count, double q);

#endif
