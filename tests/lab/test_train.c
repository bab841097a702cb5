/* train: the same bits with the same seed, at any number of threads, however often it is evaluated;
 * runs that are lost, sizes that do not fit, memory that ends. */
#include "../support.h"

#include <sys/resource.h>

#include "lab/train.h"
#include "tensor/alloc.h"

enum { MOST = 400 };

/* A run that is over soon and learns: copying words of 4 letters. */
static th__train small_run(void) {
  th__train_look_every = 10;
  th__train s = {.task = TH_TASK_COPY,
                 .seq = 8,
                 .batch = 16,
                 .layers = 1,
                 .heads = 2,
                 .d_model = 32,
                 .steps = 120,
                 .lr = 1e-2,
                 .seed = 1};
  th__train_complete(&s);
  return s;
}

typedef struct recording {
  th__train_step steps[MOST];
  long count, stop_after;
} recording;

static bool record(void *context, const th__train_step *step) {
  recording *r = context;
  cr_assert_lt(r->count, MOST);
  r->steps[r->count++] = *step;
  cr_assert_eq(step->step, r->count);
  return r->count != r->stop_after;
}

static th_status try_run(const th__train *config, recording *r, th__train_run *result,
                         th_error *error) {
  const th__train_job job = {.config = config,
                             .watch = {.context = r, .step = r != NULL ? record : NULL}};
  return th__train_run_one(&job, result, error);
}

static th__train_run run(const th__train *settings, recording *r) {
  th__train_run result;
  th_error error = {0};
  th_status status = try_run(settings, r, &result, &error);
  cr_assert_eq(status, TH_OK, "%s", error.message);
  return result;
}

/* All but the times. */
static void expect_same_steps(const char *what, const recording *a, const recording *b) {
  cr_assert_eq(a->count, b->count);
  for (long i = 0; i < a->count; i++) {
    const th__train_step *x = &a->steps[i], *y = &b->steps[i];
    cr_assert(x->loss == y->loss && x->accuracy == y->accuracy && x->grad_norm == y->grad_norm &&
                  x->entropy == y->entropy,
              "%s: step %ld: loss %.17g and %.17g", what, x->step, x->loss, y->loss);
  }
}

static void expect_same_runs(const th__train_run *a, const th__train_run *b) {
  cr_assert(a->final_loss == b->final_loss && a->train_accuracy == b->train_accuracy &&
            a->heldout_accuracy == b->heldout_accuracy && a->steps == b->steps);
}

/* ---- a run ---- */

Test(train, learns_and_says_when) {
  static recording r;
  th__train s = small_run();
  th__train_run result = run(&s, &r);
  cr_assert(result.steps == 120 && r.count == 120 && result.end == TH__END_STEPS &&
            result.seed == 1);
  cr_assert_gt(result.heldout_accuracy, 0.95);
  cr_assert_gt(result.train_accuracy, 0.95);
  cr_assert(result.steps_to_95 >= 20 && result.steps_to_95 <= 120 && result.steps_to_95 % 10 == 0,
            "%ld", result.steps_to_95);
  cr_assert_gt(r.steps[result.steps_to_95 - 1].accuracy, 0.8);
  cr_assert_lt(fabs(r.steps[0].loss - log(17)), 1, "%g", r.steps[0].loss);
  double sum = 0;
  for (int i = 100; i < 120; i++) sum += r.steps[i].loss;
  cr_assert_lt(fabs(sum / 20 - result.final_loss), 1e-12);
  for (int i = 0; i < 120; i++) {
    const th__train_step *step = &r.steps[i];
    cr_assert(step->grad_norm > 0 && step->tokens_per_second > 0 && step->seconds_left >= 0);
    /* Mean of ln 1 .. ln 8, where every key counts the same. */
    cr_assert(step->entropy > 0 && step->entropy < 1.3256, "entropy %g", step->entropy);
  }
  cr_assert_eq(r.steps[119].seconds_left, 0);
}

Test(train, too_few_steps_reach_nothing) {
  th__train s = small_run();
  s.steps = 3;
  th__train_run result = run(&s, NULL);
  cr_assert(result.steps_to_95 == -1 && result.heldout_accuracy < 0.5);
}

Test(train, stops_when_told) {
  static recording r = {.stop_after = 7};
  th__train s = small_run();
  th__train_run result = run(&s, &r);
  cr_assert(result.end == TH__END_STOPPED && result.steps == 7 && r.count == 7);
  double sum = 0;
  for (int i = 0; i < 7; i++) sum += r.steps[i].loss;
  cr_assert_lt(fabs(sum / 7 - result.final_loss), 1e-12);
}

