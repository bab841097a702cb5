#include "autograd/record/cases.h"

th_tensor *th__run_unary(th_tape *tape, th_tensor *const *in, const void *context) {
  th__unary *const *op = context;
  return (*op)(tape, in[0]);
}

th_tensor *th__run_unary_transposed(th_tape *tape, th_tensor *const *in, const void *context) {
  th__unary *const *op = context;
  return (*op)(tape, th_transpose(tape, in[0], 0, 1));
}

th_tensor *th__run_binary(th_tape *tape, th_tensor *const *in, const void *context) {
  th__binary *const *op = context;
  return (*op)(tape, in[0], in[1]);
}

th_tensor *th__run_first_transposed(th_tape *tape, th_tensor *const *in, const void *context) {
  th__binary *const *op = context;
  return (*op)(tape, th_transpose(tape, in[0], 0, 1), in[1]);
}

th_tensor *th__run_second_transposed(th_tape *tape, th_tensor *const *in, const void *context) {
  th__binary *const *op = context;
  return (*op)(tape, in[0], th_transpose(tape, in[1], 0, 1));
}

th_tensor *th__run_twice(th_tape *tape, th_tensor *const *in, const void *context) {
  th__binary *const *op = context;
  return (*op)(tape, in[0], in[0]);
}
