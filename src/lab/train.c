/* train.c: a run from its first step to its last: what is done after which step. */
#include "lab/train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lab/run.h"
#include "lab/train_report.h"
#include "lab/trainer.h"
#include "tensor/alloc.h"
#include "tensor/error.h"

enum { LOOK_BATCHES = 2, FINAL_BATCHES = 16 };

/* Held-out accuracy is not looked at while the batches trained on are below this. */
#define PROMISING 0.8

long th__train_look_every = 10;

/* A run while it runs. */
typedef struct running {
  const th__train_job *job;
  th__trainer *t;
  th__train_run *run;
  th__lines *log;
  double begin; /* of this call, seconds */
} running;

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static bool due(long every, long step) { return every > 0 && step % every == 0; }

/* ---- after a step ---- */

static th_status log_step(running *r, const th__train_step *step, th_error *error) {
  if (r->log == NULL || !due(r->t->config->log_every, step->step)) return TH_OK;
  char line[TH__TRAIN_LINE];
  int length = th__train_log_line(line, r->t->config->seed, step);
  return th__lines_put(r->log, line, (size_t)length, error);
}

/* Looks for 95 % from time to time, on other held-out batches each time. */
static th_status look(running *r, const th__train_step *step, th_error *error) {
  th__trainer *t = r->t;
  if (t->state.steps_to_95 >= 0 || !due(th__train_look_every, step->step) ||
      step->accuracy < PROMISING)
    return TH_OK;
  double accuracy;
  uint64_t first = (uint64_t)(step->step / th__train_look_every) * LOOK_BATCHES;
  th_status status = th__trainer_accuracy(t, true, first, LOOK_BATCHES, &accuracy, error);
  if (status == TH_OK && accuracy >= 0.95) t->state.steps_to_95 = step->step;
  return status;
}

static th_status validate(running *r, bool final, th_error *error) {
  th__trainer *t = r->t;
  th__train_state *s = &t->state;
  th__train_validation v = {.step = s->step, .final = final};
  th_status status = th__trainer_validate(t, &v, error);
  if (status != TH_OK) return status;
  r->run->validation_loss = v.loss;
  v.best = !final && !(v.loss >= s->best_loss);
  if (v.best) {
    s->best_loss = v.loss;
    s->best_step = s->step;
  }
  if (!final) s->stale = v.best ? 0 : s->stale + 1;
  if (r->log != NULL) {
    char line[TH__TRAIN_LINE];
    int length = th__train_validation_line(line, t->config->seed, &v);
    status = th__lines_put(r->log, line, (size_t)length, error);
  }
  if (status == TH_OK && v.best && r->job->run != NULL)
    status = th__run_save_best(r->job->run, t, error);
  if (r->job->watch.validated != NULL) r->job->watch.validated(r->job->watch.context, &v);
  return status;
}

static th_status sample(running *r, th_error *error) {
  char *text = th__trainer_sample(r->t, error);
  if (text == NULL) return TH_ERR_VALUE;
  th_status status = TH_OK;
  long step = r->t->state.step;
  if (r->job->watch.sampled != NULL) r->job->watch.sampled(r->job->watch.context, step, text);
  if (r->log != NULL) {
    char *line = th__train_sample_line(r->t->config->seed, step, text);
    status = line == NULL ? th__error_memory(error, "sample", strlen(text))
                          : th__lines_put(r->log, line, strlen(line), error);
    th__free(line);
  }
  th__free(text);
  return status;
}

static th_status after_step(running *r, th__train_step *step, th_error *error) {
  const th__train *c = r->t->config;
  th__train_state *s = &r->t->state;
  s->recent[step->step % TH__LOSS_WINDOW] = step->loss;
  th_status status = log_step(r, step, error);
  const th__train_watch *watch = &r->job->watch;
  if (watch->step != NULL && !watch->step(watch->context, step)) r->run->end = TH__END_STOPPED;
  if (status == TH_OK) status = look(r, step, error);
  if (status == TH_OK && due(c->eval_every, step->step)) status = validate(r, false, error);
  if (status == TH_OK && due(c->sample_every, step->step)) status = sample(r, error);
  if (c->patience > 0 && s->stale >= c->patience && r->run->end == TH__END_STEPS)
    r->run->end = TH__END_PATIENCE;
  if (status == TH_OK && r->job->run != NULL && due(c->save_every, step->step))
    status = th__run_save(r->job->run, r->t, error);
  return status;
}

/* ---- steps ---- */

