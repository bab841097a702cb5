/* attention: goldens, the known cases of masks, scale and layout (C01-C05), saturation, weights, rejection.
 * Masks against a plain loop: tests/autograd/test_attention_mask.c. */
#include "attention.h"

#include "golden/attention.inc"

/* ---- goldens ---- */

/* A golden as a problem: the fields it does not have stay NULL. */
#define SHAPES(name)                                                                               \
  .batch = golden_attention_##name##_q_shape[0], .heads = golden_attention_##name##_q_shape[1],    \
  .n_q = golden_attention_##name##_q_shape[2], .d_k = golden_attention_##name##_q_shape[3],        \
  .key_heads = golden_attention_##name##_v_shape[1], .n_k = golden_attention_##name##_v_shape[2],  \
  .d_v = golden_attention_##name##_v_shape[3], .scale = golden_attention_##name##_scale,           \
  .causal = golden_attention_##name##_causal
#define ARRAY(name, part) .part = (void *)(uintptr_t)golden_attention_##name##_##part
#define GOLDEN(name, ...)                                                                          \
  &(problem) {                                                                                     \
    SHAPES(name), ARRAY(name, q), ARRAY(name, k), ARRAY(name, v), ARRAY(name, dy), ARRAY(name, y), \
        ARRAY(name, weights), ARRAY(name, dq), ARRAY(name, dk), ARRAY(name, dv), __VA_ARGS__       \
  }
#define MASKED(name, dims) .mask_ndim = dims, ARRAY(name, mask)

static void check_golden(th_dtype dtype, const problem *p) {
  th_tape *tape = th_tape_new();
  result r = attend_both_ways(tape, dtype, p);
  expect_problem(&r, p, dtype);
  th_tape_free(tape);
}

TEST_BOTH(attention, golden_scales_and_shapes) {
  check_golden(dtype, GOLDEN(sqrt, ));
  check_golden(dtype, GOLDEN(none, ));
  check_golden(dtype, GOLDEN(dk, ));
  check_golden(dtype, GOLDEN(factor, ));
  check_golden(dtype, GOLDEN(negative, ));
  check_golden(dtype, GOLDEN(wide_values, ));
  check_golden(dtype, GOLDEN(grouped, ));
  check_golden(dtype, GOLDEN(multi_query, ));
}

TEST_BOTH(attention, golden_masks) {
  check_golden(dtype, GOLDEN(causal, ));
  check_golden(dtype, GOLDEN(causal_cached, ));
  check_golden(dtype, GOLDEN(causal_one, ));
  check_golden(dtype, GOLDEN(causal_few_keys, ));
  check_golden(dtype, GOLDEN(key_lengths, ARRAY(key_lengths, key_lengths)));
  check_golden(dtype, GOLDEN(key_mask, ARRAY(key_mask, key_mask)));
  check_golden(dtype, GOLDEN(mask, MASKED(mask, 2)));
  check_golden(dtype, GOLDEN(mask_batch, MASKED(mask_batch, 3)));
  check_golden(dtype, GOLDEN(mask_heads, MASKED(mask_heads, 4)));
  check_golden(dtype, GOLDEN(all_masks, ARRAY(all_masks, key_lengths), ARRAY(all_masks, key_mask),
                             MASKED(all_masks, 4)));
}

/* C01, C02, C03 */
TEST_BOTH(attention, golden_known_cases) {
  check_golden(dtype, GOLDEN(causal_left_padding, ARRAY(causal_left_padding, key_mask)));
  check_golden(dtype, GOLDEN(means_3_3, ));
  check_golden(dtype, GOLDEN(means_2_4, ));
  check_golden(dtype, GOLDEN(means_1_4, ));
  check_golden(dtype, GOLDEN(means_4_2, ));
}

