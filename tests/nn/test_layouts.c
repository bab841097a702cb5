/* layouts: what the switches of th_gpt do: a step of the Llama layout against goldens, names and counts,
 * first values, tied and untied outputs, dropout's streams, what is refused. */
#include <stdio.h>
#include <unistd.h>

#include "step.h"

#include "golden/llama.inc"

enum { LLAMA_PARAMS = sizeof golden_llama_params / sizeof *golden_llama_params };

static const th_gpt golden_llama = {TH_LLAMA,
                                    .layers = golden_llama_step_layers,
                                    .heads = golden_llama_step_heads,
                                    .kv_heads = golden_llama_step_kv_heads,
                                    .width = golden_llama_step_width,
                                    .head_width = golden_llama_step_head_width,
                                    .hidden = golden_llama_step_hidden,
                                    .context = golden_llama_step_context,
                                    .vocab = golden_llama_step_vocab,
                                    .rope_base = 100};

static th_model *model_of(th_gpt config) {
  th_error error = {0};
  th_model *model = th_gpt_new(&config, 1, &error);
  cr_assert_not_null(model, "%s", error.message);
  return model;
}

static th_tensor *ints(int ndim, const ptrdiff_t *shape, const int32_t *values) {
  return th_tensor_from(TH_I32, ndim, shape, values, NULL);
}

TEST_BOTH(layouts, golden_llama) {
  th_gpt config = golden_llama;
  config.dtype = dtype;
  cr_assert_eq(config.rope_base, golden_llama_step_rope_base);
  th_model *model = model_of(config);
  fill_params(model, golden_llama_params, LLAMA_PARAMS);
  th_tensor *tokens = ints(2, golden_llama_step_tokens_shape, golden_llama_step_tokens);
  th_tensor *targets = ints(2, golden_llama_step_targets_shape, golden_llama_step_targets);
  th_tape *tape = th_tape_new();
  expect_step(tape, model, th_model_forward(tape, model, tokens, NULL), golden_llama_step_logits,
              targets, *golden_llama_step_loss, golden_llama_params, LLAMA_PARAMS);
  th_tape_free(tape);
  th_tensor_free(tokens), th_tensor_free(targets);
  th_model_free(model);
}

/* ---- names, sizes, what zeros stand for ---- */

static const th_gpt small = {.layers = 2, .heads = 4, .width = 16, .context = 6, .vocab = 7};

static ptrdiff_t rows_of(th_model *model, const char *name) {
  return th_tensor_dim(th_params_find(th_model_params(model), name), 0);
}

Test(layouts, llama_macro) {
  th_gpt config = {TH_LLAMA, .layers = 1, .heads = 4, .width = 16, .context = 6, .vocab = 7};
  th_model *model = model_of(config);
  const th_gpt *c = th_model_gpt(model);
  cr_assert(c->norm == TH_NORM_RMS && c->positions == TH_POSITION_ROPE && c->no_bias && c->untied);
  cr_assert_eq(c->kv_heads, 4);
  cr_assert_eq(c->hidden, 48); /* 8/3 of 16 is 42.7 */
  cr_assert_eq(c->norm_eps, 1e-5);
  cr_assert_eq(c->rope_base, 10000);
  static const char *const names[] = {"wte.weight",
                                      "h.0.ln_1.weight",
                                      "h.0.attn.c_attn.weight",
                                      "h.0.attn.c_proj.weight",
                                      "h.0.ln_2.weight",
                                      "h.0.mlp.c_gate.weight",
                                      "h.0.mlp.c_fc.weight",
                                      "h.0.mlp.c_proj.weight",
                                      "ln_f.weight",
                                      "lm_head.weight"};
  th_params *params = th_model_params(model);
  cr_assert_eq(th_params_count(params), (ptrdiff_t)(sizeof names / sizeof *names));
  for (ptrdiff_t i = 0; i < th_params_count(params); i++)
    cr_assert_str_eq(th_tensor_name(th_params_at(params, i)), names[i]);
  /* What is complete may be given again. */
  th_model *again = th_gpt_new(c, 1, NULL);
  cr_assert_eq(memcmp(th_model_gpt(again), c, sizeof *c), 0);
  th_model_free(again), th_model_free(model);
}

Test(layouts, swiglu_hidden_is_a_multiple_of_8) {
  static const ptrdiff_t pairs[][2] = {{3, 8}, {6, 16}, {9, 24}, {24, 64}};
  for (int i = 0; i < 4; i++) {
    th_gpt c = {TH_LLAMA, .layers = 1, .heads = 1, .context = 1, .vocab = 2, .width = pairs[i][0]};
    c.head_width = 2;
    th_model *model = model_of(c);
    cr_assert_eq(th_model_gpt(model)->hidden, pairs[i][1], "width %td: %td", pairs[i][0],
                 th_model_gpt(model)->hidden);
    th_model_free(model);
  }
}

