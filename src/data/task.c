/* task.c: making a task, and its batches.
 *
 * A sequence depends on seed, stream (training or held-out), batch number and row only, so any batch
 * can be had at any time. The two streams differ in purpose, and besides share no sequence: a hash of
 * its tokens, the same for every seed, puts one sequence in four into the held-out class, and a stream
 * draws again until a sequence falls into its own class. */
#include "data/task.h"

#include "tensor/alloc.h"
#include "tensor/error.h"
#include "tensor/purpose.h"
#include "tensor/tensor.h"

#define LIMIT ((ptrdiff_t)1 << 30) /* of seq, batch and vocab: tokens are 32 bits wide */

/* Draws per sequence before any will do: (3/4)^256 < 1e-31, so only where a task has so few sequences
 * that one class is empty. */
#define ATTEMPTS 256

static const th__task_kind *const kinds[TH_TASK_COUNT] = {
    [TH_TASK_COPY] = &th__task_copy,           [TH_TASK_REVERSE] = &th__task_reverse,
    [TH_TASK_SORT] = &th__task_sort,           [TH_TASK_RECALL] = &th__task_recall,
    [TH_TASK_INDUCTION] = &th__task_induction,
};

/* ---- drawing ---- */

int32_t th__draw_below(th__draw *draw, ptrdiff_t limit) {
  return (int32_t)th_random_below(draw->stream, draw->next++, (uint64_t)limit);
}

/* Fisher and Yates' shuffle, stopped after `count` and then undone, so that the deck is in order for
 * the next sequence whatever came before. */
void th__draw_distinct(const th_task *task, th__draw *draw, ptrdiff_t limit, ptrdiff_t count,
                       int32_t *out) {
  int32_t *deck = task->deck, *picks = task->picks;
  for (ptrdiff_t i = 0; i < count; i++) {
    picks[i] = (int32_t)i + th__draw_below(draw, limit - i);
    out[i] = deck[picks[i]];
    deck[picks[i]] = deck[i];
    deck[i] = out[i];
  }
  for (ptrdiff_t i = count - 1; i >= 0; i--) {
    deck[i] = deck[picks[i]];
    deck[picks[i]] = out[i];
  }
}

/* ---- making ---- */

static th_status check(const th_task_options *o, const th__task_kind *kind, th_error *error) {
  if (o->seq < kind->least_seq)
    return th__error(error, TH_ERR_VALUE, "%s: seq is %td; at least %td tokens are needed (%s)",
                     kind->name, o->seq, kind->least_seq, kind->least_why);
  if (o->seq > LIMIT || o->batch > LIMIT || o->vocab > LIMIT)
    return th__error(error, TH_ERR_VALUE, "%s: seq %td, batch %td, vocab %td; none may exceed %td",
                     kind->name, o->seq, o->batch, o->vocab, LIMIT);
  if (o->batch < 1)
    return th__error(error, TH_ERR_VALUE, "%s: batch is %td; at least 1 sequence is needed",
                     kind->name, o->batch);
  ptrdiff_t least = kind->least_vocab(o->seq);
  if (o->vocab != 0 && o->vocab < least)
    return th__error(error, TH_ERR_VALUE,
                     "%s: vocab is %td, but seq %td needs at least %td symbols; use a larger vocab, "
                     "or 0 for %td",
                     kind->name, o->vocab, o->seq, least, kind->default_vocab(o->seq));
  return TH_OK;
}

static bool allocate(th_task *task, th_error *error) {
  const ptrdiff_t shape[] = {task->batch, task->seq};
  size_t deck = (size_t)task->vocab * sizeof(int32_t), picks = (size_t)task->seq * sizeof(int32_t);
  if ((task->tokens = th_tensor_new(TH_I32, 2, shape, error)) == NULL) return false;
  if ((task->targets = th_tensor_new(TH_I32, 2, shape, error)) == NULL) return false;
  task->deck = th__alloc(deck);
  task->picks = th__alloc(picks);
  if (task->deck == NULL || task->picks == NULL) {
    th__error_memory(error, task->kind->name, deck + picks);
    return false;
  }
  for (ptrdiff_t i = 0; i < task->vocab; i++) task->deck[i] = (int32_t)i;
  return true;
}

th_task *th_task_new(const th_task_options *options, th_error *error) {
  if (options == NULL || (unsigned)options->kind >= TH_TASK_COUNT) {
    th__error(error, TH_ERR_VALUE, "th_task_new: %s",
              options == NULL ? "the options are NULL; seq and batch are needed"
                              : "there is no such kind of task; see th_task_kind");
    return NULL;
  }
  const th__task_kind *kind = kinds[options->kind];
  if (check(options, kind, error) != TH_OK) return NULL;
  th_task *task = th__alloc(sizeof *task);
  if (task == NULL) {
    th__error_memory(error, kind->name, sizeof *task);
    return NULL;
  }
  *task =
      (th_task){.kind = kind,
                .seq = options->seq,
                .batch = options->batch,
                .vocab = options->vocab != 0 ? options->vocab : kind->default_vocab(options->seq),
                .seed = options->seed};
  if (allocate(task, error)) return task;
  th_task_free(task);
  return NULL;
}

void th_task_free(th_task *task) {
  if (task == NULL) return;
  th_tensor_free(task->tokens);
  th_tensor_free(task->targets);
  th__free(task->deck);
  th__free(task->picks);
  th__free(task);
}

ptrdiff_t th_task_vocab(const th_task *task) { return task->vocab + task->kind->specials; }

/* ---- batches ---- */

/* FNV-1a over the tokens; its upper bits are the well mixed ones. */
static bool is_heldout(const int32_t *tokens, ptrdiff_t seq) {
  uint64_t hash = UINT64_C(14695981039346656037);
  for (ptrdiff_t i = 0; i < seq; i++)
    hash = (hash ^ (uint64_t)(uint32_t)tokens[i]) * UINT64_C(1099511628211);
  hash ^= hash >> 32;
  hash *= UINT64_C(0x9E3779B97F4A7C15);
  return hash >> 62 == 0;
}

static void fill_row(const th_task *task, th_random stream, bool heldout, ptrdiff_t row) {
  int32_t *tokens = (int32_t *)task->tokens->data + row * task->seq;
  int32_t *targets = (int32_t *)task->targets->data + row * task->seq;
  for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
    /* No kind draws more than two numbers per token. */
    uint64_t place = ((uint64_t)row * ATTEMPTS + (uint64_t)attempt) * 2 * (uint64_t)task->seq;
    th__draw draw = {.stream = stream, .next = place};
    for (ptrdiff_t i = 0; i < task->seq; i++) targets[i] = TH_IGNORE;
    task->kind->fill(task, &draw, tokens, targets);
    if (is_heldout(tokens, task->seq) == heldout) return;
  }
}

th_batch th_task_batch(th_task *task, bool heldout, uint64_t number) {
  th_random stream = {.seed = task->seed,
                      .purpose = heldout ? TH__PURPOSE_TASK_HELDOUT : TH__PURPOSE_TASK_TRAINING,
                      .step = number};
  for (ptrdiff_t row = 0; row < task->batch; row++) fill_row(task, stream, heldout, row);
  return (th_batch){task->tokens, task->targets};
}

th_batch th_task_next(th_task *task) { return th_task_batch(task, false, task->next++); }