/* The kinds of scale, as the options name them. */
TEST_BOTH(attention, scale_kinds) {
  const struct {
    th_attention_options options;
    const double *y;
  } kinds[] = {{{0}, golden_attention_sqrt_y},
               {{.scale = TH_SCALE_NONE}, golden_attention_none_y},
               {{.scale = TH_SCALE_DK}, golden_attention_dk_y}};
  const problem *inputs[] = {GOLDEN(sqrt, ), GOLDEN(none, ), GOLDEN(dk, )};
  th_tape *tape = th_tape_new();
  for (int i = 0; i < 3; i++) {
    result r = attend(tape, dtype, inputs[i]);
    th_tensor *y = th_attention(tape, r.q, r.k, r.v, i == 0 ? NULL : &kinds[i].options);
    expect_values("y", y, kinds[i].y, tolerances[dtype].value);
    th_tape_reset(tape);
  }
  th_tape_free(tape);
}

/* ---- masks in small ---- */

/* C01: what stands in the padding moves nothing, and query 0, which sees nothing, gives exactly 0. */
TEST_BOTH(attention, causal_with_left_padding) {
  th_tape *tape = th_tape_new();
  double first[4] = {0};
  for (int fill = 0; fill < 2; fill++) {
    double pad = fill == 0 ? 9 : -70, value = fill == 0 ? 100 : 1e30;
    th_tensor *x = make(tape, dtype, TH_SHAPE(1, 1, 3, 2), (double[]){pad, pad, 1, 0, 0, 1});
    th_tensor *v = make(tape, dtype, TH_SHAPE(1, 1, 3, 2), (double[]){value, value, 1, 2, 3, 4});
    th_tensor *mask = make(tape, TH_BOOL, TH_SHAPE(1, 3), (double[]){0, 1, 1});
    th_attention_options options = {.causal = true, .key_mask = mask};
    double y[6];
    th_tensor_read(th_attention(tape, x, x, v, &options), y);
    cr_assert(y[0] == 0 && y[1] == 0 && y[2] == 1 && y[3] == 2);
    cr_assert_float_eq(y[4], 2.3395230987, 1e-6);
    if (fill == 0) memcpy(first, y + 2, sizeof first);
    cr_assert_arr_eq(first, y + 2, sizeof first);
  }
  th_tape_free(tape);
}

/* C02: 1 means "may attend" everywhere; the negated mask gives the other answer, not the same one. */
TEST_BOTH(attention, one_means_may_attend) {
  th_tape *tape = th_tape_new();
  th_tensor *q = th_input(tape, dtype, TH_SHAPE(1, 1, 3, 2), NULL);
  th_tensor *v = make(tape, dtype, TH_SHAPE(1, 1, 3, 1), (double[]){1, 2, 4});
  double lower[9] = {1, 0, 0, 1, 1, 0, 1, 1, 1}, upper[9];
  for (int i = 0; i < 9; i++) upper[i] = 1 - lower[i];
  th_attention_options options = {.mask = make(tape, TH_BOOL, TH_SHAPE(3, 3), lower)};
  expect_values("lower", th_attention(tape, q, q, v, &options), (double[]){1, 1.5, 7.0 / 3},
                tolerances[dtype].value);
  options.mask = make(tape, TH_BOOL, TH_SHAPE(3, 3), upper);
  expect_values("upper", th_attention(tape, q, q, v, &options), (double[]){3, 4, 0},
                tolerances[dtype].value);

  options.mask = make(tape, dtype, TH_SHAPE(3, 3), lower);
  cr_assert_null(th_attention(tape, q, q, v, &options));
  expect_error(tape, TH_ERR_DTYPE, "TH_BOOL is expected");
  options = (th_attention_options){.key_mask = make(tape, dtype, TH_SHAPE(1, 3), lower)};
  cr_assert_null(th_attention(tape, q, q, v, &options));
  expect_error(tape, TH_ERR_DTYPE, "key_mask");
  th_tape_free(tape);
}

/* ---- saturation ---- */

