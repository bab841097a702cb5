/* compare.c: the runs of a comparison, side by side, and what is made of them. */
#include "lab/compare.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

#include "lab/machine.h"
#include "lab/stats.h"
#include "tensor/alloc.h"
#include "tensor/error.h"
#include "tensor/parallel.h"
#include "tensor/purpose.h"

enum { LOOK = 256, CONFIRM = 1024, PART = 32 }; /* held-out sequences; how many go at once */
/* Numbers of held-out batches: those of the last accuracy, and of confirmations, are used by no look. */
#define FINAL_BATCH ((uint64_t)1 << 40)
#define CONFIRM_BATCH ((uint64_t)1 << 41)
#define LEARNT 0.99

/* ---- one run ---- */

typedef struct trainer {
  const th__compare_options *options;
  th__distance task;
  uint64_t seed;
  th_model *model;
  th_optim *optim;
  th_tape *tape;
  int32_t *tokens, *answers; /* room for the larger of a batch and PART sequences */
} trainer;

static void trainer_free(trainer *t) {
  th_optim_free(t->optim);
  th_model_free(t->model);
  th_tape_free(t->tape);
  th__free(t->tokens);
  th__free(t->answers);
}

static bool trainer_new(trainer *t, const th__compare_cell *cell, th_error *error) {
  const th__compare_options *o = t->options;
  size_t rows = (size_t)(o->batch > PART ? o->batch : PART);
  size_t tokens = rows * (size_t)th__distance_length(&t->task) * sizeof(int32_t);
  t->tokens = th__alloc(tokens);
  t->answers = th__alloc(rows * sizeof(int32_t));
  t->tape = th_tape_new();
  if (t->tokens == NULL || t->answers == NULL || t->tape == NULL) {
    th__error_memory(error, "compare", tokens);
    return false;
  }
  t->model = th__compare_model(cell->model, &t->task, cell->width, TH_F32, t->seed, error);
  if (t->model == NULL) return false;
  const th_adamw adam = {.lr = o->lr[cell->model], .weight_decay = 0.01};
  t->optim = th_adamw_new(th_model_params(t->model), &adam, error);
  return t->optim != NULL;
}

static bool tape_good(trainer *t, th_error *error) {
  if (th_tape_status(t->tape) == TH_OK) return true;
  th__error(error, th_tape_status(t->tape), "%s", th_tape_message(t->tape));
  return false;
}

/* Share of right answers among `count` held-out sequences from batch `first` on. */
static double evaluate(trainer *t, uint64_t first, int count, th_error *error) {
  double right = 0;
  bool recording = th_tape_set_recording(t->tape, false);
  for (int done = 0; done < count && error->status == TH_OK; done += PART) {
    th_random stream = {t->seed, TH__PURPOSE_COMPARE_HELDOUT, first + (uint64_t)(done / PART)};
    th__distance_fill(&t->task, stream, false, PART, t->tokens, t->answers);
    th__compare_loss(t->tape, t->model, &t->task, PART, t->tokens, t->answers, &right);
    tape_good(t, error);
    th_tape_reset(t->tape);
  }
  th_tape_set_recording(t->tape, recording);
  return right / count;
}

static bool train_step(trainer *t, long step, th_error *error) {
  th_random stream = {t->seed, TH__PURPOSE_COMPARE_TRAINING, (uint64_t)step};
  long batch = t->options->batch;
  th__distance_fill(&t->task, stream, false, batch, t->tokens, t->answers);
  th_backward(t->tape,
              th__compare_loss(t->tape, t->model, &t->task, batch, t->tokens, t->answers, NULL));
  bool good = tape_good(t, error) &&
              th_clip_grad_norm(th_model_params(t->model), 1, NULL, error) == TH_OK &&
              th_optim_step(t->optim, error) == TH_OK;
  th_tape_reset(t->tape);
  return good;
}

