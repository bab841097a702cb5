#include "lab/train.h"

#include <math.h>
#include <time.h>

#include "data/text.h"
#include "lab/machine.h"
#include "tensor/alloc.h"
#include "tensor/error.h"
#include "tensor/tensor.h"

enum { EVALUATION_BATCHES = 2, FINAL_BATCHES = 16, LOSS_WINDOW = 20, RUNAWAY_STEPS = 50 };

typedef struct trainer {
  const th__train *settings;
  th_task *task; /* one of these two is NULL */
  th__text *text;
  ptrdiff_t vocab;
  th_model *model;
  th_optim *optim;
  th_tape *tape;
  double recent[LOSS_WINDOW]; /* losses of the last steps, a ring */
  long runaway;               /* steps in a row with a loss far above that of guessing */
  double seconds;             /* spent in steps */
} trainer;

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* ---- setting up ---- */

double th__train_bytes(const th__train *s, ptrdiff_t vocab) {
  double width = (double)s->d_model, layers = (double)s->layers, dk = (double)(s->dk * s->heads);
  double parameters =
      layers * (2 * width * dk + 10 * width * width) + width * (double)(vocab + s->seq);
  double tokens = (double)s->batch * (double)s->seq;
  /* Saved per token and layer: two norms, q k v, attention output, two projections, sums, and the
   * hidden layer before and after its activation; per query the weights of every head. */
  double layer = 9 * width + 2 * dk + 8 * width + (double)s->heads * (double)s->seq;
  return 4 * (4 * parameters + tokens * (layers * layer + 3 * (double)vocab + 3 * width));
}

static bool fits_memory(const th__train *settings, ptrdiff_t vocab, th_error *error) {
  double need = th__train_bytes(settings, vocab), have = th__machine_memory();
  if (have <= 0 || need <= 0.9 * have) return true;
  th__error(
      error, TH_ERR_MEMORY,
      "these sizes need about %.3g GiB, but the machine has %.3g GiB; take a smaller batch, seq, "
      "d-model or number of layers",
      need / 0x1p30, have / 0x1p30);
  return false;
}

static th_optim *new_optim(th_params *params, const th__train *s, th_error *error) {
  if (s->sgd) return th_sgd_new(params, &(th_sgd){.lr = s->lr}, error);
  return th_adamw_new(params, &(th_adamw){.lr = s->lr, .weight_decay = 0.01}, error);
}

static bool trainer_new(trainer *t, const th__train *s, th_error *error) {
  *t = (trainer){.settings = s};
  if (s->text != NULL) {
    t->text = th__text_new(s->text, s->text_bytes, s->seq, s->batch, s->seed, error);
    if (t->text == NULL) return false;
    t->vocab = th__text_vocab(t->text);
  } else {
    t->task = th_task_new(
        &(th_task_options){.kind = s->task, .seq = s->seq, .batch = s->batch, .seed = s->seed},
        error);
    if (t->task == NULL) return false;
    t->vocab = th_task_vocab(t->task);
  }
  if (!fits_memory(s, t->vocab, error)) return false;
  const th_gpt config = {.layers = s->layers,
                         .heads = s->heads,
                         .width = s->d_model,
                         .context = s->seq,
                         .vocab = t->vocab,
                         .head_width = s->dk,
                         .scale = s->scale,
                         .factor = s->factor};
  t->model = th_gpt_new(&config, s->seed, error);
  t->tape = th_tape_new();
  if (t->tape == NULL) th__error_memory(error, "train", sizeof(void *));
  if (t->model == NULL || t->tape == NULL) return false;
  t->optim = new_optim(th_model_params(t->model), s, error);
  return t->optim != NULL;
}

static void trainer_free(trainer *t) {
  th_optim_free(t->optim);
  th_model_free(t->model);
  th_tape_free(t->tape);
  th_task_free(t->task);
  th__text_free(t->text);
}

static th_batch batch_of(trainer *t, bool heldout, uint64_t number) {
  return t->text != NULL ? th__text_batch(t->text, heldout, number)
                         : th_task_batch(t->task, heldout, number);
}

/* ---- measuring ---- */

/* Share of counted tokens whose largest logit is the target's. */
static double accuracy_of(const th_tensor *logits, const th_tensor *targets) {
  const float *x = th_tensor_data(logits);
  const int32_t *target = th_tensor_data(targets);
  ptrdiff_t vocab = th__dim(logits, -1), right = 0, counted = 0;
  for (ptrdiff_t i = 0; i < th_tensor_count(targets); i++, x += vocab) {
    if (target[i] == TH_IGNORE) continue;
    bool best = true;
    for (ptrdiff_t j = 0; j < vocab && best; j++) best = !(x[j] > x[target[i]]);
    right += best;
    counted++;
  }
  return counted > 0 ? (double)right / (double)counted : (double)NAN;
}

/* Mean entropy of the first sequence's weights [B, H, T, T]: one sequence, so that it costs little. */
static double entropy_of(const th_tensor *weights) {
  const float *p = th_tensor_data(weights);
  ptrdiff_t rows = th__dim(weights, 1) * th__dim(weights, 2), n = th__dim(weights, 3);
  double entropy = 0;
  for (ptrdiff_t i = 0; i < rows * n; i++)
    if (p[i] > 0) entropy -= (double)p[i] * log((double)p[i]);
  return entropy / (double)rows;
}

static double evaluate(trainer *t, bool heldout, uint64_t first, int batches) {
  double sum = 0;
  bool recording = th_tape_set_recording(t->tape, false);
  for (int i = 0; i < batches; i++) {
    th_batch batch = batch_of(t, heldout, first + (uint64_t)i);
    th_tensor *logits = th_gpt_forward(t->tape, t->model, batch.tokens, NULL);
    sum += logits == NULL ? (double)NAN : accuracy_of(logits, batch.targets);
    th_tape_reset(t->tape);
  }
  th_tape_set_recording(t->tape, recording);
  return sum / batches;
}

