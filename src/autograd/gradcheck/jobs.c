/* jobs.c: many derivatives at once, in parallel: each piece has a worker of its own. The pieces depend
 * on the number of jobs only, so the result does not depend on the number of threads. */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>

#include "autograd/gradcheck/gradcheck.h"
#include "tensor/alloc.h"
#include "tensor/error.h"

#define PIECE 32 /* coordinates that one worker follows before it is given up */

typedef struct batch {
  const th__subject *subject;
  th__job *jobs;
  const double *const *directions; /* NULL: along coordinates; else one per job */
  pthread_mutex_t lock;
  th_error error;
  atomic_bool failed;
} batch;

static void fail(batch *b, const th_error *why) {
  pthread_mutex_lock(&b->lock);
  if (b->error.status == TH_OK) b->error = *why;
  pthread_mutex_unlock(&b->lock);
  atomic_store(&b->failed, true);
}

static void run_jobs(const void *context, ptrdiff_t begin, ptrdiff_t end) {
  batch *b = *(batch *const *)context;
  th__worker worker;
  th_error why = {TH_OK, ""};
  if (atomic_load(&b->failed)) return;
  if (!th__worker_start(&worker, b->subject)) {
    th__error_memory(&why, "gradcheck", 0);
    fail(b, &why);
    return;
  }
  for (ptrdiff_t i = begin; i < end && !atomic_load(&b->failed); i++) {
    th__job *j = &b->jobs[i];
    th__line line = {&worker,  j->input, j->entry, b->directions ? b->directions[i] : NULL,
                     j->scale, j->own};
    if (th__sweep(&line, j->analytic, j->allowed, &j->estimate, &why) != TH_OK) fail(b, &why);
  }
  th__worker_free(&worker);
}

th_status th__run_jobs(const th__subject *subject, th__job *jobs, ptrdiff_t count,
                       const double *const *directions, th_error *error) {
  batch b = {.subject = subject, .jobs = jobs, .directions = directions};
  batch *pointer = &b;
  pthread_mutex_init(&b.lock, NULL);
  if (subject->serial)
    run_jobs(&pointer, 0, count);
  else
    th__parallel(count, directions != NULL ? 1 : PIECE, run_jobs, &pointer);
  pthread_mutex_destroy(&b.lock);
  if (b.error.status != TH_OK) return th__error(error, b.error.status, "%s", b.error.message);
  return TH_OK;
}

void th__job_steps(th__job *job, const th_tensor *x, double typical) {
  double own = fabs(((const double *)x->data)[job->entry]);
  job->scale = own > typical ? ldexp(1, ilogb(own)) : typical;
  job->own = own > 0 && own < 0x1p-6 * typical ? ldexp(1, ilogb(own)) : 0;
}

/* Without a claim: every coordinate of one input, as well as it can be measured. */
th_status th__measure(const th__subject *subject, int input, double allowed, double *values,
                      th_error *error) {
  const th_tensor *x = subject->inputs[input];
  th__job *jobs = th__alloc_zero((size_t)x->count * sizeof *jobs);
  if (jobs == NULL) return th__error_memory(error, "gradcheck", (size_t)x->count * sizeof *jobs);
  double typical = th__step_scale(x, 0);
  for (ptrdiff_t k = 0; k < x->count; k++) {
    jobs[k] = (th__job){.input = input, .entry = k, .analytic = (double)NAN, .allowed = allowed};
    th__job_steps(&jobs[k], x, typical);
  }
  th_status status = th__run_jobs(subject, jobs, x->count, NULL, error);
  for (ptrdiff_t k = 0; k < x->count && status == TH_OK; k++) values[k] = jobs[k].estimate.value;
  th__free(jobs);
  return status;
}
