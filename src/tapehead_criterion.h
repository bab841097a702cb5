/* tapehead_criterion.h: gradient checks as assertions of the Criterion test framework.
 *
 *   Test(attention, gradient) {
 *     cr_assert_gradient(attend, NULL, {"q", TH_FILL_NORMAL, 0, 4, {2, 4, 16, 32}},
 *                                      {"k", TH_FILL_NORMAL, 0, 4, {2, 4, 16, 32}},
 *                                      {"v", TH_FILL_NORMAL, 0, 4, {2, 4, 16, 32}});
 *   }
 *
 * `attend` is a th_function, NULL its context, then come the inputs (th_check_input). The gradients are
 * checked in f64 against finite differences and in f32 against f64, at three random points. Where they
 * fail, the case is shrunk to the smallest shapes that still fail, and the message holds these shapes,
 * the seed that repeats them, the evidence, and the mistake if it could be named.
 *
 * Axes of one length are shrunk together. Where the function depends on a size in another way, say on
 * the number of heads, give a th_case_maker instead:
 *
 *   static void make(const th_case_sizes *sizes, th_check *check) { ... }
 *   cr_assert_gradient_sized(make, ((th_case_sizes){.batch = 2, .length = 8, .heads = 4, .width = 8}));
 *
 * cr_assert_gradient_with() and cr_assert_gradient_sized_with() take a th_gradcheck_options first; then
 * its seed alone is used. */
#ifndef TAPEHEAD_CRITERION_H
#define TAPEHEAD_CRITERION_H

#include <criterion/criterion.h>
#include <stdio.h>

#include <tapehead.h>

enum { TH_CRITERION_SEEDS = 3, TH_CRITERION_MESSAGE = 2048 };

#define cr_assert_gradient_with(options, function_, context_, ...)                                 \
  do {                                                                                             \
    const th_check_input th_inputs_[] = {__VA_ARGS__};                                             \
    const th_gradcheck_options th_options_ = (options);                                            \
    char th_message_[TH_CRITERION_MESSAGE];                                                        \
    bool th_good_ = th_criterion_check((function_), (context_), th_inputs_,                        \
                                       (int)(sizeof th_inputs_ / sizeof *th_inputs_),              \
                                       &th_options_, 1, th_message_);                              \
    cr_assert(th_good_, "%s", th_message_);                                                        \
  } while (0)

#define cr_assert_gradient(function_, context_, ...)                                               \
  do {                                                                                             \
    const th_check_input th_inputs_[] = {__VA_ARGS__};                                             \
    const th_gradcheck_options th_options_ = {.f32 = true};                                        \
    char th_message_[TH_CRITERION_MESSAGE];                                                        \
    bool th_good_ = th_criterion_check((function_), (context_), th_inputs_,                        \
                                       (int)(sizeof th_inputs_ / sizeof *th_inputs_),              \
                                       &th_options_, TH_CRITERION_SEEDS, th_message_);             \
    cr_assert(th_good_, "%s", th_message_);                                                        \
  } while (0)

#define cr_assert_gradient_sized_with(options, maker, sizes)                                       \
  do {                                                                                             \
    const th_gradcheck_options th_options_ = (options);                                            \
    char th_message_[TH_CRITERION_MESSAGE];                                                        \
    bool th_good_ = th_criterion_check_sized((maker), (sizes), &th_options_, 1, th_message_);      \
    cr_assert(th_good_, "%s", th_message_);                                                        \
  } while (0)

#define cr_assert_gradient_sized(maker, sizes)                                                     \
  do {                                                                                             \
    const th_gradcheck_options th_options_ = {.f32 = true};                                        \
    char th_message_[TH_CRITERION_MESSAGE];                                                        \
    bool th_good_ =                                                                                \
        th_criterion_check_sized((maker), (sizes), &th_options_, TH_CRITERION_SEEDS, th_message_); \
    cr_assert(th_good_, "%s", th_message_);                                                        \
  } while (0)

/* ---- what the macros use ---- */

