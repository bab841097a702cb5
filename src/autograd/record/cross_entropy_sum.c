/* cross_entropy_sum: cross_entropy without its divisor (cross_entropy.c), derived in
 * src/ops/cross_entropy.c.
 * Forward   y = sum over the rows i that count of -log softmax(x_i)[t_i], in double in their order
 * Backward  dL/dx_ij = g (p_ij - [j = t_i]) with g = dL/dy and p_i = softmax(x_i); 0 in other rows
 * Checks    divided by th_counted_targets it is the mean.   tests/ops/test_cross_entropy_sum.c */
#include "autograd/record/cross_entropy.h"

static th__loss *const op = th_cross_entropy_sum;

/* clang-format off */
static const th_check checks[] = {
    {"", th__run_loss, &op, .input_count = 2, .inputs = {
        {"logits", TH_FILL_NORMAL, 0, 2, {4, 5}}, {"targets", TH_FILL_IDS, 5, 1, {4}}}},
    {"ignored", th__run_loss, &op, .input_count = 2, .inputs = {
        {"logits", TH_FILL_NORMAL, 0, 3, {2, 4, 5}}, {"targets", TH_FILL_LABELS, 5, 2, {2, 4}}}},
    {"saturated", th__run_loss, &op, .input_count = 2, .inputs = {
        {"logits", TH_FILL_NORMAL, 8, 2, {4, 6}}, {"targets", TH_FILL_IDS, 6, 1, {4}}}},
    {"large", th__run_loss, &op, .large = true, .input_count = 2, .inputs = {
        {"logits", TH_FILL_NORMAL, 0, 3, {4, 32, 65}}, {"targets", TH_FILL_LABELS, 65, 2, {4, 32}}}},
    {0}};
/* clang-format on */

const th_op th__op_cross_entropy_sum = {"cross_entropy_sum", th__cross_entropy_backward, checks};

th_tensor *th_cross_entropy_sum(th_tape *tape, th_tensor *logits, const th_tensor *targets) {
  return th__cross_entropy(tape, &th__op_cross_entropy_sum, logits, targets, false);
}

ptrdiff_t th_counted_targets(const th_tensor *targets) {
  if (targets == NULL || targets->dtype != TH_I32) return -1;
  const int32_t *values = targets->data;
  ptrdiff_t counted = 0, index[TH_MAX_DIMS] = {0}, offset = 0;
  for (ptrdiff_t i = 0; i < targets->count; i++) {
    counted += values[offset] != TH_IGNORE;
    offset = th__next_offset(targets, index, offset);
  }
  return counted;
}