/* At a look: 99 % of 256 answers come by luck now and then at 98 %; 1024 others must agree. */
static bool has_learnt(trainer *t, long step, th_error *error) {
  uint64_t look = (uint64_t)(step / TH__COMPARE_EVALUATE);
  return evaluate(t, look * (LOOK / PART), LOOK, error) >= LEARNT &&
         evaluate(t, CONFIRM_BATCH + look * (CONFIRM / PART), CONFIRM, error) >= LEARNT;
}

/* ---- all runs ---- */

typedef struct grid {
  th__compare_result *result;
  pthread_mutex_t lock;
  double done, all; /* work: tokens that training goes through */
  bool stopped;
} grid;

static double work_of(const grid *g, const th__compare_cell *cell, long steps) {
  return (double)steps * (double)(cell->distance + g->result->task.pairs + 1);
}

/* False if somebody wants to end. */
static bool advance(grid *g, double work) {
  const th__compare_options *o = &g->result->options;
  pthread_mutex_lock(&g->lock);
  g->done += work;
  if (!g->stopped && o->progress != NULL)
    g->stopped = !o->progress(o->progress_context, g->done / g->all);
  bool go_on = !g->stopped;
  pthread_mutex_unlock(&g->lock);
  return go_on;
}

static void train(grid *g, trainer *t, const th__compare_cell *cell, th__compare_run *run) {
  const th__compare_options *o = t->options;
  th_error *error = &run->error;
  if (th__compare_gradients(cell->model, t->model, &t->task, cell->width, t->seed, &run->start,
                            error) != TH_OK)
    return;
  for (long step = 0; step < o->steps && !run->learnt; step++) {
    if (!train_step(t, step, error)) return;
    run->steps = step + 1;
    if (!advance(g, work_of(g, cell, 1))) return;
    if (run->steps % TH__COMPARE_EVALUATE == 0) run->learnt = has_learnt(t, run->steps, error);
    if (error->status != TH_OK) return;
  }
  run->accuracy = evaluate(t, FINAL_BATCH, CONFIRM, error);
  if (error->status == TH_OK)
    th__compare_gradients(cell->model, t->model, &t->task, cell->width, t->seed, &run->end, error);
  run->finished = error->status == TH_OK;
  advance(g, work_of(g, cell, o->steps - run->steps));
}

static void run_some(const void *context, ptrdiff_t begin, ptrdiff_t end) {
  grid *g = *(grid *const *)context;
  const th__compare_options *o = &g->result->options;
  for (ptrdiff_t i = begin; i < end; i++) {
    /* The longest sequences first: what is left to do at the end is short. */
    ptrdiff_t at = g->result->count * o->seeds - 1 - i;
    const th__compare_cell *cell = &g->result->cells[at / o->seeds];
    th__compare_run *run = &g->result->runs[at];
    if (!advance(g, 0)) return;
    trainer t = {.options = o, .task = g->result->task};
    t.task.distance = cell->distance;
    t.seed = o->seed + (uint64_t)(at % o->seeds);
    if (trainer_new(&t, cell, &run->error)) train(g, &t, cell, run);
    trainer_free(&t);
  }
}

/* ---- what the runs say ---- */

static double median_of(const th__compare_cell *cell, long seeds,
                        double (*figure)(const th__compare_run *), double *least, double *most) {
  double values[TH__COMPARE_MOST_SEEDS];
  ptrdiff_t count = 0;
  for (long i = 0; i < seeds; i++)
    if (cell->runs[i].finished) values[count++] = figure(&cell->runs[i]);
  if (count == 0) values[count++] = (double)NAN;
  double median = th__summarise(values, count).median;
  if (least != NULL) *least = values[0], *most = values[count - 1];
  return median;
}

static double accuracy_of(const th__compare_run *run) { return run->accuracy; }
static double steps_of(const th__compare_run *run) { return (double)run->steps; }
static double start_first(const th__compare_run *run) { return run->start.first; }
static double start_last(const th__compare_run *run) { return run->start.last; }
static double end_first(const th__compare_run *run) { return run->end.first; }
static double end_last(const th__compare_run *run) { return run->end.last; }

