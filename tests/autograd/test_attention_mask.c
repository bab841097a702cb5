/* The masks of attention, alone and combined, against a plain loop; and what holds for any of them. */
#include "attention.h"

#define SHAPES(b, h, hk, nq, nk, dk, dv)                                                           \
  (problem) { .batch = b, .heads = h, .key_heads = hk, .n_q = nq, .n_k = nk, .d_k = dk, .d_v = dv }

static void check(th_dtype dtype, problem shapes, int masks) {
  problem p = random_problem(shapes, masks, 11);
  naive(&p);
  th_tape *tape = th_tape_new();
  result r = attend_both_ways(tape, dtype, &p);
  expect_problem(&r, &p, dtype);
  th_tape_free(tape);
  problem_free(&p);
}

/* Every set of masks, on a shape of several blocks with grouped heads. */
TEST_BOTH(attention_mask, every_combination) {
  const int mask_kinds[] = {0, MASK, MASK_SAMPLE, MASK_HEAD};
  for (int set = 0; set < 8; set++)
    for (int kind = 0; kind < 4; kind++)
      check(dtype, SHAPES(3, 4, 2, 37, 37, 5, 7), set | mask_kinds[kind]);
}

TEST_BOTH(attention_mask, any_shape) {
  const int masks[] = {0, CAUSAL, CAUSAL | LENGTHS | KEY_MASK | MASK_HEAD};
  for (int i = 0; i < 3; i++) {
    check(dtype, SHAPES(1, 1, 1, 1, 1, 1, 1), masks[i]);
    check(dtype, SHAPES(2, 2, 2, 1, 70, 4, 3), masks[i]);
    check(dtype, SHAPES(2, 2, 1, 3, 70, 4, 3), masks[i]);
    check(dtype, SHAPES(2, 3, 3, 70, 3, 4, 3), masks[i]);
    check(dtype, SHAPES(3, 2, 1, 65, 64, 16, 16), masks[i]);
    check(dtype, SHAPES(1, 2, 2, 130, 131, 33, 17), masks[i]);
  }
}

/* Nothing to compute is no error, and nothing to see is 0. */
TEST_BOTH(attention_mask, empty) {
  const int masks[] = {0, CAUSAL, CAUSAL | LENGTHS | KEY_MASK | MASK_HEAD};
  for (int i = 0; i < 3; i++) {
    check(dtype, SHAPES(2, 2, 2, 0, 3, 4, 5), masks[i]);
    check(dtype, SHAPES(2, 2, 2, 3, 0, 4, 5), masks[i]);
    check(dtype, SHAPES(0, 2, 2, 3, 3, 4, 5), masks[i]);
    check(dtype, SHAPES(2, 0, 2, 3, 3, 4, 5), masks[i]);
    check(dtype, SHAPES(2, 2, 2, 3, 3, 4, 0), masks[i]);
  }
}

/* ---- what must not matter ---- */

static void expect_same_bits(const result *a, const result *b) {
  const th_tensor *left[PARTS], *right[PARTS];
  parts_of(a, left);
  parts_of(b, right);
  for (int i = 0; i < PARTS; i++) {
    ptrdiff_t count = th_tensor_count(left[i]);
    double *x = room(count, sizeof *x), *y = room(count, sizeof *y);
    th_tensor_read(left[i], x);
    th_tensor_read(right[i], y);
    for (ptrdiff_t j = 0; j < count; j++)
      cr_assert(memcmp(x + j, y + j, sizeof *x) == 0, "%s[%td]: %.17g and %.17g", part_names[i], j,
                x[j], y[j]);
    free(x);
    free(y);
  }
}

TEST_BOTH(attention_mask, threads_give_the_same_bits) {
  problem p = random_problem(SHAPES(3, 4, 2, 100, 100, 16, 16), CAUSAL | LENGTHS | MASK, 5);
  th_tape *one = th_tape_new(), *several = th_tape_new();
  th_set_threads(1);
  result a = attend_both_ways(one, dtype, &p);
  for (int threads = 2; threads <= 4; threads++) {
    th_set_threads(threads);
    result b = attend_both_ways(several, dtype, &p);
    expect_same_bits(&a, &b);
    th_tape_reset(several);
  }
  th_set_threads(0);
  th_tape_free(one);
  th_tape_free(several);
  problem_free(&p);
}

/* Masks and lengths are read during the call: the user may change them before the backward. */
TEST_BOTH(attention_mask, masks_may_change_after_the_call) {
  const int sets[] = {LENGTHS, KEY_MASK, MASK, MASK_HEAD, LENGTHS | KEY_MASK | MASK};
  for (int i = 0; i < 5; i++) {
    problem p = random_problem(SHAPES(2, 2, 2, 6, 6, 4, 4), sets[i], 7);
    naive(&p);
    th_tape *tape = th_tape_new();
    result r;
    r.q = make(tape, dtype, TH_SHAPE(2, 2, 6, 4), p.q);
    r.k = make(tape, dtype, TH_SHAPE(2, 2, 6, 4), p.k);
    r.v = make(tape, dtype, TH_SHAPE(2, 2, 6, 4), p.v);
    th_attention_options options = options_of(tape, &p);
    options.weights = &r.weights;
    r.y = th_attention(tape, r.q, r.k, r.v, &options);
    const th_tensor *given[] = {options.key_lengths, options.key_mask, options.mask};
    for (int j = 0; j < 3; j++)
      if (given[j] != NULL)
        memset(th_tensor_data(given[j]), 0,
               (size_t)th_tensor_count(given[j]) * th_dtype_size(th_tensor_dtype(given[j])));
    backward_from(tape, r.y, p.dy);
    expect_problem(&r, &p, dtype);
    th_tape_free(tape);
    problem_free(&p);
  }
}

