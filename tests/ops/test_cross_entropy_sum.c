/* cross_entropy_sum, th_counted_targets: goldens, n times the mean, the sum taken in double, ignored and
 * invalid targets, rejection. What it shares with the mean is tested there. */
#include "gradients.h"
#include "support.h"

#include "golden/cross_entropy_sum.inc"

typedef struct golden {
  const char *name;
  int ndim;
  const ptrdiff_t *shape;
  const double *logits;
  const int32_t *targets;
  double dy, y;
  const double *dlogits;
  bool exact; /* loss and gradient right relative to their own size */
} golden;

#define NDIM(shape) ((int)(sizeof(shape) / sizeof *(shape)))
#define G(name, part) golden_cross_entropy_sum_##name##_##part
#define CASE(name, exact)                                                                          \
  {                                                                                                \
#name, NDIM(G(name, logits_shape)), G(name, logits_shape), G(name, logits), G(name, targets),  \
        G(name, dy)[0], G(name, y)[0], G(name, dlogits), exact                                     \
  }

/* An array: the golden constants are no constant expressions. */
#define GOLDENS                                                                                    \
  {                                                                                                \
    CASE(plain, false), CASE(ignored, false), CASE(all_ignored, true), CASE(huge, true),           \
        CASE(saturated, true)                                                                      \
  }

TEST_BOTH(cross_entropy_sum, golden) {
  const golden goldens[] = GOLDENS;
  th_tape *tape = th_tape_new();
  for (size_t i = 0; i < sizeof goldens / sizeof *goldens; i++) {
    const golden *g = &goldens[i];
    th_tensor *logits = make(tape, dtype, g->ndim, g->shape, g->logits);
    th_tensor *targets = th_input(tape, TH_I32, g->ndim - 1, g->shape, g->targets);
    th_tensor *y = th_cross_entropy_sum(tape, logits, targets);
    expect_values(g->name, y, &g->y, tolerances[dtype].value);
    backward_from(tape, y, &g->dy);
    expect_values(g->name, th_tensor_grad(logits), g->dlogits, tolerances[dtype].gradient);
    if (g->exact) {
      expect_relative(g->name, y, &g->y, dtype == TH_F32 ? 1e-6 : 1e-14);
      expect_relative(g->name, th_tensor_grad(logits), g->dlogits, dtype == TH_F32 ? 1e-6 : 1e-14);
    }
    th_tape_reset(tape);
  }
  th_tape_free(tape);
}

Test(cross_entropy_sum, gradients) { check_gradients("cross_entropy_sum"); }

/* Of the same rows, the sum is the mean times how many count; and so are the gradients. */
TEST_BOTH(cross_entropy_sum, is_the_mean_times_the_count) {
  enum { rows = 50, n = 33 };
  double loss[2], gradient[2][rows * n];
  int32_t labels[rows];
  for (int i = 0; i < rows; i++) labels[i] = i % 3 == 1 ? TH_IGNORE : i * 7 % n;
  for (int sum = 0; sum < 2; sum++) {
    th_tape *tape = th_tape_new();
    th_tensor *x = th_input_grad(tape, dtype, TH_SHAPE(rows, n), NULL);
    th_init_normal(x, 0, 3, (th_random){9, 0, 0});
    th_tensor *t = th_input(tape, TH_I32, TH_SHAPE(rows), labels);
    cr_assert_eq(th_counted_targets(t), 33);
    th_tensor *y = sum ? th_cross_entropy_sum(tape, x, t) : th_cross_entropy(tape, x, t);
    backward_from(tape, y, (double[]){sum ? 1.0 / 33 : 1});
    loss[sum] = th_tensor_item(y);
    th_tensor_read(th_tensor_grad(x), gradient[sum]);
    th_tape_free(tape);
  }
  cr_assert(fabs(loss[1] / 33 - loss[0]) <= tolerances[dtype].value * loss[0], "%g", loss[1]);
  for (int i = 0; i < rows * n; i++)
    cr_assert(fabs(gradient[0][i] - gradient[1][i]) <= tolerances[dtype].gradient, "%d", i);
}

/* 2^24 + many small losses: added up in f32 they would vanish one by one. */
Test(cross_entropy_sum, is_taken_in_double) {
  enum { rows = 4097 };
  static float x[rows][2];
  static int32_t labels[rows];
  x[0][1] = 0x1p24f; /* loss 2^24, then log 2 each */
  th_tape *tape = th_tape_new();
  th_tensor *logits = th_input(tape, TH_F32, TH_SHAPE(rows, 2), x);
  th_tensor *y = th_cross_entropy_sum(tape, logits, th_input(tape, TH_I32, TH_SHAPE(rows), labels));
  cr_assert(fabs(th_tensor_item(y) - (0x1p24 + 4096 * log(2))) <= 1, "%.17g", th_tensor_item(y));
  th_tape_free(tape);
}

TEST_BOTH(cross_entropy_sum, two_uses_and_the_upstream_count) {
  th_tape *tape = th_tape_new();
  th_tensor *x = make(tape, dtype, TH_SHAPE(2, 2), (double[]){0, 0, 0, 0});
  th_tensor *t = th_input(tape, TH_I32, TH_SHAPE(2), (int32_t[]){0, 1});
  th_tensor *y = th_add(tape, th_cross_entropy_sum(tape, x, t), th_cross_entropy_sum(tape, x, t));
  backward_from(tape, y, (double[]){-3});
  expect_values("dx", th_tensor_grad(x), (double[]){3, -3, -3, 3}, 0);
  th_tape_free(tape);
}

