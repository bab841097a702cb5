/* cache: any split of a prompt gives the uncached logits; positions of the new token; its end, its
 * second prompt, failures, what is refused. */
#include "cached.h"

#include <stdio.h>

#include "tensor/alloc.h"

enum { BATCH = 3, CONTEXT = 11, VOCAB = 7 };

static const th_gpt gpt2 = {.layers = 2, .heads = 2, .width = 8, .context = CONTEXT, .vocab = VOCAB};
static const th_gpt llama = {TH_LLAMA,    .layers = 3,        .heads = 4,     .kv_heads = 2,
                             .width = 16, .context = CONTEXT, .vocab = VOCAB, .head_width = 6};
static const th_gpt sinusoidal = {.layers = 2,
                                  .heads = 3,
                                  .kv_heads = 1,
                                  .width = 6,
                                  .context = CONTEXT,
                                  .vocab = VOCAB,
                                  .positions = TH_POSITION_SINUSOIDAL,
                                  .feed_forward = TH_FEED_FORWARD_RELU,
                                  .post_norm = true};
static const th_gpt orderless = {.layers = 2,
                                 .heads = 2,
                                 .width = 8,
                                 .context = CONTEXT,
                                 .vocab = VOCAB,
                                 .positions = TH_POSITION_NONE,
                                 .feed_forward = TH_FEED_FORWARD_NONE};

static th_tensor *random_tokens(ptrdiff_t batch, ptrdiff_t length, uint64_t seed) {
  return random_below(VOCAB, batch, length, seed);
}

/* Whatever lies in a cache's memory must not matter. */
static void park_nan(th_cache *cache) {
  for (ptrdiff_t i = 0; i < cache->count; i++)
    for (ptrdiff_t j = 0; j < cache->tensors[i]->count; j++)
      th__set(cache->tensors[i], j, (double)NAN);
}

static setup set_up(th_gpt config, th_dtype dtype) {
  th_error error = {0};
  config.dtype = dtype;
  th_model *model = th_gpt_new(&config, 1, &error);
  cr_assert_not_null(model, "%s", error.message);
  setup s = set_up_cached(model, 0.5, random_tokens(BATCH, CONTEXT, 3));
  park_nan(s.cache);
  return s;
}

/* Tokens begin .. end-1 of all sequences through the cache. */
static th_tensor *pass_chunk(setup s, ptrdiff_t begin, ptrdiff_t end) {
  th_tensor *part = th_slice(s.tape, s.tokens, 1, begin, end);
  return th_model_forward(s.tape, s.model, part, &(th_pass){.cache = s.cache});
}

/* The chunk's logits are those of the uncached pass. */
static void expect_chunk(setup s, ptrdiff_t begin, ptrdiff_t end, const char *what) {
  th_tensor *logits = pass_chunk(s, begin, end);
  cr_assert_not_null(logits, "%s, tokens %td to %td: %s", what, begin, end, th_tape_message(s.tape));
  cr_assert_eq(th_cache_length(s.cache), end);
  double limit = th_tensor_dtype(logits) == TH_F32 ? 1e-5 : 1e-12;
  double got[BATCH * CONTEXT * VOCAB];
  th_tensor_read(logits, got);
  for (ptrdiff_t i = 0; i < th_tensor_count(logits); i++) {
    ptrdiff_t row = i / VOCAB, b = row / (end - begin), t = begin + row % (end - begin);
    double want = s.logits[(b * CONTEXT + t) * VOCAB + i % VOCAB];
    cr_assert(fabs(got[i] - want) <= limit * fmax(1, fabs(want)),
              "%s, tokens %td to %td, position %td: %.17g, uncached %.17g", what, begin, end, t,
              got[i], want);
  }
  th_tape_reset(s.tape);
}

