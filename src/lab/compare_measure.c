/* compare_measure.c: the gradient that arrives at the first step, and the time of a training step. */
#include <math.h>
#include <time.h>

#include "lab/compare.h"
#include "lab/stats.h"
#include "tensor/alloc.h"
#include "tensor/error.h"
#include "tensor/purpose.h"
#include "tensor/tensor.h"

/* ---- gradients ---- */

/* The same weights in f64. */
static th_model *exact_copy(th__compared kind, th_model *model, const th__distance *task,
                            ptrdiff_t width, th_error *error) {
  th_model *copy = th__compare_model(kind, task, width, TH_F64, 1, error);
  if (copy == NULL) return NULL;
  for (ptrdiff_t i = 0; i < th_params_count(th_model_params(copy)); i++) {
    const th_tensor *from = th_params_at(th_model_params(model), i);
    th_tensor *to = th_params_at(th_model_params(copy), i);
    for (ptrdiff_t j = 0; j < to->count; j++) th__set(to, j, th__get(from, j));
  }
  return copy;
}

static double row_norm(const th_tensor *grad, ptrdiff_t row) {
  ptrdiff_t width = grad->shape[1];
  double squares = 0, largest = 0;
  for (ptrdiff_t j = 0; j < width; j++)
    largest = fmax(largest, fabs(th__get(grad, row * width + j)));
  if (largest == 0) return 0;
  for (ptrdiff_t j = 0; j < width; j++) {
    double part = th__get(grad, row * width + j) / largest; /* no square underflows */
    squares += part * part;
  }
  return largest * sqrt(squares);
}

/* A sequence's pairs and its question stand nowhere else in it, and the output has a matrix of its own:
 * the gradient of such a token's row in the table is what arrives at its step. */
static bool one_sequence(th_tape *tape, th_model *model, const th__distance *task,
                         const int32_t *tokens, const int32_t *answer,
                         th__compare_gradient *gradient) {
  th_tensor *table = th_params_find(th_model_params(model), "wte.weight");
  th_params_zero_grad(th_model_params(model));
  th_backward(tape, th__compare_loss(tape, model, task, 1, tokens, answer, NULL));
  bool good = th_tape_status(tape) == TH_OK;
  if (good) {
    gradient->first = row_norm(table->grad, tokens[0]);
    gradient->last = row_norm(table->grad, tokens[th__distance_length(task) - 1]);
  }
  th_tape_reset(tape);
  return good;
}

static th_status measure(th_tape *tape, th_model *model, const th__distance *task,
                         const int32_t *tokens, const int32_t *answers,
                         th__compare_gradient *gradient, th_error *error) {
  double first[TH__COMPARE_SEQUENCES], last[TH__COMPARE_SEQUENCES];
  for (int i = 0; i < TH__COMPARE_SEQUENCES; i++) {
    th__compare_gradient one = {0};
    if (!one_sequence(tape, model, task, tokens + i * th__distance_length(task), answers + i, &one))
      return th__error(error, th_tape_status(tape), "%s", th_tape_message(tape));
    first[i] = one.first;
    last[i] = one.last;
  }
  gradient->first = th__summarise(first, TH__COMPARE_SEQUENCES).median;
  gradient->last = th__summarise(last, TH__COMPARE_SEQUENCES).median;
  return TH_OK;
}

th_status th__compare_gradients(th__compared kind, th_model *model, const th__distance *task,
                                ptrdiff_t width, uint64_t seed, th__compare_gradient *gradient,
                                th_error *error) {
  int32_t answers[TH__COMPARE_SEQUENCES];
  size_t bytes = TH__COMPARE_SEQUENCES * (size_t)th__distance_length(task) * sizeof(int32_t);
  int32_t *tokens = th__alloc(bytes);
  th_tape *tape = th_tape_new();
  th_model *exact = NULL;
  th_status status;
  if (tokens == NULL || tape == NULL)
    status = th__error_memory(error, "compare", bytes);
  else if ((exact = exact_copy(kind, model, task, width, error)) == NULL)
    status = error->status;
  else {
    th__distance_fill(task, (th_random){seed, TH__PURPOSE_COMPARE_GRADIENT, 0}, true,
                      TH__COMPARE_SEQUENCES, tokens, answers);
    status = measure(tape, exact, task, tokens, answers, gradient, error);
  }
  th_model_free(exact);
  th_tape_free(tape);
  th__free(tokens);
  return status;
}

/* ---- time ---- */

static double milliseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

/* The fastest of at least LEAST_STEPS steps, and of as many as fit into ENOUGH_MS. */
enum { LEAST_STEPS = 4, MOST_STEPS = 200 };
#define ENOUGH_MS 250

static th_status time_steps(th_model *model, th_optim *optim, th_tape *tape,
                            const th__distance *task, ptrdiff_t batch, const int32_t *tokens,
                            const int32_t *answers, double *ms, th_error *error) {
  double begin = milliseconds();
  *ms = (double)INFINITY;
  for (int i = 0; i < MOST_STEPS && (i < LEAST_STEPS || milliseconds() - begin < ENOUGH_MS); i++) {
    double before = milliseconds();
    th_backward(tape, th__compare_loss(tape, model, task, batch, tokens, answers, NULL));
    if (th_tape_status(tape) != TH_OK)
      return th__error(error, th_tape_status(tape), "%s", th_tape_message(tape));
    th_status status = th_clip_grad_norm(th_model_params(model), 1, NULL, error);
    if (status == TH_OK) status = th_optim_step(optim, error);
    if (status != TH_OK) return status;
    th_tape_reset(tape);
    *ms = fmin(*ms, milliseconds() - before);
  }
  return TH_OK;
}

th_status th__compare_time(th__compared kind, const th__distance *task, ptrdiff_t width,
                           ptrdiff_t batch, double *ms, th_error *error) {
  size_t bytes = (size_t)(batch * th__distance_length(task)) * sizeof(int32_t);
  int32_t *tokens = th__alloc(bytes), *answers = th__alloc((size_t)batch * sizeof(int32_t));
  th_tape *tape = th_tape_new();
  th_model *model = NULL;
  th_optim *optim = NULL;
  th_status status;
  if (tokens == NULL || answers == NULL || tape == NULL)
    status = th__error_memory(error, "compare", bytes);
  else if ((model = th__compare_model(kind, task, width, TH_F32, 1, error)) == NULL ||
           (optim = th_adamw_new(th_model_params(model), &(th_adamw){.lr = 1e-3}, error)) == NULL)
    status = error->status;
  else {
    th__distance_fill(task, (th_random){1, TH__PURPOSE_COMPARE_TRAINING, 0}, false, batch, tokens,
                      answers);
    status = time_steps(model, optim, tape, task, batch, tokens, answers, ms, error);
  }
  th_optim_free(optim);
  th_model_free(model);
  th_tape_free(tape);
  th__free(tokens);
  th__free(answers);
  return status;
}
