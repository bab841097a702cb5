/* recurrent: RNN and LSTM language models: one training step against goldens, first values, any split of
 * a prompt through a cache, a second prompt, failures, dropout, what is refused. */
#include "cached.h"
#include "step.h"
#include "tensor/alloc.h"

#include "golden/lstm_model.inc"
#include "golden/rnn_model.inc"

enum {
  LSTM_PARAMS = sizeof golden_lstm_model_params / sizeof *golden_lstm_model_params,
  RNN_PARAMS = sizeof golden_rnn_model_params / sizeof *golden_rnn_model_params,
  BATCH = 3,
  LENGTH = 11,
  VOCAB = 7
};

static th_model *model_of(th_recurrent config, th_dtype dtype) {
  th_error error = {0};
  config.dtype = dtype;
  th_model *model = th_recurrent_new(&config, 1, &error);
  cr_assert_not_null(model, "%s", error.message);
  return model;
}

static th_tensor *random_tokens(ptrdiff_t batch, ptrdiff_t length, uint64_t seed) {
  return random_below(VOCAB, batch, length, seed);
}

/* ---- a step ---- */

#define GOLDEN_STEP(name, count, ...)                                                              \
  TEST_BOTH(recurrent, golden_##name) {                                                            \
    th_recurrent config = {.layers = golden_##name##_step_layers,                                  \
                           .width = golden_##name##_step_width,                                    \
                           .vocab = golden_##name##_step_vocab,                                    \
                           __VA_ARGS__};                                                           \
    th_model *model = model_of(config, dtype);                                                     \
    fill_params(model, golden_##name##_params, count);                                             \
    th_tensor *tokens = th_tensor_from(TH_I32, 2, golden_##name##_step_tokens_shape,               \
                                       golden_##name##_step_tokens, NULL);                         \
    th_tensor *targets = th_tensor_from(TH_I32, 2, golden_##name##_step_targets_shape,             \
                                        golden_##name##_step_targets, NULL);                       \
    th_tape *tape = th_tape_new();                                                                 \
    expect_step(tape, model, th_model_forward(tape, model, tokens, NULL),                          \
                golden_##name##_step_logits, targets, *golden_##name##_step_loss,                  \
                golden_##name##_params, count);                                                    \
    th_tape_free(tape);                                                                            \
    th_tensor_free(tokens), th_tensor_free(targets);                                               \
    th_model_free(model);                                                                          \
  }
GOLDEN_STEP(lstm_model, LSTM_PARAMS, .lstm = true)
GOLDEN_STEP(rnn_model, RNN_PARAMS, .untied = true)

/* ---- first values ---- */

static void expect_between(const th_tensor *w, double low, double high) {
  double least = HUGE_VAL, most = -HUGE_VAL;
  for (ptrdiff_t i = 0; i < w->count; i++) {
    least = fmin(least, th__get(w, i));
    most = fmax(most, th__get(w, i));
  }
  double slack = 0.02 * (high - low);
  cr_assert(least >= low && least <= low + slack && most <= high && most >= high - slack,
            "%s: %g to %g, expected %g to %g", th_tensor_name(w), least, most, low, high);
}

Test(recurrent, first_values) {
  const th_recurrent config = {.layers = 2, .width = 64, .vocab = 100, .lstm = true};
  th_model *model = model_of(config, TH_F32), *same = model_of(config, TH_F32);
  th_params *params = th_model_params(model);
  cr_assert_eq(th_params_elements(params), 100 * 64 + 2 * (2 * 4 * 64 * 64 + 4 * 64));
  cr_assert_eq(th_model_kind_of(model), TH_MODEL_RECURRENT);
  cr_assert(th_model_recurrent(model)->lstm && th_model_gpt(model) == NULL);
  expect_between(th_params_find(params, "h.0.w_x"), -0.125, 0.125);
  expect_between(th_params_find(params, "h.1.w_h"), -0.125, 0.125);
  const th_tensor *bias = th_params_find(params, "h.1.bias");
  for (ptrdiff_t i = 0; i < bias->count; i++)
    cr_assert_eq(th__get(bias, i), i / 64 == 1, "bias[%td]: forget gates come second", i);
  for (ptrdiff_t i = 0; i < th_params_count(params); i++) {
    const th_tensor *w = th_params_at(params, i), *twin = th_params_at(th_model_params(same), i);
    cr_assert_eq(memcmp(w->data, twin->data, (size_t)w->count * sizeof(float)), 0);
  }
  const th_tensor *one = th_params_find(params, "h.0.w_h"), *two = th_params_find(params, "h.1.w_h");
  cr_assert_neq(memcmp(one->data, two->data, 64 * sizeof(float)), 0);
  th_model_free(model), th_model_free(same);
}

/* ---- the cache ---- */

static setup set_up(bool lstm, th_dtype dtype) {
  const th_recurrent config = {.layers = 2, .width = 5, .vocab = VOCAB, .lstm = lstm};
  return set_up_cached(model_of(config, dtype), 0.7, random_tokens(BATCH, LENGTH, 3));
}

/* Tokens begin .. end-1 through the cache, against the uncached logits. */
static void expect_part(const setup *s, ptrdiff_t begin, ptrdiff_t end) {
  th_tensor *part = th_contiguous(s->tape, th_slice(s->tape, s->tokens, 1, begin, end));
  th_tensor *logits = th_model_forward(s->tape, s->model, part, &(th_pass){.cache = s->cache});
  cr_assert_not_null(logits, "%s", th_tape_message(s->tape));
  double limit = th_tensor_dtype(logits) == TH_F32 ? 1e-5 : 1e-12;
  for (ptrdiff_t i = 0; i < th_tensor_count(logits); i++) {
    ptrdiff_t row = i / ((end - begin) * VOCAB), at = i % ((end - begin) * VOCAB);
    double want = s->logits[(row * LENGTH + begin) * VOCAB + at];
    cr_assert(fabs(th__get(logits, i) - want) <= limit, "tokens %td to %td, element %td", begin,
              end, i);
  }
  th_tape_reset(s->tape);
}

static void every_split(bool lstm, th_dtype dtype) {
  setup s = set_up(lstm, dtype);
  for (uint64_t seed = 0; seed < 30; seed++) {
    th_cache_clear(s.cache);
    cr_assert_eq(th_cache_length(s.cache), 0);
    for (ptrdiff_t at = 0, next; at < LENGTH; at = next) {
      ptrdiff_t rest = LENGTH - at;
      next = seed == 0 ? at + 1
                       : at + (ptrdiff_t)th_random_below((th_random){.seed = seed}, (uint64_t)at,
                                                         (uint64_t)rest + 1);
      expect_part(&s, at, next);
      cr_assert_eq(th_cache_length(s.cache), next);
      if (next == at) expect_part(&s, at, next = at + 1); /* no tokens change nothing */
    }
  }
  tear_down(s);
}

TEST_BOTH(recurrent, any_split_gives_the_uncached_logits) {
  every_split(false, dtype);
  every_split(true, dtype);
}

/* No limit: what is kept does not grow. */
Test(recurrent, cache_has_one_state_per_layer) {
  for (int lstm = 0; lstm < 2; lstm++) {
    setup s = set_up(lstm == 1, TH_F32);
    size_t bytes = (size_t)(1 + lstm) * 2 * BATCH * 5 * sizeof(float);
    cr_assert_eq(th_cache_bytes(s.cache), bytes);
    for (int i = 0; i < 20; i++) {
      th_cache *cache = s.cache;
      cr_assert_not_null(th_model_forward(s.tape, s.model, s.tokens, &(th_pass){.cache = cache}));
      th_tape_reset(s.tape);
    }
    cr_assert_eq(th_cache_length(s.cache), 20 * LENGTH);
    cr_assert_eq(th_cache_bytes(s.cache), bytes);
    tear_down(s);
  }
}

/* A pass that fails, wherever memory ends, leaves the states as they were. */
Test(recurrent, failed_pass_changes_nothing) {
  setup s = set_up(true, TH_F64);
  expect_part(&s, 0, 4);
  th_tensor *part = random_tokens(BATCH, 5, 8);
  bool done = false;
  for (size_t n = 1; !done; n++) {
    th_tape *fresh = th_tape_new();
    th_tape_set_recording(fresh, false);
    th__alloc_fail_at(n);
    done = th_model_forward(fresh, s.model, part, &(th_pass){.cache = s.cache}) != NULL;
    th__alloc_fail_at(0);
    th_tape_free(fresh);
    cr_assert_eq(th_cache_length(s.cache), done ? 9 : 4);
    cr_assert_lt(n, 100);
    if (!done) continue;
    th_cache_clear(s.cache);
    expect_part(&s, 0, 4);
  }
  expect_part(&s, 4, LENGTH);
  th_tensor_free(part);
  tear_down(s);
}

/* A token that does not exist, in the middle of a batch. */
Test(recurrent, bad_token_changes_nothing) {
  setup s = set_up(false, TH_F64);
  expect_part(&s, 0, 4);
  th_tensor *bad = random_tokens(BATCH, 3, 8);
  th__set(bad, 4, VOCAB);
  cr_assert_null(th_model_forward(s.tape, s.model, bad, &(th_pass){.cache = s.cache}));
  expect_error(s.tape, TH_ERR_INDEX, "7");
  expect_part(&s, 4, LENGTH);
  th_tensor_free(bad);
  tear_down(s);
}

/* ---- dropout, refusals ---- */

Test(recurrent, dropout_needs_training_and_repeats_by_step) {
  const th_recurrent config = {.layers = 2, .width = 8, .vocab = VOCAB, .dropout = 0.5};
  th_model *model = model_of(config, TH_F32);
  th_tensor *tokens = random_tokens(BATCH, LENGTH, 3);
  th_tape *tape = th_tape_new();
  const th_pass passes[] = {{0},
                            {.stream = {.step = 1}},
                            {.training = true, .stream = {.step = 1}},
                            {.training = true, .stream = {.step = 1}},
                            {.training = true, .stream = {.step = 2}}};
  const th_tensor *logits[5];
  for (int i = 0; i < 5; i++) {
    logits[i] = th_model_forward(tape, model, tokens, &passes[i]);
    cr_assert_not_null(logits[i], "%s", th_tape_message(tape));
  }
  size_t bytes = (size_t)logits[0]->count * sizeof(float);
  cr_assert_eq(memcmp(logits[0]->data, logits[1]->data, bytes), 0);
  cr_assert_neq(memcmp(logits[1]->data, logits[2]->data, bytes), 0);
  cr_assert_eq(memcmp(logits[2]->data, logits[3]->data, bytes), 0);
  cr_assert_neq(memcmp(logits[3]->data, logits[4]->data, bytes), 0);
  th_tape_free(tape);
  th_tensor_free(tokens);
  th_model_free(model);
}

Test(recurrent, rejects) {
  const struct {
    th_recurrent config;
    th_status status;
    const char *text;
  } bad[] = {
      {{.layers = 0, .width = 4, .vocab = 5}, TH_ERR_VALUE, "layers is 0"},
      {{.layers = 1, .width = -4, .vocab = 5}, TH_ERR_VALUE, "width is -4"},
      {{.layers = 1, .width = 4, .vocab = 0}, TH_ERR_VALUE, "vocab is 0"},
      {{.layers = 1, .width = 4, .vocab = 5, .dropout = 1}, TH_ERR_VALUE, "dropout is 1"},
      {{.layers = 1, .width = 4, .vocab = 5, .dtype = TH_I32}, TH_ERR_DTYPE, "dtype is i32"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    th_error error = {0};
    cr_assert_null(th_recurrent_new(&bad[i].config, 1, &error));
    cr_assert_eq(error.status, bad[i].status);
    cr_assert_not_null(strstr(error.message, bad[i].text), "%s", error.message);
  }
  cr_assert_null(th_model_recurrent(NULL));
}

Test(recurrent, new_survives_the_end_of_memory) {
  const th_recurrent config = {.layers = 2, .width = 4, .vocab = 5, .lstm = true, .untied = true};
  th_model *model = NULL;
  for (size_t n = 1; model == NULL; n++) {
    cr_assert_lt(n, 200);
    th_error error = {0};
    th__alloc_fail_at(n);
    model = th_recurrent_new(&config, 1, &error);
    th__alloc_fail_at(0);
    cr_assert_eq(error.status, model == NULL ? TH_ERR_MEMORY : TH_OK);
  }
  th_model_free(model);
}
