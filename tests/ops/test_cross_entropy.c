/* cross_entropy: goldens, large logits (C06), saturation (C04), invalid targets (C07), ignored ones,
 * properties, threads, rejection. */
#include "cross_entropy.h"

#include "golden/cross_entropy.inc"

#define G(name, part) golden_cross_entropy_##name##_##part
#define GOLDENS                                                                                    \
  {                                                                                                \
    CASE(plain, false), CASE(ignored, false), CASE(all_ignored, true), CASE(two_rows, false),      \
        CASE(huge_equal, true), CASE(huge, true), CASE(right10, true), CASE(wrong10, true),        \
        CASE(right20, true), CASE(wrong20, true), CASE(right40, true), CASE(wrong40, true),        \
        CASE(right64, true), CASE(wrong64, true)                                                   \
  }

TEST_BOTH(cross_entropy, golden) {
  const golden goldens[] = GOLDENS;
  for (size_t i = 0; i < sizeof goldens / sizeof *goldens; i++)
    expect_golden(dtype, th_cross_entropy, &goldens[i]);
}

Test(cross_entropy, gradients) { check_gradients("cross_entropy"); }

/* The loss of log_softmax and a pick, written out, in shapes that reach every vector remainder. */
TEST_BOTH(cross_entropy, equals_the_plain_loop) {
  th_tape *tape = th_tape_new();
  for (ptrdiff_t n = 1; n <= 70; n++) {
    th_tensor *x = th_input_grad(tape, dtype, TH_SHAPE(5, n), NULL);
    th_init_normal(x, 0, 3, (th_random){(uint64_t)n, 0, 0});
    int32_t targets[5];
    for (int i = 0; i < 5; i++) targets[i] = i == 3 ? TH_IGNORE : (int32_t)((i * 31 + n / 2) % n);
    th_tensor *y = th_cross_entropy(tape, x, th_input(tape, TH_I32, TH_SHAPE(5), targets));
    cr_assert_eq(th_backward(tape, y), TH_OK, "%s", th_tape_message(tape));
    double loss = 0, limit = dtype == TH_F32 ? 2e-6 : 1e-14;
    for (ptrdiff_t i = 0; i < 5; i++) {
      double sum = 0;
      for (ptrdiff_t j = 0; j < n; j++) sum += exp(th__get(x, i * n + j));
      if (i != 3) loss += (log(sum) - th__get(x, i * n + targets[i])) / 4;
      for (ptrdiff_t j = 0; j < n; j++) {
        double want = i == 3 ? 0 : (exp(th__get(x, i * n + j)) / sum - (j == targets[i])) / 4;
        cr_assert(fabs(th__get(x->grad, i * n + j) - want) <= limit,
                  "n %td, row %td, %td: %g not %g", n, i, j, th__get(x->grad, i * n + j), want);
      }
    }
    cr_assert(fabs(th_tensor_item(y) - loss) <= limit * (1 + loss), "n %td: %g not %g", n,
              th_tensor_item(y), loss);
    th_tape_reset(tape);
  }
  th_tape_free(tape);
}

/* C07: an invalid target is named before anything is written, and so is nothing of the tape's. */
TEST_BOTH(cross_entropy, invalid_targets) {
  const struct {
    int32_t targets[2];
    const char *says;
  } bad[] = {{{0, 1000}, "target 1000 at index 1; 0 to 2"},
             {{0, -4}, "target -4 at index 1"},
             {{3, 0}, "target 3 at index 0; 0 to 2"},
             {{INT32_MIN, 0}, "target -2147483648 at index 0"},
             {{2, INT32_MAX}, "target 2147483647 at index 1"}};
  const double x[] = {2.5, 0, 0, 0, 0, 2.5};
  th_tape *tape = th_tape_new();
  for (int i = 0; i < 5; i++) {
    th_tensor *logits = make(tape, dtype, TH_SHAPE(2, 3), x);
    cr_assert_null(
        th_cross_entropy(tape, logits, th_input(tape, TH_I32, TH_SHAPE(2), bad[i].targets)));
    expect_error(tape, TH_ERR_INDEX, bad[i].says);
    cr_assert_eq(th_tape_node_count(tape), 0);
    cr_assert_null(th_tensor_grad(logits));
    expect_values("logits", logits, x, 0);
  }
  th_tensor *logits = make(tape, dtype, TH_SHAPE(2, 3), x);
  th_tensor *y =
      th_cross_entropy(tape, logits, th_input(tape, TH_I32, TH_SHAPE(2), (int32_t[]){0, 2}));
  expect_values("y", y, (double[]){0.1520083844}, 1e-7);
  th_tape_free(tape);
}