/* Random splits of one prompt, one after another in the same cache. Chunks of 0 tokens are legal. */
static void any_split(th_gpt config, th_dtype dtype, const char *name) {
  setup s = set_up(config, dtype);
  for (uint64_t split = 0; split < 20; split++) {
    ptrdiff_t at = 0;
    for (uint64_t i = 0; at < CONTEXT; i++) {
      ptrdiff_t room = CONTEXT - at, most = split == 0 ? 1 : split == 1 ? CONTEXT : 5;
      ptrdiff_t length =
          (ptrdiff_t)th_random_below((th_random){.seed = 5, .step = split}, i, (uint64_t)most + 1);
      if (split < 2) length = most;
      if (length > room) length = room;
      expect_chunk(s, at, at + length, name);
      at += length;
    }
    th_cache_clear(s.cache);
    cr_assert_eq(th_cache_length(s.cache), 0);
    park_nan(s.cache);
  }
  tear_down(s);
}

TEST_BOTH(cache, any_split_gpt2) { any_split(gpt2, dtype, "gpt2"); }
TEST_BOTH(cache, any_split_llama) { any_split(llama, dtype, "llama"); }
TEST_BOTH(cache, any_split_sinusoidal) { any_split(sinusoidal, dtype, "sinusoidal"); }
TEST_BOTH(cache, any_split_orderless) { any_split(orderless, dtype, "orderless"); }

/* ---- C21: the position of the new token ---- */

static void fill(th_model *model, const char *name, const double *values) {
  th_tensor *w = th_params_find(th_model_params(model), name);
  cr_assert_not_null(w, "%s", name);
  th_tensor_write(w, values);
}

/* Raw queries and keys are [1, 0] at every position: biases. Turned by an angle of 1 per position, the
 * fourth token's weights are softmax(cos(3 - j) / sqrt(2)), in both layers. */
Test(cache, c21_rotary) {
  th_gpt config = {.layers = 2,
                   .heads = 1,
                   .width = 4,
                   .head_width = 2,
                   .context = 4,
                   .vocab = VOCAB,
                   .positions = TH_POSITION_ROPE,
                   .feed_forward = TH_FEED_FORWARD_NONE,
                   .dtype = TH_F64};
  th_model *model = th_gpt_new(&config, 1, NULL);
  for (int l = 0; l < 2; l++) {
    char name[40];
    snprintf(name, sizeof name, "h.%d.attn.c_attn.weight", l);
    fill(model, name, (double[8 * 4]){0});
    snprintf(name, sizeof name, "h.%d.attn.c_attn.bias", l);
    fill(model, name, (double[8]){1, 0, 1, 0});
  }
  th_tape *tape = th_tape_new();
  th_tape_set_recording(tape, false);
  th_cache *cache = th_cache_new(model, 1, 0, NULL);
  th_tensor *weights[2];
  th_pass pass = {.cache = cache, .weights = weights};
  th_tensor *three = random_tokens(1, 3, 1), *one = random_tokens(1, 1, 2);
  th_model_forward(tape, model, three, &pass);
  cr_assert_not_null(th_model_forward(tape, model, one, &pass), "%s", th_tape_message(tape));
  static const double want[] = {0.1048710491, 0.1573545672, 0.3094551973, 0.4283191864};
  for (int l = 0; l < 2; l++) {
    double out = 0;
    expect_values("weights", weights[l], want, 1e-9);
    for (int j = 0; j < 4; j++) out += th__get(weights[l], j) * (1 + j);
    cr_assert_float_eq(out, 3.0612225210, 1e-9); /* 1.938... at position 0, 2.912... one too far */
  }
  th_tensor_free(three), th_tensor_free(one);
  th_cache_free(cache);
  th_tape_free(tape);
  th_model_free(model);
}

/* Learned positions 1, 10, 100, 1000, tokens worth nothing: the fourth alone gives 1000. (The last norm
 * has an eps so large that it is a factor: x / sqrt(x^2 + 1e12) * 1e6.) */
