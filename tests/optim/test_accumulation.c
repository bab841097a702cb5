/* accumulation: gradients of micro-batches with unequal numbers of counted tokens (C18). Two ways to the
 * mean over all tokens: each micro-batch's mean weighed by its share of all counted tokens, or its sum
 * divided by their number. */
#include "steps.h"

enum { TOKENS = 6 };
/* -log softmax([0, x])[0] = log(1 + e^x): 2 for the first token, 1 for the next three. The other two
 * are ignored. */
static const int32_t targets[TOKENS] = {0, 0, 0, 0, TH_IGNORE, TH_IGNORE};

static th_tensor *make_logits(th_params *params, th_dtype dtype) {
  double values[TOKENS][2] = {{0}};
  for (int i = 0; i < TOKENS; i++) values[i][1] = log(exp(i == 0 ? 2 : 1) - 1);
  return add_param(params, "logits", dtype, TH_SHAPE(TOKENS, 2), values[0]);
}

/* The share of one micro-batch in the mean over `all` counted tokens. */
typedef th_tensor *share(th_tape *tape, th_tensor *logits, const th_tensor *labels, double all);

static th_tensor *by_mean(th_tape *tape, th_tensor *logits, const th_tensor *labels, double all) {
  return th_scale(tape, th_cross_entropy(tape, logits, labels),
                  (double)th_counted_targets(labels) / all);
}

static th_tensor *by_sum(th_tape *tape, th_tensor *logits, const th_tensor *labels, double all) {
  return th_scale(tape, th_cross_entropy_sum(tape, logits, labels), 1 / all);
}

/* Runs the micro-batches of the given sizes one after another; the loss and the gradient of all. */
static double accumulate(th_dtype dtype, share *loss_of, const int *sizes, int count,
                         double *gradient) {
  th_params *params = th_params_new(NULL);
  th_tensor *logits = make_logits(params, dtype);
  th_tape *tape = th_tape_new();
  double total = 0;
  int begin = 0;
  for (int i = 0; i < count; begin += sizes[i++]) {
    th_tensor *labels = th_input(tape, TH_I32, TH_SHAPE(sizes[i]), targets + begin);
    th_tensor *loss = loss_of(tape, th_slice(tape, logits, 0, begin, begin + sizes[i]), labels, 4);
    cr_assert_eq(th_backward(tape, loss), TH_OK, "%s", th_tape_message(tape));
    total += th_tensor_item(loss);
    th_tape_reset(tape);
  }
  th_tensor_read(th_tensor_grad(logits), gradient);
  th_tape_free(tape);
  th_params_free(params);
  return total;
}

/* 1 + 3; 2 + 2; all 4; 1 + 3 and a fully ignored one; 3 + remainder of 1; remainder partly ignored */
typedef struct split {
  int count, sizes[3];
} split;
static const split splits[] = {{2, {1, 3}},    {2, {2, 2}}, {1, {4}},
                               {3, {1, 3, 2}}, {2, {3, 1}}, {2, {2, 4}}};
enum { SPLITS = sizeof splits / sizeof *splits };

static void expect_mean_over_all(th_dtype dtype, share *loss_of) {
  double want[TOKENS * 2] = {0};
  for (int i = 0; i < 4; i++) {
    double p = exp(-(i == 0 ? 2.0 : 1.0)); /* of the target */
    want[2 * i] = (p - 1) / 4;
    want[2 * i + 1] = (1 - p) / 4;
  }
  for (int i = 0; i < SPLITS; i++) {
    double gradient[TOKENS * 2];
    double loss = accumulate(dtype, loss_of, splits[i].sizes, splits[i].count, gradient);
    cr_assert(fabs(loss - 1.25) <= tolerances[dtype].value, "split %d: %.17g", i, loss);
    for (int j = 0; j < TOKENS * 2; j++)
      cr_assert(fabs(gradient[j] - want[j]) <= tolerances[dtype].value, "split %d: [%d] %g", i, j,
                gradient[j]);
  }
}

TEST_BOTH(accumulation, any_split_gives_the_mean_over_all_tokens) {
  expect_mean_over_all(dtype, by_mean);
}

TEST_BOTH(accumulation, any_split_of_sums_gives_the_mean_over_all_tokens) {
  expect_mean_over_all(dtype, by_sum);
}

/* Every token's gradient is computed alike in every split of sums: the same bits, with or without a
 * micro-batch in which nothing counts. */
