/* Configurations as JSON: every field comes back, and what is not understood is refused by name. */
#include "io/model_json.h"

#include <criterion/criterion.h>
#include <string.h>

#include "tensor/alloc.h"

/* Through text, as in a file. */
static th_model *again(const th_model *model) {
  json_t *json = th__model_to_json(model);
  cr_assert_not_null(json);
  char *text = json_dumps(json, 0);
  json_t *read = json_loads(text, 0, NULL);
  th_error error = {0};
  th_model *copy = th__model_from_json(read, &error);
  cr_assert_not_null(copy, "%s: %s", text, error.message);
  cr_assert_eq(th_model_kind_of(copy), th_model_kind_of(model));
  th__free(text);
  json_decref(json);
  json_decref(read);
  return copy;
}

static void expect_gpt(const th_gpt *a, const th_gpt *b) {
  cr_assert(a->layers == b->layers && a->heads == b->heads && a->width == b->width);
  cr_assert(a->context == b->context && a->vocab == b->vocab && a->kv_heads == b->kv_heads);
  cr_assert(a->head_width == b->head_width && a->hidden == b->hidden && a->norm == b->norm);
  cr_assert(a->positions == b->positions && a->feed_forward == b->feed_forward);
  cr_assert(a->post_norm == b->post_norm && a->no_bias == b->no_bias && a->untied == b->untied);
  cr_assert(a->norm_eps == b->norm_eps && a->rope_base == b->rope_base && a->scale == b->scale);
  cr_assert(a->factor == b->factor && a->dropout == b->dropout && a->init == b->init);
  cr_assert(a->all_see_all == b->all_see_all && a->dtype == b->dtype);
}

static void round_trip(th_gpt config) {
  th_error error = {0};
  th_model *model = th_gpt_new(&config, 1, &error);
  cr_assert_not_null(model, "%s", error.message);
  th_model *copy = again(model);
  expect_gpt(th_model_gpt(model), th_model_gpt(copy));
  th_model_free(model);
  th_model_free(copy);
}

#define SIZES .layers = 2, .heads = 2, .width = 8, .context = 6, .vocab = 5

Test(model_json, every_field_of_a_gpt) {
  round_trip((th_gpt){SIZES});
  round_trip((th_gpt){TH_LLAMA, SIZES, .kv_heads = 1, .head_width = 2, .hidden = 3,
                      .norm_eps = 1.0 / 3, .rope_base = 12345.678, .scale = TH_SCALE_FACTOR,
                      .factor = -0.1, .dropout = 0.3, .init = TH_INIT_XAVIER, .dtype = TH_F64});
  for (int i = 0; i < 4; i++) round_trip((th_gpt){SIZES, .positions = (th_position_kind)i});
  for (int i = 0; i < 5; i++) round_trip((th_gpt){SIZES, .feed_forward = (th_feed_forward_kind)i});
  for (int i = 0; i < 3; i++)
    round_trip((th_gpt){SIZES, .init = (th_init_kind)i, .scale = (th_scale_kind)i,
                        .norm = (th_norm_kind)(i % 2), .post_norm = i == 1, .all_see_all = i == 2});
}

Test(model_json, every_kind) {
  th_gpt config = {SIZES};
  th_model *model = th_classifier_new(&config, 7, 1, NULL), *copy = again(model);
  expect_gpt(th_model_gpt(model), th_model_gpt(copy));
  cr_assert_eq(th_tensor_dim(th_params_find(th_model_params(copy), "head.weight"), 0), 7);
  th_model_free(model);
  th_model_free(copy);

  model = th_seq2seq_new(&config, 1, NULL);
  copy = again(model);
  expect_gpt(th_model_gpt(model), th_model_gpt(copy));
  th_model_free(model);
  th_model_free(copy);

  th_recurrent recurrent = {.layers = 2,
                            .width = 3,
                            .vocab = 4,
                            .lstm = true,
                            .untied = true,
                            .dropout = 0.1,
                            .dtype = TH_F64};
  model = th_recurrent_new(&recurrent, 1, NULL);
  copy = again(model);
  const th_recurrent *got = th_model_recurrent(copy);
  cr_assert(got->layers == 2 && got->width == 3 && got->vocab == 4 && got->lstm && got->untied);
  cr_assert(got->dropout == 0.1 && got->dtype == TH_F64);
  th_model_free(model);
  th_model_free(copy);
}

