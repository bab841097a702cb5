/* Checkpoints: everything comes back bit for bit, and whatever belongs to another model is refused with
 * both sides named. */
#include "io/checkpoint.h"

#include <criterion/criterion.h>
#include <string.h>
#include <unistd.h>

#include "optim/optim.h"
#include "tensor/alloc.h"

#define PATH "test_checkpoint.safetensors"
#define SIZES .layers = 2, .heads = 2, .width = 8, .context = 6, .vocab = 5

static bool same(const th_tensor *a, const th_tensor *b) {
  return th_tensor_count(a) == th_tensor_count(b) && th_tensor_dtype(a) == th_tensor_dtype(b) &&
         memcmp(th_tensor_data(a), th_tensor_data(b),
                (size_t)th_tensor_count(a) * th_dtype_size(th_tensor_dtype(a))) == 0;
}

static void same_weights(const th_model *a, const th_model *b) {
  const th_params *x = th_model_params(a), *y = th_model_params(b);
  cr_assert_eq(th_params_count(x), th_params_count(y));
  for (ptrdiff_t i = 0; i < th_params_count(x); i++) {
    cr_assert_str_eq(th_tensor_name(th_params_at(x, i)), th_tensor_name(th_params_at(y, i)));
    cr_assert(same(th_params_at(x, i), th_params_at(y, i)), "%s",
              th_tensor_name(th_params_at(x, i)));
  }
}

/* One step's gradient: random, and for some parameters only, so that their steps differ. */
static void step(const th_model *model, th_optim *optim, uint64_t number) {
  th_tape *tape = th_tape_new();
  th_params *params = th_model_params(model);
  th_tensor *loss = NULL;
  for (ptrdiff_t i = 0; i < th_params_count(params); i++) {
    if (number % 2 == 1 && i % 3 == 0) continue;
    th_tensor *x = th_params_at(params, i);
    th_tensor *noise =
        th_input(tape, th_tensor_dtype(x), th_tensor_ndim(x), th_tensor_shape(x), NULL);
    th_init_normal(noise, 0, 1, (th_random){number, 1, (uint64_t)i});
    th_tensor *sum = th_sum(tape, th_mul(tape, x, noise), TH_ALL_AXES);
    loss = loss == NULL ? sum : th_add(tape, loss, sum);
  }
  cr_assert_eq(th_backward(tape, loss), TH_OK, "%s", th_tape_message(tape));
  cr_assert_eq(th_optim_step(optim, NULL), TH_OK);
  th_tape_free(tape);
}

static th_model *gpt(th_gpt config, uint64_t seed) {
  th_error error = {0};
  th_model *model = th_gpt_new(&config, seed, &error);
  cr_assert_not_null(model, "%s", error.message);
  return model;
}

static th_optim *make_optim(int kind, th_params *params) {
  return kind == 0   ? th_adamw_new(params, &(th_adamw){.weight_decay = 0.1}, NULL)
         : kind == 1 ? th_adam_new(params, NULL, NULL)
         : kind == 2 ? th_sgd_new(params, &(th_sgd){.momentum = 0.9}, NULL)
                     : th_sgd_new(params, NULL, NULL);
}

static th__checkpoint *opened(void) {
  th_error error = {0};
  th__checkpoint *checkpoint = th__checkpoint_open(PATH, &error);
  cr_assert_not_null(checkpoint, "%s", error.message);
  return checkpoint;
}