/* C04: gradients of the scores are +-p(1-p) however far apart the scores are. */
TEST_BOTH(attention, saturated_gradient_is_exact) {
  const double gaps[] = {10, 20, 40, 64};
  th_tape *tape = th_tape_new();
  for (int i = 0; i < 4; i++) {
    th_tensor *q = make(tape, dtype, TH_SHAPE(1, 1, 1, 1), (double[]){1});
    th_tensor *k = make(tape, dtype, TH_SHAPE(1, 1, 2, 1), (double[]){gaps[i], 0});
    th_tensor *v = make(tape, dtype, TH_SHAPE(1, 1, 2, 1), (double[]){1, 0});
    th_attention_options options = {.scale = TH_SCALE_NONE};
    backward_from(tape, th_attention(tape, q, k, v, &options), (double[]){1});
    double e = exp(-gaps[i]), pq = e / ((1 + e) * (1 + e)), limit = dtype == TH_F32 ? 1e-6 : 1e-14;
    expect_relative("dk", th_tensor_grad(k), (double[]){pq, -pq}, limit);
    expect_relative("dq", th_tensor_grad(q), (double[]){pq * gaps[i]}, limit);
    th_tape_reset(tape);
  }
  th_tape_free(tape);
}

static void check_saturated(th_dtype dtype, const problem *p) {
  th_tape *tape = th_tape_new();
  result r = attend_both_ways(tape, dtype, p);
  double limit = dtype == TH_F32 ? 1e-6 : 1e-14;
  expect_relative("dq", th_tensor_grad(r.q), p->dq, limit);
  expect_relative("dk", th_tensor_grad(r.k), p->dk, limit);
  th_tape_free(tape);
}

TEST_BOTH(attention, golden_saturated) {
  check_saturated(dtype, GOLDEN(saturated_dead, ));
  check_saturated(dtype, GOLDEN(saturated_dead_scaled, ));
  check_golden(dtype, GOLDEN(saturated_sharp, ));
}

/* The plain form, kept to be measured against: the same where nothing saturates, and in f32 dead wrong
 * at a gap of 20, where 1 - p is 2e-9. */
TEST_BOTH(attention, plain_backward) {
  th_tape *tape = th_tape_new();
  const problem *p = GOLDEN(sqrt, );
  result r = attend(tape, dtype, p);
  th_attention_options options = {.plain_backward = true};
  backward_from(tape, th_attention(tape, r.q, r.k, r.v, &options), p->dy);
  expect_values("dq", th_tensor_grad(r.q), p->dq, tolerances[dtype].gradient);
  th_tape_reset(tape);

  th_tensor *q = make(tape, dtype, TH_SHAPE(1, 1, 1, 1), (double[]){1});
  th_tensor *k = make(tape, dtype, TH_SHAPE(1, 1, 2, 1), (double[]){20, 0});
  th_tensor *v = make(tape, dtype, TH_SHAPE(1, 1, 2, 1), (double[]){1, 0});
  options.scale = TH_SCALE_NONE;
  backward_from(tape, th_attention(tape, q, k, v, &options), (double[]){1});
  double got[2];
  th_tensor_read(th_tensor_grad(k), got);
  cr_assert_float_eq(got[0], dtype == TH_F32 ? 0 : 2.0611536139e-09, 1e-15);
  th_tape_free(tape);
}

/* ---- layout ---- */

/* C05: heads as views of [B, T, C], joined again; the gradient goes back into the same layout. */
static void check_split(th_dtype dtype, const ptrdiff_t *shape, ptrdiff_t heads, const double *x,
                        const double *dy, const double *y, const double *dx) {
  th_tape *tape = th_tape_new();
  for (int copied = 0; copied < 2; copied++) {
    th_tensor *input = make(tape, dtype, 3, shape, x);
    th_tensor *q = th_split_heads(tape, input, heads);
    if (copied) q = th_contiguous(tape, q);
    th_tensor *out = th_attention(tape, q, q, q, NULL);
    expect_values("y", out, y, tolerances[dtype].value);
    cr_assert(th_tensor_is_contiguous(th_merge_heads(tape, out)));
    if (copied) out = th_contiguous(tape, out);
    backward_from(tape, out, dy);
    expect_values("dx", th_tensor_grad(input), dx, tolerances[dtype].gradient);
    th_tape_reset(tape);
  }
  th_tape_free(tape);
}

