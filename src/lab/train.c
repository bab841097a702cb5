/* train.c: one run: setting up, a step, evaluation, when to stop. */
#include "lab/train.h"

#include <math.h>
#include <time.h>

#include "data/text.h"
#include "tensor/alloc.h"
#include "tensor/error.h"
#include "tensor/tensor.h"

enum {
  EVALUATION_BATCHES = 2,
  FINAL_BATCHES = 16,
  LOSS_WINDOW = 20,
  RUNAWAY_FACTOR = 3, /* a loss is far too high at this many times that of the first step */
  RUNAWAY_STEPS = 30  /* and the run is given up when so many more steps were than were not */
};

/* Held-out accuracy is not looked at while the batches trained on are below this. */
#define PROMISING 0.8

typedef struct trainer {
  const th__train *settings;
  th_task *task; /* one of these two is NULL */
  th__text *text;
  ptrdiff_t vocab;
  th_model *model;
  th_optim *optim;
  th_tape *tape;
  th_tensor **weights;        /* of attention, one per layer, of the last step */
  double recent[LOSS_WINDOW]; /* losses of the last steps, a ring */
  double high_loss;
  long high_steps; /* steps with a loss above that, less those below, at least 0 */
  double seconds;  /* spent in steps */
} trainer;

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* ---- setting up ---- */

static th_optim *new_optim(th_params *params, const th__train *s, th_error *error) {
  if (s->sgd) return th_sgd_new(params, &(th_sgd){.lr = s->lr}, error);
  return th_adamw_new(params, &(th_adamw){.lr = s->lr, .weight_decay = 0.01}, error);
}

static bool data_new(trainer *t, const th__train *s, th_error *error) {
  if (s->text != NULL) {
    const th__text_options options = {.bytes = s->text,
                                      .count = s->text_bytes,
                                      .name = s->text_name,
                                      .seq = s->seq,
                                      .batch = s->batch,
                                      .seed = s->seed};
    t->text = th__text_new(&options, error);
    if (t->text != NULL) t->vocab = th__text_vocab(t->text);
    return t->text != NULL;
  }
  const th_task_options options = {
      .kind = s->task, .seq = s->seq, .batch = s->batch, .seed = s->seed};
  t->task = th_task_new(&options, error);
  if (t->task != NULL) t->vocab = th_task_vocab(t->task);
  return t->task != NULL;
}

static bool trainer_new(trainer *t, const th__train *s, th_error *error) {
  *t = (trainer){.settings = s};
  /* The vocabulary is known once there is data, which needs memory, too: hence twice. */
  if (!th__train_fits(s, 1, error) || !data_new(t, s, error) || !th__train_fits(s, t->vocab, error))
    return false;
  const th_gpt config = {.layers = s->layers,
                         .heads = s->heads,
                         .width = s->d_model,
                         .context = s->seq,
                         .vocab = t->vocab,
                         .head_width = s->dk,
                         .init = TH_INIT_WIDTH,
                         .scale = s->scale,
                         .factor = s->factor};
  t->model = th_gpt_new(&config, s->seed, error);
  if (t->model == NULL) return false;
  t->optim = new_optim(th_model_params(t->model), s, error);
  if (t->optim == NULL) return false;
  t->tape = th_tape_new();
  t->weights = th__alloc((size_t)s->layers * sizeof(th_tensor *));
  if (t->tape == NULL || t->weights == NULL)
    th__error_memory(error, "train", (size_t)s->layers * sizeof(th_tensor *));
  return t->tape != NULL && t->weights != NULL;
}

static void trainer_free(trainer *t) {
  th__free(t->weights);
  th_tape_free(t->tape);
  th_optim_free(t->optim);
  th_model_free(t->model);
  th_task_free(t->task);
  th__text_free(t->text);
}

static th_batch batch_of(trainer *t, bool heldout, uint64_t number) {
  return t->text != NULL ? th__text_batch(t->text, heldout, number)
                         : th_task_batch(t->task, heldout, number);
}

/* ---- measuring ---- */

