/* task.h: what the toy tasks share. A kind of task is a value: how many tokens it needs at least, how
 * many symbols, and how one sequence is made from random numbers. */
#ifndef TH_DATA_TASK_H
#define TH_DATA_TASK_H

#include "tapehead.h"

/* The random numbers of one sequence, drawn one after another. */
typedef struct th__draw {
  th_random stream;
  uint64_t next;
} th__draw;

/* 0 .. limit-1 */
int32_t th__draw_below(th__draw *draw, ptrdiff_t limit);

typedef struct th__task_kind {
  const char *name;
  ptrdiff_t least_seq;
  const char *least_why; /* "a letter and the separator" */
  int specials;          /* tokens beside the symbols: the separator */
  /* Symbols if the user gives none; and the fewest that seq allows. */
  ptrdiff_t (*default_vocab)(ptrdiff_t seq);
  ptrdiff_t (*least_vocab)(ptrdiff_t seq);
  /* Writes seq tokens and targets (which come filled with TH_IGNORE). */
  void (*fill)(const th_task *task, th__draw *draw, int32_t *tokens, int32_t *targets);
} th__task_kind;

extern const th__task_kind th__task_copy, th__task_reverse, th__task_sort;
extern const th__task_kind th__task_recall, th__task_induction;

struct th_task {
  const th__task_kind *kind;
  ptrdiff_t seq, batch;
  ptrdiff_t vocab; /* symbols */
  uint64_t seed;
  uint64_t next; /* number of the training batch that th_task_next() gives */
  th_tensor *tokens, *targets;
  /* For drawing without repetition: the numbers 0 .. vocab-1 in order between two uses, and room for
   * seq picks. */
  int32_t *deck, *picks;
};

/* Puts `count` different numbers out of 0 .. limit-1 into `out`, in random order. */
void th__draw_distinct(const th_task *task, th__draw *draw, ptrdiff_t limit, ptrdiff_t count,
                       int32_t *out);

#endif