/* Rows that do not count change nothing, whatever they hold; a NaN that counts is seen. */
TEST_BOTH(cross_entropy_sum, nan_counts_where_its_row_does) {
  const double values[] = {NAN, 1, 0, 0, INFINITY, -INFINITY};
  th_tape *tape = th_tape_new();
  th_tensor *x = make(tape, dtype, TH_SHAPE(3, 2), values);
  th_tensor *t = th_input(tape, TH_I32, TH_SHAPE(3), (int32_t[]){TH_IGNORE, 1, TH_IGNORE});
  th_tensor *y = th_cross_entropy_sum(tape, x, t);
  expect_values("y", y, (double[]){log(2)}, 1e-7);
  cr_assert_eq(th_backward(tape, y), TH_OK);
  expect_values("dx", th_tensor_grad(x), (double[]){0, 0, 0.5, -0.5, 0, 0}, 1e-7);
  t = th_input(tape, TH_I32, TH_SHAPE(3), (int32_t[]){1, 1, TH_IGNORE});
  cr_assert(isnan(
      th_tensor_item(th_cross_entropy_sum(tape, make(tape, dtype, TH_SHAPE(3, 2), values), t))));
  th_tape_free(tape);
}

/* Strided logits and targets; no rows at all. */
TEST_BOTH(cross_entropy_sum, forms_of_input) {
  const golden goldens[] = GOLDENS;
  const golden *g = &goldens[0]; /* [4, 5] */
  double columns[20];
  int32_t spread[8];
  for (int i = 0; i < 20; i++) columns[i % 5 * 4 + i / 5] = g->logits[i];
  for (int i = 0; i < 4; i++) spread[2 * i] = g->targets[i], spread[2 * i + 1] = 77;
  th_tape *tape = th_tape_new();
  th_tensor *stored = make(tape, dtype, TH_SHAPE(5, 4), columns);
  th_tensor *targets = th_slice(tape, th_input(tape, TH_I32, TH_SHAPE(4, 2), spread), 1, 0, 1);
  th_tensor *y = th_cross_entropy_sum(tape, th_transpose(tape, stored, 0, 1),
                                      th_reshape(tape, targets, TH_SHAPE(4)));
  expect_values("y", y, &g->y, tolerances[dtype].value);
  backward_from(tape, y, &g->dy);
  for (int i = 0; i < 20; i++) columns[i % 5 * 4 + i / 5] = g->dlogits[i];
  expect_values("dlogits", th_tensor_grad(stored), columns, tolerances[dtype].gradient);

  th_tensor *none = th_input_grad(tape, dtype, TH_SHAPE(0, 3), NULL);
  y = th_cross_entropy_sum(tape, none, th_input(tape, TH_I32, TH_SHAPE(0), NULL));
  expect_values("y", y, (double[]){0}, 0);
  th_tape_free(tape);
}

/* Views of targets count what they show. */
Test(counted_targets, counts_all_but_ignored_ones) {
  const int32_t labels[] = {0, TH_IGNORE, 5, TH_IGNORE, TH_IGNORE, -7};
  th_tape *tape = th_tape_new();
  th_tensor *t = th_input(tape, TH_I32, TH_SHAPE(2, 3), labels);
  cr_assert_eq(th_counted_targets(t), 3);
  cr_assert_eq(th_counted_targets(th_transpose(tape, t, 0, 1)), 3);
  cr_assert_eq(th_counted_targets(th_slice(tape, t, 1, 0, 1)), 1);
  cr_assert_eq(th_counted_targets(th_slice(tape, t, 1, 1, 2)), 0);
  cr_assert_eq(th_counted_targets(th_slice(tape, t, 1, 2, 3)), 2);
  cr_assert_eq(th_counted_targets(th_input(tape, TH_I32, TH_SHAPE(0), NULL)), 0);
  cr_assert_eq(th_counted_targets(th_input(tape, TH_I32, TH_SCALAR, labels)), 1);
  cr_assert_eq(th_counted_targets(th_input(tape, TH_F32, TH_SHAPE(2), NULL)), -1);
  cr_assert_eq(th_counted_targets(NULL), -1);
  th_tape_free(tape);
}

/* Its own name stands in the messages. */
Test(cross_entropy_sum, rejects) {
  th_tape *tape = th_tape_new();
  th_tensor *x = th_input_grad(tape, TH_F32, TH_SHAPE(2, 3), NULL);
  th_tensor *t = th_input(tape, TH_I32, TH_SHAPE(2), (int32_t[]){0, 3});
  cr_assert_null(th_cross_entropy_sum(tape, x, t));
  expect_error(tape, TH_ERR_INDEX, "cross_entropy_sum: target 3 at index 1; 0 to 2");
  cr_assert_eq(th_tape_node_count(tape), 0);
  cr_assert_null(th_cross_entropy_sum(tape, x, th_input(tape, TH_I32, TH_SHAPE(3), NULL)));
  expect_error(tape, TH_ERR_SHAPE, "cross_entropy_sum: the targets are [3] but the logits [2, 3]");
  cr_assert_null(th_cross_entropy_sum(tape, x, th_input(tape, TH_F32, TH_SHAPE(2), NULL)));
  expect_error(tape, TH_ERR_DTYPE, "cross_entropy_sum: the targets are f32");
  cr_assert_null(th_cross_entropy_sum(tape, th_input(tape, TH_F32, TH_SCALAR, NULL), t));
  expect_error(tape, TH_ERR_SHAPE, "scalar");
  cr_assert_null(th_cross_entropy_sum(tape, t, t));
  expect_error(tape, TH_ERR_DTYPE, "i32");
  cr_assert_null(th_cross_entropy_sum(tape, NULL, t));
  expect_error(tape, TH_ERR_VALUE, "input 0 is NULL");
  cr_assert_null(th_cross_entropy_sum(tape, x, NULL));
  expect_error(tape, TH_ERR_VALUE, "input 1 is NULL");
  th_tape_free(tape);
}
