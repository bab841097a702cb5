/* merge_heads: the heads side by side again. Of split heads it is a view; of contiguous heads a copy,
 * recorded as contiguous.
 * Shapes    x (B, H, T, D)   y (B, T, H D)
 * Forward   y_bt(hD + d) = x_bhtd
 * Backward  dL/dx_bhtd = dL/dy_bt(hD + d)
 * Checks    it undoes split_heads.   tests/ops/test_merge_heads.c */
#include "autograd/tape.h"

static th_tensor *run(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  return th_merge_heads(tape, in[0]);
}

static th_tensor *run_split(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  return th_merge_heads(tape, th_split_heads(tape, in[0], 3));
}

/* clang-format off */
static const th_check checks[] = {
    {"", run, .input_count = 1, .inputs = {{"x", TH_FILL_NORMAL, 0, 4, {2, 3, 4, 2}}}},
    {"of split heads", run_split, .input_count = 1, .inputs = {{"x", TH_FILL_NORMAL, 0, 3, {2, 4, 6}}}},
    {"large", run, .large = true, .input_count = 1, .inputs = {{"x", TH_FILL_NORMAL, 0, 4, {2, 4, 64, 32}}}},
    {0}};
/* clang-format on */

const th_op th__op_merge_heads = {"merge_heads", NULL, checks};

th_tensor *th_merge_heads(th_tape *tape, th_tensor *x) {
  if (!TH__READY(tape, "merge_heads", x)) return NULL;
  TH__REQUIRE(tape, x->ndim == 4, TH_ERR_SHAPE, "merge_heads", "x is %s; [B, H, T, D] is expected",
              TH__TEXT(x));
  ptrdiff_t merged[] = {x->shape[0], x->shape[2], x->shape[1] * x->shape[3]};
  return th_reshape(tape, th_transpose(tape, x, 1, 2), 3, merged);
}
