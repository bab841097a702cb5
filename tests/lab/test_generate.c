/* generate: the same tokens as without a cache, in any chunks; samples that do not depend on each other;
 * where a text ends; what is refused. */
#include "../optim/steps.h"

#include "lab/generate.h"
#include "nn/model.h"
#include "tensor/alloc.h"
#include "tensor/purpose.h"

enum { CONTEXT = 24, VOCAB = 11, ROOM = 64 };

typedef struct text {
  ptrdiff_t count, most; /* the function called says stop at `most` */
  int32_t ids[ROOM];
  double logs[ROOM];
} text;

static bool take(void *context, int32_t id, double log_probability) {
  text *t = context;
  cr_assert_lt(t->count, ROOM);
  t->ids[t->count] = id;
  t->logs[t->count++] = log_probability;
  return t->count != t->most;
}

static th_model *model_of(int kind) {
  th_error error = {0};
  th_gpt config = {.layers = 2,
                   .heads = 2,
                   .width = 16,
                   .context = CONTEXT,
                   .vocab = VOCAB,
                   .init = TH_INIT_WIDTH,
                   .untied = true};
  const th_gpt llama = {TH_LLAMA,       .layers = 2,           .heads = 4,
                        .kv_heads = 2,  .width = 16,           .context = CONTEXT,
                        .vocab = VOCAB, .init = TH_INIT_WIDTH, .dtype = TH_F64};
  const th_recurrent lstm = {.layers = 2, .width = 12, .vocab = VOCAB, .lstm = true, .untied = true};
  th_model *model = kind == 0   ? th_gpt_new(&config, 3, &error)
                    : kind == 1 ? th_gpt_new(&llama, 3, &error)
                                : th_recurrent_new(&lstm, 3, &error);
  cr_assert_not_null(model, "%s", error.message);
  /* Larger weights, so that the likeliest token is not always the same. */
  th_params *params = th_model_params(model);
  for (ptrdiff_t i = 0; i < th_params_count(params); i++) {
    th_tensor *w = th_params_at(params, i);
    if (th_tensor_ndim(w) >= 2)
      th_init_normal(w, 0, kind == 2 ? 2 : 0.6, (th_random){4, (uint32_t)i, 0});
  }
  return model;
}
enum { KINDS = 3 };

static th__generator *generator_of(th_model *model) {
  th_error error = {0};
  th__generator *generator = th__generator_new(model, &error);
  cr_assert_not_null(generator, "%s", error.message);
  return generator;
}

static th__generate_end write_text(th__generator *generator, const int32_t *prompt, ptrdiff_t count,
                                   th__generate settings, text *out) {
  th_error error = {0};
  th__generated result;
  out->count = 0;
  cr_assert_eq(th__generate_text(generator, prompt, count, &settings, take, out, &result, &error),
               TH_OK, "%s", error.message);
  cr_assert_eq(result.tokens, out->count);
  return result.end;
}

static const int32_t prompt[] = {1, 5, 10, 0, 7};
enum { PROMPT = 5 };

/* The text so far through the whole model at each step: no cache, nothing shared with what is tested but
 * the drawing of a token. */
static void write_slowly(th_model *model, th__generate settings, text *out) {
  int32_t ids[ROOM];
  memcpy(ids, prompt, sizeof prompt);
  th_tape *tape = th_tape_new();
  th_tape_set_recording(tape, false);
  out->count = 0;
  for (ptrdiff_t length = PROMPT; out->count < settings.tokens; length++) {
    th_tensor *tokens = th_input(tape, TH_I32, TH_SHAPE(1, length), ids);
    th_tensor *logits = th_model_forward(tape, model, tokens, NULL);
    cr_assert_not_null(logits, "%s", th_tape_message(tape));
    double uniform = th_random_uniform(
        (th_random){settings.seed, TH__PURPOSE_GENERATE, settings.sample}, (uint64_t)out->count);
    ptrdiff_t id = th_sample(logits, &settings.sampling, uniform, NULL);
    double rows[ROOM * VOCAB];
    th_tensor_read(th_log_softmax(tape, logits), rows);
    out->logs[out->count] = rows[(length - 1) * VOCAB + id];
    out->ids[out->count++] = ids[length] = (int32_t)id;
    th_tape_reset(tape);
  }
  th_tape_free(tape);
}