/* A mask may be a view. */
TEST_BOTH(attention_mask, strided_masks) {
  problem p = random_problem(SHAPES(2, 2, 2, 5, 5, 4, 4), MASK | KEY_MASK, 9);
  naive(&p);
  th_tape *tape = th_tape_new();
  result r = attend(tape, dtype, &p);
  th_attention_options options = options_of(tape, &p);
  th_tensor *mask = th_transpose(tape, (th_tensor *)(uintptr_t)options.mask, 0, 1);
  double turned[25];
  th_tensor_read(mask, turned);
  options.mask = th_transpose(tape, make(tape, TH_BOOL, TH_SHAPE(5, 5), turned), 0, 1);
  options.weights = &r.weights;
  r.y = th_attention(tape, r.q, r.k, r.v, &options);
  backward_from(tape, r.y, p.dy);
  expect_problem(&r, &p, dtype);
  th_tape_free(tape);
  problem_free(&p);
}

/* Without recording: the same values, and nothing recorded. */
TEST_BOTH(attention_mask, without_recording) {
  problem p = random_problem(SHAPES(2, 3, 3, 300, 300, 8, 8), CAUSAL | LENGTHS, 3);
  th_tape *tape = th_tape_new(), *other = th_tape_new();
  result recorded = attend(tape, dtype, &p);
  th_tape_set_recording(other, false);
  result r = attend(other, dtype, &p);
  cr_assert_eq(th_tape_node_count(other), 0);
  th_attention_options options = options_of(other, &p);
  th_tensor *plain = th_attention(other, r.q, r.k, r.v, &options);
  double *want = room(y_count(&p), sizeof *want), *want_weights = room(w_count(&p), sizeof *want);
  th_tensor_read(recorded.y, want);
  th_tensor_read(recorded.weights, want_weights);
  expect_values("y", r.y, want, 0);
  expect_values("y", plain, want, 0);
  expect_values("weights", r.weights, want_weights, 0);
  free(want);
  free(want_weights);
  th_tape_free(tape);
  th_tape_free(other);
  problem_free(&p);
}

/* And no room for all of the weights, which here would be 128 MB. */
Test(attention_mask, without_recording_in_little_memory) {
  enum { T = 4000, D = 4 };
  th_tape *tape = th_tape_new();
  th_set_threads(4);
  th_tape_set_recording(tape, false);
  th_tensor *x = th_input(tape, TH_F32, TH_SHAPE(1, 2, T, D), NULL);
  th_init_normal(x, 0, 1, (th_random){1, 2, 3});
  th_attention_options options = {.causal = true};
  cr_assert_not_null(th_attention(tape, x, x, x, &options));
  cr_assert_lt(th_tape_bytes(tape), 16 << 20);
  th_set_threads(0);
  th_tape_free(tape);
}

TEST_BOTH(attention_mask, weights_are_detached) {
  problem p = random_problem(SHAPES(2, 2, 1, 40, 50, 4, 4), CAUSAL | KEY_MASK, 13);
  th_tape *tape = th_tape_new();
  result r = attend(tape, dtype, &p);
  cr_assert_null(th_retain_grad(tape, r.weights));
  expect_error(tape, TH_ERR_STATE, "no gradient");
  double *w = room(w_count(&p), sizeof *w);
  th_tensor_read(r.weights, w);
  for (ptrdiff_t row = 0; row < p.batch * p.heads * p.n_q; row++) {
    double sum = 0;
    bool any = false;
    for (ptrdiff_t j = 0; j < p.n_k; j++) {
      bool sees = may_attend(&p, row / p.n_q / p.heads, row / p.n_q % p.heads, row % p.n_q, j);
      if (!sees) cr_assert(w[row * p.n_k + j] == 0);
      any = any || sees;
      sum += w[row * p.n_k + j];
    }
    cr_assert_float_eq(sum, any ? 1 : 0, 4e-6);
  }
  free(w);
  th_tape_free(tape);
  problem_free(&p);
}

/* Every kernel set that this machine has. */
#ifdef TH_HAVE_X86_KERNELS
extern const th__kernels_f32 th__table_f32_base, th__table_f32_avx2;
extern const th__kernels_f64 th__table_f64_base, th__table_f64_avx2;

TEST_BOTH(attention_mask, other_kernel_sets) {
  const th__kernels_f32 *f32 = th__f32;
  const th__kernels_f64 *f64 = th__f64;
  bool avx2 = strcmp(th_isa(), "base") != 0;
  for (int set = 0; set < (avx2 ? 2 : 1); set++) {
    th__f32 = set == 0 ? &th__table_f32_base : &th__table_f32_avx2;
    th__f64 = set == 0 ? &th__table_f64_base : &th__table_f64_avx2;
    check(dtype, SHAPES(2, 2, 2, 70, 70, 17, 19), 0);
    check(dtype, SHAPES(3, 2, 1, 70, 75, 17, 19), CAUSAL | LENGTHS | KEY_MASK | MASK);
  }
  th__f32 = f32;
  th__f64 = f64;
}
#endif
