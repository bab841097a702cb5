/* lstm: goldens, the same layer from other ops, the cells as a second output, threads, a sequence in
 * parts, saturated gates, empty sizes, rejection. */
#include "recurrent.h"

#include "golden/lstm.inc"

#define G(name, part) golden_lstm_##name##_##part

#define STATES_OF(name) G(name, h0), G(name, dh0), G(name, c0), G(name, dc0)
#define NO_STATES NULL, NULL, NULL, NULL
#define H_C(name) G(name, h), G(name, c)
static const golden goldens[] = {
    CASE(plain, NO_BIAS, NO_STATES, H_C(plain)),
    CASE(bias, BIAS_OF(bias), NO_STATES, H_C(bias)),
    CASE(state, BIAS_OF(state), STATES_OF(state), H_C(state)),
    CASE(one_step, BIAS_OF(one_step), STATES_OF(one_step), H_C(one_step)),
    CASE(saturated, BIAS_OF(saturated), NO_STATES, H_C(saturated)),
    CASE(wide, BIAS_OF(wide), STATES_OF(wide), H_C(wide)),
    CASE(long, BIAS_OF(long), NO_STATES, H_C(long))};

TEST_BOTH(lstm, golden) {
  for (size_t i = 0; i < sizeof goldens / sizeof *goldens; i++)
    expect_golden(dtype, &goldens[i], 4);
}

Test(lstm, gradients) { check_gradients("lstm"); }

TEST_BOTH(lstm, equals_the_plain_layer) {
  expect_equals_plain(dtype, (layer_sizes){1, 1, 1, 1}, 4);
  expect_equals_plain(dtype, (layer_sizes){5, 4, 3, 7}, 4);
  expect_equals_plain(dtype, (layer_sizes){13, 9, 20, 33}, 4);
  expect_equals_plain(dtype, (layer_sizes){6, 3, 2, 100}, 4);
}

TEST_BOTH(lstm, same_bits_at_any_number_of_threads) {
  expect_same_bits(dtype, (layer_sizes){20, 30, 16, 24}, 4);
}

TEST_BOTH(lstm, empty) { expect_empty(dtype, 4); }
TEST_BOTH(lstm, continues) { expect_continues(dtype, 4); }

/* Asking for the cells changes neither h nor its gradients. */
TEST_BOTH(lstm, cells_are_a_second_output) {
  th_tape *tapes[2] = {th_tape_new(), th_tape_new()};
  layer l[2];
  th_tensor *h[2], *cells;
  for (int i = 0; i < 2; i++) {
    l[i] = random_layer(tapes[i], dtype, (layer_sizes){3, 4, 2, 5}, 4);
    th_recurrent_weights w = weights_of(&l[i]);
    h[i] = th_lstm(tapes[i], l[i].in[X], l[i].in[H0], l[i].in[C0], &w, i == 0 ? NULL : &cells);
    cr_assert_eq(th_tape_node_count(tapes[i]), 1);
    th_tensor *v = th_input(tapes[i], dtype, TH_SHAPE(3, 4, 5), NULL);
    th_init_normal(v, 0, 1, (th_random){7, 0, 0});
    cr_assert_eq(th_backward_from(tapes[i], h[i], v), TH_OK, "%s", th_tape_message(tapes[i]));
  }
  cr_assert(th__same_shape(h[0], h[1]) && th__same_shape(h[0], cells));
  size_t bytes = th_dtype_size(dtype);
  cr_assert_eq(memcmp(h[0]->data, h[1]->data, (size_t)h[0]->count * bytes), 0);
  for (int k = 0; k < INPUTS; k++) {
    const th_tensor *one = th_tensor_grad(l[0].in[k]), *two = th_tensor_grad(l[1].in[k]);
    cr_assert_gt(largest_of(one), 0);
    cr_assert_eq(memcmp(one->data, two->data, (size_t)one->count * bytes), 0, "input %d", k);
  }
  th_tape_free(tapes[0]);
  th_tape_free(tapes[1]);
}

/* A forget gate of 1 and an input gate of 0 keep a cell for ever, and its gradient with it. */
Test(lstm, a_kept_cell_keeps_its_gradient) {
  th_tape *tape = th_tape_new();
  const ptrdiff_t steps = 500;
  const double bias[] = {-80, 80, 0, 0}, zeros[4] = {0}, first[] = {0.5};
  th_tensor *x = th_input(tape, TH_F32, TH_SHAPE(1, steps, 1), NULL), *cells;
  th_tensor *c0 = make(tape, TH_F32, TH_SHAPE(1, 1), first);
  th_tensor *w = make(tape, TH_F32, TH_SHAPE(4, 1), zeros);
  th_tensor *b = make(tape, TH_F32, TH_SHAPE(4), bias);
  th_lstm(tape, x, NULL, c0, &(th_recurrent_weights){w, w, b}, &cells);
  th_tensor *last = th_slice(tape, cells, 1, steps - 1, steps);
  expect_values("last cell", last, first, 1e-6);
  cr_assert_eq(th_backward(tape, th_sum(tape, last, TH_ALL_AXES)), TH_OK);
  expect_values("dc0", th_tensor_grad(c0), (double[]){1}, 1e-6);
  th_tape_free(tape);
}

Test(lstm, rejects) {
  th_tape *tape = th_tape_new();
  layer l = random_layer(tape, TH_F32, (layer_sizes){2, 3, 4, 5}, 4);
  layer other = random_layer(tape, TH_F32, (layer_sizes){2, 3, 4, 5}, 1);
  th_tensor *x = l.in[X], *cells = x;
  th_recurrent_weights good = weights_of(&l), bad = good;
  bad.w_h = other.in[W_H];
  cr_assert_null(th_lstm(tape, x, NULL, NULL, NULL, NULL));
  expect_error(tape, TH_ERR_VALUE, "lstm: weights is NULL");
  cr_assert_null(th_lstm(tape, x, NULL, NULL, &bad, &cells));
  cr_assert_null(cells);
  expect_error(tape, TH_ERR_SHAPE, "lstm: w_h is [5, 5]; [4*H, H] is expected");
  bad = good;
  bad.w_x = other.in[W_X];
  cr_assert_null(th_lstm(tape, x, NULL, NULL, &bad, NULL));
  expect_error(tape, TH_ERR_SHAPE, "w_x is [5, 4]; x is [2, 3, 4] and w_h [20, 5], so [20, 4]");
  bad = good;
  bad.bias = other.in[BIAS];
  cr_assert_null(th_lstm(tape, x, NULL, NULL, &bad, NULL));
  expect_error(tape, TH_ERR_SHAPE, "the bias is [5]");
  cr_assert_null(th_lstm(tape, x, NULL, th_input(tape, TH_F32, TH_SHAPE(2, 4), NULL), &good, NULL));
  expect_error(tape, TH_ERR_SHAPE, "c0 is [2, 4]");
  cr_assert_null(th_lstm(tape, x, l.in[W_X], NULL, &good, NULL));
  expect_error(tape, TH_ERR_SHAPE, "h0 is [20, 4]");
  cr_assert_null(th_lstm(tape, x, NULL, th_input(tape, TH_I32, TH_SHAPE(2, 5), NULL), &good, NULL));
  expect_error(tape, TH_ERR_DTYPE, "i32");
  th_tape_free(tape);
}