static void expect_same(const text *a, const text *b) {
  cr_assert_eq(a->count, b->count);
  for (ptrdiff_t i = 0; i < a->count; i++) {
    cr_assert_eq(a->ids[i], b->ids[i], "token %td is %d, not %d", i, a->ids[i], b->ids[i]);
    cr_assert_float_eq(a->logs[i], b->logs[i], 1e-4, "token %td: %g, not %g", i, a->logs[i],
                       b->logs[i]);
  }
}

/* C21: a position that is one off shows from the second token on. */
Test(generate, equals_the_pass_without_a_cache) {
  for (int kind = 0; kind < KINDS; kind++) {
    th_model *model = model_of(kind);
    th__generator *generator = generator_of(model);
    for (int greedy = 0; greedy < 2; greedy++) {
      text slow = {0}, fast = {0};
      th__generate settings = {
          .tokens = CONTEXT - PROMPT, .seed = 9, .sampling.temperature = greedy ? 0 : 1};
      write_slowly(model, settings, &slow);
      bool varied = false;
      for (ptrdiff_t i = 1; i < slow.count; i++) varied = varied || slow.ids[i] != slow.ids[i - 1];
      cr_assert(varied, "kind %d, greedy %d", kind, greedy);
      for (settings.chunk = 0; settings.chunk <= PROMPT + 1; settings.chunk++) {
        cr_assert_eq(write_text(generator, prompt, PROMPT, settings, &fast), TH__GENERATE_TOKENS);
        expect_same(&fast, &slow);
      }
    }
    th__generator_free(generator);
    th_model_free(model);
  }
}

/* Sample k is the same whatever was written before, and samples differ. */
Test(generate, samples_do_not_depend_on_each_other) {
  for (int kind = 0; kind < KINDS; kind++) {
    th_model *model = model_of(kind);
    th__generator *generator = generator_of(model);
    th__generate settings = {.tokens = 12, .seed = 9, .sampling.temperature = 1};
    text first[4] = {{0}};
    for (uint64_t k = 0; k < 4; k++) {
      settings.sample = k;
      write_text(generator, prompt, PROMPT, settings, &first[k]);
    }
    cr_assert_neq(memcmp(first[0].ids, first[1].ids, sizeof first[0].ids), 0);
    static const int32_t other[] = {2, 2, 2, 2, 2, 2, 2};
    for (uint64_t k = 4; k-- > 0;) {
      text again = {0};
      settings.sample = 77;
      write_text(generator, other, 7, settings, &again);
      settings.sample = k;
      write_text(generator, prompt, PROMPT, settings, &again);
      cr_assert_eq(memcmp(&again, &first[k], sizeof again), 0, "kind %d, sample %d", kind, (int)k);
    }
    settings.seed = 10;
    text seed = {0};
    settings.sample = 0;
    write_text(generator, prompt, PROMPT, settings, &seed);
    cr_assert_neq(memcmp(seed.ids, first[0].ids, sizeof seed.ids), 0);
    th__generator_free(generator);
    th_model_free(model);
  }
}

