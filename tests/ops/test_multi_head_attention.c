/* multi_head_attention: goldens with and without biases, self and cross; its parts; what it rejects. */
#include "support.h"

#include "golden/multi_head_attention.inc"

/* ---- goldens ---- */

/* Inputs in the order x, memory, wq, wk, wv, wo, bq, bk, bv, bo; NULL where the golden has none. */
enum { INPUTS = 10 };
static const char *const input_names[INPUTS] = {"dx",  "dmemory", "dwq", "dwk", "dwv",
                                                "dwo", "dbq",     "dbk", "dbv", "dbo"};

typedef struct golden {
  ptrdiff_t heads;
  bool causal;
  const int32_t *key_lengths;
  const double *x[INPUTS], *dx[INPUTS];
  const ptrdiff_t *shape[INPUTS];
  const double *dy, *y, *weights;
} golden;

static void check_golden(th_dtype dtype, const golden *g) {
  th_tape *tape = th_tape_new();
  th_tensor *in[INPUTS] = {0}, *weights;
  for (int i = 0; i < INPUTS; i++)
    if (g->x[i] != NULL) in[i] = make(tape, dtype, i < 2 ? 3 : i < 6 ? 2 : 1, g->shape[i], g->x[i]);
  th_mha_weights w = {in[2], in[3], in[4], in[5], in[6], in[7], in[8], in[9]};
  th_attention_options options = {.causal = g->causal, .weights = &weights};
  if (g->key_lengths != NULL)
    options.key_lengths = th_input(tape, TH_I32, TH_SHAPE(g->shape[0][0]), g->key_lengths);
  th_tensor *memory = in[1] != NULL ? in[1] : in[0];
  th_tensor *y = th_multi_head_attention(tape, in[0], memory, &w, g->heads, &options);
  cr_assert_not_null(y, "%s", th_tape_message(tape));
  expect_values("y", y, g->y, tolerances[dtype].value);
  expect_values("weights", weights, g->weights, tolerances[dtype].value);
  backward_from(tape, y, g->dy);
  for (int i = 0; i < INPUTS; i++)
    if (in[i] != NULL)
      expect_values(input_names[i], th_tensor_grad(in[i]), g->dx[i], tolerances[dtype].gradient);
  th_tape_free(tape);
}

