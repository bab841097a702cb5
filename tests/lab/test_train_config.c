/* train_config: a configuration comes back from JSON as it was; options win over a file, which wins over
 * a preset, which wins over defaults; every mistake is named; what a resumed run keeps. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lab/train_config.h"

#define READ(config, text) read_json(config, text, TH__FROM_FILE)

static th_error error;

static th_status read_json(th__train *config, const char *text, th__train_from from) {
  json_t *json = json_loads(text, 0, NULL);
  cr_assert_not_null(json, "the test's JSON: %s", text);
  error = (th_error){0};
  th_status status = th__train_from_json(config, json, "run.json: ", from, &error);
  json_decref(json);
  return status;
}

static void option(th__train *config, const char *name, const char *text) {
  int field = th__train_field_find(name);
  cr_assert_geq(field, 0, "%s", name);
  cr_assert_eq(th__train_set_text(config, field, text, &error), TH_OK, "%s", error.message);
}

/* ---- there and back ---- */

/* Another value for every field, from the table alone: a new field is tested without a new line here. */
static void change(th__train *config, int i) {
  const th__train_field *f = &th__train_fields[i];
  char text[64] = "other.txt";
  if (f->type == TH__FIELD_INTEGER) snprintf(text, sizeof text, "%.0f", f->least + 3);
  if (f->type == TH__FIELD_NUMBER) snprintf(text, sizeof text, "%.17g", f->least + 0.1);
  if (f->type == TH__FIELD_CHOICE) snprintf(text, sizeof text, "%s", f->words[1]);
  if (f->type == TH__FIELD_SEED) snprintf(text, sizeof text, "18446744073709551615");
  if (f->type == TH__FIELD_SCALE) snprintf(text, sizeof text, "0.1");
  cr_assert_eq(th__train_set_text(config, i, text, &error), TH_OK, "%s", error.message);
}

Test(train_config, every_field_comes_back) {
  for (int i = 0; i < TH__TRAIN_FIELDS; i++) {
    th__train there = {0}, back = {0};
    change(&there, i);
    json_t *object = json_object();
    json_object_set_new(object, th__train_fields[i].key, th__train_get_json(&there, i));
    char *text = json_dumps(object, JSON_REAL_PRECISION(17));
    cr_assert_eq(READ(&back, text), TH_OK, "%s", error.message);
    cr_assert(th__train_field_same(&there, &back, i), "%s", text);
    const th__train nothing = {0};
    cr_assert(!th__train_field_same(&nothing, &back, i), "%s: nothing was read", text);
    cr_assert_eq(back.from[i], TH__FROM_FILE);
    free(text);
    json_decref(object);
    th__train_free(&there);
    th__train_free(&back);
  }
}

static void expect_whole_round_trip(th__train *config) {
  th__train_complete(config);
  cr_assert_eq(th__train_check(config, &error), TH_OK, "%s", error.message);
  json_t *json = th__train_to_json(config);
  cr_assert_not_null(json);
  th__train back = {0};
  cr_assert_eq(th__train_from_json(&back, json, "", TH__FROM_FILE, &error), TH_OK, "%s",
               error.message);
  th__train_complete(&back);
  cr_assert_eq(th__train_check(&back, &error), TH_OK, "%s", error.message);
  json_t *again = th__train_to_json(&back);
  cr_assert(json_equal(json, again));
  json_decref(json);
  json_decref(again);
  th__train_free(&back);
  th__train_free(config);
}

Test(train_config, whole_configurations_come_back) {
  for (int model = 0; model <= TH__MODEL_SEQ2SEQ; model++)
    for (int optim = 0; optim < 2; optim++) {
      th__train config = {.model = model, .optim = optim};
      option(&config, "task", "sort");
      expect_whole_round_trip(&config);
      if (model == TH__MODEL_SEQ2SEQ) continue;
      config = (th__train){.model = model, .optim = optim};
      option(&config, "text", "a.txt");
      option(&config, "text", "b.txt");
      option(&config, "validation", "c.txt");
      option(&config, "schedule", "cosine");
      option(&config, "min-lr", "1e-5");
      expect_whole_round_trip(&config);
    }
}

/* ---- who wins ---- */