Test(cache, c21_learned) {
  th_gpt config = {.layers = 1,
                   .heads = 1,
                   .width = 1,
                   .context = 4,
                   .vocab = 2,
                   .norm = TH_NORM_RMS,
                   .norm_eps = 1e12,
                   .feed_forward = TH_FEED_FORWARD_NONE,
                   .no_bias = true,
                   .untied = true,
                   .dtype = TH_F64};
  th_model *model = th_gpt_new(&config, 1, NULL);
  fill(model, "wte.weight", (double[]){0, 0});
  fill(model, "wpe.weight", (double[]){1, 10, 100, 1000});
  fill(model, "h.0.attn.c_proj.weight", (double[]){0});
  fill(model, "ln_f.weight", (double[]){1e6});
  fill(model, "lm_head.weight", (double[]){1, 1});
  th_tape *tape = th_tape_new();
  th_tape_set_recording(tape, false);
  th_cache *cache = th_cache_new(model, 1, 0, NULL);
  th_tensor *three = random_tokens(1, 3, 1), *one = th_tensor_new(TH_I32, TH_SHAPE(1, 1), NULL);
  memset(th_tensor_data(three), 0, 3 * sizeof(int32_t));
  th_model_forward(tape, model, three, &(th_pass){.cache = cache});
  th_tensor *logits = th_model_forward(tape, model, one, &(th_pass){.cache = cache});
  cr_assert_not_null(logits, "%s", th_tape_message(tape));
  cr_assert_float_eq(th__get(logits, 0), 1000, 0.001);
  th_tensor_free(three), th_tensor_free(one);
  th_cache_free(cache);
  th_tape_free(tape);
  th_model_free(model);
}

/* ---- sizes ---- */

Test(cache, grouped_heads_store_only_their_own) {
  setup s = set_up(llama, TH_F32);
  /* keys 6 wide, values 16 / 4, 2 of 4 heads, 3 layers */
  cr_assert_eq(th_cache_bytes(s.cache), 3u * BATCH * 2 * CONTEXT * (6 + 4) * sizeof(float));
  tear_down(s);
  s = set_up(gpt2, TH_F64);
  cr_assert_eq(th_cache_bytes(s.cache), 2u * BATCH * 2 * CONTEXT * (4 + 4) * sizeof(double));
  th_cache *small = th_cache_new(s.model, 1, 4, NULL);
  cr_assert_eq(th_cache_bytes(small), 2u * 2 * 4 * (4 + 4) * sizeof(double));
  th_cache_free(small);
  tear_down(s);
}

/* Token by token up to the end: after the first run, no heap allocation and no growth of the tape. */
Test(cache, decoding_allocates_nothing) {
  setup s = set_up(llama, TH_F32);
  size_t count = 0, held = 0;
  for (int run = 0; run < 2; run++) {
    for (ptrdiff_t t = 0; t < CONTEXT; t++) {
      expect_chunk(s, t, t + 1, "decoding");
      if (run == 0 && t == 0) held = th_tape_bytes(s.tape), count = th__alloc_count();
    }
    th_cache_clear(s.cache);
  }
  cr_assert_eq(th__alloc_count(), count);
  cr_assert_eq(th_tape_bytes(s.tape), held);
  tear_down(s);
}

/* ---- the end, failures ---- */

Test(cache, past_the_end) {
  setup s = set_up(gpt2, TH_F64);
  expect_chunk(s, 0, 9, "before");
  th_tensor *more = random_tokens(BATCH, 3, 4);
  cr_assert_null(th_model_forward(s.tape, s.model, more, &(th_pass){.cache = s.cache}));
  expect_error(s.tape, TH_ERR_STATE, "room for 11 tokens and holds 9: 3 more do not fit");
  cr_assert_eq(th_cache_length(s.cache), 9);
  expect_chunk(s, 9, 11, "nothing has changed");
  th_tensor_free(more);
  tear_down(s);
  /* A smaller cache than the context says that it could be larger. */
  s = set_up(gpt2, TH_F64);
  th_cache_free(s.cache);
  s.cache = th_cache_new(s.model, BATCH, 4, NULL);
  cr_assert_null(pass_chunk(s, 0, 5));
  expect_error(s.tape, TH_ERR_STATE, "make a larger one");
  expect_chunk(s, 0, 4, "small");
  tear_down(s);
}

/* A pass that fails, at whichever request for memory or because of a token, leaves the cache as it
 * was. */
