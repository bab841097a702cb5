/* recall: key value key value ..., then some of the keys again; each is answered with its value. Keys
 * are the first half of the symbols, values the second; the keys of a sequence are all different.
 * A quarter of the tokens are questions, one more where that is needed to leave an even number. */
#include "data/task.h"

static ptrdiff_t questions(ptrdiff_t seq) {
  ptrdiff_t quarter = seq / 4 > 0 ? seq / 4 : 1;
  return quarter + (seq - quarter) % 2;
}
static ptrdiff_t pairs(ptrdiff_t seq) { return (seq - questions(seq)) / 2; }

/* Of an odd number of symbols one more is a key. */
static ptrdiff_t values(ptrdiff_t vocab) { return vocab / 2; }
static ptrdiff_t keys(ptrdiff_t vocab) { return vocab - values(vocab); }

static ptrdiff_t default_vocab(ptrdiff_t seq) { return 2 * (pairs(seq) > 8 ? pairs(seq) : 8); }
/* As many keys as pairs, and two values. */
static ptrdiff_t least_vocab(ptrdiff_t seq) {
  ptrdiff_t least = 2 * pairs(seq) - 1;
  return least > 4 ? least : 4;
}

static void fill(const th_task *task, th__draw *draw, int32_t *tokens, int32_t *targets) {
  ptrdiff_t p = pairs(task->seq);
  th__draw_distinct(task, draw, keys(task->vocab), p, tokens);
  for (ptrdiff_t i = p - 1; i >= 0; i--) {
    tokens[2 * i] = tokens[i];
    tokens[2 * i + 1] = (int32_t)keys(task->vocab) + th__draw_below(draw, values(task->vocab));
  }
  ptrdiff_t asked = questions(task->seq);
  int32_t *question = tokens + 2 * p;
  th__draw_distinct(task, draw, p, asked, question);
  for (ptrdiff_t i = 0; i < asked; i++) {
    targets[2 * p + i] = tokens[2 * question[i] + 1];
    question[i] = tokens[2 * question[i]];
  }
}

const th__task_kind th__task_recall = {
    "recall", 5, "two pairs of key and value, and a key", 0, default_vocab, least_vocab, fill};
