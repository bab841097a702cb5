/* recall_check.c: the live attention layer's gradient against finite differences. */
#include <float.h>
#include <math.h>

#include "lab/recall_model.h"
#include "tensor/alloc.h"
#include "tensor/error.h"
#include "tensor/purpose.h"
#include "tensor/tensor.h"

typedef struct probe {
  th_tape *tape;
  const th__recall *settings;
  const th__recall_batch *batch;
  th__recall_model model;          /* f64 */
  th_tensor *w;                    /* the matrix that is moved ... */
  const double *start, *direction; /* ... from here along this */
} probe;

static double loss_at(const probe *p, double t) {
  double *w = th_tensor_data(p->w);
  for (ptrdiff_t i = 0; i < th_tensor_count(p->w); i++) w[i] = p->start[i] + t * p->direction[i];
  double loss = th_tensor_item(th__recall_forward(p->tape, &p->model, p->settings, p->batch).loss);
  th_tape_reset(p->tape);
  return loss;
}

/* Ridders 1982: central differences at shrinking steps, extrapolated to step 0; the entry whose
 * neighbours agree best is taken. */
static double derivative(const probe *p, double *resolution) {
  enum { ROUNDS = 8 };
  double table[ROUNDS][ROUNDS], step = 1e-2, best = (double)NAN, least = (double)INFINITY;
  for (int i = 0; i < ROUNDS; i++, step /= 2) {
    double ahead = loss_at(p, step), behind = loss_at(p, -step);
    double round_off =
        DBL_EPSILON * fabs(ahead) / step; /* of this quotient: agreement cannot be closer */
    table[i][0] = (ahead - behind) / (2 * step);
    double factor = 1;
    for (int j = 1; j <= i; j++) {
      factor *= 4;
      table[i][j] = (factor * table[i][j - 1] - table[i - 1][j - 1]) / (factor - 1);
      double error =
          fmax(fabs(table[i][j] - table[i][j - 1]), fabs(table[i][j] - table[i - 1][j - 1]));
      error = fmax(error, round_off);
      if (error < least) {
        least = error;
        best = table[i][j];
      }
    }
  }
  *resolution = least;
  return best;
}

/* A unit direction: half the gradient's own, so that there is something to see, and half random, so
 * that a wrong component shows. */
static void choose_direction(double *direction, const double *grad, ptrdiff_t n, th_random stream) {
  double grad_squares = 0, random_squares = 0, squares = 0;
  for (ptrdiff_t i = 0; i < n; i++) {
    direction[i] = th_random_normal(stream, (uint64_t)i);
    grad_squares += grad[i] * grad[i];
    random_squares += direction[i] * direction[i];
  }
  double of_grad = grad_squares > 0 ? 1 / sqrt(grad_squares) : 0;
  for (ptrdiff_t i = 0; i < n; i++) {
    direction[i] = direction[i] / sqrt(random_squares) + of_grad * grad[i];
    squares += direction[i] * direction[i];
  }
  for (ptrdiff_t i = 0; i < n; i++) direction[i] /= sqrt(squares);
}

/* Relative error of one matrix's gradient along its direction. A gradient so dead that the differences
 * cannot tell it from 0 is right if it claims to be that small: 0. */
static double matrix_error(probe *p, th_tensor *w, const th_tensor *grad, th_random stream,
                           th_error *error) {
  ptrdiff_t n = th_tensor_count(w);
  double *memory = th__alloc((size_t)(3 * n) * sizeof *memory);
  if (memory == NULL) {
    th__error_memory(error, "recall", (size_t)(3 * n) * sizeof *memory);
    return (double)NAN;
  }
  double *start = memory, *analytic = memory + n, *direction = memory + 2 * n, along = 0;
  th_tensor_read(w, start);
  th_tensor_read(grad, analytic);
  choose_direction(direction, analytic, n, stream);
  for (ptrdiff_t i = 0; i < n; i++) along += analytic[i] * direction[i];
  p->w = w;
  p->start = start;
  p->direction = direction;
  double resolution, numeric = derivative(p, &resolution);
  th_tensor_write(w, start);
  th__free(memory);
  double size = fmax(fabs(along), fabs(numeric));
  return size > 10 * resolution ? fabs(along - numeric) / size : 0;
}

static void copy_values(const th_params *from, const th_params *to) {
  for (ptrdiff_t i = 0; i < th_params_count(from); i++) {
    const th_tensor *source = th_params_at(from, i);
    double *values = th_tensor_data(th_params_at(to, i));
    th_tensor_read(source, values);
  }
}

double th__recall_fd_error(const th__recall_model *model, const th__recall *settings,
                           const th__recall_batch *batch, int step, th_error *error) {
  probe p = {.settings = settings, .batch = batch, .tape = th_tape_new()};
  double worst = (double)NAN;
  if (p.tape == NULL)
    th__error_memory(error, "recall", sizeof(void *));
  else if (th__recall_model_new(&p.model, settings, TH_F64, error)) {
    th_tape_set_recording(p.tape, false);
    copy_values(model->params, p.model.params);
    const th_tensor *grads[] = {model->wq->grad, model->wk->grad, model->wv->grad};
    th_tensor *matrices[] = {p.model.wq, p.model.wk, p.model.wv};
    worst = 0;
    for (int i = 0; i < 3; i++) {
      th_random stream = {settings->seed, TH__PURPOSE_RECALL_DIRECTION, (uint64_t)(3 * step + i)};
      double e = matrix_error(&p, matrices[i], grads[i], stream, error);
      worst = e <= worst ? worst : e; /* NaN stays */
    }
    if (th_tape_status(p.tape) != TH_OK)
      th__error(error, th_tape_status(p.tape), "%s", th_tape_message(p.tape));
  }
  th__recall_model_free(&p.model);
  th_tape_free(p.tape);
  return worst;
}