Test(train_config, precedence) {
  th__train c = {0};
  option(&c, "layers", "7");
  cr_assert_eq(READ(&c, "{\"layers\": 5, \"heads\": 8, \"preset\": \"small\", \"task\": \"sort\"}"),
               TH_OK);
  cr_assert_eq(th__train_apply_preset(&c, &error), TH_OK, "%s", error.message);
  th__train_complete(&c);
  cr_assert_eq(c.layers, 7, "an option wins over the file");
  cr_assert_eq(c.heads, 8, "the file wins over the preset");
  cr_assert_eq(c.d_model, 128, "the preset wins over the default");
  cr_assert_eq(c.seeds, 1, "the default is left");
  cr_assert(
      c.from[TH__TRAIN_layers] == TH__FROM_OPTION && c.from[TH__TRAIN_heads] == TH__FROM_FILE &&
      c.from[TH__TRAIN_d_model] == TH__FROM_PRESET && c.from[TH__TRAIN_seeds] == TH__FROM_DEFAULT);
  /* An option's zero is a value, too. */
  th__train zero = {0};
  option(&zero, "task", "copy");
  option(&zero, "clip", "0");
  option(&zero, "weight-decay", "0");
  cr_assert_eq(READ(&zero, "{\"clip\": 2, \"weight_decay\": 0.5, \"beta1\": 0}"), TH_OK);
  th__train_complete(&zero);
  cr_assert(zero.clip == 0 && zero.weight_decay == 0 && zero.beta1 == 0);
}

static int init_of(const char *name, const char *value, const char *preset, const char *init) {
  th__train c = {0};
  option(&c, name, value);
  if (preset != NULL) option(&c, "preset", preset);
  if (init != NULL) option(&c, "init", init);
  cr_assert_eq(th__train_apply_preset(&c, &error), TH_OK, "%s", error.message);
  th__train_complete(&c);
  int kind = c.init;
  th__train_free(&c);
  return kind;
}

Test(train_config, first_weights) {
  cr_assert_eq(init_of("text", "a.txt", NULL, NULL), TH_INIT_GPT2);
  cr_assert_eq(init_of("text", "a.txt", "tiny", NULL), TH_INIT_WIDTH);
  cr_assert_eq(init_of("text", "a.txt", "small", NULL), TH_INIT_GPT2);
  cr_assert_eq(init_of("text", "a.txt", "gpt2-124m", NULL), TH_INIT_GPT2);
  cr_assert_eq(init_of("text", "a.txt", NULL, "xavier"), TH_INIT_XAVIER);
  cr_assert_eq(init_of("text", "a.txt", "tiny", "gpt2"), TH_INIT_GPT2);
  cr_assert_eq(init_of("task", "copy", NULL, NULL), TH_INIT_WIDTH, "learnt sooner");
  cr_assert_eq(init_of("task", "copy", NULL, "gpt2"), TH_INIT_GPT2);
}

Test(train_config, files_of_a_higher_rank_replace_those_of_a_lower) {
  th__train c = {0};
  option(&c, "text", "mine.txt");
  cr_assert_eq(READ(&c, "{\"text\": [\"a.txt\", \"b.txt\"], \"validation\": \"v.txt\"}"), TH_OK);
  cr_assert(c.text.count == 1 && strcmp(c.text.at[0], "mine.txt") == 0);
  cr_assert(c.validation.count == 1 && strcmp(c.validation.at[0], "v.txt") == 0);
  th__train_free(&c);
}

Test(train_config, a_preset_fits_other_steps_rates_and_batches) {
  th__train c = {.preset = TH__PRESET_GPT2_124M};
  option(&c, "text", "a.txt");
  option(&c, "steps", "50");
  option(&c, "lr", "1e-5");
  option(&c, "batch", "4");
  cr_assert_eq(th__train_apply_preset(&c, &error), TH_OK, "%s", error.message);
  th__train_complete(&c);
  cr_assert_eq(th__train_check(&c, &error), TH_OK, "%s", error.message);
  cr_assert(c.warmup == 25 && c.accumulate == 4, "%ld, %ld", c.warmup, c.accumulate);
  cr_assert_float_eq(c.min_lr, 1e-6, 1e-12);
  th__train_free(&c);
  /* What was asked for is not touched. */
  c = (th__train){.preset = TH__PRESET_GPT2_124M};
  option(&c, "text", "a.txt");
  option(&c, "steps", "50");
  option(&c, "warmup", "50");
  cr_assert_eq(th__train_apply_preset(&c, &error), TH_OK, "%s", error.message);
  th__train_complete(&c);
  cr_assert_eq(th__train_check(&c, &error), TH_ERR_VALUE);
  th__train_free(&c);
}

