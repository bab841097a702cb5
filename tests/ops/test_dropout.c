/* dropout: goldens under the stream that draws their mask, the mask's definition, what it does not
 * depend on, statistics, NaN, accumulation, views, rejection. */
#include "unary.h"

#include "golden/dropout.inc"

static const th_random stream = {.seed = 2024, .purpose = 7, .step = 11};
static th_tensor *half(th_tape *tape, th_tensor *x) { return th_dropout(tape, x, 0.5, stream); }

/* What the op does to ones, as 0 and 1, in `count` bytes. */
static void read_mask(th_dtype dtype, double p, th_random from, ptrdiff_t count, uint8_t *keep) {
  th_tape *tape = th_tape_new();
  th_tensor *ones = th_input(tape, dtype, 1, &count, NULL);
  for (ptrdiff_t i = 0; i < count; i++) th__set(ones, i, 1);
  th_tensor *y = th_dropout(tape, ones, p, from);
  cr_assert_not_null(y, "%s", th_tape_message(tape));
  for (ptrdiff_t i = 0; i < count; i++) keep[i] = th__get(y, i) != 0;
  th_tape_free(tape);
}

/* A stream whose mask is the golden one: some thousand seeds away. */
static th_random stream_for(double p, ptrdiff_t count, const uint8_t *want) {
  uint8_t keep[16];
  for (th_random from = {0}; from.seed < 200000; from.seed++) {
    read_mask(TH_F64, p, from, count, keep);
    if (memcmp(keep, want, (size_t)count) == 0) return from;
  }
  cr_assert_fail("no seed draws this mask");
  return stream;
}

static void expect_golden_under_mask(th_dtype dtype, double p, int ndim, const ptrdiff_t *shape,
                                     const double *values, const uint8_t *keep, const double *dy,
                                     const double *y, const double *dx) {
  th_tape *tape = th_tape_new();
  th_tensor *x = make(tape, dtype, ndim, shape, values);
  th_random from = stream_for(p, th_tensor_count(x), keep);
  th_tensor *out = th_dropout(tape, x, p, from);
  expect_values("y", out, y, tolerances[dtype].value);
  backward_from(tape, out, dy);
  expect_values("dx", th_tensor_grad(x), dx, tolerances[dtype].gradient);
  th_tape_free(tape);
}