/* The last token drawn need not fit: it is not fed. A recurrent model goes on. */
Test(generate, stops_when_the_context_is_full) {
  for (int kind = 0; kind < KINDS; kind++) {
    th_model *model = model_of(kind);
    th__generator *generator = generator_of(model);
    text t = {0};
    th__generate_end end = write_text(generator, prompt, PROMPT, (th__generate){.tokens = 40}, &t);
    cr_assert_eq(end, kind < 2 ? TH__GENERATE_CONTEXT : TH__GENERATE_TOKENS);
    cr_assert_eq(t.count, kind < 2 ? CONTEXT - PROMPT + 1 : 40);
    end = write_text(generator, prompt, PROMPT, (th__generate){.tokens = CONTEXT - PROMPT + 1}, &t);
    cr_assert_eq(end, TH__GENERATE_TOKENS);
    static const int32_t full[CONTEXT + 1] = {0};
    end = write_text(generator, full, CONTEXT, (th__generate){.tokens = 1}, &t);
    cr_assert(end == TH__GENERATE_TOKENS && t.count == 1);
    th_error error = {0};
    th__generated result;
    th_status status = th__generate_text(generator, full, CONTEXT + 1, &(th__generate){.tokens = 1},
                                         take, &t, &result, &error);
    cr_assert_eq(status, kind < 2 ? TH_ERR_VALUE : TH_OK);
    if (kind < 2)
      cr_assert_not_null(
          strstr(error.message, "the prompt has 25 tokens, but the context of the model holds 24"));
    t.most = 3;
    end = write_text(generator, prompt, PROMPT, (th__generate){.tokens = 40}, &t);
    cr_assert(end == TH__GENERATE_STOPPED && t.count == 3);
    end = write_text(generator, prompt, PROMPT, (th__generate){0}, &t);
    cr_assert(end == TH__GENERATE_TOKENS && t.count == 0);
    th__generator_free(generator);
    th_model_free(model);
  }
}

/* Beyond the context: token by token what the model says with the last half in front of it. */
Test(generate, slides) {
  for (int kind = 0; kind < 2; kind++) {
    th_model *model = model_of(kind);
    th__generator *generator = generator_of(model);
    text t = {0}, part = {0};
    th__generate settings = {.tokens = 56, .slide = true, .chunk = 5};
    cr_assert_eq(write_text(generator, prompt, PROMPT, settings, &t), TH__GENERATE_TOKENS);
    cr_assert_eq(t.count, 56);
    int32_t all[PROMPT + 56];
    memcpy(all, prompt, sizeof prompt);
    memcpy(all + PROMPT, t.ids, 56 * sizeof *all);
    /* The context is full of tokens 0 .. 23, of 12 .. 35, of 24 .. 47. */
    settings = (th__generate){.tokens = CONTEXT / 2};
    for (ptrdiff_t full = CONTEXT; full + CONTEXT / 2 < PROMPT + 56; full += CONTEXT / 2) {
      ptrdiff_t begin = full - CONTEXT / 2; /* seen again, and the token that did not fit */
      write_text(generator, all + begin, CONTEXT / 2 + 1, settings, &part);
      for (ptrdiff_t i = 0; i < part.count; i++)
        cr_assert_eq(part.ids[i], all[full + 1 + i], "kind %d: token %td", kind, full + 1 + i);
    }
    th__generator_free(generator);
    th_model_free(model);
  }
}

/* A context of one token: nothing is seen again. */
Test(generate, slides_with_one_token) {
  const th_gpt config = {.layers = 1, .heads = 1, .width = 8, .context = 1, .vocab = 5};
  th_model *model = th_gpt_new(&config, 1, NULL);
  th__generator *generator = generator_of(model);
  text t = {0};
  cr_assert_eq(write_text(generator, prompt, 1, (th__generate){.tokens = 9, .slide = true}, &t),
               TH__GENERATE_TOKENS);
  cr_assert_eq(t.count, 9);
  th__generator_free(generator);
  th_model_free(model);
}

