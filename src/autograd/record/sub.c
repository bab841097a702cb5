/* Recording sub: NumPy broadcasting; saves nothing. */
#include "autograd/record/broadcast.h"

static void forward(th_dtype dtype, ptrdiff_t n, const void *a, ptrdiff_t sa, const void *b,
                    ptrdiff_t sb, void *y) {
  TH__CALL(dtype, sub_fwd, n, a, sa, b, sb, y);
}

static th_status backward(th_node *node) {
  th_status status = th__operand_backward(node, 0, 1.0, NULL);
  return status != TH_OK ? status : th__operand_backward(node, 1, -1.0, NULL);
}

static th_tensor *run(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  return th_sub(tape, in[0], in[1]);
}

static th_tensor *run_transposed(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  return th_sub(tape, in[0], th_transpose(tape, in[1], 0, 1));
}

#define X(name, ...)                                                                               \
  { name, TH_FILL_NORMAL, 0, __VA_ARGS__ }
static const th_check checks[] = {
    {"", run, .input_count = 2, .inputs = {X("a", 2, {3, 4}), X("b", 2, {3, 4})}},
    {"row", run, .input_count = 2, .inputs = {X("a", 1, {4}), X("b", 3, {2, 3, 4})}},
    {"column and row", run, .input_count = 2, .inputs = {X("a", 2, {1, 5}), X("b", 2, {4, 1})}},
    {"both stretch", run, .input_count = 2,
     .inputs = {X("a", 4, {2, 1, 4, 1}), X("b", 3, {3, 1, 2})}},
    {"scalar", run, .input_count = 2, .inputs = {X("a", 2, {3, 4}), X("b", 1, {1})}},
    {"transposed", run_transposed, .input_count = 2,
     .inputs = {X("a", 2, {3, 4}), X("b", 2, {4, 3})}},
    {"large", run, .large = true, .input_count = 2,
     .inputs = {X("a", 3, {4, 64, 96}), X("b", 3, {4, 64, 1})}},
    {0}};
#undef X

const th_op th__op_sub = {"sub", backward, checks};

th_tensor *th_sub(th_tape *tape, th_tensor *a, th_tensor *b) {
  return th__pair(tape, &th__op_sub, forward, a, b);
}