TEST_BOTH(attention, golden_split_heads) {
  check_split(dtype, golden_attention_split_heads_x_shape, golden_attention_split_heads_heads,
              golden_attention_split_heads_x, golden_attention_split_heads_dy,
              golden_attention_split_heads_y, golden_attention_split_heads_dx);
  check_split(dtype, golden_attention_split_heads_batch_x_shape,
              golden_attention_split_heads_batch_heads, golden_attention_split_heads_batch_x,
              golden_attention_split_heads_batch_dy, golden_attention_split_heads_batch_y,
              golden_attention_split_heads_batch_dx);
}

TEST_BOTH(attention, two_uses_add_up) {
  th_tape *tape = th_tape_new();
  const problem *p = GOLDEN(sqrt, );
  result r = attend(tape, dtype, p);
  th_attention_options options = {0};
  backward_from(tape, th_add(tape, r.y, th_attention(tape, r.q, r.k, r.v, &options)), p->dy);
  const double *want[] = {p->dq, p->dk, p->dv};
  th_tensor *inputs[] = {r.q, r.k, r.v};
  for (int i = 0; i < 3; i++) {
    double got[80];
    th_tensor_read(th_tensor_grad(inputs[i]), got);
    for (ptrdiff_t j = 0; j < th_tensor_count(inputs[i]); j++)
      cr_assert_float_eq(got[j], 2 * want[i][j], 10 * tolerances[dtype].gradient);
  }
  th_tape_free(tape);
}

/* Attention written out: matmul, scale, softmax, matmul. */
TEST_BOTH(attention, equals_its_parts) {
  problem p = random_problem(
      (problem){.batch = 2, .heads = 3, .key_heads = 3, .n_q = 20, .n_k = 33, .d_k = 12, .d_v = 10},
      0, 17);
  th_tape *tape = th_tape_new();
  result r = attend_both_ways(tape, dtype, &p), s;
  th_tape *other = th_tape_new();
  s.q = make(other, dtype, 4, th_tensor_shape(r.q), p.q);
  s.k = make(other, dtype, 4, th_tensor_shape(r.k), p.k);
  s.v = make(other, dtype, 4, th_tensor_shape(r.v), p.v);
  th_tensor *scores = th_scale(other, th_matmul(other, s.q, s.k, TH_TRANSPOSE_B), p.scale);
  s.weights = th_softmax(other, scores);
  s.y = th_matmul(other, s.weights, s.v, 0);
  backward_from(other, s.y, p.dy);
  const th_tensor *got[PARTS], *want[PARTS];
  parts_of(&r, got);
  parts_of(&s, want);
  for (int i = 0; i < PARTS; i++) {
    double *values = room(th_tensor_count(want[i]), sizeof *values);
    th_tensor_read(want[i], values);
    expect_values(part_names[i], got[i], values, tolerances[dtype].gradient);
    free(values);
  }
  th_tape_free(tape);
  th_tape_free(other);
  problem_free(&p);
}

/* ---- rejection ---- */

static th_tensor *zeros(th_tape *tape, ptrdiff_t b, ptrdiff_t h, ptrdiff_t n, ptrdiff_t d) {
  return th_input(tape, TH_F32, TH_SHAPE(b, h, n, d), NULL);
}

static void expect_rejected(th_tape *tape, th_tensor *q, th_tensor *k, th_tensor *v,
                            const th_attention_options *options, th_status status,
                            const char *text) {
  cr_assert_null(th_attention(tape, q, k, v, options));
  expect_error(tape, status, text);
}