#define CASE(name)                                                                                 \
  TEST_BOTH(dropout, golden_##name) {                                                              \
    expect_golden_under_mask(                                                                      \
        dtype, golden_dropout_##name##_p, LENGTH(golden_dropout_##name##_x_shape),                 \
        golden_dropout_##name##_x_shape, golden_dropout_##name##_x, golden_dropout_##name##_keep,  \
        golden_dropout_##name##_dy, golden_dropout_##name##_y, golden_dropout_##name##_dx);        \
  }
CASE(half)
CASE(tenth)
CASE(none)
CASE(fixed)

/* The definition, in terms of the public random numbers: 32-bit words of 16 blocks at a time. */
static bool kept(th_random from, double p, ptrdiff_t i) {
  uint64_t block = (uint64_t)(i / 64 * 16 + i % 16), word = (uint64_t)(i / 16 % 4);
  uint64_t bits = th_random_bits(from, 2 * block + word / 2);
  return (uint32_t)(bits >> 32 * (word % 2)) >= (uint32_t)(p * 4294967296.0);
}

TEST_BOTH(dropout, mask_is_what_it_says) {
  enum { count = 20011 };
  static uint8_t keep[count];
  const th_random streams[] = {
      stream, {0}, {UINT64_MAX, UINT32_MAX, UINT64_MAX}, {1, 0, 1ull << 40}};
  for (int s = 0; s < 4; s++) {
    read_mask(dtype, 0.3, streams[s], count, keep);
    for (ptrdiff_t i = 0; i < count; i++)
      cr_assert_eq(keep[i], kept(streams[s], 0.3, i), "stream %d, element %td", s, i);
  }
}

/* Not on the type, nor on how many elements follow, nor on the shape, nor on threads. */
Test(dropout, mask_depends_on_the_index_only) {
  enum { count = 50000 };
  static uint8_t keep[2][count];
  read_mask(TH_F32, 0.5, stream, count, keep[0]);
  read_mask(TH_F64, 0.5, stream, count, keep[1]);
  cr_assert(memcmp(keep[0], keep[1], count) == 0);
  for (ptrdiff_t fewer = 0; fewer < 300; fewer++) {
    read_mask(TH_F32, 0.5, stream, fewer, keep[1]);
    cr_assert(memcmp(keep[0], keep[1], (size_t)fewer) == 0, "%td elements", fewer);
  }
  cr_assert_eq(th_set_threads(3), TH_OK);
  read_mask(TH_F32, 0.5, stream, count, keep[1]);
  th_set_threads(0);
  cr_assert(memcmp(keep[0], keep[1], count) == 0);
  th_tape *tape = th_tape_new();
  th_tensor *ones = th_input(tape, TH_F32, TH_SHAPE(500, 100), NULL);
  for (ptrdiff_t i = 0; i < count; i++) th__set(ones, i, 1);
  th_tensor *y = half(tape, ones);
  for (ptrdiff_t i = 0; i < count; i++) cr_assert_eq(th__get(y, i) != 0, keep[0][i]);
  th_tape_free(tape);
}

/* Seed, purpose and step each make another mask, which agrees with the first by chance only. */
Test(dropout, streams_are_independent) {
  enum { count = 100000 };
  static uint8_t keep[2][count];
  read_mask(TH_F32, 0.5, stream, count, keep[0]);
  const th_random others[] = {{2025, 7, 11},
                              {2024, 8, 11},
                              {2024, 7, 12},
                              {2024 + (1ull << 32), 7, 11},
                              {2024, 7, 11 + (1ull << 32)}};
  for (int s = 0; s < 5; s++) {
    read_mask(TH_F32, 0.5, others[s], count, keep[1]);
    int alike = 0;
    for (int i = 0; i < count; i++) alike += keep[0][i] == keep[1][i];
    /* 5 standard deviations of sqrt(count) / 2 */
    cr_assert(abs(alike - count / 2) < 791, "stream %d: %d of %d alike", s, alike, count);
  }
}

/* The share that is dropped, within 5 standard deviations; neighbours are independent. */
Test(dropout, share_and_neighbours) {
  enum { count = 400000 };
  static uint8_t keep[count];
  const double probabilities[] = {0.001, 0.1, 0.5, 0.9, 0.999};
  for (int k = 0; k < 5; k++) {
    double p = probabilities[k];
    read_mask(TH_F32, p, stream, count, keep);
    const int distances[] = {1, 4, 16, 64};
    int dropped = 0;
    for (int i = 0; i < count; i++) dropped += !keep[i];
    cr_assert(fabs(dropped - p * count) < 5 * sqrt(p * (1 - p) * count), "p = %g: %d", p, dropped);
    for (int d = 0; d < 4; d++) {
      int both = 0, pairs = count - distances[d];
      for (int i = 0; i < pairs; i++) both += !keep[i] && !keep[i + distances[d]];
      cr_assert(fabs(both - p * p * pairs) < 6 * sqrt(p * p * pairs + 4 * p * p * p * pairs),
                "p = %g, distance %d: %d", p, distances[d], both);
    }
  }
}

/* The mean stays what it was. */
TEST_BOTH(dropout, keeps_the_mean) {
  enum { count = 400000 };
  th_tape *tape = th_tape_new();
  th_tensor *x = th_input(tape, dtype, TH_SHAPE(count), NULL);
  for (ptrdiff_t i = 0; i < count; i++) th__set(x, i, 1);
  for (double p = 0.1; p < 1; p += 0.2) {
    double mean = th_tensor_item(th_mean(tape, th_dropout(tape, x, p, stream), TH_ALL_AXES));
    cr_assert(fabs(mean - 1) < 5 * sqrt(p / (1 - p) / count), "p = %g: %g", p, mean);
  }
  th_tape_free(tape);
}

/* p = 0: x itself, and nothing recorded. */
TEST_BOTH(dropout, zero_is_the_identity) {
  th_tape *tape = th_tape_new();
  th_tensor *x = make(tape, dtype, TH_SHAPE(3), (double[]){1, NAN, 3});
  cr_assert_eq(th_dropout(tape, x, 0, stream), x);
  cr_assert_eq(th_tape_node_count(tape), 0);
  th_tape_free(tape);
}

/* What is dropped is 0, forward and backward, even NaN and Inf; what is kept comes through. */
TEST_BOTH(dropout, nan_is_dropped_or_kept) {
  enum { count = 200 };
  uint8_t keep[count];
  double values[count], dy[count];
  for (int i = 0; i < count; i++) values[i] = dy[i] = i % 2 == 0 ? NAN : INFINITY;
  read_mask(dtype, 0.5, stream, count, keep);
  th_tape *tape = th_tape_new();
  th_tensor *x = make(tape, dtype, TH_SHAPE(count), values);
  th_tensor *y = half(tape, x);
  backward_from(tape, y, dy);
  th_tensor_read(y, values);
  th_tensor_read(th_tensor_grad(x), dy);
  for (int i = 0; i < count; i++) {
    cr_assert(keep[i] ? !isfinite(values[i]) : values[i] == 0, "y[%d] = %g", i, values[i]);
    cr_assert(keep[i] ? !isfinite(dy[i]) : dy[i] == 0, "dx[%d] = %g", i, dy[i]);
  }
  th_tape_free(tape);
}

TEST_BOTH(dropout, gradients_accumulate) { expect_accumulates(dtype, half); }
TEST_BOTH(dropout, no_elements_and_scalars) { expect_small(dtype, half); }
Test(dropout, threads_do_not_matter) { expect_same_bits(half); }

/* A strided view is dropped by the places its elements have in it, row by row. */
TEST_BOTH(dropout, transposed_view) {
  double values[12], dy[12], y[12], dx[12];
  for (int i = 0; i < 12; i++) values[i] = i + 1, dy[i] = 12 - i;
  for (int i = 0; i < 12; i++) {
    double factor = kept(stream, 0.5, i) ? 2 : 0; /* position i of the view, row i / 3 of 4 */
    int from = i % 3 * 4 + i / 3;
    y[i] = factor * values[from];
    dx[from] = factor * dy[i];
  }
  th_tape *tape = th_tape_new();
  th_tensor *x = make(tape, dtype, TH_SHAPE(3, 4), values);
  th_tensor *out = half(tape, th_transpose(tape, x, 0, 1));
  expect_values("y", out, y, 0);
  backward_from(tape, out, dy);
  expect_values("dx", th_tensor_grad(x), dx, 0);
  th_tape_free(tape);
}

Test(dropout, rejects) {
  expect_rejects(half, "dropout: ");
  th_tape *tape = th_tape_new();
  th_tensor *x = th_input(tape, TH_F32, TH_SHAPE(3), NULL);
  const double bad[] = {1, -0.1, 1.5, INFINITY, NAN};
  for (int i = 0; i < 5; i++) {
    cr_assert_null(th_dropout(tape, x, bad[i], stream));
    expect_error(tape, TH_ERR_VALUE, "0 <= p < 1");
  }
  cr_assert_not_null(th_dropout(tape, x, 1 - 0x1p-53, stream), "the largest p below 1");
  th_tape_free(tape);
}
