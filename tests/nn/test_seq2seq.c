/* seq2seq: a step against goldens, who sees what, dropout's streams, first values, what is refused. */
#include <stdio.h>

#include "step.h"

#include "golden/seq2seq.inc"
#include "nn/transformer.h"
#include "tensor/alloc.h"

enum {
  PARAMS = sizeof golden_seq2seq_params / sizeof *golden_seq2seq_params,
  BATCH = 2,
  SOURCE = 5,
  TARGET = 4,
  VOCAB = golden_seq2seq_step_vocab
};

static const th_gpt golden_shape = {.layers = golden_seq2seq_step_layers,
                                    .heads = golden_seq2seq_step_heads,
                                    .width = golden_seq2seq_step_width,
                                    .hidden = golden_seq2seq_step_hidden,
                                    .context = golden_seq2seq_step_context,
                                    .vocab = VOCAB};

typedef struct setup {
  th_model *model;
  th_tape *tape;
  th_tensor *source, *lengths, *target, *targets;
} setup;

static setup set_up(th_gpt config, th_dtype dtype) {
  th_error error = {0};
  config.dtype = dtype;
  setup s = {.model = th_seq2seq_new(&config, 1, &error), .tape = th_tape_new()};
  cr_assert_not_null(s.model, "%s", error.message);
  s.source = th_tensor_from(TH_I32, TH_SHAPE(BATCH, SOURCE), golden_seq2seq_step_source, NULL);
  s.lengths = th_tensor_from(TH_I32, TH_SHAPE(BATCH), golden_seq2seq_step_lengths, NULL);
  s.target = th_tensor_from(TH_I32, TH_SHAPE(BATCH, TARGET), golden_seq2seq_step_target, NULL);
  s.targets = th_tensor_from(TH_I32, TH_SHAPE(BATCH, TARGET), golden_seq2seq_step_targets, NULL);
  return s;
}

static void tear_down(setup s) {
  cr_assert_eq(th_tape_status(s.tape), TH_OK, "%s", th_tape_message(s.tape));
  th_tape_free(s.tape);
  th_tensor_free(s.source), th_tensor_free(s.lengths);
  th_tensor_free(s.target), th_tensor_free(s.targets);
  th_model_free(s.model);
}

static th_tensor *logits_of(setup s, const th_pass *pass) {
  th_tensor *logits = th_seq2seq_forward(s.tape, s.model, s.source, s.lengths, s.target, pass);
  cr_assert_not_null(logits, "%s", th_tape_message(s.tape));
  return logits;
}

TEST_BOTH(seq2seq, golden_step) {
  setup s = set_up(golden_shape, dtype);
  fill_params(s.model, golden_seq2seq_params, PARAMS);
  expect_step(s.tape, s.model, logits_of(s, NULL), golden_seq2seq_step_logits, s.targets,
              *golden_seq2seq_step_loss, golden_seq2seq_params, PARAMS);
  tear_down(s);
}

/* ---- who sees what ---- */

/* Which logits of sample 1 change when one token changes: bit t for target position t. */
static int moved(setup s, th_tensor *tokens, ptrdiff_t at) {
  double before[BATCH * TARGET * VOCAB], after[BATCH * TARGET * VOCAB];
  th_tensor_read(logits_of(s, NULL), before);
  double old = th__get(tokens, at);
  th__set(tokens, at, (int)(old + 1) % VOCAB);
  th_tensor_read(logits_of(s, NULL), after);
  th__set(tokens, at, old);
  int bits = 0;
  for (int t = 0; t < TARGET; t++)
    for (int v = 0; v < VOCAB; v++) {
      int i = (TARGET + t) * VOCAB + v;
      if (before[i] != after[i]) bits |= 1 << t;
      cr_assert_eq(before[t * VOCAB + v], after[t * VOCAB + v], "sample 0 sees sample 1");
    }
  return bits;
}

static void who_sees_what(th_gpt config) {
  setup s = set_up(config, TH_F64);
  for (ptrdiff_t i = 0; i < th_params_count(th_model_params(s.model)); i++)
    th_init_normal(th_params_at(th_model_params(s.model), i), 0, 0.7,
                   (th_random){.seed = 9, .purpose = (uint32_t)i});
  for (int t = 0; t < TARGET; t++) /* the target from t on */
    cr_assert_eq(moved(s, s.target, TARGET + t), 0xf & (0xf << t), "target %d", t);
  for (int t = 0; t < SOURCE; t++) /* sample 1 has 2 tokens: all of the target sees these */
    cr_assert_eq(moved(s, s.source, SOURCE + t), t < 2 ? 0xf : 0, "source %d", t);
  tear_down(s);
}