/* n steps, saved, loaded, n more: the bits of 2n steps. In both types, with every optimiser. */
Test(checkpoint, going_on_bit_for_bit) {
  for (int kind = 0; kind < 4; kind++)
    for (int i = 0; i < 2; i++) {
      th_gpt config = {SIZES, .dtype = i == 0 ? TH_F32 : TH_F64};
      th_model *straight = gpt(config, 1), *resumed = gpt(config, 2);
      th_optim *a = make_optim(kind, th_model_params(straight));
      th_optim *b = make_optim(kind, th_model_params(resumed));
      for (uint64_t n = 1; n <= 3; n++) step(straight, a, n);
      th_error error = {0};
      cr_assert_eq(th__checkpoint_save(PATH, straight, a, NULL, &error), TH_OK, "%s", error.message);
      for (uint64_t n = 4; n <= 6; n++) step(straight, a, n);

      th__checkpoint *checkpoint = opened();
      cr_assert_eq(th__checkpoint_weights(checkpoint, resumed, &error), TH_OK, "%s", error.message);
      cr_assert_eq(th__checkpoint_optim(checkpoint, b, &error), TH_OK, "%s", error.message);
      th__checkpoint_close(checkpoint);
      cr_assert_eq(th_optim_steps(b), 3);
      cr_assert_eq(b->slots[0].steps, 1); /* the first parameter sat out two of them */
      for (uint64_t n = 4; n <= 6; n++) step(resumed, b, n);

      same_weights(straight, resumed);
      for (ptrdiff_t p = 0; p < a->slot_count; p++) {
        cr_assert_eq(a->slots[p].steps, b->slots[p].steps);
        if (a->slots[p].m != NULL) cr_assert(same(a->slots[p].m, b->slots[p].m));
        if (a->slots[p].v != NULL) cr_assert(same(a->slots[p].v, b->slots[p].v));
      }
      th_optim_free(a);
      th_optim_free(b);
      th_model_free(straight);
      th_model_free(resumed);
    }
  unlink(PATH);
}

static void comes_back(th_model *model) {
  cr_assert_not_null(model);
  th_error error = {0};
  cr_assert_eq(th_model_save(model, PATH, &error), TH_OK, "%s", error.message);
  th_model *copy = th_model_load(PATH, &error);
  cr_assert_not_null(copy, "%s", error.message);
  cr_assert_eq(th_model_kind_of(model), th_model_kind_of(copy));
  same_weights(model, copy);
  th__checkpoint *checkpoint = opened();
  cr_assert_eq(th__safetensors_count(th__checkpoint_file(checkpoint)),
               th_params_count(th_model_params(model)));
  th__checkpoint_close(checkpoint);
  th_model_free(model);
  th_model_free(copy);
  unlink(PATH);
}

Test(checkpoint, every_kind_of_model) {
  th_gpt config = {SIZES}, llama = {TH_LLAMA, SIZES, .kv_heads = 1, .dtype = TH_F64};
  comes_back(gpt(config, 1));
  comes_back(gpt(llama, 1));
  comes_back(gpt((th_gpt){SIZES, .feed_forward = TH_FEED_FORWARD_NONE}, 1));
  comes_back(th_classifier_new(&config, 3, 1, NULL));
  comes_back(th_seq2seq_new(&llama, 1, NULL));
  comes_back(th_recurrent_new(&(th_recurrent){.layers = 2, .width = 4, .vocab = 5}, 1, NULL));
  comes_back(th_recurrent_new(
      &(th_recurrent){.layers = 1, .width = 4, .vocab = 5, .lstm = true, .untied = true}, 1, NULL));
}

/* The matrix of a tied output stands in the file once, that of an untied one beside the table. */
Test(checkpoint, tied_output) {
  for (int untied = 0; untied < 2; untied++) {
    th_model *model = gpt((th_gpt){SIZES, .untied = untied == 1}, 1);
    cr_assert_eq(th_model_save(model, PATH, NULL), TH_OK);
    th__checkpoint *checkpoint = opened();
    const th__safetensors *file = th__checkpoint_file(checkpoint);
    cr_assert_not_null(th__safetensors_find(file, "wte.weight"));
    cr_assert_eq(th__safetensors_find(file, "lm_head.weight") != NULL, untied == 1);
    cr_assert_eq(th__safetensors_bytes(file),
                 4 * (uint64_t)th_params_elements(th_model_params(model)));
    th__checkpoint_close(checkpoint);
    th_model_free(model);
  }
  unlink(PATH);
}