Test(layouts, grouped_keys_have_fewer_rows) {
  for (ptrdiff_t kv_heads = 1; kv_heads <= 4; kv_heads *= 2) {
    th_gpt c = small;
    c.kv_heads = kv_heads;
    c.head_width = 6;
    th_model *model = model_of(c);
    cr_assert_eq(rows_of(model, "h.1.attn.c_attn.weight"), 4 * 6 + kv_heads * (6 + 4));
    th_model_free(model);
  }
}

/* Each of these leaves out or adds what it says. */
Test(layouts, parameters_by_switch) {
  th_gpt c = small;
  c.no_bias = true;
  th_model *model = model_of(c);
  th_params *params = th_model_params(model);
  for (ptrdiff_t i = 0; i < th_params_count(params); i++)
    cr_assert_null(strstr(th_tensor_name(th_params_at(params, i)), "bias"));
  th_model_free(model);

  c = small;
  c.norm = TH_NORM_RMS;
  model = model_of(c);
  cr_assert_null(th_params_find(th_model_params(model), "ln_f.bias"));
  cr_assert_not_null(th_params_find(th_model_params(model), "h.0.mlp.c_fc.bias"));
  th_model_free(model);

  c = small;
  c.post_norm = true;
  model = model_of(c);
  cr_assert_null(th_params_find(th_model_params(model), "ln_f.weight"));
  cr_assert_not_null(th_params_find(th_model_params(model), "h.0.ln_2.weight"));
  th_model_free(model);

  for (int p = TH_POSITION_LEARNED; p <= TH_POSITION_NONE; p++) {
    c = small;
    c.positions = (th_position_kind)p;
    model = model_of(c);
    cr_assert_eq(th_params_find(th_model_params(model), "wpe.weight") != NULL,
                 p == TH_POSITION_LEARNED);
    th_model_free(model);
  }
}

/* ---- first values ---- */

static void spread(const th_tensor *w, double *sd, double *largest) {
  double squares = 0, *values = malloc((size_t)th_tensor_count(w) * sizeof *values);
  th_tensor_read(w, values);
  *largest = 0;
  for (ptrdiff_t i = 0; i < th_tensor_count(w); i++) {
    squares += values[i] * values[i];
    *largest = fmax(*largest, fabs(values[i]));
  }
  *sd = sqrt(squares / (double)th_tensor_count(w));
  free(values);
}

static void expect_sd(const th_params *params, const char *name, double want) {
  double sd, largest;
  spread(th_params_find(params, name), &sd, &largest);
  cr_assert(fabs(sd - want) <= 0.06 * want, "%s: sd %g, expected %g", name, sd, want);
}

Test(layouts, inits) {
  th_gpt c = {TH_LLAMA, .layers = 2, .heads = 4, .width = 64, .context = 64, .vocab = 100};
  th_model *model = model_of(c);
  expect_sd(th_model_params(model), "h.0.mlp.c_gate.weight", 0.02);
  expect_sd(th_model_params(model), "h.1.mlp.c_proj.weight", 0.02 / 2);
  expect_sd(th_model_params(model), "lm_head.weight", 0.02);
  th_model_free(model);

  c.init = TH_INIT_WIDTH;
  c.feed_forward = TH_FEED_FORWARD_NONE;
  model = model_of(c);
  expect_sd(th_model_params(model), "wte.weight", 0.125);
  expect_sd(th_model_params(model), "h.0.attn.c_proj.weight", 0.125 / sqrt(2)); /* one branch each */
  th_model_free(model);

  c.init = TH_INIT_XAVIER;
  c.feed_forward = TH_FEED_FORWARD_SWIGLU;
  c.positions = TH_POSITION_LEARNED;
  model = model_of(c);
  expect_sd(th_model_params(model), "wte.weight", 0.125);
  expect_sd(th_model_params(model), "wpe.weight", 0.125);
  static const char *const names[] = {"h.0.attn.c_attn.weight", "h.0.attn.c_proj.weight",
                                      "h.1.mlp.c_gate.weight", "h.1.mlp.c_proj.weight",
                                      "lm_head.weight"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const th_tensor *w = th_params_find(th_model_params(model), names[i]);
    double sd, largest, limit = sqrt(6.0 / (double)(th_tensor_dim(w, 0) + th_tensor_dim(w, 1)));
    spread(w, &sd, &largest);
    cr_assert(largest <= limit && largest > 0.99 * limit, "%s: largest %g of %g", names[i], largest,
              limit);
    expect_sd(th_model_params(model), names[i], limit / sqrt(3));
  }
  th_model_free(model);
}

