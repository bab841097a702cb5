#include "lab/saturate.h"

#include <math.h>

#include "lab/machine.h"
#include "lab/saturate_sweep.h"
#include "tensor/alloc.h"
#include "tensor/error.h"
#include "tensor/parallel.h"

/* Rows of a point that are also differentiated numerically. */
#define CHECKED_ROWS 16
/* Keys' elements per piece of work, some 30 ms, most of which goes into drawing them. */
#define PIECE_ELEMENTS ((ptrdiff_t)1 << 19)

static const long default_dk[] = {4, 16, 64, 256, 1024}, default_keys[] = {8, 32, 128};
static const th__saturate_scale default_scales[] = {
    {TH_SCALE_NONE, 0, "none"}, {TH_SCALE_SQRT, 0, "sqrt"}, {TH_SCALE_DK, 0, "dk"}};

/* ---- all rows of a point ---- */

/* Variance of scale q.k over all rows and keys. The keys of a row share its q, so the standard error
 * comes from the rows' mean squares. */
static void summarise_products(const th__saturate_group *g, double variance[2]) {
  const th__saturate_sweep *s = g->sweep;
  double *squares = s->means + s->samples, mean = 0;
  for (ptrdiff_t i = 0; i < s->samples; i++) mean += s->means[i] / (double)s->samples;
  th__summary summary = th__summarise(squares, s->samples);
  double count = (double)s->samples * (double)g->keys;
  variance[0] = count > 1 ? (summary.mean - mean * mean) * (count / (count - 1)) : 0;
  variance[1] = summary.standard_error;
}

static double total(const double *values, ptrdiff_t count) {
  double sum = 0;
  for (ptrdiff_t i = 0; i < count; i++) sum += values[i];
  return sum;
}

static void summarise_point(const th__saturate_group *g, int scale_index, const double products[2]) {
  const th__saturate_sweep *s = g->sweep;
  ptrdiff_t number = g->first_point + scale_index;
  th__saturate_point *p = &s->result->points[number];
  *p = (th__saturate_point){
      .dk = g->dk, .keys = g->keys, .scale = s->options->scales[scale_index], .fd_rows = s->fd_rows};
  double factor = th__saturate_factor(&p->scale, g->dk);
  p->logit_variance = factor * factor * products[0];
  p->logit_variance_error = factor * factor * products[1];
  const double *dq = th__saturate_column(s, number, TH__DQ_NORM),
               *dk = th__saturate_column(s, number, TH__DK_NORM);
  for (ptrdiff_t i = 0; i < s->samples; i++) p->zero_gradient_rows += dq[i] == 0 && dk[i] == 0;
  p->zero_weights = (ptrdiff_t)total(th__saturate_column(s, number, TH__ZERO_WEIGHTS), s->samples);
  p->saturated_share =
      total(th__saturate_column(s, number, TH__SATURATED), s->samples) / (double)s->samples;
  for (int i = 0; i < TH__SATURATE_FIGURES; i++)
    p->figures[i] = th__summarise(th__saturate_column(s, number, i), s->samples);
  double *errors = s->fd + number * s->fd_rows;
  p->fd_rel_error_median = th__summarise(errors, s->fd_rows).median;
  p->fd_rel_error_max = errors[s->fd_rows - 1]; /* they are sorted now */
}

static bool run_group(const th__saturate_group *g) {
  const th__saturate_sweep *s = g->sweep;
  ptrdiff_t grain = PIECE_ELEMENTS / (g->dk * g->keys);
  double products[2];
  th__parallel(s->samples, grain, th__saturate_piece, g);
  if (s->failed) return false;
  summarise_products(g, products);
  for (int i = 0; i < s->result->scale_count; i++) {
    summarise_point(g, i, products);
    const th__saturate_point *p = &s->result->points[g->first_point + i];
    if (!isfinite(p->logit_variance + p->logit_variance_error)) {
      th__error(s->error, TH_ERR_NONFINITE,
                "d_k %td, %td keys, scale %s: the variance of the logits is not finite; use a "
                "smaller scale",
                g->dk, g->keys, p->scale.name);
      return false;
    }
  }
  return true;
}

/* ---- the sweep ---- */

static bool in_range(const char *what, const long *values, int count, long most, th_error *error) {
  for (int i = 0; i < count; i++)
    if (values[i] < 1 || values[i] > most) {
      th__error(error, TH_ERR_VALUE, "%s is %ld; 1 to %ld is possible", what, values[i], most);
      return false;
    }
  return true;
}

static long largest(const long *values, int count) {
  long most = values[0];
  for (int i = 1; i < count; i++) most = values[i] > most ? values[i] : most;
  return most;
}