Test(checkpoint, metadata) {
  th_model *model = gpt((th_gpt){SIZES}, 1);
  json_t *mine =
      json_pack("{s:s, s:s}", "tapehead.state", "{\"step\": 7}", "note", "\xc3\xbc \"x\"\n");
  th_error error = {0};
  cr_assert_eq(th__checkpoint_save(PATH, model, NULL, mine, &error), TH_OK, "%s", error.message);
  json_decref(mine);
  th__checkpoint *checkpoint = opened();
  const json_t *read = th__checkpoint_metadata(checkpoint);
  cr_assert_str_eq(json_string_value(json_object_get(read, "note")), "\xc3\xbc \"x\"\n");
  cr_assert_str_eq(json_string_value(json_object_get(read, "tapehead.version")), th_version());
  cr_assert_null(json_object_get(read, "tapehead.optim"));
  json_t *state = th__checkpoint_json(checkpoint, "tapehead.state", &error);
  cr_assert_eq(json_integer_value(json_object_get(state, "step")), 7);
  json_decref(state);
  cr_assert_null(th__checkpoint_json(checkpoint, "tapehead.train", &error));
  cr_assert_str_eq(error.message, PATH ": no \"tapehead.train\" in its metadata");
  cr_assert_null(th__checkpoint_json(checkpoint, "note", &error));
  cr_assert_not_null(strstr(error.message, "\"note\" in its metadata is no valid JSON"), "%s",
                     error.message);
  th__checkpoint_close(checkpoint);
  th_model_free(model);
  unlink(PATH);
}

/* ---- another model, another optimiser ---- */

static void refused(th_gpt config, const char *sentence) {
  th_model *model = gpt(config, 3), *before = gpt(config, 3);
  th__checkpoint *checkpoint = opened();
  th_error error = {0};
  cr_assert_eq(th__checkpoint_weights(checkpoint, model, &error), TH_ERR_IO, "%s", sentence);
  cr_assert_not_null(strstr(error.message, sentence), "\"%s\" lacks \"%s\"", error.message,
                     sentence);
  same_weights(before, model);
  th__checkpoint_close(checkpoint);
  th_model_free(model);
  th_model_free(before);
}

Test(checkpoint, other_sizes_layouts_and_types) {
  th_model *model = gpt((th_gpt){SIZES}, 1);
  cr_assert_eq(th_model_save(model, PATH, NULL), TH_OK);
  th_model_free(model);
  refused((th_gpt){.layers = 2, .heads = 2, .width = 8, .context = 6, .vocab = 7},
          PATH ": file: wte.weight [5, 8] F32; model: [7, 8] F32");
  refused((th_gpt){.layers = 2, .heads = 2, .width = 8, .context = 9, .vocab = 5},
          "file: wpe.weight [6, 8] F32; model: [9, 8] F32");
  refused((th_gpt){SIZES, .kv_heads = 1},
          "file: h.0.attn.c_attn.weight [24, 8] F32; model: [16, 8] F32");
  refused((th_gpt){.layers = 3, .heads = 2, .width = 8, .context = 6, .vocab = 5},
          "file: no h.2.ln_1.weight; model: [8] F32");
  refused((th_gpt){.layers = 1, .heads = 2, .width = 8, .context = 6, .vocab = 5},
          "model: no such parameter");
  refused((th_gpt){SIZES, .untied = true}, "file: no lm_head.weight; model: [5, 8] F32");
  refused((th_gpt){SIZES, .no_bias = true}, "model: no such parameter");
  refused((th_gpt){SIZES, .dtype = TH_F64}, "file: wte.weight [5, 8] F32; model: [5, 8] F64");
  unlink(PATH);
}

/* Loads an optimiser of `kind` over `params`, and expects this error and no change. */
static void optim_refused(int kind, th_model *model, const char *sentence) {
  th_optim *optim = make_optim(kind, th_model_params(model));
  step(model, optim, 2);
  float m = optim->slots[0].m != NULL ? ((float *)th_tensor_data(optim->slots[0].m))[0] : 0;
  th__checkpoint *checkpoint = opened();
  th_error error = {0};
  cr_assert_eq(th__checkpoint_optim(checkpoint, optim, &error), TH_ERR_IO, "%s", sentence);
  cr_assert_not_null(strstr(error.message, sentence), "\"%s\" lacks \"%s\"", error.message,
                     sentence);
  cr_assert(th_optim_steps(optim) == 1 && optim->slots[0].steps == 1);
  if (optim->slots[0].m != NULL) cr_assert_eq(((float *)th_tensor_data(optim->slots[0].m))[0], m);
  th__checkpoint_close(checkpoint);
  th_optim_free(optim);
}

