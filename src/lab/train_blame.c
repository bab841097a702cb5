/* train_blame.c: which tensor it was, when a run is lost. */
#include <math.h>
#include <stdio.h>

#include "autograd/tape.h"
#include "lab/train.h"

static bool is_finite(const th_tensor *x) {
  if (!th__is_float(x) || !th_tensor_is_contiguous(x)) return true; /* outputs are contiguous */
  for (ptrdiff_t i = 0; i < x->count; i++)
    if (!isfinite(th__get(x, i))) return false;
  return true;
}

/* The last parameter that was used up to this node: it tells one layer's norm from the next one's. */
static const char *last_parameter(const th_node *node) {
  for (; node != NULL; node = node->previous)
    for (int i = 0; i < node->input_count; i++) {
      const th_tensor *input = node->inputs[i];
      if (input != NULL && input->tape == NULL && input->name[0] != '\0') return input->name;
    }
  return "no parameter";
}

bool th__train_blame(const th_tape *tape, const th_params *params, char *text, size_t room) {
  for (ptrdiff_t i = 0; i < th_params_count(params); i++) {
    const th_tensor *w = th_params_at(params, i);
    if (is_finite(w)) continue;
    snprintf(text, room, "%s", w->name);
    return true;
  }
  const th_node *first = NULL; /* nodes are linked from the last one back */
  for (const th_node *node = tape->last; node != NULL; node = node->previous)
    if (!is_finite(node->output)) first = node;
  if (first == NULL) return false;
  snprintf(text, room, "the output of %s after %s", first->op->name, last_parameter(first));
  return true;
}

const th_tensor *th__train_largest(const th_params *params, double *size) {
  const th_tensor *owner = th_params_at(params, 0);
  *size = 0;
  for (ptrdiff_t i = 0; i < th_params_count(params); i++) {
    const th_tensor *w = th_params_at(params, i);
    for (ptrdiff_t j = 0; j < w->count; j++)
      if (fabs(th__get(w, j)) > *size) {
        *size = fabs(th__get(w, j));
        owner = w;
      }
  }
  return owner;
}
