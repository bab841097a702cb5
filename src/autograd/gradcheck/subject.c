/* subject.c: the function under test and its inputs. Forward runs work on a worker's own tape and
 * copies; backward runs on fresh tensors, so nothing of one run is left for the next. */
#include <math.h>
#include <string.h>

#include "autograd/gradcheck/gradcheck.h"
#include "tensor/alloc.h"
#include "tensor/error.h"

static th_status take_error(const th_tape *tape, th_error *error) {
  th_status status = th_tape_status(tape);
  if (status == TH_OK) status = TH_ERR_VALUE;
  const char *message = th_tape_message(tape);
  if (message[0] == '\0') message = "gradcheck: the function returned NULL without an error";
  return th__error(error, status, "%s", message);
}

static double *new_doubles(ptrdiff_t count) {
  return th__alloc_zero((size_t)count * sizeof(double));
}

/* ---- forward ---- */

bool th__worker_start(th__worker *worker, const th__subject *subject) {
  *worker = (th__worker){.subject = subject};
  worker->tape = th_tape_new();
  worker->plus = new_doubles(subject->output_count);
  worker->minus = new_doubles(subject->output_count);
  worker->affected = th__alloc_zero((size_t)subject->output_count * sizeof *worker->affected);
  bool good = worker->tape != NULL && worker->plus != NULL && worker->minus != NULL &&
              worker->affected != NULL;
  for (int i = 0; i < subject->input_count && good; i++) {
    const th_tensor *x = subject->inputs[i];
    if (subject->slot[i] == i)
      worker->inputs[i] = th_tensor_from(x->dtype, x->ndim, x->shape, x->data, NULL);
    else
      worker->inputs[i] = worker->inputs[subject->slot[i]];
    good = worker->inputs[i] != NULL;
  }
  if (good)
    th_tape_set_recording(worker->tape, false);
  else
    th__worker_free(worker);
  return good;
}

void th__worker_free(th__worker *worker) {
  for (int i = 0; i < worker->subject->input_count; i++)
    if (worker->subject->slot[i] == i) th_tensor_free(worker->inputs[i]);
  th_tape_free(worker->tape);
  th__free(worker->plus);
  th__free(worker->minus);
  th__free(worker->affected);
}

static th_tensor *call(const th__subject *subject, th_tape *tape, th_tensor *const *inputs,
                       th_dtype dtype, th_error *error) {
  th_tensor *y = subject->function(tape, inputs, subject->context);
  if (y == NULL || th_tape_status(tape) != TH_OK) {
    take_error(tape, error);
    return NULL;
  }
  if (y->dtype != dtype) {
    th__error(error, TH_ERR_DTYPE, "gradcheck: the function of %s inputs returned %s",
              th_dtype_name(dtype), th_dtype_name(y->dtype));
    return NULL;
  }
  return y;
}

th_status th__worker_run(th__worker *worker, double *output, th_error *error) {
  const th__subject *subject = worker->subject;
  th_tape_reset(worker->tape);
  th_error why = {TH_ERR_VALUE, ""};
  th_tensor *y = call(subject, worker->tape, worker->inputs, TH_F64, &why);
  th_tape_clear_error(worker->tape);
  if (y == NULL) return th__error(error, why.status, "%s", why.message);
  if (!th__shape_equal(y->ndim, y->shape, subject->output_ndim, subject->output_shape))
    return th__error(error, TH_ERR_SHAPE,
                     "gradcheck: the function's output changed its shape to %s between two calls",
                     TH__TEXT(y));
  if (y->count > 0 && th_tensor_is_contiguous(y))
    memcpy(output, y->data, (size_t)y->count * sizeof *output);
  else
    th_tensor_read(y, output);
  return TH_OK;
}

/* ---- the start: outputs, upstream gradient, repeat spread ---- */