/* Appends to a message of TH_CRITERION_MESSAGE bytes. */
#define TH_CRITERION_ADD(message, used, ...)                                                        \
  do {                                                                                              \
    if ((used) < TH_CRITERION_MESSAGE - 1)                                                          \
      (used) += snprintf((message) + (used), (size_t)(TH_CRITERION_MESSAGE - (used)), __VA_ARGS__); \
  } while (0)

static inline int th_criterion_shapes(const th_check *check, char *message, int used) {
  for (int i = 0; i < check->input_count; i++) {
    const th_check_input *in = &check->inputs[i];
    TH_CRITERION_ADD(message, used, "%s%s [", i > 0 ? ", " : "",
                     in->name != NULL ? in->name : "input");
    for (int axis = 0; axis < in->ndim; axis++)
      TH_CRITERION_ADD(message, used, "%s%td", axis > 0 ? ", " : "", in->shape[axis]);
    TH_CRITERION_ADD(message, used, "]");
  }
  return used;
}

static inline void th_criterion_evidence(const th_gradcheck_result *result, char *message,
                                         int used) {
  for (int r = 0; r < result->row_count; r++) {
    const th_gradcheck_row *row = &result->rows[r];
    if (th_verdict_ok(row->verdict)) continue;
    TH_CRITERION_ADD(message, used, "\n  %s, %s, %s: %s", row->input, th_dtype_name(row->dtype),
                     th_verdict_name(row->verdict), row->detail);
    if (row->cause[0] != '\0')
      TH_CRITERION_ADD(message, used, "\n    %s: %s", row->diagnosis, row->cause);
  }
}

static inline bool th_criterion_check(th_function *function, const void *context,
                                      const th_check_input *inputs, int input_count,
                                      const th_gradcheck_options *options, int seeds,
                                      char *message) {
  th_check check = {.variant = "", .forward = function, .context = context}, smallest;
  message[0] = '\0';
  if (input_count > TH_MAX_INPUTS) {
    snprintf(message, TH_CRITERION_MESSAGE, "%d inputs; at most %d are possible", input_count,
             TH_MAX_INPUTS);
    return false;
  }
  check.input_count = input_count;
  for (int i = 0; i < input_count; i++) check.inputs[i] = inputs[i];
  for (int s = 0; s < seeds; s++) {
    th_gradcheck_options here = *options;
    th_gradcheck_result result;
    th_error error = {TH_OK, ""};
    here.seed += (uint64_t)s;
    if (th_gradcheck_shrink(&check, &here, &smallest, &result, &error) != TH_OK) {
      snprintf(message, TH_CRITERION_MESSAGE, "%s", error.message);
      return false;
    }
    if (th_verdict_ok(result.verdict)) continue;
    int used = snprintf(message, TH_CRITERION_MESSAGE,
                        "gradient %s; smallest case, seed %llu: ", th_verdict_name(result.verdict),
                        (unsigned long long)here.seed);
    th_criterion_evidence(&result, message, th_criterion_shapes(&smallest, message, used));
    return false;
  }
  return true;
}

static inline bool th_criterion_check_sized(th_case_maker *maker, th_case_sizes sizes,
                                            const th_gradcheck_options *options, int seeds,
                                            char *message) {
  message[0] = '\0';
  for (int s = 0; s < seeds; s++) {
    th_gradcheck_options here = *options;
    th_case_sizes least = sizes;
    th_gradcheck_result result;
    th_error error = {TH_OK, ""};
    here.seed += (uint64_t)s;
    if (th_gradcheck_shrink_sized(maker, &least, &here, &result, &error) != TH_OK) {
      snprintf(message, TH_CRITERION_MESSAGE, "%s", error.message);
      return false;
    }
    if (th_verdict_ok(result.verdict)) continue;
    int used = 0;
    TH_CRITERION_ADD(
        message, used,
        "gradient %s; smallest case, seed %llu: batch %td, length %td, heads %td, width %td",
        th_verdict_name(result.verdict), (unsigned long long)here.seed, least.batch, least.length,
        least.heads, least.width);
    th_criterion_evidence(&result, message, used);
    return false;
  }
  return true;
}

#endif