Test(cache, a_failed_pass_changes_nothing) {
  setup s = set_up(llama, TH_F64);
  expect_chunk(s, 0, 4, "before");
  th_tensor *wrong = random_tokens(BATCH, 2, 4);
  th__set(wrong, 5, VOCAB);
  cr_assert_null(th_model_forward(s.tape, s.model, wrong, &(th_pass){.cache = s.cache}));
  expect_error(s.tape, TH_ERR_INDEX, "id 7");
  cr_assert_eq(th_cache_length(s.cache), 4);
  th_tensor_free(wrong);

  th_tensor *logits = NULL;
  size_t n = 0;
  while (logits == NULL) {
    th_tape_free(s.tape); /* a new one has no memory yet */
    s.tape = th_tape_new();
    th_tape_set_recording(s.tape, false);
    th__alloc_fail_at(++n);
    logits = pass_chunk(s, 4, 7);
    th__alloc_fail_at(0);
    if (logits != NULL) break;
    expect_error(s.tape, TH_ERR_MEMORY, "out of memory");
    cr_assert_eq(th_cache_length(s.cache), 4);
  }
  cr_assert_gt(n, 1);
  th_tape_reset(s.tape);
  expect_chunk(s, 7, 11, "after");
  tear_down(s);
}

Test(cache, every_allocation_may_fail) {
  setup s = set_up(gpt2, TH_F32);
  th_cache *cache = NULL;
  size_t n = 0;
  while (cache == NULL) {
    th_error error = {0};
    th__alloc_fail_at(++n);
    cache = th_cache_new(s.model, 1, 0, &error);
    th__alloc_fail_at(0);
    if (cache == NULL) cr_assert_eq(error.status, TH_ERR_MEMORY, "%s", error.message);
  }
  cr_assert_gt(n, 5); /* the cache, its list, two tensors a layer */
  th_cache_free(cache);
  tear_down(s);
}

/* ---- what is refused ---- */

Test(cache, refused_passes) {
  setup s = set_up(gpt2, TH_F32);
  th_tape_set_recording(s.tape, true);
  cr_assert_null(pass_chunk(s, 0, 2));
  expect_error(s.tape, TH_ERR_STATE, "th_tape_set_recording");
  th_tape_set_recording(s.tape, false);
  th_tensor *two = random_tokens(2, 3, 1);
  cr_assert_null(th_model_forward(s.tape, s.model, two, &(th_pass){.cache = s.cache}));
  expect_error(s.tape, TH_ERR_SHAPE, "the cache holds 3 sequences");
  th_tensor_free(two);
  setup other = set_up(gpt2, TH_F32);
  cr_assert_null(th_model_forward(s.tape, other.model, s.tokens, &(th_pass){.cache = s.cache}));
  expect_error(s.tape, TH_ERR_STATE, "another model");
  tear_down(other);
  cr_assert_eq(th_cache_length(s.cache), 0);
  expect_chunk(s, 0, CONTEXT, "after");
  tear_down(s);
}

static void refused(const th_model *model, ptrdiff_t batch, ptrdiff_t capacity, const char *text) {
  th_error error = {0};
  cr_assert_null(th_cache_new(model, batch, capacity, &error));
  cr_assert_eq(error.status, TH_ERR_VALUE, "%s", error.message);
  cr_assert_not_null(strstr(error.message, text), "\"%s\" does not contain \"%s\"", error.message,
                     text);
}

Test(cache, refused_caches) {
  setup s = set_up(gpt2, TH_F32);
  refused(NULL, 1, 0, "the model is NULL");
  refused(s.model, 0, 0, "batch is 0");
  refused(s.model, 1, -1, "capacity -1");
  refused(s.model, 1, 12, "capacity 12 is beyond the model's context of 11");
  th_gpt all_see_all = gpt2;
  all_see_all.all_see_all = true;
  th_model *model = th_gpt_new(&all_see_all, 1, NULL);
  refused(model, 1, 0, "all_see_all");
  th_model_free(model);
  model = th_classifier_new(&gpt2, 2, 1, NULL);
  refused(model, 1, 0, "a classifier has no cache");
  th_model_free(model);
  cr_assert_eq(th_cache_length(NULL), 0);
  cr_assert_eq(th_cache_bytes(NULL), 0);
  th_cache_clear(NULL);
  th_cache_free(NULL);
  tear_down(s);
}