/* One call just to learn the output's shape. */
static th_status learn_shape(th__subject *subject, th_error *error) {
  th__worker worker;
  subject->output_count = 0;
  if (!th__worker_start(&worker, subject)) return th__error_memory(error, "gradcheck", 0);
  th_status status = TH_OK;
  th_error why = {TH_ERR_VALUE, ""};
  th_tensor *y = call(subject, worker.tape, worker.inputs, TH_F64, &why);
  if (y == NULL)
    status = th__error(error, why.status, "%s", why.message);
  else {
    subject->output_ndim = y->ndim;
    for (int i = 0; i < y->ndim; i++) subject->output_shape[i] = y->shape[i];
    subject->output_count = y->count;
  }
  th__worker_free(&worker);
  return status;
}

/* Each weight lies between 1/2 and 3/2, with a random sign: none is small, no two alike. */
static double upstream_weight(th_random stream, uint64_t k) {
  double u = 2 * th_random_uniform(stream, k) - 1;
  return (double)(float)(u < 0 ? u - 0.5 : u + 0.5);
}

static double largest_change(const double *a, const double *b, ptrdiff_t count) {
  double most = 0;
  for (ptrdiff_t k = 0; k < count; k++)
    if (memcmp(&a[k], &b[k], sizeof *a) != 0) {
      double change = fabs(a[k] - b[k]);
      most = change > most || isnan(change) ? change : most;
      if (isnan(most)) return INFINITY;
    }
  return most;
}

th_status th__subject_start(th__subject *subject, double *spread, th_error *error) {
  th_status status = learn_shape(subject, error);
  if (status != TH_OK) return status;
  subject->output = new_doubles(subject->output_count);
  subject->upstream = new_doubles(subject->output_count);
  th__worker worker;
  subject->noise = new_doubles(subject->output_count);
  if (subject->output == NULL || subject->upstream == NULL || subject->noise == NULL ||
      !th__worker_start(&worker, subject))
    return th__error_memory(error, "gradcheck", (size_t)subject->output_count * sizeof(double));
  th_random stream = th__draw(subject->seed, TH__DRAW_UPSTREAM, 0);
  for (ptrdiff_t k = 0; k < subject->output_count; k++)
    subject->upstream[k] = upstream_weight(stream, (uint64_t)k);
  status = th__worker_run(&worker, subject->output, error);
  *spread = 0;
  for (int again = 0; again < 2 && status == TH_OK; again++) {
    status = th__worker_run(&worker, worker.plus, error);
    *spread = fmax(*spread, largest_change(subject->output, worker.plus, subject->output_count));
  }
  if (status == TH_OK && *spread == 0) status = th__measure_noise(subject, &worker, error);
  th__worker_free(&worker);
  return status;
}

th_status th__subject_again(const th__subject *subject, double *spread, th_error *error) {
  th__worker worker;
  if (!th__worker_start(&worker, subject)) return th__error_memory(error, "gradcheck", 0);
  th_status status = th__worker_run(&worker, worker.plus, error);
  if (status == TH_OK)
    *spread = largest_change(subject->output, worker.plus, subject->output_count);
  th__worker_free(&worker);
  return status;
}

void th__subject_free(th__subject *subject) {
  for (int i = 0; i < subject->input_count; i++)
    if (subject->slot[i] == i) th_tensor_free(subject->inputs[i]);
  th__free(subject->output);
  th__free(subject->upstream);
  th__free(subject->noise);
}

/* ---- backward ---- */

double th__start_value(const th__subject *subject, int input, ptrdiff_t entry) {
  th_random stream = th__draw(subject->seed, TH__DRAW_START, (uint64_t)input);
  return (double)(float)(1 + th_random_uniform(stream, (uint64_t)entry));
}

static double jittered(const th__subject *subject, const th__backward_run *run, int which,
                       ptrdiff_t k, double value) {
  if (run->jitter == 0) return value;
  th_random stream =
      th__draw(subject->seed, TH__DRAW_JITTER, run->draw * (TH_MAX_INPUTS + 1) + (uint64_t)which);
  return value * (1 + run->jitter * (2 * th_random_uniform(stream, (uint64_t)k) - 1));
}