/* An upper estimate: per thread k, v and dK, and six such arrays in f64 for the differences, on a tape
 * whose last chunk may be half empty; and the figures of all rows. */
static bool memory_suffices(const th__saturate_options *o, double points, th_error *error) {
  long dk = largest(o->dk, o->dk_count), keys = largest(o->keys, o->keys_count);
  double size = (double)th_dtype_size(o->dtype);
  double needed = (double)th_threads() * (double)dk * (double)keys * (3 * size + 2 * 6 * 8) +
                  points * (double)o->samples * (TH__SATURATE_COLUMNS + 1) * 8;
  double available = th__machine_memory();
  if (needed <= available) return true;
  th__error(error, TH_ERR_MEMORY,
            "d_k %ld with %ld keys, %ld rows at %.0f points on %d threads need some %.1f "
            "GiB, and %.1f GiB are free; use fewer",
            dk, keys, o->samples, points, th_threads(), needed / 0x1p30, available / 0x1p30);
  return false;
}

static bool allocate(th__saturate_sweep *s, th_error *error) {
  size_t points = (size_t)s->result->count, samples = (size_t)s->samples;
  s->result->points = th__alloc(points * sizeof *s->result->points);
  s->columns = th__alloc(points * TH__SATURATE_COLUMNS * samples * sizeof(double));
  s->fd = th__alloc(points * (size_t)s->fd_rows * sizeof(double));
  s->means = th__alloc(2 * samples * sizeof(double));
  if (s->result->points != NULL && s->columns != NULL && s->fd != NULL && s->means != NULL)
    return true;
  th__error_memory(error, "saturate", points * TH__SATURATE_COLUMNS * samples * sizeof(double));
  return false;
}

static bool run(th__saturate_sweep *s) {
  const th__saturate_options *o = s->options;
  for (int i = 0; i < o->dk_count; i++)
    for (int j = 0; j < o->keys_count; j++)
      s->total += (double)s->samples * (double)o->dk[i] * (double)o->keys[j];
  for (int i = 0; i < o->dk_count; i++)
    for (int j = 0; j < o->keys_count; j++) {
      ptrdiff_t number = (ptrdiff_t)i * o->keys_count + j;
      if (!run_group(&(th__saturate_group){s, o->dk[i], o->keys[j], number * o->scale_count}))
        return false;
    }
  return true;
}

static th__saturate_options with_defaults(const th__saturate_options *options) {
  th__saturate_options o = *options;
  if (o.dk == NULL) o.dk = default_dk, o.dk_count = 5;
  if (o.keys == NULL) o.keys = default_keys, o.keys_count = 3;
  if (o.scales == NULL) o.scales = default_scales, o.scale_count = 3;
  if (o.samples == 0) o.samples = TH__SATURATE_SAMPLES;
  return o;
}

th__saturate_result *th__saturate(const th__saturate_options *options, th_error *error) {
  th_error ignored;
  if (error == NULL) error = &ignored;
  th__saturate_options o = with_defaults(options);
  double points = (double)o.dk_count * o.keys_count * o.scale_count;
  if (!in_range("d_k", o.dk, o.dk_count, TH__SATURATE_MOST_DK, error) ||
      !in_range("the number of keys", o.keys, o.keys_count, TH__SATURATE_MOST_KEYS, error) ||
      !in_range("the number of samples", &o.samples, 1, TH__SATURATE_MOST_SAMPLES, error) ||
      !memory_suffices(&o, points, error))
    return NULL;
  th__saturate_result *result = th__alloc_zero(sizeof *result);
  if (result == NULL) {
    th__error_memory(error, "saturate", sizeof *result);
    return NULL;
  }
  *result = (th__saturate_result){.dk_count = o.dk_count,
                                  .keys_count = o.keys_count,
                                  .scale_count = o.scale_count,
                                  .count = (int)points,
                                  .samples = o.samples,
                                  .dtype = o.dtype,
                                  .seed = o.seed,
                                  .threads = th_threads()};
  th__saturate_sweep s = {.options = &o, .result = result, .samples = o.samples, .error = error};
  s.fd_stride = (s.samples - 1) / CHECKED_ROWS + 1;
  s.fd_rows = (s.samples - 1) / s.fd_stride + 1;
  pthread_mutex_init(&s.mutex, NULL);
  bool good = allocate(&s, error) && run(&s);
  pthread_mutex_destroy(&s.mutex);
  th__free(s.columns);
  th__free(s.fd);
  th__free(s.means);
  if (good) return result;
  th__saturate_free(result);
  return NULL;
}

void th__saturate_free(th__saturate_result *result) {
  if (result == NULL) return;
  th__free(result->points);
  th__free(result);
}