/* ---- tied and untied ---- */

typedef struct run {
  th_model *model;
  th_tape *tape;
  th_tensor *tokens, *targets;
} run;

static run run_new(th_gpt config) {
  run r = {model_of(config), th_tape_new(), NULL, NULL};
  static const int32_t ids[] = {1, 2, 3, 1, 0, 2}, next[] = {2, 3, 1, 0, 2, 5};
  r.tokens = ints(TH_SHAPE(1, 6), ids);
  r.targets = ints(TH_SHAPE(1, 6), next);
  return r;
}

static void run_free(run r) {
  cr_assert_eq(th_tape_status(r.tape), TH_OK, "%s", th_tape_message(r.tape));
  th_tape_free(r.tape);
  th_tensor_free(r.tokens), th_tensor_free(r.targets);
  th_model_free(r.model);
}

static void backward(run r) {
  th_tensor *logits = th_model_forward(r.tape, r.model, r.tokens, NULL);
  th_backward(r.tape, th_cross_entropy(r.tape, logits, r.targets));
  cr_assert_eq(th_tape_status(r.tape), TH_OK, "%s", th_tape_message(r.tape));
  th_tape_reset(r.tape);
}

/* A tied table's gradient is the sum of what an untied model of the same weights gives its table and
 * its output; the norm for clipping counts that sum, once; one step moves it once. */
Test(layouts, tied_table_gets_both_gradients) {
  th_gpt config = small;
  config.dtype = TH_F64;
  run tied = run_new(config);
  config.untied = true;
  run untied = run_new(config);
  th_params *one = th_model_params(tied.model), *two = th_model_params(untied.model);
  cr_assert_eq(th_params_count(two), th_params_count(one) + 1);
  cr_assert_eq(th_params_elements(two), th_params_elements(one) + 7 * 16);
  enum { N = 7 * 16 };
  double values[N], in[N], out[N], both[N];
  th_tensor_read(th_params_find(one, "wte.weight"), values);
  th_tensor_write(th_params_find(two, "lm_head.weight"), values);
  backward(tied), backward(untied);

  th_tensor *table = th_params_find(two, "wte.weight"),
            *head = th_params_find(two, "lm_head.weight");
  th_tensor_read(th_tensor_grad(th_params_find(one, "wte.weight")), both);
  th_tensor_read(th_tensor_grad(table), in);
  th_tensor_read(th_tensor_grad(head), out);
  double squares[2] = {0, 0}, largest_in = 0, largest_out = 0;
  for (int i = 0; i < N; i++) {
    cr_assert_float_eq(both[i], in[i] + out[i], 1e-13);
    squares[0] += both[i] * both[i];
    squares[1] += in[i] * in[i] + out[i] * out[i];
    largest_in = fmax(largest_in, fabs(in[i]));
    largest_out = fmax(largest_out, fabs(out[i]));
  }
  cr_assert(largest_in > 1e-4 && largest_out > 1e-4);

  double norm[2];
  th_clip_grad_norm(one, (double)INFINITY, &norm[0], NULL);
  th_clip_grad_norm(two, (double)INFINITY, &norm[1], NULL);
  cr_assert_float_eq(norm[1] * norm[1] - norm[0] * norm[0], squares[1] - squares[0], 1e-12);

  th_optim *optim = th_sgd_new(one, &(th_sgd){.lr = 0.5}, NULL);
  cr_assert_eq(th_optim_step(optim, NULL), TH_OK);
  double after[N];
  th_tensor_read(th_params_find(one, "wte.weight"), after);
  for (int i = 0; i < N; i++) cr_assert_float_eq(after[i], values[i] - 0.5 * both[i], 1e-15);
  th_optim_free(optim);

  optim = th_sgd_new(two, &(th_sgd){.lr = 0.5}, NULL);
  cr_assert_eq(th_optim_step(optim, NULL), TH_OK);
  th_tensor_read(head, after);
  for (int i = 0; i < N; i++) cr_assert_float_eq(after[i], values[i] - 0.5 * out[i], 1e-15);
  th_optim_free(optim);
  run_free(tied), run_free(untied);
}

