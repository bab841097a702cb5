/* jitter.c: a backward pass in which every value's gradient is changed by a relative rounding error
 * before it is used, as if it had been computed in lower precision.
 *
 * Each recorded node gets an op of its own for this pass: it changes the upstream gradient, then calls
 * the real backward. */
#include "autograd/gradcheck/gradcheck.h"

typedef struct jitter_op {
  th_op op; /* what the node sees; first, so that node->op leads back here */
  const th_op *real;
  th_random stream;
  double size;
} jitter_op;

static th_status jitter_backward(th_node *node) {
  const jitter_op *mine = (const jitter_op *)node->op;
  th_tensor *upstream = node->output->grad;
  ptrdiff_t index[TH_MAX_DIMS] = {0}, offset = 0;
  for (ptrdiff_t k = 0; k < upstream->count; k++) {
    double r = 2 * th_random_uniform(mine->stream, (uint64_t)k) - 1;
    th__set(upstream, offset, th__get(upstream, offset) * (1 + mine->size * r));
    offset = th__next_offset(upstream, index, offset);
  }
  node->op = mine->real; /* which may look for more behind its th_op, too */
  return mine->real->backward(node);
}

th_status th__jitter_nodes(th_tape *tape, uint64_t seed, uint64_t draw, double size) {
  uint64_t number = 0;
  for (th_node *node = tape->last; node != NULL; node = node->previous, number++) {
    jitter_op *op = th_tape_alloc(tape, sizeof *op);
    if (op == NULL) return TH_ERR_MEMORY;
    *op = (jitter_op){.op = {.name = node->op->name, .backward = jitter_backward},
                      .real = node->op,
                      .stream = th__draw(seed, TH__DRAW_ROUNDING, draw << 32 | number),
                      .size = size};
    node->op = &op->op;
  }
  return TH_OK;
}