Test(attention, rejects_shapes) {
  th_tape *tape = th_tape_new();
  th_tensor *q = zeros(tape, 2, 4, 3, 8), *k = zeros(tape, 2, 2, 5, 8), *v = zeros(tape, 2, 2, 5, 6);
  th_tensor *flat = th_input(tape, TH_F32, TH_SHAPE(3, 8), NULL);
  expect_rejected(tape, flat, k, v, NULL, TH_ERR_SHAPE, "[3, 8]");
  expect_rejected(tape, q, zeros(tape, 1, 2, 5, 8), v, NULL, TH_ERR_SHAPE, "batch");
  expect_rejected(tape, q, k, zeros(tape, 2, 2, 4, 6), NULL, TH_ERR_SHAPE, "[2, 2, 4, 6]");
  expect_rejected(tape, q, zeros(tape, 2, 2, 5, 7), v, NULL, TH_ERR_SHAPE, "[2, 2, 5, 7]");
  expect_rejected(tape, zeros(tape, 2, 3, 3, 8), k, v, NULL, TH_ERR_SHAPE, "divide");
  expect_rejected(tape, zeros(tape, 2, 4, 3, 0), zeros(tape, 2, 2, 5, 0), v, NULL, TH_ERR_SHAPE,
                  "d_k");
  th_tensor *wide = th_input(tape, TH_F64, TH_SHAPE(2, 2, 5, 6), NULL);
  expect_rejected(tape, q, k, wide, NULL, TH_ERR_DTYPE, "f64");
  expect_rejected(tape, q, NULL, v, NULL, TH_ERR_VALUE, "input 1 is NULL");
  th_attention_options options = {.scale = TH_SCALE_FACTOR, .factor = (double)INFINITY};
  expect_rejected(tape, q, k, v, &options, TH_ERR_VALUE, "finite");
  options.scale = (th_scale_kind)9;
  expect_rejected(tape, q, k, v, &options, TH_ERR_VALUE, "scale is 9");
  cr_assert_not_null(th_attention(tape, q, k, v, NULL));
  th_tape_free(tape);
}

Test(attention, rejects_masks) {
  th_tape *tape = th_tape_new();
  th_tensor *q = zeros(tape, 2, 4, 3, 8), *k = zeros(tape, 2, 2, 5, 8), *v = zeros(tape, 2, 2, 5, 6);
  th_tensor *weights = q;
  th_attention_options options = {.weights = &weights};
  options.key_lengths = make(tape, TH_I32, TH_SHAPE(2), (double[]){5, 6});
  expect_rejected(tape, q, k, v, &options, TH_ERR_INDEX, "key_lengths[1] is 6; 0 to 5");
  cr_assert_null(weights);
  options.key_lengths = make(tape, TH_I32, TH_SHAPE(2), (double[]){-1, 5});
  expect_rejected(tape, q, k, v, &options, TH_ERR_INDEX, "key_lengths[0] is -1; 0 to 5");
  options.key_lengths = make(tape, TH_I32, TH_SHAPE(3), (double[]){1, 1, 1});
  expect_rejected(tape, q, k, v, &options, TH_ERR_SHAPE, "key_lengths is [3]; [B] = [2]");
  options.key_lengths = make(tape, TH_F32, TH_SHAPE(2), (double[]){1, 1});
  expect_rejected(tape, q, k, v, &options, TH_ERR_DTYPE, "TH_I32");

  options.key_lengths = NULL;
  options.key_mask = th_input(tape, TH_BOOL, TH_SHAPE(2, 4), NULL);
  expect_rejected(tape, q, k, v, &options, TH_ERR_SHAPE, "[2, 4]; [B, n_k] = [2, 5]");
  options.key_mask = NULL;
  options.mask = th_input(tape, TH_BOOL, TH_SHAPE(5, 3), NULL);
  expect_rejected(tape, q, k, v, &options, TH_ERR_SHAPE, "[5, 3]; [n_q, n_k] = [3, 5]");
  options.mask = th_input(tape, TH_BOOL, TH_SHAPE(1, 3, 5), NULL);
  expect_rejected(tape, q, k, v, &options, TH_ERR_SHAPE, "[B, n_q, n_k] = [2, 3, 5]");
  options.mask = th_input(tape, TH_BOOL, TH_SHAPE(2, 2, 3, 5), NULL);
  expect_rejected(tape, q, k, v, &options, TH_ERR_SHAPE, "[B, H, n_q, n_k] = [2, 4, 3, 5]");
  options.mask = th_input(tape, TH_I32, TH_SHAPE(3, 5), NULL);
  expect_rejected(tape, q, k, v, &options, TH_ERR_DTYPE, "mask is i32");
  th_tape_free(tape);
}
