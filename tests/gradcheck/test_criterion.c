/* cr_assert_gradient: passes what is right; what fails is shrunk, and the message says how to repeat it.
 * Here the functions behind the macros are called, because a failing macro ends the test. */
#include "tapehead_criterion.h"

#include <string.h>

#include "autograd/power/faults.h"

static th_tensor *attend(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  return th_attention(tape, in[0], in[1], in[2], NULL);
}

Test(criterion_header, right_gradients_pass) {
  cr_assert_gradient(attend, NULL, {"q", TH_FILL_NORMAL, 0, 4, {2, 2, 4, 3}},
                     {"k", TH_FILL_NORMAL, 0, 4, {2, 2, 4, 3}},
                     {"v", TH_FILL_NORMAL, 0, 4, {2, 2, 4, 3}});
  cr_assert_gradient_with(((th_gradcheck_options){.seed = 9, .mode = TH_CHECK_PROJECTION}), attend,
                          NULL, {"q", TH_FILL_NORMAL, 0, 4, {1, 2, 8, 4}},
                          {"k", TH_FILL_NORMAL, 0, 4, {1, 2, 8, 4}},
                          {"v", TH_FILL_NORMAL, 0, 4, {1, 2, 8, 4}});
}

/* ---- wrong ones ---- */

static bool check_faulty(const th__fault *fault, const char *wanted, char *message) {
  th__planted planted;
  th_check check;
  th__plant(fault, &planted, &check);
  bool good = th_criterion_check(check.forward, check.context, check.inputs, check.input_count,
                                 &(th_gradcheck_options){.seed = 4}, 3, message);
  cr_expect_not_null(strstr(message, wanted), "\"%s\" does not hold \"%s\"", message, wanted);
  return good;
}

/* Two keys are the fewest with a gradient of q; everything else goes down to 1. */
Test(criterion_header, attention_shrinks_to_its_smallest) {
  const th__fault fault = {
      .op = "attention", .where = "attention", .input = 0, .spoil = th__spoil_factor, .param = -1};
  char message[TH_CRITERION_MESSAGE];
  cr_assert_not(check_faulty(&fault, "q [1, 1, 2, 1], k [1, 1, 2, 1], v [1, 1, 2, 1]", message));
  cr_assert_not_null(strstr(message, "seed 4"), "%s", message);
  cr_assert_not_null(strstr(message, "sign"), "%s", message);
}

/* Heads can only be exchanged where there are two of them. */
Test(criterion_header, what_the_fault_needs_stays) {
  const th__fault fault = {
      .op = "attention", .where = "attention, causal", .input = 2, .spoil = th__spoil_swap_heads};
  char message[TH_CRITERION_MESSAGE];
  cr_assert_not(check_faulty(&fault, "v [1, 2, 1, 1]", message));
}

Test(criterion_header, ids_stay_inside_a_smaller_table) {
  const th__fault fault = {
      .op = "embedding", .where = "embedding", .input = 0, .spoil = th__spoil_factor, .param = 2};
  char message[TH_CRITERION_MESSAGE];
  cr_assert_not(check_faulty(&fault, "table [1, 1], ids [1]", message));
}

Test(criterion_header, an_error_of_the_function_is_the_message) {
  char message[TH_CRITERION_MESSAGE];
  const th_check_input inputs[] = {{"q", TH_FILL_NORMAL, 0, 4, {1, 1, 2, 3}},
                                   {"k", TH_FILL_NORMAL, 0, 4, {1, 1, 2, 4}},
                                   {"v", TH_FILL_NORMAL, 0, 4, {1, 1, 2, 4}}};
  cr_assert_not(th_criterion_check(attend, NULL, inputs, 3, &(th_gradcheck_options){0}, 1, message));
  cr_assert_not_null(strstr(message, "attention"), "%s", message);
}

/* ---- from sizes ---- */

static th_tensor *multi_head(th_tape *tape, th_tensor *const *in, const void *context) {
  const th_case_sizes *sizes = context;
  const th_mha_weights w = {in[1], in[2], in[3], in[4], NULL, NULL, NULL, NULL};
  return th_multi_head_attention(tape, in[0], in[0], &w, sizes->heads, NULL);
}

static void make_multi_head(const th_case_sizes *sizes, th_check *check) {
  static const char *const names[] = {"x", "wq", "wk", "wv", "wo"};
  ptrdiff_t wide = sizes->heads * sizes->width;
  check->forward = multi_head;
  check->context = sizes;
  check->input_count = 5;
  check->inputs[0] =
      (th_check_input){names[0], TH_FILL_NORMAL, 0, 3, {sizes->batch, sizes->length, wide}};
  for (int i = 1; i < 5; i++)
    check->inputs[i] = (th_check_input){names[i], TH_FILL_NORMAL, 0, 2, {wide, wide}};
}

Test(criterion_header, sized_cases_pass) {
  cr_assert_gradient_sized(make_multi_head,
                           ((th_case_sizes){.batch = 2, .length = 3, .heads = 2, .width = 2}));
}

/* The same with a fault that needs two heads. */
static const th__fault swapped = {.op = "attention", .input = 1, .spoil = th__spoil_swap_heads};
static th__planted planted_swap;
static th_check right;

static void make_swapped(const th_case_sizes *sizes, th_check *check) {
  right = (th_check){.variant = ""};
  make_multi_head(sizes, &right);
  th__plant_in(&swapped, &right, &planted_swap, check);
}

Test(criterion_header, sized_cases_shrink) {
  char message[TH_CRITERION_MESSAGE];
  cr_assert_not(th_criterion_check_sized(make_swapped, (th_case_sizes){2, 4, 3, 2},
                                         &(th_gradcheck_options){.seed = 1}, 1, message));
  cr_assert_not_null(strstr(message, "batch 1, length 2, heads 2, width 1"), "%s", message);
  cr_assert_not(th_criterion_check_sized(make_multi_head, (th_case_sizes){2, 0, 3, 2},
                                         &(th_gradcheck_options){0}, 1, message));
  cr_assert_not_null(strstr(message, "at least 1"), "%s", message);
}
