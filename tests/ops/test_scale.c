/* scale: goldens, accumulation, properties, views, rejection. */
#include "unary.h"

#include "golden/scale.inc"

#define CASE(name)                                                                                 \
  static th_tensor *name(th_tape *tape, th_tensor *x) {                                            \
    return th_scale(tape, x, golden_scale_##name##_factor);                                        \
  }                                                                                                \
  TEST_BOTH(scale, golden_##name) {                                                                \
    expect_golden(dtype, name, 3, golden_scale_##name##_x_shape, golden_scale_##name##_x,          \
                  golden_scale_##name##_dy, golden_scale_##name##_y, golden_scale_##name##_dx);    \
  }
CASE(positive)
CASE(negative)
CASE(zero)

TEST_BOTH(scale, gradients_accumulate) { expect_accumulates(dtype, negative); }
TEST_BOTH(scale, views) { expect_views(dtype, negative); }
TEST_BOTH(scale, no_elements_and_scalars) { expect_small(dtype, negative); }
Test(scale, threads_do_not_matter) { expect_same_bits(negative); }

/* Powers of two lose nothing: there and back again. */
TEST_BOTH(scale, undoes_itself) {
  const double values[] = {1.1, -2.7, 1e-20, 3e20};
  th_tape *tape = th_tape_new();
  th_tensor *x = make(tape, dtype, TH_SHAPE(4), values);
  th_tensor *y = th_scale(tape, th_scale(tape, x, 0.25), 4);
  cr_assert(memcmp(th_tensor_data(y), th_tensor_data(x), 4 * th_dtype_size(dtype)) == 0);
  th_tape_free(tape);
}

TEST_BOTH(scale, nan_comes_through) {
  th_tape *tape = th_tape_new();
  double y[3];
  th_tensor_read(zero(tape, make(tape, dtype, TH_SHAPE(3), (double[]){NAN, INFINITY, 1})), y);
  cr_assert(isnan(y[0]) && isnan(y[1]) && y[2] == 0);
  th_tape_free(tape);
}

Test(scale, rejects) {
  expect_rejects(negative, "scale: ");
  th_tape *tape = th_tape_new();
  th_tensor *x = th_input(tape, TH_F32, TH_SHAPE(3), NULL);
  cr_assert_null(th_scale(tape, x, NAN));
  expect_error(tape, TH_ERR_VALUE, "finite");
  cr_assert_null(th_scale(tape, x, INFINITY));
  expect_error(tape, TH_ERR_VALUE, "inf");
  th_tape_free(tape);
}