static th_status train(running *r, th_error *error) {
  th__trainer *t = r->t;
  const th__train *c = t->config;
  double tokens = (double)c->batch * (double)c->seq;
  for (long number = t->state.step + 1; number <= c->steps && r->run->end == TH__END_STEPS;
       number++) {
    th__train_step step = {.step = number};
    double start = now();
    th_status status = th__trainer_step(t, &step, error);
    if (status != TH_OK) return status;
    double end = now();
    t->seconds += end - start;
    t->timed++;
    r->run->steps = number;
    r->run->tokens_per_second = step.tokens_per_second = tokens * (double)t->timed / t->seconds;
    step.seconds_left = (end - r->begin) / (double)t->timed * (double)(c->steps - number);
    if ((status = after_step(r, &step, error)) != TH_OK) return status;
  }
  return TH_OK;
}

static th_status sum_up(running *r, th_error *error) {
  th__trainer *t = r->t;
  th__train_run *run = r->run;
  const th__train_state *s = &t->state;
  long count = s->step < TH__LOSS_WINDOW ? s->step : TH__LOSS_WINDOW;
  for (long i = 0; i < count; i++) /* steps 1 .. count fill these places, or all are full */
    run->final_loss += s->recent[(i + 1) % TH__LOSS_WINDOW] / (double)count;
  if (run->final_loss > s->high_loss)
    return th__trainer_diverged(t, run->steps, run->final_loss, error);
  th_status status = TH_OK;
  /* Between two regular validations; a run that was stopped is let go soon. */
  bool last = t->config->eval_every > 0 && !due(t->config->eval_every, s->step);
  if (last && run->end != TH__END_STOPPED && !run->finished_before)
    status = validate(r, true, error);
  int batches = run->end == TH__END_STOPPED ? LOOK_BATCHES : FINAL_BATCHES;
  if (status == TH_OK)
    status = th__trainer_accuracy(t, false, 0, batches, &run->train_accuracy, error);
  if (status != TH_OK) return status;
  /* Batches that the looks on the way have not used. */
  return th__trainer_accuracy(t, true, (uint64_t)1 << 32, batches, &run->heldout_accuracy, error);
}

/* ---- a run ---- */

/* Whether the steps done are all there is to do. */
static bool finished(const th__trainer *t, th__train_run *run) {
  const th__train *c = t->config;
  if (t->state.step == 0) return false;
  if (c->patience > 0 && t->state.stale >= c->patience) run->end = TH__END_PATIENCE;
  return run->end == TH__END_PATIENCE || t->state.step >= c->steps;
}

static th_status prepare(running *r, th_error *error) {
  const th__train_job *job = r->job;
  th__trainer *t = r->t;
  th_status status = TH_OK;
  if (job->run != NULL && job->run->checkpoint != NULL)
    status = th__trainer_restore(t, job->run->checkpoint, error);
  if (status == TH_OK && t->state.step > t->config->steps)
    return th__error(error, TH_ERR_VALUE, "--steps %ld: the run has done %ld steps already",
                     t->config->steps, t->state.step);
  r->run->resumed = t->state.step > 0;
  r->run->steps = t->state.step;
  r->run->finished_before = finished(t, r->run);
  if (status == TH_OK && job->run != NULL && !r->run->finished_before)
    status = th__run_begin(job->run, t->config, t->state.step, error);
  if (job->run != NULL) r->log = r->run->finished_before ? NULL : &job->run->log;
  return status;
}

static th_status run_all(running *r, th_error *error) {
  const th__train_job *job = r->job;
  th_status status = prepare(r, error);
  if (status != TH_OK) return status;
  if (job->watch.begin != NULL && !r->run->finished_before)
    job->watch.begin(job->watch.context, r->t);
  r->begin = now();
  if (!r->run->finished_before) status = train(r, error);
  /* The state at the end, before anything else is looked at. */
  if (status == TH_OK && job->run != NULL && job->run->saved != r->t->state.step)
    status = th__run_save(job->run, r->t, error);
  if (status == TH_OK) status = sum_up(r, error);
  r->run->steps_to_95 = r->t->state.steps_to_95;
  r->run->best_loss = r->t->state.best_loss;
  r->run->best_step = r->t->state.best_step;
  return status;
}

th_status th__train_run_one(const th__train_job *job, th__train_run *run, th_error *error) {
  th__trainer t;
  th_error local = {0};
  *run = (th__train_run){.seed = job->config->seed,
                         .steps_to_95 = -1,
                         .validation_loss = (double)NAN,
                         .best_loss = (double)NAN};
  running r = {.job = job, .t = &t, .run = run, .log = job->log};
  th_status status = th__trainer_new(&t, job, &local) ? TH_OK : local.status;
  if (status == TH_OK) status = run_all(&r, &local);
  if (status != TH_OK && error != NULL) *error = local;
  th__trainer_free(&t);
  return status;
}