TEST_BOTH(accumulation, splits_of_sums_agree_to_the_last_bit) {
  double first[TOKENS * 2], gradient[TOKENS * 2];
  accumulate(dtype, by_sum, splits[0].sizes, splits[0].count, first);
  for (int i = 1; i < SPLITS; i++) {
    accumulate(dtype, by_sum, splits[i].sizes, splits[i].count, gradient);
    cr_assert_arr_eq(first, gradient, sizeof first, "split %d", i);
  }
}

/* Means added up without weights are another function where counts differ: a micro-batch of one token
 * would count as much as one of three. */
static th_tensor *by_plain_mean(th_tape *tape, th_tensor *logits, const th_tensor *labels,
                                double all) {
  (void)all;
  return th_scale(tape, th_cross_entropy(tape, logits, labels), 0.5);
}

TEST_BOTH(accumulation, plain_means_of_unequal_parts_are_not_the_mean) {
  double gradient[TOKENS * 2];
  double loss = accumulate(dtype, by_plain_mean, splits[0].sizes, 2, gradient);
  cr_assert(fabs(loss - 1.5) <= tolerances[dtype].value, "%.17g", loss); /* (2 + 1) / 2 */
}

/* A step of an optimiser on the accumulated gradient is the whole batch's step. */
TEST_BOTH(accumulation, a_step_after_any_split_is_the_step_of_the_whole) {
  double want[TOKENS * 2] = {0}, got[TOKENS * 2];
  for (int i = 0; i <= SPLITS; i++) {
    const split *parts = i == 0 ? &(split){1, {4}} : &splits[i - 1];
    th_params *params = th_params_new(NULL);
    th_tensor *logits = make_logits(params, dtype);
    th_optim *optim = th_sgd_new(params, &(th_sgd){.lr = 0.5}, NULL);
    cr_assert_not_null(optim);
    th_tape *tape = th_tape_new();
    for (int part = 0, begin = 0; part < parts->count; begin += parts->sizes[part++]) {
      int end = begin + parts->sizes[part];
      th_tensor *labels = th_input(tape, TH_I32, TH_SHAPE(end - begin), targets + begin);
      th_tensor *loss = by_sum(tape, th_slice(tape, logits, 0, begin, end), labels, 4);
      cr_assert_eq(th_backward(tape, loss), TH_OK, "%s", th_tape_message(tape));
      th_tape_reset(tape);
    }
    step(optim);
    th_tensor_read(logits, i == 0 ? want : got);
    if (i > 0) cr_assert_arr_eq(want, got, sizeof want, "split %d", i - 1);
    th_tape_free(tape);
    th_optim_free(optim);
    th_params_free(params);
  }
}

/* A first part in which nothing counts leaves no trace: not in moments, not in decay, not in the count of
 * steps. */
TEST_BOTH(accumulation, nothing_counts_in_the_first_part) {
  double got[2][TOKENS * 2];
  for (int ignored_first = 0; ignored_first < 2; ignored_first++) {
    th_params *params = th_params_new(NULL);
    th_tensor *logits = make_logits(params, dtype);
    th_optim *optim = th_adamw_new(params, &(th_adamw){.lr = 0.1, .weight_decay = 0.5}, NULL);
    th_tape *tape = th_tape_new();
    for (int step = 0; step < 3; step++) {
      static const int begins[] = {4, 0}, ends[] = {6, 4};
      for (int part = ignored_first ? 0 : 1; part < 2; part++) {
        int count = ends[part] - begins[part];
        th_tensor *labels = th_input(tape, TH_I32, TH_SHAPE(count), targets + begins[part]);
        th_tensor *rows = th_slice(tape, logits, 0, begins[part], ends[part]);
        th_tensor *loss = th_scale(tape, th_cross_entropy_sum(tape, rows, labels), 1.0 / 4);
        cr_assert_eq(th_backward(tape, loss), TH_OK, "%s", th_tape_message(tape));
        if (part == 0) cr_assert_eq(th_tensor_item(loss), 0);
        th_tape_reset(tape);
      }
      cr_assert_eq(th_optim_step(optim, NULL), TH_OK);
    }
    cr_assert_eq(th_optim_steps(optim), 3);
    th_tensor_read(logits, got[ignored_first]);
    th_tape_free(tape);
    th_optim_free(optim);
    th_params_free(params);
  }
  cr_assert_arr_eq(got[0], got[1], sizeof got[0]);
}
