/* saturate_sweep.h: what the two halves of a sweep share: saturate.c (settings, points, summaries) and
 * saturate_row.c (one row, measured). */
#ifndef TH_LAB_SATURATE_SWEEP_H
#define TH_LAB_SATURATE_SWEEP_H

#include <pthread.h>

#include "lab/saturate.h"

/* Per row, beside the figures that are summarised. */
enum { TH__ZERO_WEIGHTS = TH__SATURATE_FIGURES, TH__SATURATED, TH__SATURATE_COLUMNS };

typedef struct th__saturate_sweep {
  const th__saturate_options *options;
  th__saturate_result *result;
  ptrdiff_t samples, fd_stride, fd_rows; /* each fd_stride-th row is differentiated numerically */
  double *columns;                       /* [points, TH__SATURATE_COLUMNS, samples] */
  double *fd;                            /* [points, fd_rows] */
  double *means; /* of q.k, and of its square, over a row's keys: [2, samples], for one group */
  pthread_mutex_t mutex; /* for what follows */
  double done, total;    /* elements of keys */
  th_error *error;       /* the first that is met */
  bool failed;
} th__saturate_sweep;

/* All points of one (d_k, keys): they share their rows. */
typedef struct th__saturate_group {
  th__saturate_sweep *sweep;
  ptrdiff_t dk, keys;
  ptrdiff_t first_point;
} th__saturate_group;

static inline double *th__saturate_column(const th__saturate_sweep *s, ptrdiff_t point, int which) {
  return s->columns + (point * TH__SATURATE_COLUMNS + which) * s->samples;
}

/* The number that multiplies q.k. */
double th__saturate_factor(const th__saturate_scale *scale, ptrdiff_t dk);

/* A piece of a group's rows, for th__parallel: draws and measures them at each scale. */
void th__saturate_piece(const void *group, ptrdiff_t begin, ptrdiff_t end);

#endif