Test(train_config, words_of_files_are_understood) {
  th__train c = {0};
  option(&c, "feed-forward", "relu");
  option(&c, "feed-forward", "gelu_tanh");
  cr_assert_eq(c.feed_forward, TH_FEED_FORWARD_GELU_TANH);
  cr_assert_neq(th__train_set_text(&c, th__train_field_find("feed-forward"), "gelu_tan", &error),
                TH_OK);
  th__train_free(&c);
}

Test(train_config, presets) {
  for (int preset = 1; preset <= TH__PRESET_GPT2_124M; preset++) {
    th__train c = {.preset = preset};
    option(&c, "text", "README.md");
    cr_assert_eq(th__train_apply_preset(&c, &error), TH_OK, "%s", error.message);
    th__train_complete(&c);
    cr_assert_eq(th__train_check(&c, &error), TH_OK, "%s", error.message);
    char text[384];
    th__train_preset_text(preset, text, sizeof text);
    cr_assert_lt(strlen(text), sizeof text - 1);
    cr_assert_not_null(strstr(text, "layers "), "%s", text);
    th__train_free(&c);
  }
}

Test(train_config, a_llama_unless_said_otherwise) {
  th__train c = {0};
  option(&c, "task", "copy");
  option(&c, "model", "llama");
  cr_assert_eq(READ(&c, "{\"no_bias\": false, \"norm\": \"layer\"}"), TH_OK);
  th__train_complete(&c);
  cr_assert(c.norm == TH_NORM_LAYER && !c.no_bias && c.untied && c.positions == TH_POSITION_ROPE &&
            c.feed_forward == TH_FEED_FORWARD_SWIGLU);
  cr_assert_eq(c.hidden, 176); /* 8/3 of 64 is 170.7 */
}

/* What the command line chooses makes idle what a file says of something else. */
Test(train_config, a_file_gives_way) {
  static const char *const choices[][2] = {{"task", "sort"}, {"model", "lstm"}, {"optim", "sgd"}};
  for (int i = 0; i < 3; i++) {
    th__train c = {0};
    option(&c, choices[i][0], choices[i][1]);
    const char *json = i == 0 ? "{\"symbols\": \"chars\", \"val_fraction\": 0.2}"
                              : "{\"task\": \"copy\", \"heads\": 2, \"beta1\": 0.8}";
    if (i == 1) option(&c, "beta1", "0.5");
    cr_assert_eq(READ(&c, json), TH_OK, "%s", error.message);
    th__train_complete(&c);
    cr_assert_eq(th__train_check(&c, &error), TH_OK, "%s", error.message);
    if (i == 2) option(&c, "beta1", "0.5"); /* but not what it says itself */
    if (i == 2) cr_assert_eq(th__train_check(&c, &error), TH_ERR_VALUE);
    th__train_free(&c);
  }
}

/* ---- mistakes ---- */

typedef struct mistake {
  const char *json, *text;
} mistake;

