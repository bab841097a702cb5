/* recall.c: training runs of slot-coded recall, side by side. */
#include "lab/recall.h"

#include <math.h>
#include <pthread.h>

#include "lab/recall_model.h"
#include "tensor/error.h"
#include "tensor/parallel.h"

enum { EVALUATE_EVERY = 10, EVALUATION_BATCHES = 2, FINAL_BATCHES = 16 };

typedef struct trainer {
  th__recall_run *run;
  th__recall_model model;
  th__recall_batch batch, heldout;
  th_optim *optim;
  th_tape *tape;
} trainer;

static th_optim *new_optim(th_params *params, const th__recall *settings, th_error *error) {
  double lr = settings->lr;
  if (settings->sgd) return th_sgd_new(params, &(th_sgd){.lr = lr > 0 ? lr : 0.3}, error);
  return th_adamw_new(params, &(th_adamw){.lr = lr > 0 ? lr : 1e-3, .weight_decay = 0.01}, error);
}

static bool trainer_new(trainer *t, th__recall_run *run) {
  *t = (trainer){.run = run, .tape = th_tape_new()};
  if (t->tape == NULL) th__error_memory(&run->error, "recall", sizeof(void *));
  return t->tape != NULL && th__recall_model_new(&t->model, &run->settings, TH_F32, &run->error) &&
         th__recall_batch_new(&t->batch, &run->error) &&
         th__recall_batch_new(&t->heldout, &run->error) &&
         (t->optim = new_optim(t->model.params, &run->settings, &run->error)) != NULL;
}

static void trainer_free(trainer *t) {
  th_optim_free(t->optim);
  th__recall_batch_free(&t->batch);
  th__recall_batch_free(&t->heldout);
  th__recall_model_free(&t->model);
  th_tape_free(t->tape);
}

/* Share of right answers on held-out batches first, first + 1, ...; uses the tape and clears it. */
static double evaluate(trainer *t, uint64_t first, int batches) {
  double right = 0;
  bool recording = th_tape_set_recording(t->tape, false);
  for (int i = 0; i < batches; i++) {
    th__recall_batch_fill(&t->heldout, t->run->settings.seed, true, first + (uint64_t)i);
    th__recall_pass pass = th__recall_forward(t->tape, &t->model, &t->run->settings, &t->heldout);
    right += pass.loss == NULL ? (double)NAN : th__recall_accuracy(&pass, &t->heldout);
    th_tape_reset(t->tape);
  }
  th_tape_set_recording(t->tape, recording);
  return right / batches;
}

/* 256 answers of a model at 93 % show 95 % sooner or later by luck: 2048 others must agree. */
static bool confirmed(trainer *t, int step) {
  uint64_t first = ((uint64_t)1 << 33) + (uint64_t)(step / EVALUATE_EVERY * FINAL_BATCHES);
  return evaluate(t, first, FINAL_BATCHES) >= 0.95;
}

/* Where points are taken: densely at first, when most happens; and where the gradient is checked. */
static bool is_point(int step, int steps) {
  return step == steps || step == 10 || step == 20 || step % (steps > 2000 ? steps / 20 : 50) == 0;
}
static bool is_check(int step, int steps) {
  return step == 0 || step == steps / 10 || step == steps / 2 || step == steps;
}

/* Forward, backward and, at a point, the measurements; leaves the gradients for the optimiser. */
static bool gradients(trainer *t, int step, double accuracy) {
  th__recall_run *run = t->run;
  const th__recall *settings = &run->settings;
  th__recall_batch_fill(&t->batch, settings->seed, false, (uint64_t)step);
  th__recall_pass pass = th__recall_forward(t->tape, &t->model, settings, &t->batch);
  th_backward(t->tape, pass.loss);
  if (th_tape_status(t->tape) == TH_OK && !isfinite(th_tensor_item(pass.loss)))
    th_fail(t->tape, TH_ERR_NONFINITE, "recall", "the loss is not finite at step %d", step);
  bool check = is_check(step, settings->steps), point = check || is_point(step, settings->steps);
  if (th_tape_status(t->tape) == TH_OK && point && run->point_count < TH__RECALL_POINTS) {
    th__recall_point *p = &run->points[run->point_count++];
    *p = (th__recall_point){.step = step, .accuracy = accuracy, .fd_rel_error = (double)NAN};
    th__recall_measure(t->tape, &t->model, settings, &t->batch, &pass, p);
    if (check)
      p->fd_rel_error = th__recall_fd_error(&t->model, settings, &t->batch, step, &run->error);
  }
  if (th_tape_status(t->tape) != TH_OK)
    th__error(&run->error, th_tape_status(t->tape), "%s", th_tape_message(t->tape));
  th_tape_reset(t->tape);
  return run->error.status == TH_OK;
}

static void train(trainer *t) {
  th__recall_run *run = t->run;
  double accuracy = 0;
  for (int step = 0; step <= run->settings.steps; step++) {
    if (step % EVALUATE_EVERY == 0) {
      accuracy =
          evaluate(t, (uint64_t)(step / EVALUATE_EVERY * EVALUATION_BATCHES), EVALUATION_BATCHES);
      if (run->steps_to_95 < 0 && accuracy >= 0.95 && confirmed(t, step)) run->steps_to_95 = step;
    }
    if (!gradients(t, step, accuracy)) return;
    if (step == run->settings.steps) break;
    if (th_optim_step(t->optim, &run->error) != TH_OK) return;
  }
  /* Batches that the evaluations on the way have not used. */
  run->heldout_accuracy = evaluate(t, (uint64_t)1 << 32, FINAL_BATCHES);
}

typedef struct grid {
  th__recall_run *runs;
  void (*done)(void *);
  void *context;
  pthread_mutex_t *lock;
} grid;

static void run_some(const void *context, ptrdiff_t begin, ptrdiff_t end) {
  const grid *g = context;
  for (ptrdiff_t i = begin; i < end; i++) {
    th__recall_run *run = &g->runs[i];
    trainer t;
    run->steps_to_95 = -1;
    run->point_count = 0;
    run->error = (th_error){0};
    if (trainer_new(&t, run)) train(&t);
    trainer_free(&t);
    if (g->done == NULL) continue;
    pthread_mutex_lock(g->lock);
    g->done(g->context);
    pthread_mutex_unlock(g->lock);
  }
}

th_status th__recall_runs(th__recall_run *runs, ptrdiff_t count, void (*done)(void *),
                          void *context, th_error *error) {
  pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  grid g = {runs, done, context, &lock};
  th__parallel(count, 1, run_some, &g);
  pthread_mutex_destroy(&lock);
  for (ptrdiff_t i = 0; i < count; i++)
    if (runs[i].error.status != TH_OK) {
      if (error != NULL) *error = runs[i].error;
      return runs[i].error.status;
    }
  return TH_OK;
}
