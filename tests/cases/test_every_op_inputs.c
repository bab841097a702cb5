/* every op given NULL, a value of another tape, or a wrong type in place of each input: an error and
 * no crash, and the tape works afterwards. */
#include "every_op.h"

static bool one_of(const char *name, const char *const *names) {
  while (*names != NULL && strcmp(name, *names) != 0) names++;
  return *names != NULL;
}

/* Read during the call only, so it may live anywhere. */
static bool is_mask(const char *name) {
  return one_of(name, (const char *const[]){"lengths", "key_mask", "mask", NULL});
}

/* Inputs that a caller may leave out. */
static bool optional(const char *name) {
  return is_mask(name) || strstr(name, ".bias") != NULL || strcmp(name, "ln.weight") == 0 ||
         one_of(name,
                (const char *const[]){"bias", "gain", "bq", "bk", "bv", "bo", "h0", "c0", NULL});
}

/* Runs the case with x in place i. Either a value and no error, or no value and an error. */
static th_status with_input(const trial *t, th_tape *tape, int i, th_tensor *x) {
  trial changed = *t;
  changed.inputs[i] = x;
  th_tensor *y = trial_forward(&changed, tape);
  th_status status = th_tape_status(tape);
  cr_assert_eq(y == NULL, status != TH_OK, "%s input %d: %s", t->text, i, th_tape_message(tape));
  if (status != TH_OK)
    cr_assert_gt(strlen(th_tape_message(tape)), 15, "%s: \"%s\"", t->text, th_tape_message(tape));
  th_tape_clear_error(tape);
  return status;
}

static th_tensor *of_type(const th_tensor *x, th_dtype dtype) {
  th_tensor *other = th_tensor_new(dtype, x->ndim, x->shape, NULL);
  cr_assert_not_null(other);
  return other;
}

static void expect_rejects(trial *t) {
  th_tape *tape = th_tape_new(), *elsewhere = th_tape_new();
  int floats = 0;
  for (int i = 0; i < t->check->input_count; i++) floats += th__is_float(t->inputs[i]);
  bool view = t->op->backward == NULL || strcmp(t->op->name, "contiguous") == 0;
  bool bias_op = strcmp(t->op->name, "bias") == 0; /* there it is the point */
  for (int i = 0; i < t->check->input_count; i++) {
    const th_tensor *x = t->inputs[i];
    const char *name = t->check->inputs[i].name;
    if (bias_op || !optional(name))
      cr_expect_eq(with_input(t, tape, i, NULL), TH_ERR_VALUE, "%s: %s NULL", t->text, name);
    else
      with_input(t, tape, i, NULL);

    th_tensor *stranger = th_input(elsewhere, x->dtype, x->ndim, x->shape, NULL);
    th_status status = with_input(t, tape, i, stranger);
    if (!is_mask(name)) cr_expect_eq(status, TH_ERR_STATE, "%s: %s of another tape", t->text, name);

    for (th_dtype dtype = TH_F32; dtype <= TH_BOOL; dtype++) {
      if (dtype == x->dtype) continue;
      th_tensor *other = of_type(x, dtype);
      status = with_input(t, tape, i, other);
      /* One input alone may be of either precision; views and copies may be of anything. */
      bool alone = floats < 2 && (dtype == TH_F32 || dtype == TH_F64);
      if (!view && !alone)
        cr_expect_eq(status, TH_ERR_DTYPE, "%s: %s as %s: %s", t->text, name, th_dtype_name(dtype),
                     th_status_text(status));
      th_tensor_free(other);
    }
  }
  th_tensor *y = trial_forward(t, tape);
  cr_assert_not_null(y, "%s afterwards: %s", t->text, th_tape_message(tape));
  cr_assert_eq(trial_backward(tape, y), TH_OK, "%s afterwards: %s", t->text, th_tape_message(tape));
  th_tape_free(elsewhere);
  th_tape_free(tape);
}

Test(every_op_inputs, wrong_ones_are_errors) { cr_assert_geq(for_every_case(expect_rejects), 200); }

/* An error stays: every op then returns NULL and changes neither the message nor the tape. */
static void expect_silence(trial *t) {
  th_tape *tape = th_tape_new();
  th_fail(tape, TH_ERR_VALUE, "first", "it was me");
  cr_assert_null(trial_forward(t, tape), "%s", t->text);
  cr_assert_str_eq(th_tape_message(tape), "first: it was me", "%s", t->text);
  cr_assert_eq(th_tape_node_count(tape), 0, "%s", t->text);
  th_tape_free(tape);
  cr_assert_null(trial_forward(t, NULL), "%s", t->text);
}

Test(every_op_inputs, nothing_runs_after_an_error) { for_every_case(expect_silence); }

/* No gradient wanted, or recording off: no node, and the same bits. */
static void expect_no_nodes(trial *t) {
  th_tape *tape = th_tape_new();
  const th_tensor *recorded = th_contiguous(tape, trial_forward(t, tape));
  size_t nodes = th_tape_node_count(tape);
  th_tape_set_recording(tape, false);
  const th_tensor *plain = th_contiguous(tape, trial_forward(t, tape));
  cr_assert_not_null(plain, "%s: %s", t->text, th_tape_message(tape));
  cr_expect_eq(th_tape_node_count(tape), nodes, "%s records with recording off", t->text);
  cr_assert_eq(plain->count, recorded->count);
  cr_expect(
      memcmp(plain->data, recorded->data, (size_t)plain->count * th_dtype_size(plain->dtype)) == 0,
      "%s: other numbers with recording off", t->text);
  cr_expect(!plain->wants_grad || plain->base != NULL, "%s", t->text);
  th_tape_free(tape);
}

Test(every_op_inputs, recording_off_changes_no_number) { for_every_case(expect_no_nodes); }