Test(train_config, mistakes_in_json) {
  static const mistake mistakes[] = {
      {"[1]", "run.json: a configuration is an object"},
      {"{\"layer\": 2}", "run.json: unknown key \"layer\"; did you mean \"layers\"?"},
      {"{\"d-model\": 64}", "did you mean \"d_model\"? Keys are the options' names, with _ for -"},
      {"{\"bad\": 1}", "unknown key \"bad\"; keys are the options' names"},
      {"{\"zzzzzzzzzzzz\": 1}", "unknown key \"zzzzzzzzzzzz\"; keys are the options' names"},
      {"{\"layers\": \"two\"}", "run.json: \"layers\": this is a text; a whole number is expected"},
      {"{\"layers\": 2.5}", "this is a number with a fraction; a whole number"},
      {"{\"layers\": null}", "this is null; a whole number"},
      {"{\"layers\": 0}", "run.json: \"layers\": 0 is out of range; 1 to 1000 is possible"},
      {"{\"layers\": 9223372036854775807}", "is out of range"},
      {"{\"lr\": \"0.1\"}", "\"lr\": this is a text; a number is expected"},
      {"{\"lr\": 0}", "\"lr\": 0 is out of range"},
      {"{\"dropout\": 1}", "\"dropout\": 1 is out of range; 0 to 0.99"},
      {"{\"no_bias\": 1}", "\"no_bias\": this is a whole number; true or false is expected"},
      {"{\"model\": \"bert\"}", "\"model\": 'bert' is not one of gpt, llama, rnn, lstm, seq2seq"},
      {"{\"model\": true}", "\"model\": this is true or false; a word in quotes"},
      {"{\"scale\": \"cube\"}", "\"scale\": 'cube' is not none, sqrt, dk or a number"},
      {"{\"scale\": []}", "\"scale\": this is an array; a word or a number"},
      {"{\"seed\": -1}", "\"seed\": '-1' is not a whole number from 0"},
      {"{\"seed\": 1.5}", "\"seed\": this is a number with a fraction"},
      {"{\"text\": []}", "\"text\": this is an array; a file name, or an array of them"},
      {"{\"text\": [\"a\", 1]}", "\"text\": this is a whole number; a file name"},
      {"{\"text\": \"\"}", "\"text\": '' is no file name"},
      {"{\"out\": [\"a\", \"b\"]}", "\"out\": this is an array; a name"}};
  for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
    th__train c = {0};
    cr_assert_eq(READ(&c, mistakes[i].json), TH_ERR_VALUE, "%s was taken", mistakes[i].json);
    cr_assert_not_null(strstr(error.message, mistakes[i].text), "%s: %s", mistakes[i].json,
                       error.message);
    th__train_free(&c);
  }
}

Test(train_config, mistakes_in_files) {
  char path[] = "/tmp/train_config_XXXXXX";
  int file = mkstemp(path);
  const char *text = "{\"layers\": 2,\n \"layers\": 3}";
  cr_assert_eq(write(file, text, strlen(text)), (ssize_t)strlen(text));
  th__train c = {0};
  cr_assert_eq(th__train_read(&c, path, &error), TH_ERR_VALUE);
  cr_assert(strstr(error.message, path) != NULL && strstr(error.message, ":2:") != NULL &&
                strstr(error.message, "duplicate") != NULL,
            "%s", error.message);
  cr_assert_eq(ftruncate(file, 5), 0);
  cr_assert_eq(th__train_read(&c, path, &error), TH_ERR_VALUE);
  cr_assert_not_null(strstr(error.message, "no valid JSON"), "%s", error.message);
  close(file);
  unlink(path);
  cr_assert_eq(th__train_read(&c, path, &error), TH_ERR_IO);
  cr_assert_not_null(strstr(error.message, "No such file"), "%s", error.message);
}

/* Options and keys that do not go together: words, ended by NULL, then what the message says. */
typedef struct clash {
  const char *json, *text;
} clash;