Test(train, sgd_and_other_scales_learn) {
  const th_scale_kind kinds[] = {TH_SCALE_NONE, TH_SCALE_DK, TH_SCALE_FACTOR};
  for (int i = 0; i < 3; i++) {
    th__train s = small_run();
    s.scale = (th__scale){kinds[i], 0.3};
    s.heads = 4;
    s.dk = 5; /* d_model / heads is 8 */
    cr_assert_gt(run(&s, NULL).heldout_accuracy, 0.95, "scale %d", i);
  }
  th__train s = small_run();
  s.optim = TH__OPTIM_SGD;
  s.lr = 1;
  s.steps = 400;
  cr_assert_gt(run(&s, NULL).heldout_accuracy, 0.9);
}

static th_status run_text(size_t count, th__train_run *result, th_error *error) {
  char text[2000];
  for (size_t i = 0; i < sizeof text; i++) text[i] = "abcdefgh"[i % 8];
  th__source source = {"letters", text, count};
  const th__train_data data = {&source, 1, 0};
  th__train s = small_run();
  th__train_set_text(&s, TH__TRAIN_text, "letters", NULL);
  th__train_complete(&s);
  const th__train_job job = {.config = &s, .data = &data};
  th_status status = th__train_run_one(&job, result, error);
  th__train_free(&s);
  return status;
}

Test(train, text) {
  th__train_run result;
  th_error error = {0};
  cr_assert_eq(run_text(2000, &result, &error), TH_OK, "%s", error.message);
  cr_assert_gt(result.heldout_accuracy, 0.95);
  cr_assert_geq(result.steps_to_95, 10);
  cr_assert_eq(run_text(40, &result, &error), TH_ERR_VALUE);
  cr_assert_not_null(strstr(error.message, "letters: 40 bytes"), "%s", error.message);
}

/* ---- the same bits ---- */

Test(train, seed) {
  static recording a, b, c;
  th__train s = small_run();
  th__train_run x = run(&s, &a), y = run(&s, &b);
  expect_same_steps("again", &a, &b);
  expect_same_runs(&x, &y);
  cr_assert_eq(x.steps_to_95, y.steps_to_95);
  s.seed = 2;
  run(&s, &c);
  cr_assert_neq(a.steps[0].loss, c.steps[0].loss);
}

Test(train, threads) {
  static recording one = {.stop_after = 6}, two = {.stop_after = 6};
  th__train s = small_run();
  s.task = TH_TASK_RECALL;
  s.seq = s.batch = 32; /* large enough for the work to be shared out */
  s.d_model = 64;
  th_set_threads(1);
  th__train_run a = run(&s, &one);
  th_set_threads(2);
  th__train_run b = run(&s, &two);
  th_set_threads(0);
  expect_same_steps("two threads", &one, &two);
  expect_same_runs(&a, &b);
}

/* C19: a model that is evaluated at each step, at each fifth or never is the same model. */
Test(train, evaluation_changes_nothing) {
  static recording each, fifth, never;
  th__train s = small_run();
  th__train_look_every = s.eval_every = 1;
  th__train_run a = run(&s, &each);
  th__train_look_every = s.eval_every = 5;
  th__train_run b = run(&s, &fifth);
  th__train_look_every = s.eval_every = 0;
  th__train_run c = run(&s, &never);
  expect_same_steps("every fifth step", &each, &fifth);
  expect_same_steps("never", &each, &never);
  expect_same_runs(&a, &b);
  expect_same_runs(&a, &c);
  cr_assert(a.steps_to_95 > 0 && b.steps_to_95 >= a.steps_to_95 && c.steps_to_95 == -1);
}

/* C11, and no growth: what a step needs is there after the first one. */
Test(train, steps_allocate_nothing) {
  static recording r;
  th__train s = small_run();
  th__train_look_every = s.eval_every = 0;
  s.steps = 10;
  size_t before = th__alloc_count();
  run(&s, &r);
  size_t ten = th__alloc_count() - before;
  s.steps = 60;
  r.count = 0;
  run(&s, &r);
  cr_assert_eq(th__alloc_count() - before - ten, ten);
}

/* ---- lost runs ---- */

static void lost(th__train s, const char *step, const char *tensor) {
  th__train_run result;
  th_error error = {0};
  cr_assert_eq(try_run(&s, NULL, &result, &error), TH_ERR_NONFINITE, "%s", error.message);
  cr_assert_not_null(strstr(error.message, step), "no \"%s\": %s", step, error.message);
  cr_assert_not_null(strstr(error.message, tensor), "no \"%s\": %s", tensor, error.message);
  cr_assert_not_null(strstr(error.message, "lower the learning rate"), "%s", error.message);
}

