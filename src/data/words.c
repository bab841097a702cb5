/* copy, reverse, sort: a word of n = seq / 2 random letters, a separator, then the word again as it
 * is, backwards, or with its letters sorted. The token that comes next is the target, from the
 * separator on. An even seq ends before the answer's last letter, which still is a target; an odd seq
 * shows it, without a target. */
#include <stdlib.h>

#include "data/task.h"

static ptrdiff_t letters(ptrdiff_t seq) { return (void)seq, 16; }
static ptrdiff_t least_letters(ptrdiff_t seq) { return (void)seq, 2; }

/* The word stands in tokens[0 .. n-1]; the answer follows the separator at n. */
static void draw_word(const th_task *task, th__draw *draw, int32_t *tokens) {
  ptrdiff_t n = task->seq / 2;
  for (ptrdiff_t i = 0; i < n; i++) tokens[i] = th__draw_below(draw, task->vocab);
  tokens[n] = (int32_t)task->vocab;
}

static void put_answer(const th_task *task, ptrdiff_t i, int32_t letter, int32_t *tokens,
                       int32_t *targets) {
  ptrdiff_t n = task->seq / 2;
  targets[n + i] = letter;
  if (n + 1 + i < task->seq) tokens[n + 1 + i] = letter;
}

static void fill_copy(const th_task *task, th__draw *draw, int32_t *tokens, int32_t *targets) {
  draw_word(task, draw, tokens);
  for (ptrdiff_t i = 0; i < task->seq / 2; i++) put_answer(task, i, tokens[i], tokens, targets);
}

static void fill_reverse(const th_task *task, th__draw *draw, int32_t *tokens, int32_t *targets) {
  ptrdiff_t n = task->seq / 2;
  draw_word(task, draw, tokens);
  for (ptrdiff_t i = 0; i < n; i++) put_answer(task, i, tokens[n - 1 - i], tokens, targets);
}

static int by_value(const void *a, const void *b) {
  int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
  return (x > y) - (x < y);
}

static void fill_sort(const th_task *task, th__draw *draw, int32_t *tokens, int32_t *targets) {
  ptrdiff_t n = task->seq / 2;
  draw_word(task, draw, tokens);
  for (ptrdiff_t i = 0; i < n; i++) task->picks[i] = tokens[i];
  qsort(task->picks, (size_t)n, sizeof *task->picks, by_value);
  for (ptrdiff_t i = 0; i < n; i++) put_answer(task, i, task->picks[i], tokens, targets);
}

#define WORD_TASK(kind)                                                                            \
  const th__task_kind th__task_##kind = {                                                          \
      #kind, 2, "a letter and the separator", 1, letters, least_letters, fill_##kind}
WORD_TASK(copy);
WORD_TASK(reverse);
WORD_TASK(sort);
