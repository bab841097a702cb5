/* saturate_row.c: one row of the sweep: drawn, put through attention and its backward, measured. */
#include <math.h>

#include "lab/attention_fd.h"
#include "lab/norm.h"
#include "lab/row.h"
#include "lab/saturate_sweep.h"
#include "tensor/alloc.h"
#include "tensor/error.h"
#include "tensor/purpose.h"

/* ---- failing, and how far it is, from any thread ---- */

static bool fail(th__saturate_sweep *s, th_status status, const char *message) {
  pthread_mutex_lock(&s->mutex);
  if (!s->failed) th__error(s->error, status, "%s", message);
  s->failed = true;
  pthread_mutex_unlock(&s->mutex);
  return false;
}

/* Notes that rows are done; false if another piece has failed. */
static bool advance(const th__saturate_group *g, ptrdiff_t rows) {
  th__saturate_sweep *s = g->sweep;
  pthread_mutex_lock(&s->mutex);
  s->done += (double)rows * (double)g->dk * (double)g->keys;
  if (s->options->progress != NULL && !s->failed)
    s->options->progress(s->options->progress_context, s->done / s->total);
  bool go_on = !s->failed;
  pthread_mutex_unlock(&s->mutex);
  return go_on;
}

/* ---- one row ---- */

typedef struct worker {
  const th__saturate_group *group;
  th_tensor *q, *k, *v, *g; /* [1, 1, 1, dk], [1, 1, keys, dk] twice, [1, 1, 1, dk] */
  double *numbers;          /* [keys]: logits, weights */
  th_tape *tape, *check;    /* for the measurement, and for the differences */
} worker;

static void worker_free(worker *w) {
  th_tensor_free(w->q);
  th_tensor_free(w->k);
  th_tensor_free(w->v);
  th_tensor_free(w->g);
  th__free(w->numbers);
  th_tape_free(w->tape);
  th_tape_free(w->check);
}

static bool worker_new(worker *w, const th__saturate_group *g) {
  th_dtype dtype = g->sweep->options->dtype;
  th_error error = {TH_ERR_MEMORY, "out of memory"};
  *w = (worker){.group = g, .tape = th_tape_new(), .check = th_tape_new()};
  w->numbers = th__alloc((size_t)g->keys * sizeof(double));
  w->q = th_tensor_new(dtype, TH_SHAPE(1, 1, 1, g->dk), &error);
  w->k = th_tensor_new(dtype, TH_SHAPE(1, 1, g->keys, g->dk), &error);
  w->v = th_tensor_new(dtype, TH_SHAPE(1, 1, g->keys, g->dk), &error);
  w->g = th_tensor_new(dtype, TH_SHAPE(1, 1, 1, g->dk), &error);
  if (w->tape != NULL && w->check != NULL && w->numbers != NULL && w->q != NULL && w->k != NULL &&
      w->v != NULL && w->g != NULL && th_tensor_require_grad(w->q, &error) == TH_OK &&
      th_tensor_require_grad(w->k, &error) == TH_OK) {
    th_tape_set_recording(w->check, false);
    return true;
  }
  worker_free(w);
  return fail(g->sweep, error.status, error.message);
}

static bool tape_ok(const worker *w, const th_tape *tape) {
  return th_tape_status(tape) == TH_OK ||
         fail(w->group->sweep, th_tape_status(tape), th_tape_message(tape));
}

/* Stream number `which` of a row; the limits of saturate.h keep the three numbers apart. */
static th_random stream_of(const th__saturate_group *g, ptrdiff_t row, uint32_t which) {
  return (th_random){g->sweep->options->seed, TH__PURPOSE_SATURATE + which,
                     (uint64_t)g->dk << 43 | (uint64_t)g->keys << 22 | (uint64_t)row};
}

static void draw(const worker *w, ptrdiff_t row) {
  th_tensor *tensors[] = {w->q, w->k, w->v, w->g};
  for (uint32_t i = 0; i < 4; i++) th_init_normal(tensors[i], 0, 1, stream_of(w->group, row, i));
}

/* Mean and mean square of q.k_j over the keys. */
static bool measure_products(const worker *w, ptrdiff_t row) {
  const th__saturate_group *g = w->group;
  bool recording = th_tape_set_recording(w->tape, false);
  th_tensor *products = th_matmul(w->tape, w->q, w->k, TH_TRANSPOSE_B);
  th_tape_set_recording(w->tape, recording);
  if (!tape_ok(w, w->tape)) return false;
  th_tensor_read(products, w->numbers);
  double sum = 0, squares = 0;
  for (ptrdiff_t j = 0; j < g->keys; j++) {
    sum += w->numbers[j];
    squares += w->numbers[j] * w->numbers[j];
  }
  g->sweep->means[row] = sum / (double)g->keys;
  g->sweep->means[g->sweep->samples + row] = squares / (double)g->keys;
  return true;
}