Test(train, diverging) {
  th__train s = small_run();
  s.lr = 1e6;
  lost(s, "step ", ".weight");
  s.lr = 1e3;
  s.optim = TH__OPTIM_SGD;
  lost(s, "the run diverges: the loss is", ".weight with ");
  s.lr = 30; /* bounded, but far worse than guessing */
  lost(s, "the run diverges", ".weight with ");
  s.lr = 1e3;
  s.steps = 5; /* too short to be given up on the way */
  lost(s, "step 5: the run diverges", ".weight with ");
}

Test(train, not_finite) {
  th__train s = small_run();
  s.scale = (th__scale){TH_SCALE_FACTOR, 1e300};
  lost(s, "step 1: the loss is not finite",
       "is the output of attention after h.0.attn.c_attn.weight");
  s = small_run();
  s.optim = TH__OPTIM_SGD;
  s.lr = 1e300;
  lost(s, "step 2: the loss is not finite", "is wte.weight");
  s.steps = 1;
  lost(s, "step 1: the update went beyond the largest number", "is wte.weight");
}

Test(train, blame) {
  char text[128] = "";
  th_model *model =
      th_gpt_new(&(th_gpt){.layers = 2, .heads = 1, .width = 4, .context = 3, .vocab = 5}, 1, NULL);
  th_params *params = th_model_params(model);
  th_tape *tape = th_tape_new();
  th_tensor *ids = th_tensor_from(TH_I32, TH_SHAPE(1, 3), (int32_t[]){0, 1, 2}, NULL);
  th_gpt_forward(tape, model, ids, NULL);
  cr_assert_not(th__train_blame(tape, params, text, sizeof text));
  th_tape_reset(tape);
  /* Finite parameters whose product is not. */
  float *w = th_tensor_data(th_params_find(params, "h.1.mlp.c_fc.bias"));
  w[2] = 1e38f;
  float *v = th_tensor_data(th_params_find(params, "h.1.mlp.c_proj.weight"));
  v[2] = 100;
  th_gpt_forward(tape, model, ids, NULL);
  cr_assert(th__train_blame(tape, params, text, sizeof text));
  cr_assert_str_eq(text, "the output of linear after h.1.mlp.c_proj.weight");
  double size;
  cr_assert_str_eq(th_tensor_name(th__train_largest(params, &size)), "h.1.mlp.c_fc.bias");
  cr_assert_eq(size, (double)1e38f);
  w[1] = NAN;
  cr_assert(th__train_blame(tape, params, text, sizeof text));
  cr_assert_str_eq(text, "h.1.mlp.c_fc.bias");
  th_tensor_free(ids);
  th_tape_free(tape);
  th_model_free(model);
}

/* ---- figures ---- */

Test(train, accuracy) {
  static const float logits[5][3] = {{0, 2, 1}, {0, 0, 0}, {NAN, NAN, NAN}, {1, 2, NAN}, {3, 1, 2}};
  static const int32_t targets[5] = {1, 0, 0, 1, TH_IGNORE};
  th_tensor *x = th_tensor_from(TH_F32, TH_SHAPE(1, 5, 3), logits, NULL);
  th_tensor *y = th_tensor_from(TH_I32, TH_SHAPE(1, 5), targets, NULL);
  cr_assert_eq(th__train_accuracy(x, y), 0.25); /* equal logits and NaN are not right */
  int32_t *none = th_tensor_data(y);
  for (int i = 0; i < 5; i++) none[i] = TH_IGNORE;
  cr_assert_eq(th__train_accuracy(x, y), 0);
  th_tensor_free(x);
  th_tensor_free(y);
}

Test(train, entropy) {
  /* Two sequences, two heads, two queries: only the first sequence counts. */
  static const float weights[2][2][2][2] = {{{{1, 0}, {0.5f, 0.5f}}, {{1, 0}, {0.25f, 0.75f}}},
                                            {{{9, 9}, {9, 9}}, {{9, 9}, {9, 9}}}};
  th_tensor *p = th_tensor_from(TH_F32, TH_SHAPE(2, 2, 2, 2), weights, NULL);
  double want = (log(2) - 0.25 * log(0.25) - 0.75 * log(0.75)) / 4;
  cr_assert_lt(fabs(th__train_entropy(p) - want), 1e-7);
  th_tensor_free(p);
}