Test(train_config, what_does_not_fit_together) {
  static const clash clashes[] = {
      {"{}", "give either --task"},
      {"{\"task\": \"copy\", \"text\": \"a\"}", "not both"},
      {"{\"task\": \"copy\", \"d_model\": 30}", "--d-model 30 does not divide into --heads 4"},
      {"{\"task\": \"copy\", \"kv_heads\": 3}", "--heads 4 cannot share --kv-heads 3"},
      {"{\"task\": \"copy\", \"positions\": \"rope\", \"dk\": 5}", "--dk 5 is odd"},
      {"{\"task\": \"copy\", \"positions\": \"sinusoidal\", \"d_model\": 9, \"heads\": 3}",
       "even --d-model"},
      {"{\"text\": \"a\", \"model\": \"seq2seq\"}", "seq2seq answers a question"},
      {"{\"task\": \"copy\", \"model\": \"lstm\", \"norm\": \"rms\"}",
       "--norm means nothing to --model lstm"},
      {"{\"task\": \"copy\", \"optim\": \"sgd\", \"beta1\": 0.8}",
       "--beta1 means nothing to --optim sgd"},
      {"{\"task\": \"copy\", \"symbols\": \"chars\"}", "--symbols is for a text"},
      {"{\"text\": \"a\", \"validation\": \"b\", \"val_fraction\": 0.2}",
       "--val-fraction: the validation files"},
      {"{\"task\": \"copy\", \"batch\": 4, \"accumulate\": 5}", "--accumulate 5: a batch of 4"},
      {"{\"task\": \"copy\", \"min_lr\": 0.5}", "--min-lr 0.5 is above --lr 0.003"},
      {"{\"task\": \"copy\", \"warmup\": 301}", "--warmup 301 leaves nothing of the schedule's 300"},
      {"{\"task\": \"copy\", \"schedule\": \"linear\", \"warmup\": 300}",
       "--warmup 300 leaves nothing"},
      {"{\"task\": \"copy\", \"patience\": 2}", "give --eval-every"},
      {"{\"task\": \"copy\", \"out\": \"x\", \"seeds\": 2}", "--out holds one run"},
      {"{\"task\": \"copy\", \"out\": \"x\", \"log\": \"y\"}", "with --out the log is x/log.jsonl"},
      {"{\"task\": \"copy\", \"plot_terminal\": true}", "give --out DIR"},
      {"{\"task\": \"copy\", \"log\": \"x\", \"json\": \"x\"}", "'x' is given for two outputs"}};
  for (size_t i = 0; i < sizeof clashes / sizeof *clashes; i++) {
    th__train c = {0};
    cr_assert_eq(READ(&c, clashes[i].json), TH_OK, "%s", error.message);
    th__train_complete(&c);
    cr_assert_eq(th__train_check(&c, &error), TH_ERR_VALUE, "%s was taken", clashes[i].json);
    cr_assert_not_null(strstr(error.message, clashes[i].text), "%s: %s", clashes[i].json,
                       error.message);
    th__train_free(&c);
  }
}

/* ---- resuming ---- */

static th__train stored_run(void) {
  th__train c = {0};
  cr_assert_eq(READ(&c, "{\"task\": \"copy\", \"layers\": 3, \"steps\": 50}"), TH_OK);
  th__train_complete(&c);
  return c;
}

Test(train_config, a_resumed_run_keeps_its_configuration) {
  static const clash refused[] = {
      {"{\"layers\": 4}", "--layers 4 was asked for, but the run in DIR has 3"},
      {"{\"seed\": 9}", "--seed 9 was asked for, but the run in DIR has 0"},
      {"{\"task\": \"sort\"}", "--task sort was asked for, but the run in DIR has copy"},
      {"{\"text\": \"a.txt\"}", "--text a.txt was asked for, but the run in DIR has none"},
      {"{\"schedule_steps\": 60}", "--schedule-steps 60 was asked for, but the run in DIR has 50"},
      {"{\"preset\": \"tiny\"}", "--preset tiny was asked for, but the run in DIR has none"},
      {"{\"lr\": 0.5}", "--lr 0.5 was asked for, but the run in DIR has 0.003"}};
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    th__train stored = stored_run(), asked = {0};
    cr_assert_eq(READ(&asked, refused[i].json), TH_OK);
    cr_assert_eq(th__train_merge_resume(&stored, &asked, "DIR", &error), TH_ERR_VALUE,
                 "%s was taken", refused[i].json);
    cr_assert_not_null(strstr(error.message, refused[i].text), "%s", error.message);
    th__train_free(&asked);
    th__train_free(&stored);
  }
  th__train stored = stored_run(), asked = {0};
  cr_assert_eq(READ(&asked, "{\"task\": \"copy\", \"layers\": 3, \"steps\": 80, \"eval_every\": 5, "
                            "\"patience\": 2, \"out\": \"DIR\", \"threads\": 2}"),
               TH_OK);
  cr_assert_eq(th__train_merge_resume(&stored, &asked, "DIR", &error), TH_OK, "%s", error.message);
  cr_assert(stored.steps == 80 && stored.schedule_steps == 50 && stored.eval_every == 5 &&
            stored.patience == 2 && stored.threads == 2 && stored.out.count == 1 &&
            stored.layers == 3);
  th__train_free(&asked);
  th__train_free(&stored);
}