#define G(name, part) golden_multi_head_attention_##name##_##part
#define INPUT(name, i, part)                                                                       \
  .x[i] = G(name, part), .dx[i] = G(name, d##part), .shape[i] = G(name, part##_shape)
#define GOLDEN(name, ...)                                                                          \
  &(golden) {                                                                                      \
    .heads = G(name, heads), .causal = G(name, causal), .dy = G(name, dy), .y = G(name, y),        \
    .weights = G(name, weights), INPUT(name, 0, x), INPUT(name, 2, wq), INPUT(name, 3, wk),        \
    INPUT(name, 4, wv), INPUT(name, 5, wo), __VA_ARGS__                                            \
  }
#define BIASES(name) INPUT(name, 6, bq), INPUT(name, 7, bk), INPUT(name, 8, bv), INPUT(name, 9, bo)

TEST_BOTH(multi_head_attention, golden_self) {
  check_golden(dtype, GOLDEN(self, ));
  check_golden(dtype, GOLDEN(self_bias, BIASES(self_bias)));
  check_golden(dtype, GOLDEN(self_causal, BIASES(self_causal)));
}

TEST_BOTH(multi_head_attention, golden_cross) {
  check_golden(dtype, GOLDEN(cross, INPUT(cross, 1, memory)));
  check_golden(dtype, GOLDEN(cross_bias, INPUT(cross_bias, 1, memory), BIASES(cross_bias),
                             .key_lengths = G(cross_bias, key_lengths)));
  check_golden(dtype, GOLDEN(cross_widths, INPUT(cross_widths, 1, memory), BIASES(cross_widths)));
}

/* ---- properties ---- */

static th_tensor *normal(th_tape *tape, th_dtype dtype, uint32_t purpose, int ndim,
                         const ptrdiff_t *shape) {
  th_tensor *x = th_input_grad(tape, dtype, ndim, shape, NULL);
  th_init_normal(x, 0, 0.3, (th_random){7, purpose, 0});
  return x;
}

/* One matrix [3C, C] cut in three, as models have it: the same as three matrices. */
TEST_BOTH(multi_head_attention, matrices_may_be_slices_of_one) {
  enum { C = 12, H = 3 };
  th_tape *tape = th_tape_new();
  th_tensor *x = normal(tape, dtype, 1, TH_SHAPE(2, 5, C)),
            *wo = normal(tape, dtype, 2, TH_SHAPE(C, C));
  th_tensor *fused = normal(tape, dtype, 3, TH_SHAPE(3 * C, C)), *part[3], *copy[3];
  for (int i = 0; i < 3; i++) {
    part[i] = th_slice(tape, fused, 0, i * C, (i + 1) * C);
    copy[i] = th_input(tape, dtype, TH_SHAPE(C, C), th_tensor_data(part[i]));
  }
  th_tensor *y = th_multi_head_attention(
      tape, x, x, &(th_mha_weights){.wq = part[0], .wk = part[1], .wv = part[2], .wo = wo}, H, NULL);
  double want[2 * 5 * C];
  th_tensor_read(y, want);
  y = th_multi_head_attention(
      tape, x, x, &(th_mha_weights){.wq = copy[0], .wk = copy[1], .wv = copy[2], .wo = wo}, H, NULL);
  expect_values("y", y, want, 0);
  th_tape_free(tape);
}

/* d_model 512 in 8 heads: d_k 64, and a scale of 1/8. */
Test(multi_head_attention, width_512_in_8_heads) {
  th_tape *tape = th_tape_new();
  th_tensor *x = normal(tape, TH_F32, 1, TH_SHAPE(1, 3, 512)), *w[4], *weights;
  for (uint32_t i = 0; i < 4; i++) {
    w[i] = th_input(tape, TH_F32, TH_SHAPE(512, 512), NULL); /* the identity */
    for (ptrdiff_t j = 0; j < 512; j++) ((float *)th_tensor_data(w[i]))[j * 513] = 1;
  }
  th_attention_options options = {.weights = &weights};
  th_tensor *y = th_multi_head_attention(
      tape, x, x, &(th_mha_weights){.wq = w[0], .wk = w[1], .wv = w[2], .wo = w[3]}, 8, &options);
  cr_assert_eq(th_tensor_dim(y, 2), 512);
  cr_assert_eq(th_tensor_dim(weights, 1), 8);
  th_tensor *heads = th_split_heads(tape, x, 8);
  cr_assert_eq(th_tensor_dim(heads, 3), 64);
  options = (th_attention_options){.scale = TH_SCALE_FACTOR, .factor = 0.125};
  double want[3 * 512];
  th_tensor_read(th_merge_heads(tape, th_attention(tape, heads, heads, heads, &options)), want);
  expect_values("y", y, want, tolerances[TH_F32].value);
  th_tape_free(tape);
}

/* ---- rejection ---- */

static th_tensor *zeros(th_tape *tape, ptrdiff_t rows, ptrdiff_t columns) {
  return th_input(tape, TH_F32, TH_SHAPE(rows, columns), NULL);
}

static void expect_rejected(th_tape *tape, th_tensor *x, th_tensor *memory,
                            const th_mha_weights *weights, ptrdiff_t heads, th_status status,
                            const char *text) {
  cr_assert_null(th_multi_head_attention(tape, x, memory, weights, heads, NULL));
  expect_error(tape, status, text);
}

Test(multi_head_attention, rejects) {
  th_tape *tape = th_tape_new();
  th_tensor *x = th_input(tape, TH_F32, TH_SHAPE(2, 3, 6), NULL);
  const th_mha_weights good = {.wq = zeros(tape, 6, 6),
                               .wk = zeros(tape, 6, 6),
                               .wv = zeros(tape, 9, 6),
                               .wo = zeros(tape, 5, 9)};
  cr_assert_not_null(th_multi_head_attention(tape, x, x, &good, 3, NULL));
  expect_rejected(tape, x, x, &good, 4, TH_ERR_SHAPE, "wq is [6, 6]");
  expect_rejected(tape, x, x, &good, 4, TH_ERR_SHAPE, "divide into 4 heads");
  expect_rejected(tape, x, x, &good, 2, TH_ERR_SHAPE, "wv is [9, 6]");
  expect_rejected(tape, x, x, &good, 0, TH_ERR_VALUE, "heads is 0");
  expect_rejected(tape, x, x, NULL, 3, TH_ERR_VALUE, "weights is NULL");
  expect_rejected(tape, x, NULL, &good, 3, TH_ERR_VALUE, "input 1 is NULL");
  expect_rejected(tape, x, zeros(tape, 3, 6), &good, 3, TH_ERR_SHAPE, "memory [3, 6]");
  th_tensor *other_batch = th_input(tape, TH_F32, TH_SHAPE(1, 3, 6), NULL);
  expect_rejected(tape, x, other_batch, &good, 3, TH_ERR_SHAPE, "memory [1, 3, 6]");
  th_tensor *narrow = th_input(tape, TH_F32, TH_SHAPE(2, 3, 4), NULL);
  expect_rejected(tape, x, narrow, &good, 3, TH_ERR_SHAPE, "linear");

  th_mha_weights bad = good;
  bad.wk = zeros(tape, 3, 6);
  expect_rejected(tape, x, x, &bad, 3, TH_ERR_SHAPE, "wk [3, 6]");
  bad = good;
  bad.wo = zeros(tape, 5, 6);
  expect_rejected(tape, x, x, &bad, 3, TH_ERR_SHAPE, "wo is [5, 6] but wv [9, 6]");
  bad = good;
  bad.bv = th_input(tape, TH_F32, TH_SHAPE(6), NULL);
  expect_rejected(tape, x, x, &bad, 3, TH_ERR_SHAPE, "[6]");
  bad = good;
  bad.bo = th_input(tape, TH_F32, TH_SHAPE(6), NULL); /* the last step fails: no weights either */
  th_tensor *weights = x;
  th_attention_options options = {.weights = &weights};
  cr_assert_null(th_multi_head_attention(tape, x, x, &bad, 3, &options));
  expect_error(tape, TH_ERR_SHAPE, "linear");
  cr_assert_null(weights);
  bad = good;
  bad.wv = NULL;
  expect_rejected(tape, x, x, &bad, 3, TH_ERR_VALUE, "NULL");
  th_tape_free(tape);
}