/* ---- memory ---- */

Test(train, sizes_that_do_not_fit) {
  const long huge = 1L << 24;
  for (int i = 0; i < 6; i++) {
    th__train s = small_run();
    if (i == 0) s.batch = s.seq = huge;
    if (i == 1) s.d_model = huge;
    if (i == 2) s.dk = huge, s.d_model = 1 << 16;
    if (i == 3) s.batch = huge, s.seq = 1024;
    if (i == 4) s.seq = 1 << 20;
    if (i == 5)
      s.layers = 1000, s.d_model = huge, s.heads = huge, s.dk = huge, s.seq = s.batch = huge;
    th__train_run result;
    th_error error = {0};
    size_t before = th__alloc_count();
    cr_assert_eq(try_run(&s, NULL, &result, &error), TH_ERR_MEMORY, "case %d", i);
    cr_assert(strstr(error.message, "need about ") != NULL && strstr(error.message, " GiB") != NULL,
              "%s", error.message);
    cr_assert_eq(th__alloc_count(), before, "case %d has taken memory first", i);
  }
}

Test(train, every_allocation_may_fail) {
  th__train s = small_run();
  s.steps = 1;
  th_status status = TH_ERR_MEMORY;
  for (size_t n = 1; status != TH_OK; n++) {
    th__train_run result;
    th_error error = {0};
    th__alloc_fail_at(n);
    status = try_run(&s, NULL, &result, &error);
    th__alloc_fail_at(0);
    cr_assert(status == TH_OK || (status == TH_ERR_MEMORY && error.message[0] != '\0'), "%zu: %s",
              n, error.message);
    cr_assert_lt(n, 1000u);
  }
}

#ifndef __SANITIZE_ADDRESS__ /* which takes memory of its own */
/* The estimate against what the system says. Each test is a process, with a peak of its own. */
static void expect_estimate(th__train s) {
  struct rusage before, after;
  static recording r = {.stop_after = 2};
  th__train_complete(&s);
  getrusage(RUSAGE_SELF, &before);
  run(&s, &r);
  getrusage(RUSAGE_SELF, &after);
  th__train_need need = th__train_bytes(&s, 0, 17);
  double want = (need.model + need.step) / 0x1p20;
  double got = (double)(after.ru_maxrss - before.ru_maxrss) / 1024;
  cr_assert(fabs(got - want) < 0.1 * want + 6, "estimated %.1f MiB, used %.1f", want, got);
}

Test(train, estimate_of_activations) {
  expect_estimate((th__train){.task = TH_TASK_SORT, .layers = 4, .seq = 64, .batch = 64});
}
Test(train, estimate_of_attention_weights) {
  expect_estimate(
      (th__train){.task = TH_TASK_SORT, .layers = 1, .heads = 8, .seq = 256, .batch = 16});
}
Test(train, estimate_of_parameters) {
  expect_estimate(
      (th__train){.task = TH_TASK_SORT, .d_model = 512, .heads = 2, .seq = 8, .batch = 2});
}
Test(train, estimate_of_parameters_with_sgd) {
  expect_estimate((th__train){
      .task = TH_TASK_SORT, .optim = TH__OPTIM_SGD, .d_model = 512, .dk = 700, .seq = 8, .batch = 2});
}
Test(train, estimate_of_a_llama) {
  expect_estimate((th__train){.task = TH_TASK_SORT,
                              .model = TH__MODEL_LLAMA,
                              .layers = 4,
                              .heads = 8,
                              .kv_heads = 2,
                              .seq = 64,
                              .batch = 64,
                              .dropout = 0.1});
}
Test(train, estimate_of_an_lstm) {
  expect_estimate((th__train){
      .task = TH_TASK_SORT, .model = TH__MODEL_LSTM, .d_model = 256, .seq = 64, .batch = 64});
}
Test(train, estimate_of_an_rnn) {
  expect_estimate((th__train){
      .task = TH_TASK_SORT, .model = TH__MODEL_RNN, .d_model = 256, .seq = 64, .batch = 64});
}
Test(train, estimate_of_a_seq2seq) {
  expect_estimate((th__train){
      .task = TH_TASK_SORT, .model = TH__MODEL_SEQ2SEQ, .layers = 4, .seq = 64, .batch = 64});
}
Test(train, estimate_with_parts) {
  expect_estimate(
      (th__train){.task = TH_TASK_SORT, .layers = 4, .seq = 64, .batch = 128, .accumulate = 8});
}
#endif