Test(checkpoint, another_optimiser) {
  th_model *model = gpt((th_gpt){SIZES}, 1), *small = gpt((th_gpt){SIZES, .hidden = 5}, 1);
  th_error error = {0};
  cr_assert_eq(th__checkpoint_save(PATH, model, NULL, NULL, NULL), TH_OK);
  optim_refused(0, model, PATH ": no \"tapehead.optim\" in its metadata");

  th_optim *momentum = make_optim(2, th_model_params(model));
  cr_assert_eq(th__checkpoint_save(PATH, small, momentum, NULL, &error), TH_ERR_VALUE);
  cr_assert_not_null(strstr(error.message, "(sgd) does not step this model's parameters"));
  cr_assert_eq(th__checkpoint_save(PATH, model, momentum, NULL, &error), TH_OK, "%s", error.message);
  optim_refused(0, model, "file: optimiser sgd; here: adamw");
  optim_refused(3, model, "moments; optimiser (sgd): 0");
  optim_refused(2, small, "file: optim.m.h.0.mlp.c_fc.weight [32, 8] F32; model: [5, 8] F32");
  th_optim_free(momentum);
  th_model_free(model);
  th_model_free(small);
  unlink(PATH);
}

/* ---- files whose parts disagree ---- */

/* Saves a model under metadata of the test's own. */
static void forge(const char *key, const char *text) {
  th_model *model = gpt((th_gpt){SIZES}, 1);
  th_params *params = th_model_params(model);
  th__item items[64];
  ptrdiff_t count = th_params_count(params);
  cr_assert(count < 64);
  for (ptrdiff_t i = 0; i < count; i++)
    items[i] = (th__item){th_tensor_name(th_params_at(params, i)), th_params_at(params, i)};
  json_t *metadata = json_pack("{s:s}", key, text);
  cr_assert_eq(th__safetensors_write(PATH, items, count, metadata, NULL), TH_OK);
  json_decref(metadata);
  th_model_free(model);
}

static void load_refused(const char *text, const char *sentence) {
  forge(text != NULL ? "tapehead.model" : "other", text != NULL ? text : "x");
  th_error error = {0};
  cr_assert_null(th_model_load(PATH, &error));
  cr_assert_eq(error.status, TH_ERR_IO, "%s", error.message);
  cr_assert_not_null(strstr(error.message, sentence), "\"%s\" lacks \"%s\"", error.message,
                     sentence);
  unlink(PATH);
}

#define START "{\"kind\":\"gpt\",\"vocab\":5,\"width\":8,\"heads\":2,"

/* A configuration that asks for more than the file holds is refused before memory is asked for. */
Test(checkpoint, configurations_that_lie) {
  load_refused(NULL, PATH ": no \"tapehead.model\" in its metadata");
  load_refused("{", PATH ": \"tapehead.model\" in its metadata is no valid JSON");
  load_refused("[]", PATH ": model: an object with \"kind\" is expected");
  load_refused("{\"kind\":\"gpt\",\"vocab\":5.5,\"width\":8}", PATH ": model: \"vocab\" is 5.5; ");
  load_refused("{\"kind\":\"gpt\",\"vocab\":5,\"width\":\"8\"}",
               PATH ": model: \"width\" is \"8\"; ");
  load_refused("{\"kind\":\"gpt\",\"vocab\":4,\"width\":8}",
               "file: wte.weight [5, 8] F32; model: [4, 8]");
  load_refused("{\"kind\":\"gpt\",\"vocab\":5,\"width\":1000000000}", "model: [5, 1000000000]");
  load_refused(START "\"layers\":1000000000000}", "is larger than the file");
  load_refused(START "\"layers\":2,\"context\":1000000000}", "is larger than the file");
  load_refused(START "\"layers\":2,\"context\":6,\"hidden\":1000000000}", "is larger than the file");
  load_refused(START "\"layers\":2,\"context\":6,\"head_width\":4611686018427387904}",
               "is larger than");
  load_refused(START "\"layers\":-2,\"context\":6}", "is larger than the file");
  load_refused(START "\"layers\":1,\"context\":6,\"depth\":1}",
               "model: \"depth\" is no field of a gpt");
  load_refused(START "\"layers\":1,\"context\":6}", "model: no such parameter");
}