Test(generate, rejects) {
  th_model *model = model_of(0);
  th__generator *generator = generator_of(model);
  th__generated result;
  text t = {0};
  const int32_t unknown[] = {1, VOCAB};
#define REFUSED(status, words, ids, count, ...)                                                    \
  EXPECT_REFUSED(th__generate_text(generator, ids, count, &(th__generate){__VA_ARGS__}, take, &t,  \
                                   &result, &error) == TH_OK,                                      \
                 status, words)
  REFUSED(TH_ERR_VALUE, "the prompt is empty", prompt, 0, .tokens = 1);
  REFUSED(TH_ERR_VALUE, "tokens is -1", prompt, 1, .tokens = -1);
  REFUSED(TH_ERR_VALUE, "temperature is -1", prompt, 1, .tokens = 1, .sampling.temperature = -1);
  REFUSED(TH_ERR_INDEX, "11", unknown, 2, .tokens = 1);
  /* and goes on afterwards */
  cr_assert_eq(write_text(generator, prompt, PROMPT, (th__generate){.tokens = 2}, &t),
               TH__GENERATE_TOKENS);
  th_tensor_write(th_params_find(th_model_params(model), "ln_f.bias"),
                  (const double[16]){[3] = NAN});
  REFUSED(TH_ERR_NONFINITE, "is NaN", prompt, PROMPT, .tokens = 1);
  th__generator_free(generator);
  th_model_free(model);
  const th_gpt config = {.layers = 1, .heads = 1, .width = 8, .context = 4, .vocab = 5};
  model = th_classifier_new(&config, 2, 1, NULL);
  EXPECT_REFUSED(th__generator_new(model, &error), TH_ERR_VALUE, "classifier");
  th_model_free(model);
  EXPECT_REFUSED(th__generator_new(NULL, &error), TH_ERR_VALUE, "NULL");
}

Test(generate, memory) {
  th_model *model = model_of(0);
  th__generator *generator = NULL;
  for (size_t n = 1; generator == NULL; n++) {
    th_error error = {0};
    th__alloc_fail_at(n);
    generator = th__generator_new(model, &error);
    th__alloc_fail_at(0);
    if (generator == NULL) cr_assert_eq(error.status, TH_ERR_MEMORY, "%s", error.message);
  }
  text t = {0};
  const th__generate settings = {.tokens = 5};
  th_status status = TH_ERR_MEMORY;
  for (size_t n = 1; status != TH_OK; n++) {
    th_error error = {0};
    th__generated result;
    t.count = 0;
    th__alloc_fail_at(n);
    status = th__generate_text(generator, prompt, PROMPT, &settings, take, &t, &result, &error);
    th__alloc_fail_at(0);
    cr_assert(status == TH_OK || status == TH_ERR_MEMORY, "%s", error.message);
  }
  text whole = {0};
  write_text(generator, prompt, PROMPT, settings, &whole);
  cr_assert_eq(memcmp(&whole, &t, sizeof t), 0);
  th__generator_free(generator);
  th_model_free(model);
}

/* ---- text ---- */

Test(generate, where_a_text_begins) {
  th_error error;
  const th__source with = {"", "a\nb", 3}, without = {"", "ba", 2};
  th__vocab *vocabs[] = {th__vocab_new(TH__VOCAB_CHARACTERS, &with, 1, &error),
                         th__vocab_new(TH__VOCAB_BYTES, &without, 1, &error),
                         th__vocab_numbers(20, &error)};
  for (int i = 0; i < 3; i++) {
    cr_assert_eq(th__generate_start(vocabs[i]), 0);
    th__vocab_free(vocabs[i]);
  }
  const th__source tab = {"", "\t\n", 2};
  th__vocab *vocab = th__vocab_new(TH__VOCAB_BYTES, &tab, 1, &error);
  cr_assert_eq(th__generate_start(vocab), 1);
  th__vocab_free(vocab);
}

static void expect_text(th__vocab *vocab, json_t *ids, const char *want) {
  json_t *got = th__generate_text_json(vocab, ids);
  cr_assert_str_eq(json_string_value(got), want);
  json_decref(got);
  json_decref(ids);
  th__vocab_free(vocab);
}

/* Bytes: a lone half of a character is replaced, a whole one is not. */
Test(generate, text_json) {
  const th__source bytes = {"", "\xa9\xc3z", 3}; /* z A9 C3 */
  expect_text(th__vocab_new(TH__VOCAB_BYTES, &bytes, 1, NULL), json_pack("[iiiii]", 0, 2, 1, 1, 2),
              "z\u00e9\ufffd\ufffd");
  expect_text(th__vocab_numbers(20, NULL), json_pack("[iii]", 3, 19, 0), "3 19 0");
  expect_text(th__vocab_numbers(20, NULL), json_array(), "");
}
