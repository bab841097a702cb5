/* split_heads: a view in which the heads are an axis.
 * Shapes    x (B, T, H D)   y (B, H, T, D)
 * Forward   y_bhtd = x_bt(hD + d): head h holds columns hD .. hD + D - 1
 * Backward  dL/dx_bt(hD + d) = dL/dy_bhtd, in place: no node (reshape.c)
 * Checks    merge_heads undoes it.   tests/ops/test_split_heads.c */
#include "autograd/tape.h"

static th_tensor *run(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  return th_split_heads(tape, in[0], 3);
}

/* clang-format off */
static const th_check checks[] = {
    {"", run, .input_count = 1, .inputs = {{"x", TH_FILL_NORMAL, 0, 3, {2, 4, 6}}}},
    {0}};
/* clang-format on */

const th_op th__op_split_heads = {"split_heads", NULL, checks};

th_tensor *th_split_heads(th_tape *tape, th_tensor *x, ptrdiff_t heads) {
  if (!TH__READY(tape, "split_heads", x)) return NULL;
  TH__REQUIRE(tape, x->ndim == 3, TH_ERR_SHAPE, "split_heads", "x is %s; [B, T, C] is expected",
              TH__TEXT(x));
  TH__REQUIRE(
      tape, heads >= 1 && x->shape[2] % heads == 0, TH_ERR_SHAPE, "split_heads",
      "the width %td does not divide into %td heads; choose a number of heads that divides it",
      x->shape[2], heads);
  ptrdiff_t width = x->shape[2] / heads;
  const ptrdiff_t *s = x->strides;
  return th__view(tape, x, 4, (ptrdiff_t[]){x->shape[0], heads, x->shape[1], width},
                  (ptrdiff_t[]){s[0], width * s[2], s[1], s[2]}, 0);
}