/* A fresh tensor for input i; its gradient is wanted and holds the start. */
static th_tensor *fresh_input(const th__subject *subject, const th__backward_run *run, int i) {
  const th_tensor *x = subject->inputs[i];
  bool constant = !th__is_float(x);
  th_tensor *copy = th_tensor_new(constant ? x->dtype : run->dtype, x->ndim, x->shape, NULL);
  if (copy == NULL) return NULL;
  if (constant) {
    th__tensor_copy(copy, x);
    return copy;
  }
  for (ptrdiff_t k = 0; k < x->count; k++) {
    double value = ((const double *)x->data)[k];
    if (run->along != NULL && run->along[i] != NULL) value += run->distance * run->along[i][k];
    if (run->round_inputs) value = (double)(float)value;
    th__set(copy, k, jittered(subject, run, i, k, value));
  }
  if (th_tensor_require_grad(copy, NULL) != TH_OK) {
    th_tensor_free(copy);
    return NULL;
  }
  if (run->from_nonzero)
    for (ptrdiff_t k = 0; k < x->count; k++) th__set(copy->grad, k, th__start_value(subject, i, k));
  return copy;
}

static th_status forward_and_backward(const th__subject *subject, const th__backward_run *run,
                                      th_tape *tape, th_tensor *const *inputs, th_error *error) {
  th_tensor *y = call(subject, tape, inputs, run->dtype, error);
  if (y == NULL) return error != NULL && error->status != TH_OK ? error->status : TH_ERR_VALUE;
  if (!th__shape_equal(y->ndim, y->shape, subject->output_ndim, subject->output_shape))
    return th__error(error, TH_ERR_SHAPE,
                     "gradcheck: the function's output changed its shape to %s between two calls",
                     TH__TEXT(y));
  if (!y->wants_grad) return TH_OK; /* nothing leads to the inputs: no gradient arrives */
  th_tensor *v = th_output(tape, run->dtype, y->ndim, y->shape);
  if (v == NULL) return take_error(tape, error);
  const double *weights = run->upstream != NULL ? run->upstream : subject->upstream;
  for (ptrdiff_t k = 0; k < y->count; k++)
    th__set(v, k, jittered(subject, run, TH_MAX_INPUTS, k, weights[k]));
  if (run->jitter != 0) th__jitter_nodes(tape, subject->seed, run->draw, run->jitter);
  return th_backward_from(tape, y, v) == TH_OK ? TH_OK : take_error(tape, error);
}

static th_status read_gradients(const th__subject *subject, th_tensor *const *inputs,
                                th__gradients *gradients) {
  for (int i = 0; i < subject->input_count; i++) {
    if (!th__checked(subject, i)) continue;
    gradients->of[i] = new_doubles(inputs[i]->count);
    if (gradients->of[i] == NULL) return TH_ERR_MEMORY;
    th_tensor_read(inputs[i]->grad, gradients->of[i]);
    gradients->arrived[i] = inputs[i]->grad_arrived;
  }
  return TH_OK;
}

th_status th__backward(const th__subject *subject, const th__backward_run *run,
                       th__gradients *gradients, th_error *error) {
  *gradients = (th__gradients){0};
  th_tensor *inputs[TH_MAX_INPUTS] = {0};
  th_tape *tape = th_tape_new();
  bool good = tape != NULL;
  for (int i = 0; i < subject->input_count && good; i++) {
    int slot = subject->slot[i];
    inputs[i] = slot == i ? fresh_input(subject, run, i) : inputs[slot];
    good = inputs[i] != NULL;
  }
  th_error why = {TH_OK, ""};
  th_status status = TH_ERR_MEMORY;
  if (good) status = forward_and_backward(subject, run, tape, inputs, &why);
  if (good && status == TH_OK) status = read_gradients(subject, inputs, gradients);
  if (status != TH_OK && why.status == TH_OK)
    th__error_memory(error, "gradcheck", 0);
  else if (status != TH_OK)
    th__error(error, why.status, "%s", why.message);
  for (int i = 0; i < subject->input_count; i++)
    if (subject->slot[i] == i) th_tensor_free(inputs[i]);
  th_tape_free(tape);
  if (status != TH_OK) th__gradients_free(gradients);
  return status;
}

void th__gradients_free(th__gradients *gradients) {
  for (int i = 0; i < TH_MAX_INPUTS; i++) th__free(gradients->of[i]);
  *gradients = (th__gradients){0};
}