/* For people to read, and to write by hand: the words are part of the format. */
Test(model_json, words) {
  th_gpt config = {TH_LLAMA, SIZES};
  th_model *model = th_gpt_new(&config, 1, NULL);
  json_t *json = th__model_to_json(model);
  char *text = json_dumps(json, JSON_COMPACT | JSON_REAL_PRECISION(6));
  cr_assert_str_eq(
      text, "{\"kind\":\"gpt\",\"layers\":2,\"heads\":2,\"width\":8,\"context\":6,\"vocab\":5,"
            "\"kv_heads\":2,\"head_width\":4,\"hidden\":24,\"norm\":\"rms\","
            "\"positions\":\"rope\",\"feed_forward\":\"swiglu\",\"post_norm\":false,"
            "\"no_bias\":true,\"untied\":true,\"norm_eps\":1e-5,\"rope_base\":10000.0,"
            "\"scale\":\"sqrt\",\"factor\":0.0,\"dropout\":0.0,\"init\":\"gpt2\","
            "\"all_see_all\":false,\"dtype\":\"f32\"}");
  th__free(text);
  json_decref(json);
  th_model_free(model);

  json =
      json_loads("{\"kind\":\"gpt\",\"layers\":1,\"heads\":1,\"width\":4,\"context\":4,\"vocab\":3,"
                 "\"dropout\":0}",
                 0, NULL);
  model = th__model_from_json(json, NULL);
  cr_assert_not_null(model);
  cr_assert_eq(th_model_gpt(model)->hidden, 16);
  json_decref(json);
  th_model_free(model);
}

static void refused(const char *text, const char *sentence) {
  json_t *json = json_loads(text, JSON_DECODE_ANY, NULL);
  cr_assert_not_null(json, "%s", text);
  th_error error = {0};
  cr_assert_null(th__model_from_json(json, &error), "%s", text);
  cr_assert_not_null(strstr(error.message, sentence), "\"%s\" lacks \"%s\"", error.message,
                     sentence);
  json_decref(json);
}

Test(model_json, what_is_not_understood) {
  refused("[]", "model: an object with \"kind\" is expected");
  refused("{\"layers\":1}", "model: \"kind\" is missing");
  refused("{\"kind\":\"bert\"}",
          "model: \"kind\" is \"bert\"; one of \"gpt\", \"recurrent\", \"classifier\", "
          "\"seq2seq\" is expected");
  refused("{\"kind\":1}", "model: \"kind\" is 1; one of");
  refused("{\"kind\":\"gpt\",\"layer\":1}", "model: \"layer\" is no field of a gpt");
  refused("{\"kind\":\"gpt\",\"classes\":1}", "model: \"classes\" is no field of a gpt");
  refused("{\"kind\":\"recurrent\",\"heads\":1}", "model: \"heads\" is no field of a recurrent");
  refused("{\"kind\":\"gpt\",\"layers\":\"2\"}",
          "model: \"layers\" is \"2\"; a whole number is expected");
  refused("{\"kind\":\"gpt\",\"layers\":2.0}", "model: \"layers\" is 2.0; a whole number");
  refused("{\"kind\":\"gpt\",\"dropout\":true}", "model: \"dropout\" is true; a number is expected");
  refused("{\"kind\":\"gpt\",\"untied\":1}", "model: \"untied\" is 1; true or false is expected");
  refused("{\"kind\":\"gpt\",\"norm\":\"batch\"}",
          "\"norm\" is \"batch\"; one of \"layer\", \"rms\" is");
  refused("{\"kind\":\"gpt\",\"norm\":0}", "\"norm\" is 0; one of");
  refused("{\"kind\":\"gpt\",\"dtype\":\"i32\"}",
          "\"dtype\" is \"i32\"; one of \"f32\", \"f64\" is");
  refused("{\"kind\":\"classifier\",\"classes\":\"x\"}", "\"classes\" is \"x\"; a whole number");
  refused("{\"kind\":\"gpt\"}", "th_gpt: layers is 0"); /* the sizes have no defaults */
  refused("{\"kind\":\"gpt\",\"layers\":-1}", "layers is -1");
}