Test(seq2seq, who_sees_what) {
  th_gpt config = golden_shape;
  config.layers = 2;
  who_sees_what(config);
  config = (th_gpt){TH_LLAMA,    .layers = 2,  .heads = 4,    .kv_heads = 2,
                    .width = 16, .context = 5, .vocab = VOCAB};
  config.post_norm = true;
  config.all_see_all = true; /* a decoder is causal all the same */
  who_sees_what(config);
}

/* Weights on request are those of the cross-attention: [B, H, T, S], nothing beyond the length. */
Test(seq2seq, weights_on_request) {
  th_gpt config = golden_shape;
  config.layers = 2;
  setup s = set_up(config, TH_F64);
  th_tensor *weights[2] = {NULL, NULL};
  logits_of(s, &(th_pass){.weights = weights});
  for (int l = 0; l < 2; l++) {
    double p[BATCH * 2 * TARGET * SOURCE];
    cr_assert_eq(th_tensor_count(weights[l]), BATCH * 2 * TARGET * SOURCE);
    cr_assert_eq(th_tensor_dim(weights[l], 3), SOURCE);
    th_tensor_read(weights[l], p);
    for (int row = 0; row < BATCH * 2 * TARGET; row++) {
      double sum = 0;
      for (int j = 0; j < SOURCE; j++) {
        sum += p[row * SOURCE + j];
        if (row >= 2 * TARGET && j >= 2) cr_assert_eq(p[row * SOURCE + j], 0);
      }
      cr_assert_float_eq(sum, 1, 1e-12);
    }
  }
  tear_down(s);
}

/* ---- dropout: every place has a stream of its own ---- */

/* Matrices of zeros, so that a branch adds its last bias, 1, which dropout makes 0 or 2: streams that were
 * one would drop the same elements. */
Test(seq2seq, dropout_streams_are_distinct) {
  th_gpt config = golden_shape;
  config.layers = 3;
  cr_assert_eq(th__stack_sites(&config, false), 1 + 3 * 2);
  cr_assert_eq(th__stack_sites(&config, true), 1 + 3 * 3);
  config.feed_forward = TH_FEED_FORWARD_NONE;
  cr_assert_eq(th__stack_sites(&config, true), 1 + 3 * 2);

  enum { N = 256 };
  config = (th_gpt){.layers = 1, .heads = 1, .width = N, .context = 1, .vocab = 2, .dropout = 0.5};
  config.hidden = 1;
  th_model *model = th_seq2seq_new(&config, 1, NULL);
  th_tensor *token = th_tensor_new(TH_I32, TH_SHAPE(1, 1), NULL);
  th_tape *tape = th_tape_new();
  static const char *const branches[] = {"enc.0.attn", "enc.0.mlp", "dec.0.attn", "dec.0.cross",
                                         "dec.0.mlp"};
  th_params *params = th_model_params(model);
  for (ptrdiff_t i = 0; i < th_params_count(params); i++) {
    th_tensor *w = th_params_at(params, i);
    memset(th_tensor_data(w), 0, (size_t)th_tensor_count(w) * sizeof(float));
  }
  bool kept[5][N];
  const th__transformer *t = model->as.transformer;
  th_pass pass = {.training = true, .stream = {.seed = 4}};
  for (int b = 0; b < 5; b++) {
    char name[40];
    snprintf(name, sizeof name, "%s.c_proj.bias", branches[b]);
    th_tensor *bias = th_params_find(params, name);
    for (int i = 0; i < N; i++) th__set(bias, i, 1);
    bool decoder = b >= 2;
    th__run run = {.config = &t->config, .pass = &pass};
    th_tensor *memory = th__stack_states(tape, t->wte, &t->encoder, token, &run);
    th__run second = {.config = &t->config,
                      .pass = &pass,
                      .memory = memory,
                      .site = th__stack_sites(&t->config, false)};
    th_tensor *x = th_input(tape, TH_F32, TH_SHAPE(1, 1, N), NULL);
    const th__run *r = decoder ? &second : &run;
    const th__layer *layer = decoder ? t->decoder.layers : t->encoder.layers;
    th_tensor *y = b == 0 || b == 2 ? th__attention_block(tape, x, layer, 0, r)
                   : b == 3         ? th__cross_block(tape, x, layer, 0, r)
                                    : th__feed_forward_block(tape, x, layer, 0, r);
    cr_assert_not_null(y, "%s", th_tape_message(tape));
    for (int i = 0; i < N; i++) kept[b][i] = th__get(y, i) != 0;
    for (int i = 0; i < N; i++) th__set(bias, i, 0);
  }
  for (int a = 0; a < 5; a++)
    for (int b = 0; b < a; b++) {
      int same = 0;
      for (int i = 0; i < N; i++) same += kept[a][i] == kept[b][i];
      cr_assert(same > N / 3 && same < 2 * N / 3, "%s and %s drop alike: %d of %d", branches[a],
                branches[b], same, N);
    }
  th_tape_free(tape);
  th_tensor_free(token);
  th_model_free(model);
}

/* ---- first values, configuration ---- */