/* A tied table stands in a file once: it is read back as one, and an untied model misses its output. */
Test(layouts, tied_table_is_stored_once) {
  char path[] = "/tmp/layouts_XXXXXX";
  int file = mkstemp(path);
  cr_assert_geq(file, 0);
  close(file);
  th_error error = {0};
  th_gpt config = small;
  th_model *tied = model_of(config);
  config.untied = true;
  th_model *untied = model_of(config);
  cr_assert_eq(th_model_save(tied, path, &error), TH_OK, "%s", error.message);
  th_model *again = th_model_load(path, &error);
  cr_assert_not_null(again, "%s", error.message);
  cr_assert_not(th_model_gpt(again)->untied);
  cr_assert_eq(th_params_elements(th_model_params(again)),
               th_params_elements(th_model_params(tied)));
  cr_assert_neq(th_params_load(th_model_params(untied), path, &error), TH_OK);
  cr_assert_not_null(strstr(error.message, "lm_head.weight"), "%s", error.message);
  th_model_free(again);

  cr_assert_eq(th_model_save(untied, path, &error), TH_OK, "%s", error.message);
  again = th_model_load(path, &error);
  cr_assert_not_null(again, "%s", error.message);
  const th_tensor *saved = th_params_find(th_model_params(untied), "lm_head.weight");
  const th_tensor *read = th_params_find(th_model_params(again), "lm_head.weight");
  cr_assert_eq(memcmp(th_tensor_data(saved), th_tensor_data(read), 7 * 16 * sizeof(float)), 0);
  th_model_free(again), th_model_free(tied), th_model_free(untied);
  unlink(path);
}

/* ---- what is refused ---- */

static void refused(th_gpt config, th_status status, const char *text) {
  th_error error = {0};
  cr_assert_null(th_gpt_new(&config, 1, &error));
  cr_assert_eq(error.status, status, "%s", error.message);
  cr_assert_not_null(strstr(error.message, text), "\"%s\" does not contain \"%s\"", error.message,
                     text);
}

Test(layouts, refusals) {
#define BUT(...)                                                                                   \
  ((th_gpt){.layers = 2, .heads = 4, .width = 16, .context = 6, .vocab = 7, __VA_ARGS__})
  refused(BUT(.kv_heads = 3), TH_ERR_SHAPE, "4 heads do not share 3 kv_heads evenly");
  refused(BUT(.kv_heads = 8), TH_ERR_SHAPE, "4 heads do not share 8 kv_heads evenly");
  refused(BUT(.kv_heads = -1), TH_ERR_VALUE, "kv_heads is -1");
  refused(BUT(.positions = TH_POSITION_ROPE, .head_width = 3), TH_ERR_SHAPE, "even head_width");
  refused((th_gpt){.layers = 1,
                   .heads = 1,
                   .width = 5,
                   .context = 1,
                   .vocab = 1,
                   .positions = TH_POSITION_SINUSOIDAL},
          TH_ERR_SHAPE, "the width is 5");
  refused(BUT(.norm = (th_norm_kind)2), TH_ERR_VALUE, "2 is no kind of norm");
  refused(BUT(.positions = (th_position_kind)4), TH_ERR_VALUE, "4 is no kind of positions");
  refused(BUT(.feed_forward = (th_feed_forward_kind)-1), TH_ERR_VALUE,
          "-1 is no kind of feed_forward");
  refused(BUT(.norm_eps = -1e-5), TH_ERR_VALUE, "norm_eps is -1e-05");
  refused(BUT(.norm_eps = (double)NAN), TH_ERR_VALUE, "norm_eps is nan");
  refused(BUT(.rope_base = (double)INFINITY), TH_ERR_VALUE, "rope_base is inf");
#undef BUT
}

Test(layouts, forward_of_the_wrong_kind) {
  run r = run_new(small);
  th_model *classifier = th_classifier_new(&small, 2, 1, NULL);
  cr_assert_null(th_model_forward(r.tape, classifier, r.tokens, NULL));
  expect_error(r.tape, TH_ERR_VALUE, "th_classifier_forward()");
  cr_assert_null(th_gpt_forward(r.tape, classifier, r.tokens, NULL));
  expect_error(r.tape, TH_ERR_VALUE, "a classifier");
  cr_assert_null(th_classifier_forward(r.tape, r.model, r.tokens, NULL, NULL));
  expect_error(r.tape, TH_ERR_VALUE, "the model is gpt");
  cr_assert_null(th_seq2seq_forward(r.tape, r.model, r.tokens, NULL, r.tokens, NULL));
  expect_error(r.tape, TH_ERR_VALUE, "the model is gpt");
  cr_assert_null(th_model_forward(r.tape, NULL, r.tokens, NULL));
  expect_error(r.tape, TH_ERR_VALUE, "the model is NULL");
  cr_assert_eq(th_model_kind_of(r.model), TH_MODEL_GPT);
  cr_assert_eq(th_model_kind_of(classifier), TH_MODEL_CLASSIFIER);
  th_model_free(classifier);
  run_free(r);
}