double th__saturate_factor(const th__saturate_scale *scale, ptrdiff_t dk) {
  switch (scale->kind) {
  case TH_SCALE_NONE: return 1;
  case TH_SCALE_SQRT: return 1 / sqrt((double)dk);
  case TH_SCALE_DK: return 1 / (double)dk;
  default: return scale->factor;
  }
}

/* The values of x, in memory of the tape; NULL when that ends. */
static const double *values_of(th_tape *tape, const th_tensor *x) {
  double *values = th_tape_alloc(tape, (size_t)th_tensor_count(x) * sizeof *values);
  if (values != NULL) th_tensor_read(x, values);
  return values;
}

static bool check_row(const worker *w, const th__saturate_scale *scale, ptrdiff_t row,
                      double *error) {
  const th__saturate_group *g = w->group;
  th_tape_reset(w->check);
  th__attention_case c = {.keys = g->keys,
                          .d_k = g->dk,
                          .d_v = g->dk,
                          .scale = th__saturate_factor(scale, g->dk),
                          .q = values_of(w->check, w->q),
                          .k = values_of(w->check, w->k),
                          .v = values_of(w->check, w->v),
                          .g = values_of(w->check, w->g),
                          .dq = values_of(w->check, th_tensor_grad(w->q)),
                          .dk = values_of(w->check, th_tensor_grad(w->k))};
  double dq_error, dk_error;
  if (!tape_ok(w, w->check)) return false;
  th__attention_fd(w->check, &c, stream_of(g, row, 4), &dq_error, &dk_error);
  *error = fmax(dq_error, dk_error);
  return tape_ok(w, w->check);
}

/* Writes the figures of a row whose backward has run; false if one of them is not finite. */
static bool store_figures(const worker *w, ptrdiff_t point, ptrdiff_t row,
                          const th_tensor *weights) {
  const th__saturate_sweep *s = w->group->sweep;
  const th_tensor *dq = th_tensor_grad(w->q), *dk = th_tensor_grad(w->k);
  th_tensor_read(weights, w->numbers);
  th__row r = th__row_figures(w->numbers, w->group->keys);
  const double figures[TH__SATURATE_COLUMNS] = {
      [TH__ENTROPY] = r.entropy,
      [TH__ONE_MINUS_MAX] = r.one_minus_max,
      [TH__JACOBIAN_TRACE] = r.jacobian_trace,
      [TH__JACOBIAN_NORM] = r.jacobian_norm,
      [TH__DQ_NORM] = th__norm(s->options->dtype, th_tensor_count(dq), th_tensor_data(dq)),
      [TH__DK_NORM] = th__norm(s->options->dtype, th_tensor_count(dk), th_tensor_data(dk)),
      [TH__ZERO_WEIGHTS] = (double)r.zeros,
      [TH__SATURATED] = r.largest > 0.99 ? 1 : 0,
  };
  bool finite = true;
  for (int i = 0; i < TH__SATURATE_COLUMNS; i++) {
    th__saturate_column(s, point, i)[row] = figures[i];
    finite = finite && isfinite(figures[i]);
  }
  return finite;
}

static bool fail_infinite(const worker *w, const th__saturate_scale *scale) {
  const th__saturate_group *g = w->group;
  th_error error;
  th__error(&error, TH_ERR_NONFINITE,
            "d_k %td, %td keys, scale %s: weights or gradients are not finite in %s; use a smaller "
            "scale",
            g->dk, g->keys, scale->name, th_dtype_name(g->sweep->options->dtype));
  return fail(g->sweep, error.status, error.message);
}

static bool measure_row(const worker *w, int scale_index, ptrdiff_t row) {
  const th__saturate_group *g = w->group;
  th__saturate_sweep *s = g->sweep;
  const th__saturate_scale *scale = &s->options->scales[scale_index];
  ptrdiff_t point = g->first_point + scale_index;
  th_tensor *weights;
  th_tape_reset(w->tape);
  th_tensor *y = th_attention(
      w->tape, w->q, w->k, w->v,
      &(th_attention_options){.scale = scale->kind, .factor = scale->factor, .weights = &weights});
  th_backward_from(w->tape, y, w->g);
  if (!tape_ok(w, w->tape)) return false;
  if (!store_figures(w, point, row, weights)) return fail_infinite(w, scale);
  if (row % s->fd_stride == 0 &&
      !check_row(w, scale, row, &s->fd[point * s->fd_rows + row / s->fd_stride]))
    return false;
  th_tensor_zero_grad(w->q);
  th_tensor_zero_grad(w->k);
  return true;
}

void th__saturate_piece(const void *context, ptrdiff_t begin, ptrdiff_t end) {
  const th__saturate_group *g = context;
  worker w;
  if (!advance(g, 0) || !worker_new(&w, g)) return;
  bool good = true;
  for (ptrdiff_t row = begin; row < end && good; row++) {
    draw(&w, row);
    good = measure_products(&w, row);
    for (int i = 0; i < g->sweep->result->scale_count && good; i++) good = measure_row(&w, i, row);
    good = good && advance(g, 1);
  }
  worker_free(&w);
}