/* The caller may change his targets after the call. */
TEST_BOTH(cross_entropy, targets_are_copied) {
  th_tape *tape = th_tape_new();
  th_tensor *targets = th_tensor_from(TH_I32, TH_SHAPE(1), (int32_t[]){0}, NULL);
  th_tensor *x = make(tape, dtype, TH_SHAPE(1, 2), (double[]){0, 0});
  th_tensor *y = th_cross_entropy(tape, x, targets);
  ((int32_t *)th_tensor_data(targets))[0] = 99;
  cr_assert_eq(th_backward(tape, y), TH_OK);
  expect_values("dx", th_tensor_grad(x), (double[]){-0.5, 0.5}, 0);
  th_tensor_free(targets);
  th_tape_free(tape);
}

/* Rows that do not count change nothing, whatever they hold. */
TEST_BOTH(cross_entropy, ignored_rows_may_hold_anything) {
  th_tape *tape = th_tape_new();
  const int32_t targets[] = {TH_IGNORE, 1, TH_IGNORE};
  th_tensor *x = make(tape, dtype, TH_SHAPE(3, 2), (double[]){NAN, 1, 0, 0, INFINITY, -INFINITY});
  th_tensor *y = th_cross_entropy(tape, x, th_input(tape, TH_I32, TH_SHAPE(3), targets));
  expect_values("y", y, (double[]){0.69314718055994531}, 1e-7);
  cr_assert_eq(th_backward(tape, y), TH_OK);
  expect_values("dx", th_tensor_grad(x), (double[]){0, 0, 0.5, -0.5, 0, 0}, 1e-7);
  th_tape_free(tape);
}

TEST_BOTH(cross_entropy, two_uses_and_the_upstream_count) {
  th_tape *tape = th_tape_new();
  th_tensor *x = make(tape, dtype, TH_SHAPE(1, 2), (double[]){0, 0});
  th_tensor *t = th_input(tape, TH_I32, TH_SHAPE(1), (int32_t[]){0});
  th_tensor *y = th_add(tape, th_cross_entropy(tape, x, t), th_cross_entropy(tape, x, t));
  backward_from(tape, y, (double[]){-3});
  expect_values("dx", th_tensor_grad(x), (double[]){3, -3}, 0);
  th_tape_free(tape);
}

/* A vocabulary of GPT-2's size: rows of the gradient sum to 0, the target gives minus the others. */
Test(cross_entropy, large_vocabulary) {
  enum { rows = 3, n = 50257 };
  th_tape *tape = th_tape_new();
  th_tensor *x = th_input_grad(tape, TH_F32, TH_SHAPE(rows, n), NULL);
  th_init_normal(x, 0, 1, (th_random){3, 0, 0});
  const int32_t targets[rows] = {0, 50256, 12345};
  cr_assert_eq(
      th_backward(tape, th_cross_entropy(tape, x, th_input(tape, TH_I32, TH_SHAPE(rows), targets))),
      TH_OK);
  for (ptrdiff_t i = 0; i < rows; i++) {
    double others = 0, target = th__get(x->grad, i * n + targets[i]);
    for (ptrdiff_t j = 0; j < n; j++)
      if (j != targets[i]) others += th__get(x->grad, i * n + j);
    cr_assert(fabs(others + target) <= 1e-6 * others, "row %td: %g and %g", i, others, target);
  }
  th_tape_free(tape);
}

