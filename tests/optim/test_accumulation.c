/* accumulation: gradients of micro-batches with unequal numbers of counted tokens (C18). The loss of
 * each is a mean over its own tokens; weighed by its share of all counted tokens, the sum is the mean
 * over all. */
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

/* Runs the micro-batches of the given sizes one after another; the loss and the gradient of all. */
static double accumulate(th_dtype dtype, const int *sizes, int count, double *gradient) {
  th_params *params = th_params_new(NULL);
  th_tensor *logits = make_logits(params, dtype);
  th_tape *tape = th_tape_new();
  double total = 0;
  int begin = 0, all = 4;
  for (int i = 0; i < count; begin += sizes[i++]) {
    int counted = 0;
    for (int j = begin; j < begin + sizes[i]; j++) counted += targets[j] != TH_IGNORE;
    th_tensor *labels = th_input(tape, TH_I32, TH_SHAPE(sizes[i]), targets + begin);
    th_tensor *mean =
        th_cross_entropy(tape, th_slice(tape, logits, 0, begin, begin + sizes[i]), labels);
    th_tensor *loss = th_scale(tape, mean, (double)counted / all);
    cr_assert_eq(th_backward(tape, loss), TH_OK, "%s", th_tape_message(tape));
    total += th_tensor_item(loss);
    th_tape_reset(tape);
  }
  th_tensor_read(th_tensor_grad(logits), gradient);
  th_tape_free(tape);
  th_params_free(params);
  return total;
}

TEST_BOTH(accumulation, any_split_gives_the_mean_over_all_tokens) {
  /* 1 + 3; 2 + 2; all 4; 1 + 3 and a fully ignored one; 3 + remainder of 1; remainder partly ignored */
  static const struct {
    int count, sizes[3];
  } splits[] = {{2, {1, 3}}, {2, {2, 2}}, {1, {4}}, {3, {1, 3, 2}}, {2, {3, 1}}, {2, {2, 4}}};
  double want[TOKENS * 2] = {0};
  for (int i = 0; i < 4; i++) {
    double p = exp(-(i == 0 ? 2.0 : 1.0)); /* of the target */
    want[2 * i] = (p - 1) / 4;
    want[2 * i + 1] = (1 - p) / 4;
  }
  for (size_t i = 0; i < sizeof splits / sizeof *splits; i++) {
    double gradient[TOKENS * 2];
    double loss = accumulate(dtype, splits[i].sizes, splits[i].count, gradient);
    cr_assert(fabs(loss - 1.25) <= tolerances[dtype].value, "split %zu: %.17g", i, loss);
    for (int j = 0; j < TOKENS * 2; j++)
      cr_assert(fabs(gradient[j] - want[j]) <= tolerances[dtype].value, "split %zu: [%d] %g", i, j,
                gradient[j]);
  }
}