double th__train_accuracy(const th_tensor *logits, const th_tensor *targets) {
  const float *x = th_tensor_data(logits);
  const int32_t *target = th_tensor_data(targets);
  ptrdiff_t vocab = th__dim(logits, -1), right = 0, counted = 0;
  for (ptrdiff_t i = 0; i < th_tensor_count(targets); i++, x += vocab) {
    if (target[i] == TH_IGNORE) continue;
    ptrdiff_t below = 0;
    for (ptrdiff_t j = 0; j < vocab; j++) below += x[j] < x[target[i]];
    right += below == vocab - 1;
    counted++;
  }
  return counted > 0 ? (double)right / (double)counted : 0;
}

double th__train_entropy(const th_tensor *weights) {
  const float *p = th_tensor_data(weights);
  ptrdiff_t rows = th__dim(weights, 1) * th__dim(weights, 2), n = th__dim(weights, 3);
  double entropy = 0;
  for (ptrdiff_t i = 0; i < rows * n; i++)
    if (p[i] > 0) entropy -= (double)(p[i] * logf(p[i]));
  return entropy / (double)rows;
}

/* Leaves no trace: no random number is drawn in order, and the tape is empty afterwards. */
static th_status evaluate(trainer *t, bool heldout, uint64_t first, int batches, double *accuracy,
                          th_error *error) {
  double sum = 0;
  th_tape_set_recording(t->tape, false);
  for (int i = 0; i < batches; i++) {
    th_batch batch = batch_of(t, heldout, first + (uint64_t)i);
    th_tensor *logits = th_gpt_forward(t->tape, t->model, batch.tokens, NULL);
    if (logits != NULL) sum += th__train_accuracy(logits, batch.targets);
    th_tape_reset(t->tape);
  }
  th_tape_set_recording(t->tape, true);
  *accuracy = sum / batches;
  th_status status = th_tape_status(t->tape);
  return status == TH_OK ? TH_OK : th__error(error, status, "%s", th_tape_message(t->tape));
}

/* ---- stopping ---- */

static th_status not_finite(const trainer *t, long step, const char *what, th_error *error) {
  char tensor[128] = "the loss";
  th__train_blame(t->tape, th_model_params(t->model), tensor, sizeof tensor);
  return th__error(error, TH_ERR_NONFINITE,
                   "step %ld: %s; the first tensor that holds Inf or NaN is %s; lower the learning "
                   "rate%s",
                   step, what, tensor, t->settings->scale == TH_SCALE_FACTOR ? " or the scale" : "");
}

static th_status diverged(const trainer *t, long step, double loss, th_error *error) {
  double size;
  const th_tensor *largest = th__train_largest(th_model_params(t->model), &size);
  return th__error(error, TH_ERR_NONFINITE,
                   "step %ld: the run diverges: the loss is %.4g, mostly above %.4g by now, and "
                   "guessing costs %.4g; the largest parameter is %s with %.3g; lower the learning "
                   "rate",
                   step, loss, t->high_loss, log((double)t->vocab), th_tensor_name(largest), size);
}

static th_status check_loss(trainer *t, long step, double loss, th_error *error) {
  if (!isfinite(loss)) return not_finite(t, step, "the loss is not finite", error);
  if (step == 1) t->high_loss = RUNAWAY_FACTOR * fmax(loss, log((double)t->vocab));
  t->high_steps += loss > t->high_loss ? 1 : t->high_steps > 0 ? -1 : 0;
  return t->high_steps < RUNAWAY_STEPS ? TH_OK : diverged(t, step, loss, error);
}

/* ---- a step, a run ---- */

static th_status update(trainer *t, th__train_step *out, th_error *error) {
  th_error local;
  th_params *params = th_model_params(t->model);
  th_status status = th_clip_grad_norm(params, 1, &out->grad_norm, &local);
  if (status != TH_OK) return th__error(error, status, "step %ld: %s", out->step, local.message);
  status = th_optim_step(t->optim, error);
  /* Nothing after the last update would show what it did. */
  char tensor[128];
  if (status == TH_OK && out->step == t->settings->steps &&
      th__train_blame(t->tape, params, tensor, sizeof tensor))
    return not_finite(t, out->step, "the update went beyond the largest number", error);
  return status;
}

