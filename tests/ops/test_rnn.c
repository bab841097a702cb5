/* rnn: goldens, the same layer from other ops, threads, a sequence in parts, NaN, empty sizes, rejection. */
#include "recurrent.h"

#include "golden/rnn.inc"

#define G(name, part) golden_rnn_##name##_##part

#define STATE_OF(name) G(name, h0), G(name, dh0)
#define NO_STATE NULL, NULL
#define NO_CELLS NULL, NULL, NULL, NULL
static const golden goldens[] = {CASE(plain, NO_BIAS, NO_STATE, NO_CELLS),
                                 CASE(bias, BIAS_OF(bias), NO_STATE, NO_CELLS),
                                 CASE(state, BIAS_OF(state), STATE_OF(state), NO_CELLS),
                                 CASE(one_step, BIAS_OF(one_step), STATE_OF(one_step), NO_CELLS),
                                 CASE(saturated, BIAS_OF(saturated), NO_STATE, NO_CELLS),
                                 CASE(wide, BIAS_OF(wide), STATE_OF(wide), NO_CELLS),
                                 CASE(long, BIAS_OF(long), NO_STATE, NO_CELLS)};

TEST_BOTH(rnn, golden) {
  for (size_t i = 0; i < sizeof goldens / sizeof *goldens; i++)
    expect_golden(dtype, &goldens[i], 1);
}

Test(rnn, gradients) { check_gradients("rnn"); }

TEST_BOTH(rnn, equals_the_plain_layer) {
  expect_equals_plain(dtype, (layer_sizes){1, 1, 1, 1}, 1);
  expect_equals_plain(dtype, (layer_sizes){5, 4, 3, 7}, 1);
  expect_equals_plain(dtype, (layer_sizes){13, 9, 20, 33}, 1);
  expect_equals_plain(dtype, (layer_sizes){6, 3, 2, 300}, 1);
}

TEST_BOTH(rnn, same_bits_at_any_number_of_threads) {
  expect_same_bits(dtype, (layer_sizes){20, 30, 16, 48}, 1);
}

TEST_BOTH(rnn, empty) { expect_empty(dtype, 1); }
TEST_BOTH(rnn, continues) { expect_continues(dtype, 1); }

/* A sequence with a NaN does not touch the others, and what comes before it in time stays. */
Test(rnn, nan_stays_in_its_sequence) {
  th_tape *tape = th_tape_new();
  layer l = random_layer(tape, TH_F32, (layer_sizes){8, 3, 2, 4}, 1);
  ((float *)th_tensor_data(l.in[X]))[(3 * 3 + 1) * 2] = NAN; /* sequence 3, step 1 */
  const float *h = th_tensor_data(fused(tape, &l));
  for (int i = 0; i < 8 * 3 * 4; i++)
    cr_assert_eq(isnan(h[i]), i / 12 == 3 && i % 12 >= 4, "element %d", i);
  th_tape_free(tape);
}

/* Nothing but the input's gradient is wanted: the others are not computed. */
TEST_BOTH(rnn, constants_get_no_gradient) {
  for (int wanted = 0; wanted < C0; wanted++) {
    th_tape *tape = th_tape_new();
    layer all = random_layer(tape, dtype, (layer_sizes){2, 3, 2, 4}, 1), one = all;
    for (int k = 0; k < C0; k++)
      if (k != wanted) one.in[k] = th_detach(tape, all.in[k]);
    th_tensor *loss = th_sum(tape, fused(tape, &one), TH_ALL_AXES);
    cr_assert_eq(th_backward(tape, loss), TH_OK);
    for (int k = 0; k < C0; k++)
      cr_assert_eq(largest_of(th_tensor_grad(all.in[k])) > 0, k == wanted, "input %d", k);
    th_tape_free(tape);
  }
}

Test(rnn, rejects) {
  th_tape *tape = th_tape_new();
  layer l = random_layer(tape, TH_F32, (layer_sizes){2, 3, 4, 5}, 1);
  th_tensor *x = l.in[X], *h0 = l.in[H0];
  th_recurrent_weights good = weights_of(&l), bad = good;
  cr_assert_null(th_rnn(tape, h0, NULL, &good));
  expect_error(tape, TH_ERR_SHAPE, "rnn: x is [2, 5]; [B, T, in] is expected");
  bad.w_x = l.in[W_H];
  cr_assert_null(th_rnn(tape, x, NULL, &bad));
  expect_error(tape, TH_ERR_SHAPE, "w_x is [5, 5]; x is [2, 3, 4] and w_h [5, 5], so [5, 4]");
  bad = good;
  bad.w_h = l.in[W_X];
  cr_assert_null(th_rnn(tape, x, NULL, &bad));
  expect_error(tape, TH_ERR_SHAPE, "w_h is [5, 4]; [H, H] is expected");
  bad = good;
  bad.bias = th_input(tape, TH_F32, TH_SHAPE(4), NULL);
  cr_assert_null(th_rnn(tape, x, NULL, &bad));
  expect_error(tape, TH_ERR_SHAPE, "the bias is [4]");
  cr_assert_null(th_rnn(tape, x, th_input(tape, TH_F32, TH_SHAPE(3, 5), NULL), &good));
  expect_error(tape, TH_ERR_SHAPE, "h0 is [3, 5]");
  cr_assert_null(th_rnn(tape, x, th_input(tape, TH_F64, TH_SHAPE(2, 5), NULL), &good));
  expect_error(tape, TH_ERR_DTYPE, "f64");
  bad = good;
  bad.w_h = NULL;
  cr_assert_null(th_rnn(tape, x, NULL, &bad));
  expect_error(tape, TH_ERR_VALUE, "NULL");
  cr_assert_null(th_rnn(tape, x, NULL, NULL));
  expect_error(tape, TH_ERR_VALUE, "rnn: weights is NULL");
  cr_assert_null(th_rnn(tape, NULL, NULL, &good));
  expect_error(tape, TH_ERR_VALUE, "NULL");
  th_tape_free(tape);
}