/* ---- stopping ---- */

static const char *nonfinite_parameter(const th_params *params) {
  for (ptrdiff_t i = 0; i < th_params_count(params); i++) {
    const th_tensor *w = th_params_at(params, i);
    for (ptrdiff_t j = 0; j < th_tensor_count(w); j++)
      if (!isfinite(th__get(w, j))) return th_tensor_name(w);
  }
  return NULL;
}

static th_status check_loss(trainer *t, long step, double loss, th_error *error) {
  if (!isfinite(loss)) {
    const char *name = nonfinite_parameter(th_model_params(t->model));
    return th__error(error, TH_ERR_NONFINITE,
                     "step %ld: the loss is %g; the first tensor that is not finite is %s. Lower the "
                     "learning rate",
                     step, loss, name != NULL ? name : "the logits, although all parameters are");
  }
  /* Guessing costs ln(vocab). Far above that for many steps is no learning any more. */
  t->runaway = loss > 10 + 3 * log((double)t->vocab) ? t->runaway + 1 : 0;
  if (t->runaway < RUNAWAY_STEPS) return TH_OK;
  return th__error(
      error, TH_ERR_NONFINITE,
      "step %ld: the run diverges: the tensor loss is %.4g and has been above %.4g for %d "
      "steps, guessing costs %.4g. Lower the learning rate",
      step, loss, 10 + 3 * log((double)t->vocab), RUNAWAY_STEPS, log((double)t->vocab));
}

/* ---- a step, a run ---- */

static th_status train_step(trainer *t, th__train_step *out, th_tensor **weights, th_error *error) {
  th_batch batch = batch_of(t, false, (uint64_t)out->step);
  th_tensor *logits = th_gpt_forward(t->tape, t->model, batch.tokens,
                                     &(th_gpt_pass){.training = true, .weights = weights});
  th_tensor *loss = th_cross_entropy(t->tape, logits, batch.targets);
  th_backward(t->tape, loss);
  th_status status = th_tape_status(t->tape);
  if (status != TH_OK) return th__error(error, status, "%s", th_tape_message(t->tape));
  out->loss = th_tensor_item(loss);
  out->accuracy = accuracy_of(logits, batch.targets);
  out->entropy = 0;
  for (ptrdiff_t i = 0; i < t->settings->layers; i++)
    out->entropy += entropy_of(weights[i]) / (double)t->settings->layers;
  status = check_loss(t, out->step, out->loss, error);
  th_error local;
  if (status == TH_OK &&
      (status = th_clip_grad_norm(th_model_params(t->model), 1, &out->grad_norm, &local)) != TH_OK)
    th__error(error, status, "step %ld: %s", out->step, local.message);
  if (status == TH_OK) status = th_optim_step(t->optim, error);
  th_tape_reset(t->tape);
  return status;
}

static th_status train(trainer *t, th_tensor **weights, th__train_report *report, void *context,
                       th__train_run *run, th_error *error) {
  long steps = t->settings->steps, every = steps >= 1000 ? steps / 100 : 10;
  double tokens = (double)t->settings->batch * (double)t->settings->seq;
  for (long step = 0; step < steps && !run->stopped; step++) {
    th__train_step now_at = {.step = step};
    double start = now();
    th_status status = train_step(t, &now_at, weights, error);
    if (status != TH_OK) return status;
    t->seconds += now() - start;
    t->recent[step % LOSS_WINDOW] = now_at.loss;
    run->steps = step + 1;
    run->tokens_per_second = now_at.tokens_per_second = tokens * (double)run->steps / t->seconds;
    now_at.seconds_left = t->seconds / (double)run->steps * (double)(steps - run->steps);
    run->stopped = report != NULL && !report(context, &now_at);
    if (run->steps_to_95 < 0 && run->steps % every == 0 &&
        evaluate(t, true, (uint64_t)(run->steps / every) * EVALUATION_BATCHES,
                 EVALUATION_BATCHES) >= 0.95)
      run->steps_to_95 = run->steps;
  }
  return TH_OK;
}

static double mean_recent(const trainer *t, long steps) {
  long count = steps < LOSS_WINDOW ? steps : LOSS_WINDOW;
  double sum = 0;
  for (long i = 0; i < count; i++) sum += t->recent[i];
  return sum / (double)count;
}

th_status th__train_run_one(const th__train *settings, th__train_report *report, void *context,
                            th__train_run *run, th_error *error) {
  trainer t;
  th_error local = {0};
  *run = (th__train_run){.seed = settings->seed, .steps_to_95 = -1};
  th_status status = trainer_new(&t, settings, &local) ? TH_OK : local.status;
  size_t bytes = (size_t)settings->layers * sizeof(th_tensor *);
  th_tensor **weights = status == TH_OK ? th__alloc(bytes) : NULL;
  if (status == TH_OK && weights == NULL) status = th__error_memory(&local, "train", bytes);
  if (status == TH_OK) status = train(&t, weights, report, context, run, &local);
  th__free(weights);
  if (status == TH_OK) {
    run->final_loss = mean_recent(&t, run->steps);
    run->train_accuracy = evaluate(&t, false, 0, FINAL_BATCHES);
    /* Batches that the evaluations on the way have not used. */
    run->heldout_accuracy = evaluate(&t, true, (uint64_t)1 << 32, FINAL_BATCHES);
  } else if (error != NULL)
    *error = local;
  trainer_free(&t);
  return status;
}