TEST_BOTH(cross_entropy, same_bits_at_any_number_of_threads) {
  double loss[2], gradient[2][64 * 200];
  for (int t = 0; t < 2; t++) {
    th_set_threads(t + 1);
    th_tape *tape = th_tape_new();
    th_tensor *x = th_input_grad(tape, dtype, TH_SHAPE(64, 200), NULL);
    th_init_normal(x, 0, 5, (th_random){3, 0, 0});
    int32_t targets[64];
    for (int i = 0; i < 64; i++) targets[i] = (i * 37) % 200;
    th_tensor *y = th_cross_entropy(tape, x, th_input(tape, TH_I32, TH_SHAPE(64), targets));
    cr_assert_eq(th_backward(tape, y), TH_OK);
    loss[t] = th_tensor_item(y);
    th_tensor_read(x->grad, gradient[t]);
    th_tape_free(tape);
  }
  th_set_threads(0);
  cr_assert_eq(loss[0], loss[1]);
  cr_assert_arr_eq(gradient[0], gradient[1], sizeof gradient[0]);
}

/* C27: gradients too small for a normal number are 0. */
Test(cross_entropy, no_subnormal_gradients) {
  th_tape *tape = th_tape_new();
  for (double gap = 70; gap < 110; gap += 0.25) {
    th_tensor *x = make(tape, TH_F32, TH_SHAPE(1, 2), (double[]){gap, 0});
    th_tensor *y = th_cross_entropy(tape, x, th_input(tape, TH_I32, TH_SHAPE(1), (int32_t[]){0}));
    backward_from(tape, y, (double[]){0.001});
    for (int i = 0; i < 2; i++) {
      double g = th__get(x->grad, i);
      cr_assert(g == 0 || isnormal((float)g), "gap %g: %g", gap, g);
    }
    th_tape_reset(tape);
  }
  th_tape_free(tape);
}

TEST_BOTH(cross_entropy, infinities_and_nan) {
  const double x[][2] = {{-INFINITY, 0}, {0, -INFINITY}, {-INFINITY, -INFINITY},
                         {NAN, 0},       {0, NAN},       {INFINITY, 0}};
  const double want[] = {INFINITY, 0, NAN, NAN, NAN, NAN};
  th_tape *tape = th_tape_new();
  for (int i = 0; i < 6; i++) {
    th_tensor *logits = make(tape, dtype, TH_SHAPE(1, 2), x[i]);
    th_tensor *y =
        th_cross_entropy(tape, logits, th_input(tape, TH_I32, TH_SHAPE(1), (int32_t[]){0}));
    double loss = th_tensor_item(y);
    cr_assert(isnan(want[i]) ? isnan(loss) : loss == want[i], "case %d: %g", i, loss);
    cr_assert_eq(th_backward(tape, y), TH_OK);
    if (i == 0) expect_values("dx", th_tensor_grad(logits), (double[]){-1, 1}, 0);
    if (i == 1) expect_values("dx", th_tensor_grad(logits), (double[]){0, 0}, 0);
    th_tape_reset(tape);
  }
  th_tape_free(tape);
}

TEST_BOTH(cross_entropy, forms_of_input) {
  const golden goldens[] = GOLDENS;
  expect_forms(dtype, th_cross_entropy, &goldens[0]);
}

TEST_BOTH(cross_entropy, one_row_without_leading_axes) {
  th_tape *tape = th_tape_new();
  th_tensor *row = make(tape, dtype, TH_SHAPE(2), (double[]){0, 0});
  th_tensor *one = th_input(tape, TH_I32, TH_SCALAR, (int32_t[]){1});
  expect_values("row", th_cross_entropy(tape, row, one), (double[]){0.69314718055994531}, 1e-7);
  th_tape_free(tape);
}

Test(cross_entropy, rejects) { expect_rejects(th_cross_entropy, "cross_entropy"); }
