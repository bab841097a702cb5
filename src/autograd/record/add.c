/* Recording add: NumPy broadcasting; saves nothing. */
#include "autograd/record/broadcast.h"
#include "autograd/record/cases.h"

static th_status backward(th_node *node) {
  th_status status = th__operand_backward(node, 0, 1.0, NULL);
  return status != TH_OK ? status : th__operand_backward(node, 1, 1.0, NULL);
}

static th__binary *const op = th_add;
#define X(name, ...)                                                                               \
  { name, TH_FILL_NORMAL, 0, __VA_ARGS__ }
static const th_check checks[] = {
    {"", th__run_binary, &op, .input_count = 2, .inputs = {X("a", 2, {3, 4}), X("b", 2, {3, 4})}},
    {"row", th__run_binary, &op, .input_count = 2, .inputs = {X("a", 3, {2, 3, 4}), X("b", 1, {4})}},
    {"column and row", th__run_binary, &op, .input_count = 2,
     .inputs = {X("a", 2, {4, 1}), X("b", 2, {1, 5})}},
    {"both stretch", th__run_binary, &op, .input_count = 2,
     .inputs = {X("a", 4, {2, 1, 4, 1}), X("b", 3, {3, 1, 2})}},
    {"scalar", th__run_binary, &op, .input_count = 2, .inputs = {X("a", 0, {0}), X("b", 2, {3, 4})}},
    {"transposed", th__run_first_transposed, &op, .input_count = 2,
     .inputs = {X("a", 2, {3, 4}), X("b", 2, {4, 3})}},
    {"same operand", th__run_twice, &op, .input_count = 1, .inputs = {X("x", 2, {3, 4})}},
    {"large", th__run_binary, &op, .large = true, .input_count = 2,
     .inputs = {X("a", 3, {4, 64, 96}), X("b", 2, {64, 96})}},
    {0}};
#undef X

const th_op th__op_add = {"add", backward, checks};

th_tensor *th_add(th_tape *tape, th_tensor *a, th_tensor *b) {
  return th__pair(tape, &th__op_add, (th__pair_kernel){th__f32->add_fwd, th__f64->add_fwd}, a, b);
}
