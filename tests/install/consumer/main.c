/* A program of somebody else's: the gradient of a saturated softmax, from the installed header. */
#include <math.h>
#include <stdio.h>
#include <tapehead.h>

int main(void) {
  const double logits[] = {20, 0}, upstream[] = {1, 0};
  th_tape *tape = th_tape_new();
  th_tensor *x = th_input_grad(tape, TH_F64, TH_SHAPE(2), logits);
  th_tensor *y = th_softmax(tape, x);
  th_backward_from(tape, y, th_input(tape, TH_F64, TH_SHAPE(2), upstream));
  if (th_tape_status(tape) != TH_OK) {
    fprintf(stderr, "%s\n", th_tape_message(tape));
    return 1;
  }
  double got[2], p = 1 / (1 + exp(-20.0)), want = p * exp(-20.0) * p;
  th_tensor_read(th_tensor_grad(x), got);
  printf("tapehead %s: dL/dx = %.17g, %.17g\n", th_version(), got[0], got[1]);
  th_tape_free(tape);
  return fabs(got[0] - want) <= 1e-13 * want && fabs(got[1] + want) <= 1e-13 * want ? 0 : 1;
}