static th_status train_step(trainer *t, th__train_step *out, th_error *error) {
  th_batch batch = batch_of(t, false, (uint64_t)out->step - 1);
  const th_pass pass = {.training = true, .weights = t->weights};
  th_tensor *logits = th_gpt_forward(t->tape, t->model, batch.tokens, &pass);
  th_tensor *loss = th_cross_entropy(t->tape, logits, batch.targets);
  th_backward(t->tape, loss);
  th_status status = th_tape_status(t->tape);
  if (status != TH_OK)
    return th__error(error, status, "step %ld: %s", out->step, th_tape_message(t->tape));
  out->loss = th_tensor_item(loss);
  out->accuracy = th__train_accuracy(logits, batch.targets);
  for (ptrdiff_t i = 0; i < t->settings->layers; i++)
    out->entropy += th__train_entropy(t->weights[i]) / (double)t->settings->layers;
  status = check_loss(t, out->step, out->loss, error);
  if (status == TH_OK) status = update(t, out, error);
  th_tape_reset(t->tape);
  return status;
}

/* Looks for 95 % from time to time, on other held-out batches each time. */
static th_status look(trainer *t, const th__train_step *step, th__train_run *run, th_error *error) {
  long every = t->settings->evaluate_every;
  if (run->steps_to_95 >= 0 || every <= 0 || step->step % every != 0 || step->accuracy < PROMISING)
    return TH_OK;
  double accuracy;
  uint64_t first = (uint64_t)(step->step / every) * EVALUATION_BATCHES;
  th_status status = evaluate(t, true, first, EVALUATION_BATCHES, &accuracy, error);
  if (status == TH_OK && accuracy >= 0.95) run->steps_to_95 = step->step;
  return status;
}

static th_status train(trainer *t, th__train_report *report, void *context, th__train_run *run,
                       th_error *error) {
  long steps = t->settings->steps;
  double tokens = (double)t->settings->batch * (double)t->settings->seq, begin = now();
  for (long number = 1; number <= steps && !run->stopped; number++) {
    th__train_step step = {.step = number};
    double start = now();
    th_status status = train_step(t, &step, error);
    if (status != TH_OK) return status;
    double end = now();
    t->seconds += end - start;
    t->recent[number % LOSS_WINDOW] = step.loss;
    run->steps = number;
    run->tokens_per_second = step.tokens_per_second = tokens * (double)number / t->seconds;
    step.seconds_left = (end - begin) / (double)number * (double)(steps - number);
    run->stopped = report != NULL && !report(context, &step);
    if ((status = look(t, &step, run, error)) != TH_OK) return status;
  }
  return TH_OK;
}

static th_status sum_up(trainer *t, th__train_run *run, th_error *error) {
  long count = run->steps < LOSS_WINDOW ? run->steps : LOSS_WINDOW;
  for (long i = 0; i < count; i++) /* steps 1 .. count fill these places, or all are full */
    run->final_loss += t->recent[(i + 1) % LOSS_WINDOW] / (double)count;
  if (run->final_loss > t->high_loss) return diverged(t, run->steps, run->final_loss, error);
  int batches = run->stopped ? EVALUATION_BATCHES : FINAL_BATCHES;
  th_status status = evaluate(t, false, 0, batches, &run->train_accuracy, error);
  if (status != TH_OK) return status;
  /* Batches that the looks on the way have not used. */
  return evaluate(t, true, (uint64_t)1 << 32, batches, &run->heldout_accuracy, error);
}

th_status th__train_run_one(const th__train *settings, th__train_report *report, void *context,
                            th__train_run *run, th_error *error) {
  trainer t;
  th_error local = {0};
  *run = (th__train_run){.seed = settings->seed, .steps_to_95 = -1};
  th_status status = trainer_new(&t, settings, &local) ? TH_OK : local.status;
  if (status == TH_OK) status = train(&t, report, context, run, &local);
  if (status == TH_OK) status = sum_up(&t, run, &local);
  if (status != TH_OK && error != NULL) *error = local;
  trainer_free(&t);
  return status;
}