static double sd_of(const th_params *params, const char *name) {
  const th_tensor *w = th_params_find(params, name);
  double squares = 0;
  cr_assert_not_null(w, "%s", name);
  for (ptrdiff_t i = 0; i < th_tensor_count(w); i++) squares += th__get(w, i) * th__get(w, i);
  return sqrt(squares / (double)th_tensor_count(w));
}

/* Two branches a layer end in the encoder's residual, three in the decoder's. */
Test(seq2seq, first_values) {
  th_gpt config = {.layers = 3, .heads = 4, .width = 64, .context = 8, .vocab = 100};
  th_model *model = th_seq2seq_new(&config, 3, NULL);
  const th_params *params = th_model_params(model);
  const struct {
    const char *name;
    double sd;
  } want[] = {
      {"enc.2.attn.c_proj.weight", 0.02 / sqrt(6)},
      {"enc.0.mlp.c_proj.weight", 0.02 / sqrt(6)},
      {"dec.2.attn.c_proj.weight", 0.02 / sqrt(9)},
      {"dec.1.cross.c_proj.weight", 0.02 / sqrt(9)},
      {"dec.0.mlp.c_proj.weight", 0.02 / sqrt(9)},
      {"dec.0.cross.c_q.weight", 0.02},
      {"dec.0.cross.c_kv.weight", 0.02},
      {"wte.weight", 0.02},
      {"enc.wpe.weight", 0.02},
      {"dec.wpe.weight", 0.02},
  };
  for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
    double sd = sd_of(params, want[i].name);
    cr_assert(fabs(sd - want[i].sd) <= 0.1 * want[i].sd, "%s: sd %g, expected %g", want[i].name, sd,
              want[i].sd);
  }
  th_model_free(model);
}

Test(seq2seq, one_token_table) {
  th_gpt config = golden_shape;
  th_model *model = th_seq2seq_new(&config, 1, NULL);
  cr_assert_eq(th_params_count(th_model_params(model)), PARAMS);
  cr_assert_null(th_params_find(th_model_params(model), "lm_head.weight"));
  config.untied = true;
  th_model *untied = th_seq2seq_new(&config, 1, NULL);
  cr_assert_eq(th_params_elements(th_model_params(untied)) -
                   th_params_elements(th_model_params(model)),
               golden_seq2seq_step_vocab * golden_seq2seq_step_width);
  cr_assert_eq(th_model_kind_of(untied), TH_MODEL_SEQ2SEQ);
  th_model *again = th_seq2seq_new(th_model_gpt(untied), 1, NULL);
  cr_assert_eq(memcmp(th_model_gpt(again), th_model_gpt(untied), sizeof config), 0);
  th_model_free(model), th_model_free(untied), th_model_free(again);
}

/* ---- what is refused ---- */

Test(seq2seq, rejects) {
  setup s = set_up(golden_shape, TH_F32);
  th_tensor *longer = th_tensor_new(TH_I32, TH_SHAPE(BATCH, 7), NULL);
  th_tensor *three = th_tensor_new(TH_I32, TH_SHAPE(3, 4), NULL);
#define REFUSED(source, lengths, target, status, text)                                             \
  do {                                                                                             \
    cr_assert_null(th_seq2seq_forward(s.tape, s.model, source, lengths, target, NULL));            \
    expect_error(s.tape, status, text);                                                            \
  } while (0)
  REFUSED(longer, NULL, s.target, TH_ERR_STATE, "source: sequences of 7 tokens");
  REFUSED(s.source, NULL, longer, TH_ERR_STATE, "target: sequences of 7 tokens");
  REFUSED(s.source, NULL, three, TH_ERR_SHAPE, "the batch (axis 0) must be one");
  REFUSED(s.source, three, s.target, TH_ERR_SHAPE, "i32 [2] is expected");
  REFUSED(NULL, NULL, s.target, TH_ERR_VALUE, "source");
  REFUSED(s.source, NULL, NULL, TH_ERR_VALUE, "target");
  th__set(s.lengths, 0, 6);
  REFUSED(s.source, s.lengths, s.target, TH_ERR_INDEX, "length 6 of sequence 0");
  th__set(s.target, 3, VOCAB);
  REFUSED(s.source, NULL, s.target, TH_ERR_INDEX, "id 7");
  th_tensor_free(longer), th_tensor_free(three);
  tear_down(s);
}

Test(seq2seq, every_allocation_may_fail) {
  th_model *model = NULL;
  size_t n = 0;
  while (model == NULL) {
    th_error error = {0};
    th__alloc_fail_at(++n);
    model = th_seq2seq_new(&golden_shape, 1, &error);
    th__alloc_fail_at(0);
    if (model == NULL) cr_assert_eq(error.status, TH_ERR_MEMORY, "%s", error.message);
  }
  cr_assert_gt(n, 5u * PARAMS);
  th_model_free(model);
}
