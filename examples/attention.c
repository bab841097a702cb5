/* attention.c: attention from its parts, as it stands in a paper, and as one op. Values and gradients
 * are the same. */
#include <math.h>
#include <stdio.h>

#include "tapehead.h"

enum { B = 2, H = 3, T = 5, D = 8, COUNT = B * H * T * D };

/* out: the result, then the gradients of q, k and v. */
static void run(th_tape *tape, bool one_op, double out[4][COUNT]) {
  th_random stream = {.seed = 1};
  double values[4][COUNT];
  for (int i = 0; i < 4 * COUNT; i++)
    values[i / COUNT][i % COUNT] = th_random_normal(stream, (uint64_t)i);
  th_tensor *q = th_input_grad(tape, TH_F64, TH_SHAPE(B, H, T, D), values[0]);
  th_tensor *k = th_input_grad(tape, TH_F64, TH_SHAPE(B, H, T, D), values[1]);
  th_tensor *v = th_input_grad(tape, TH_F64, TH_SHAPE(B, H, T, D), values[2]);
  th_tensor *upstream = th_input(tape, TH_F64, TH_SHAPE(B, H, T, D), values[3]);

  th_tensor *o;
  if (one_op) {
    o = th_attention(tape, q, k, v, &(th_attention_options){.scale = TH_SCALE_SQRT});
  } else {
    th_tensor *s = th_scale(tape, th_matmul(tape, q, k, TH_TRANSPOSE_B), 1 / sqrt(D));
    o = th_matmul(tape, th_softmax(tape, s), v, 0);
  }
  th_backward_from(tape, o, upstream);

  if (th_tape_status(tape) != TH_OK) return;
  th_tensor_read(o, out[0]);
  th_tensor_read(th_tensor_grad(q), out[1]);
  th_tensor_read(th_tensor_grad(k), out[2]);
  th_tensor_read(th_tensor_grad(v), out[3]);
}

int main(void) {
  static double parts[4][COUNT], whole[4][COUNT];
  static const char *const names[] = {"output", "dL/dq", "dL/dk", "dL/dv"};
  th_tape *tape = th_tape_new();
  run(tape, false, parts);
  size_t nodes = th_tape_node_count(tape);
  th_tape_reset(tape);
  run(tape, true, whole);
  printf("nodes on the tape: %zu from its parts, %zu as one op\n", nodes, th_tape_node_count(tape));
  int status = th_tape_status(tape) == TH_OK ? 0 : 1; /* one check for all of it */
  if (status != 0) fprintf(stderr, "%s\n", th_tape_message(tape));
  th_tape_free(tape);

  for (int i = 0; i < 4 && status == 0; i++) {
    double worst = 0, largest = 0;
    for (int j = 0; j < COUNT; j++) {
      worst = fmax(worst, fabs(parts[i][j] - whole[i][j]));
      largest = fmax(largest, fabs(parts[i][j]));
    }
    bool equal = largest > 0 && worst <= 1e-13 * largest;
    printf("%-6s largest difference %.1e of %.2f: %s\n", names[i], worst, largest,
           equal ? "equal" : "DIFFERENT");
    if (!equal) status = 1;
  }
  return status;
}