/* The vocabulary that travels with the weights has a symbol for each row (C20). */
Test(checkpoint, vocabulary_and_table_disagree) {
  th_model *model = gpt((th_gpt){SIZES}, 1), *other = gpt((th_gpt){SIZES}, 2);
  const struct {
    const char *vocab, *sentence;
  } cases[] = {{"{\"kind\":\"characters\",\"symbols\":[97,98,99,100,101]}", NULL},
               {"{\"kind\":\"numbers\",\"size\":5}", NULL},
               {"{\"kind\":\"characters\",\"symbols\":[97,98,99,100,101,102]}",
                PATH ": its vocabulary has 6 entries, but wte.weight has 5 rows"},
               {"{\"kind\":\"numbers\",\"size\":4}",
                "its vocabulary has 4 entries, but wte.weight has 5 rows"},
               {"{\"kind\":\"letters\"}", PATH ": tapehead.vocab: "},
               {"x", PATH ": \"tapehead.vocab\" in its metadata is no valid JSON"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    json_t *metadata = json_pack("{s:s}", "tapehead.vocab", cases[i].vocab);
    cr_assert_eq(th__checkpoint_save(PATH, model, NULL, metadata, NULL), TH_OK);
    json_decref(metadata);
    th__checkpoint *checkpoint = opened();
    th_error error = {0};
    th_status status = th__checkpoint_weights(checkpoint, other, &error);
    th_model *made = th__checkpoint_model(checkpoint, NULL);
    cr_assert_eq(status == TH_OK, cases[i].sentence == NULL, "%s", error.message);
    cr_assert_eq(made != NULL, cases[i].sentence == NULL);
    if (cases[i].sentence != NULL)
      cr_assert_not_null(strstr(error.message, cases[i].sentence), "%s", error.message);
    th_model_free(made);
    th__checkpoint_close(checkpoint);
  }
  th_model_free(model);
  th_model_free(other);
  unlink(PATH);
}

Test(checkpoint, null_is_an_error) {
  th_model *model = gpt((th_gpt){SIZES}, 1);
  cr_assert_eq(th_model_save(NULL, PATH, NULL), TH_ERR_VALUE);
  cr_assert_eq(th_model_save(model, NULL, NULL), TH_ERR_VALUE);
  cr_assert_null(th_model_load(NULL, NULL));
  cr_assert_null(th_model_load("/nowhere/x", NULL));
  th_model_free(model);
}

/* Whatever request fails: an error, nothing changed, nothing left behind. */
Test(checkpoint, memory_ends) {
  th_model *model = gpt((th_gpt){SIZES}, 1), *other = gpt((th_gpt){SIZES}, 2);
  th_model *before = gpt((th_gpt){SIZES}, 2);
  th_optim *optim = make_optim(0, th_model_params(model));
  th_optim *fresh = make_optim(0, th_model_params(other));
  step(model, optim, 2);
  cr_assert_eq(th__checkpoint_save(PATH, model, optim, NULL, NULL), TH_OK);
  int failures = 0;
  for (size_t n = 1; n < 1000; n++) {
    th_error error = {0};
    th_status status = TH_OK;
    th__alloc_fail_at(n);
    th__checkpoint *checkpoint = th__checkpoint_open(PATH, &error);
    th_model *made = checkpoint != NULL ? th__checkpoint_model(checkpoint, &error) : NULL;
    if (made != NULL) status = th__checkpoint_optim(checkpoint, fresh, &error);
    if (made != NULL && status == TH_OK) status = th__checkpoint_weights(checkpoint, other, &error);
    th__alloc_fail_at(0);
    if (made == NULL || status != TH_OK) {
      cr_assert_eq(error.status, TH_ERR_MEMORY, "%zu: %s", n, error.message);
      same_weights(before, other);
      failures++;
    }
    th_model_free(made);
    th__checkpoint_close(checkpoint);
    if (error.status == TH_OK) break;
  }
  cr_assert(failures > 20 && failures < 900, "%d", failures);
  same_weights(model, other);
  cr_assert_eq(fresh->slots[1].steps, 1);
  th_optim_free(optim);
  th_optim_free(fresh);
  th_model_free(model);
  th_model_free(other);
  th_model_free(before);
  unlink(PATH);
}