static void summarise(th__compare_cell *cell, long seeds) {
  for (long i = 0; i < seeds; i++) {
    cell->finished += cell->runs[i].finished;
    cell->learnt += cell->runs[i].finished && cell->runs[i].learnt;
  }
  cell->accuracy = median_of(cell, seeds, accuracy_of, &cell->accuracy_least, &cell->accuracy_most);
  cell->steps = median_of(cell, seeds, steps_of, NULL, NULL);
  cell->start.first = median_of(cell, seeds, start_first, NULL, NULL);
  cell->start.last = median_of(cell, seeds, start_last, NULL, NULL);
  cell->end.first = median_of(cell, seeds, end_first, NULL, NULL);
  cell->end.last = median_of(cell, seeds, end_last, NULL, NULL);
}

/* ---- the comparison ---- */

static th_status check(const th__compare_options *o, th_error *error) {
  const struct {
    const char *name;
    long value, most;
  } sizes[] = {{"steps", o->steps, 1000000},
               {"seeds", o->seeds, TH__COMPARE_MOST_SEEDS},
               {"batch", o->batch, 65536},
               {"width", o->width, TH__COMPARE_MOST_WIDTH},
               {"distances", o->distance_count, TH__COMPARE_MOST_DISTANCES}};
  for (int i = 0; i < 5; i++)
    if (sizes[i].value < 1 || sizes[i].value > sizes[i].most)
      return th__error(error, TH_ERR_VALUE, "%s is %ld; 1 to %ld is expected", sizes[i].name,
                       sizes[i].value, sizes[i].most);
  for (int i = 0; i < o->distance_count; i++)
    if (o->distances[i] < 1 || o->distances[i] > TH__COMPARE_MOST_DISTANCE ||
        (i > 0 && o->distances[i] <= o->distances[i - 1]))
      return th__error(error, TH_ERR_VALUE,
                       "distance %d is %ld; rising ones of 1 to %d are expected", i + 1,
                       o->distances[i], TH__COMPARE_MOST_DISTANCE);
  for (int i = 0; i < TH__COMPARED; i++)
    if (!(o->lr[i] > 0 && isfinite(o->lr[i])))
      return th__error(error, TH_ERR_VALUE,
                       "the learning rate of the %s is %g; a number above 0 is expected",
                       th__compared_names[i], o->lr[i]);
  if (o->width % 2 != 0)
    return th__error(error, TH_ERR_VALUE, "the width is %ld; rotary positions need an even one",
                     o->width);
  return TH_OK;
}

/* About what the largest runs, side by side, hold: attention's weights and the values of a layer. */
static th_status check_memory(const th__compare_options *o, th_error *error) {
  double length = (double)o->distances[o->distance_count - 1] + 3;
  double rows = (double)(o->batch > PART ? o->batch : PART);
  long runs = o->seeds * TH__COMPARED * o->distance_count, beside = th_threads();
  double each = 6 * rows * length * (length + 40 * (double)o->width);
  double needed = each * (double)(runs < beside ? runs : beside), there = th__machine_memory();
  if (needed <= there) return TH_OK;
  return th__error(error, TH_ERR_MEMORY,
                   "about %.1f GiB are needed, %.1f GiB can be had; give shorter distances, "
                   "a smaller batch or fewer threads",
                   needed / 0x1p30, there / 0x1p30);
}

static th__compare_options complete(const th__compare_options *given) {
  static const long distances[] = {8, 32, 128, 512};
  static const double rates[TH__COMPARED] = {3e-3, 3e-3, 3e-3};
  th__compare_options o = *given;
  if (o.distances == NULL) o.distances = distances, o.distance_count = 4;
  if (o.steps == 0) o.steps = 500;
  if (o.seeds == 0) o.seeds = 3;
  if (o.batch == 0) o.batch = 16;
  if (o.width == 0) o.width = 32;
  for (int i = 0; i < TH__COMPARED; i++)
    if (o.lr[i] == 0) o.lr[i] = rates[i];
  return o;
}

