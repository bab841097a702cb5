/* induction: random tokens, all different, and then a passage of them again, from anywhere. At each
 * token of the passage the next one is the answer: look where the token stood before, and say what
 * followed it. A quarter of the tokens are the passage. */
#include "data/task.h"

static ptrdiff_t passage(ptrdiff_t seq) { return seq / 4; }

static ptrdiff_t least_vocab(ptrdiff_t seq) { return seq - passage(seq); }
static ptrdiff_t default_vocab(ptrdiff_t seq) {
  return least_vocab(seq) > 32 ? least_vocab(seq) : 32;
}

static void fill(const th_task *task, th__draw *draw, int32_t *tokens, int32_t *targets) {
  ptrdiff_t length = passage(task->seq), start = task->seq - length;
  th__draw_distinct(task, draw, task->vocab, start, tokens);
  ptrdiff_t from =
      th__draw_below(draw, start - length); /* its last answer still stands before start */
  for (ptrdiff_t i = 0; i < length; i++) {
    tokens[start + i] = tokens[from + i];
    targets[start + i] = tokens[from + i + 1];
  }
}

const th__task_kind th__task_induction = {
    "induction", 4,   "three tokens and the first or second of them again", 0, default_vocab,
    least_vocab, fill};
