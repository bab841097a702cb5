#include "optim/flat.h"

#include "tensor/tensor.h"

/* Small enough that a toy model of some ten thousand numbers feeds two threads, large enough to pay
 * for handing a piece out. */
#define LEAST 8192

ptrdiff_t th__flat_grain(ptrdiff_t elements) {
  ptrdiff_t grain = elements / TH__FLAT_PIECES + 1;
  return grain > LEAST ? grain : LEAST;
}

/* Enters parameter `index` at element `from` with `left` numbers to go; empty ones are passed over. */
static void enter(th__flat *flat, ptrdiff_t from, ptrdiff_t left) {
  flat->tensor = left > 0 ? th_params_at(flat->params, flat->index) : NULL;
  while (flat->tensor != NULL && from >= flat->tensor->count) {
    from -= flat->tensor->count;
    flat->tensor = th_params_at(flat->params, ++flat->index);
  }
  if (flat->tensor == NULL) return;
  ptrdiff_t rest = flat->tensor->count - from;
  flat->from = from;
  flat->size = rest < left ? rest : left;
  flat->left = left - flat->size;
}

th__flat th__flat_first(const th_params *params, ptrdiff_t begin, ptrdiff_t end) {
  th__flat flat = {.params = params};
  enter(&flat, begin, end - begin);
  return flat;
}

void th__flat_next(th__flat *flat) {
  flat->index++;
  enter(flat, 0, flat->left);
}