static th__compare_result *new_result(const th__compare_options *o, th_error *error) {
  int cells = o->distance_count * TH__COMPARED;
  size_t cell_bytes = (size_t)cells * sizeof(th__compare_cell);
  size_t run_bytes = (size_t)(cells * o->seeds) * sizeof(th__compare_run);
  th__compare_result *r = th__alloc_zero(sizeof *r);
  th__compare_cell *all = th__alloc_zero(cell_bytes);
  th__compare_run *runs = th__alloc_zero(run_bytes);
  if (r == NULL || all == NULL || runs == NULL) {
    th__error_memory(error, "compare", sizeof *r + cell_bytes + run_bytes);
    th__free(r), th__free(all), th__free(runs);
    return NULL;
  }
  *r = (th__compare_result){.options = *o, .threads = th_threads(), .count = cells};
  r->task = th__compare_task(o->distances[0]);
  r->cells = all;
  r->runs = runs;
  memcpy(r->distances, o->distances, (size_t)o->distance_count * sizeof *o->distances);
  r->options.distances = r->distances;
  for (int i = 0; i < cells; i++) {
    th__compare_cell *cell = &all[i];
    th__distance task = th__compare_task(o->distances[i / TH__COMPARED]);
    cell->distance = task.distance;
    cell->model = (th__compared)(i % TH__COMPARED);
    cell->width = th__compare_width(cell->model, &task, o->width);
    cell->runs = runs + i * o->seeds;
    cell->step_ms = (double)NAN;
  }
  return r;
}

static th_status count_parameters(th__compare_result *r, th_error *error) {
  for (int i = 0; i < r->count; i++) {
    th__compare_cell *cell = &r->cells[i];
    th__distance task = th__compare_task(cell->distance);
    th_model *model = th__compare_model(cell->model, &task, cell->width, TH_F32, 1, error);
    if (model == NULL) return error->status;
    cell->parameters = th_params_elements(th_model_params(model));
    th_model_free(model);
  }
  return TH_OK;
}

/* The times are taken when nothing else runs. */
static th_status time_steps(th__compare_result *r, grid *g, th_error *error) {
  for (int i = 0; i < r->count && advance(g, 0); i++) {
    th__compare_cell *cell = &r->cells[i];
    th__distance task = th__compare_task(cell->distance);
    th_status status =
        th__compare_time(cell->model, &task, cell->width, r->options.batch, &cell->step_ms, error);
    if (status != TH_OK) return status;
  }
  return TH_OK;
}

static th_status run_all(th__compare_result *r, th_error *error) {
  grid g = {.result = r};
  long seeds = r->options.seeds;
  for (int i = 0; i < r->count; i++)
    g.all += (double)seeds * work_of(&g, &r->cells[i], r->options.steps);
  pthread_mutex_init(&g.lock, NULL);
  grid *shared = &g;
  th_status status = time_steps(r, &g, error);
  if (status == TH_OK) th__parallel(r->count * seeds, 1, run_some, &shared);
  for (ptrdiff_t i = 0; i < r->count * seeds && status == TH_OK; i++)
    if (r->runs[i].error.status != TH_OK) {
      *error = r->runs[i].error;
      status = error->status;
    }
  r->complete = !g.stopped;
  pthread_mutex_destroy(&g.lock);
  return status;
}

th__compare_result *th__comparison(const th__compare_options *options, th_error *error) {
  th_error unwanted;
  if (error == NULL) error = &unwanted;
  const th__compare_options o = complete(options);
  if (check(&o, error) != TH_OK || check_memory(&o, error) != TH_OK) return NULL;
  th__compare_result *r = new_result(&o, error);
  if (r == NULL) return NULL;
  if (count_parameters(r, error) != TH_OK || run_all(r, error) != TH_OK) {
    th__compare_free(r);
    return NULL;
  }
  for (int i = 0; i < r->count; i++) summarise(&r->cells[i], o.seeds);
  return r;
}

void th__compare_free(th__compare_result *result) {
  if (result == NULL) return;
  th__free(result->cells);
  th__free(result->runs);
  th__free(result);
}
