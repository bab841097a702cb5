/* jacobian.c: the whole Jacobian of one input of a small function, by differences and as its backward
 * claims it. */
#include <math.h>

#include "autograd/gradcheck/evidence.h"
#include "tensor/error.h"

/* Two central differences, 2^-8 and 2^-9 of the input's size, extrapolated: error about 1e-11. */
static th_status measure_row(th__worker *worker, int input, ptrdiff_t entry, double *row,
                             th_error *error) {
  const th__subject *subject = worker->subject;
  const th_tensor *x = subject->inputs[input];
  double *moved = worker->inputs[input]->data, at = ((const double *)x->data)[entry];
  double step = ldexp(th__step_scale(x, at), -9);
  th_status status = TH_OK;
  for (int level = 0; level < 2 && status == TH_OK; level++) {
    double h = level == 0 ? 2 * step : step, weight = level == 0 ? -1.0 / 3 : 4.0 / 3;
    moved[entry] = at + h;
    status = th__worker_run(worker, worker->plus, error);
    moved[entry] = at - h;
    if (status == TH_OK) status = th__worker_run(worker, worker->minus, error);
    for (ptrdiff_t k = 0; k < subject->output_count && status == TH_OK; k++)
      row[k] = (level == 0 ? 0 : row[k]) + weight * (worker->plus[k] - worker->minus[k]) / (2 * h);
  }
  moved[entry] = at;
  return status;
}

/* Column k is what backward gives for an upstream gradient that is 1 at output k, 0 elsewhere. */
static th_status claim_columns(const th__subject *subject, int input, double *upstream,
                               th__jacobian *j, th_error *error) {
  for (ptrdiff_t k = 0; k < j->outputs; k++) {
    upstream[k] = 1;
    th__gradients column;
    th_status status = th__backward(
        subject, &(th__backward_run){.dtype = TH_F64, .upstream = upstream}, &column, error);
    upstream[k] = 0;
    if (status != TH_OK) return status;
    for (ptrdiff_t i = 0; i < j->inputs; i++) j->got[i * j->outputs + k] = column.of[input][i];
    th__gradients_free(&column);
  }
  return TH_OK;
}

th_status th__jacobian_of(th_tape *memory, const th__subject *subject, int input, th__jacobian *j,
                          th_error *error) {
  const th_tensor *x = subject->inputs[input];
  *j = (th__jacobian){.x = x,
                      .output_ndim = subject->output_ndim,
                      .output_shape = subject->output_shape,
                      .inputs = x->count,
                      .outputs = subject->output_count,
                      .y = subject->output};
  size_t bytes = (size_t)(j->inputs * j->outputs) * sizeof(double);
  j->want = th_tape_alloc(memory, bytes);
  j->got = th_tape_alloc(memory, bytes);
  double *upstream = th_tape_alloc(memory, (size_t)j->outputs * sizeof(double));
  th__worker worker;
  if (j->want == NULL || j->got == NULL || upstream == NULL || !th__worker_start(&worker, subject))
    return th__error_memory(error, "gradcheck", bytes);
  th_status status = TH_OK;
  for (ptrdiff_t i = 0; i < j->inputs && status == TH_OK; i++)
    status = measure_row(&worker, input, i, j->want + i * j->outputs, error);
  th__worker_free(&worker);
  for (ptrdiff_t k = 0; k < j->outputs; k++) upstream[k] = 0;
  if (status == TH_OK) status = claim_columns(subject, input, upstream, j, error);
  double largest = 0;
  for (ptrdiff_t k = 0; k < j->inputs * j->outputs && status == TH_OK; k++)
    largest = fmax(largest, fmax(fabs(j->want[k]), isfinite(j->got[k]) ? fabs(j->got[k]) : 0));
  j->limit = 1e-6 * largest;
  return status;
}
