/* large values: what is finite and large gives the right number, not 0 and not infinity. */
#include "../support.h"

/* Rows whose squares are no float (no double): y = +-1 as for any other size, and dx shrinks with it. */
static void norm_of(th_dtype dtype, double size) {
  th_tape *tape = th_tape_new();
  double rows[] = {size, -size, size, -size, 3 * size, size, -size, -3 * size};
  th_tensor *x = make(tape, dtype, TH_SHAPE(2, 4), rows);
  th_tensor *y = th_layer_norm(tape, x, NULL, NULL, 1e-5);
  double r = sqrt(5);
  expect_values("y", y, (double[]){1, -1, 1, -1, 3 / r, 1 / r, -1 / r, -3 / r},
                tolerances[dtype].value);
  backward_from(tape, y, (double[]){1, 2, 3, 5, 0, 0, 0, 0});
  double want[] = {-1 / size, -1.5 / size, 1 / size, 1.5 / size, 0, 0, 0, 0};
  expect_relative("dx", th_tensor_grad(x), want, dtype == TH_F32 ? 1e-5 : 1e-12);
  th_tape_free(tape);
}

TEST_BOTH(large_values, layer_norm) {
  norm_of(dtype, 1e4);
  norm_of(dtype, 1e18);
  norm_of(dtype, 1e20);
  norm_of(dtype, 1e30);
  if (dtype == TH_F64) norm_of(dtype, 1e200);
}

Test(large_values, layer_norm_of_infinity_is_not_a_number) {
  th_tape *tape = th_tape_new();
  th_tensor *x = make(tape, TH_F32, TH_SHAPE(4), (double[]){1, (double)INFINITY, 2, 3});
  cr_assert(isnan(th__get(th_layer_norm(tape, x, NULL, NULL, 1e-5), 0)));
  th_tape_free(tape);
}

/* C06 further out: equal logits give log 2 however large. */
TEST_BOTH(large_values, cross_entropy) {
  const double sizes[] = {1e8, -1e8, 1e30, -3e38};
  const int32_t target = 1;
  th_tape *tape = th_tape_new();
  for (int i = 0; i < 4; i++) {
    th_tensor *x = make(tape, dtype, TH_SHAPE(1, 2), (double[]){sizes[i], sizes[i]});
    th_tensor *loss = th_cross_entropy(tape, x, th_input(tape, TH_I32, TH_SHAPE(1), &target));
    expect_values("loss", loss, (double[]){log(2)}, tolerances[dtype].value);
    cr_assert_eq(th_backward(tape, loss), TH_OK);
    expect_values("dx", th_tensor_grad(x), (double[]){0.5, -0.5}, tolerances[dtype].gradient);
    th_tape_reset(tape);
  }
  th_tape_free(tape);
}
