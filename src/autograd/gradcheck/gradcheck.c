/* gradcheck.c: a whole check, and the public functions. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "autograd/gradcheck/gradcheck.h"
#include "tensor/alloc.h"
#include "tensor/error.h"

#define MOST_PROJECTIONS 1000
#define EVERY_LIMIT 20000 /* coordinates that TH_CHECK_AUTO takes one by one */

/* ---- rows ---- */

th_gradcheck_row *th__new_row(const th__subject *subject, th_gradcheck_result *result, int input,
                              th_dtype dtype, th_check_mode mode) {
  th_gradcheck_row *row = &result->rows[result->row_count++];
  *row =
      (th_gradcheck_row){.input_index = input, .dtype = dtype, .mode = mode, .factor = (double)NAN};
  const th_tensor *x = subject->inputs[input];
  row->elements = x->count;
  if (x->name[0] != '\0')
    snprintf(row->input, sizeof row->input, "%.31s", x->name);
  else
    snprintf(row->input, sizeof row->input, "input %d", input);
  return row;
}

/* What needs no differences: the output and the gradient's arrival. */
static void judge_ends(const th__subject *subject, th_gradcheck_row *row, bool arrived,
                       double spread) {
  for (ptrdiff_t k = 0; k < subject->output_count; k++)
    if (!isfinite(subject->output[k])) {
      th__row_verdict(row, TH_WRONG, "output [%td] of the function is %g", k, subject->output[k]);
      break;
    }
  if (spread > 0)
    th__row_verdict(row, TH_NOISY,
                    "not deterministic: two calls at the same point differ by up to %.3g", spread);
  if (row->elements == 0 || subject->output_count == 0)
    th__row_verdict(row, TH_VACUOUS, "nothing to compare: %s has no elements",
                    row->elements == 0 ? "the input" : "the output");
  else if (!arrived)
    th__row_verdict(row, TH_VACUOUS, "the gradient never arrived: no recorded operation leads here");
}

/* ---- the whole ---- */

static th_status run_mode(const th__subject *subject, const th_gradcheck_options *options,
                          th_check_mode mode, const th__gradients *gradients,
                          th_gradcheck_row *const *rows, th_error *error) {
  th__gradients bound = {0};
  th_status status = th__rounding_bound(subject, gradients, false, 0x1p-53, &bound, error);
  if (status == TH_OK && mode == TH_CHECK_PROJECTION)
    status = th__check_projections(subject, gradients, &bound, options->projections, rows, error);
  else if (status == TH_OK)
    status = th__check_entries(subject, gradients, &bound,
                               mode == TH_CHECK_SAMPLE ? options->samples : 0, rows, error);
  th__gradients_free(&bound);
  return status;
}

/* The f64 gradient twice: onto zero, which is what the differences are compared with, and onto
 * something else, which it must add to. */
static th_status check_f64(const th__subject *subject, const th_gradcheck_options *options,
                           double spread, th_gradcheck_result *result, th_error *error) {
  th_gradcheck_row *rows[TH_MAX_INPUTS] = {0};
  ptrdiff_t coordinates = 0;
  for (int i = 0; i < subject->input_count; i++)
    if (th__checked(subject, i)) coordinates += subject->inputs[i]->count;
  th_check_mode mode = options->mode;
  if (mode == TH_CHECK_AUTO)
    mode = coordinates <= EVERY_LIMIT ? TH_CHECK_EVERY : TH_CHECK_PROJECTION;
  for (int i = 0; i < subject->input_count; i++)
    if (th__checked(subject, i)) rows[i] = th__new_row(subject, result, i, TH_F64, mode);

  th__gradients zero = {0}, nonzero = {0};
  th_status status = th__backward(subject, &(th__backward_run){.dtype = TH_F64}, &zero, error);
  if (status == TH_OK)
    status = th__backward(subject, &(th__backward_run){.dtype = TH_F64, .from_nonzero = true},
                          &nonzero, error);
  if (status == TH_OK && spread == 0) status = run_mode(subject, options, mode, &zero, rows, error);
  for (int i = 0; i < subject->input_count && status == TH_OK; i++) {
    if (rows[i] == NULL) continue;
    judge_ends(subject, rows[i], zero.arrived[i], spread);
    if (spread == 0) th__judge_accumulation(subject, rows[i], zero.of[i], nonzero.of[i], 0x1p-53);
  }
  if (status == TH_OK && spread == 0) status = th__name_mistakes(subject, &zero, result, error);
  th__gradients_free(&zero);
  th__gradients_free(&nonzero);
  return status;
}

static th_status check_symmetry(const th__subject *subject, const th_gradcheck_options *options,
                                double spread, th_gradcheck_result *result, th_error *error) {
  int first = 0;
  while (!th__checked(subject, first)) first++;
  th_gradcheck_row *row = th__new_row(subject, result, first, TH_F64, TH_CHECK_HESSIAN);
  snprintf(row->input, sizeof row->input, "all");
  th_status status = TH_OK;
  if (spread == 0) status = th__check_hessian(subject, options->projections, row, error);
  judge_ends(subject, row, true, spread);
  return status;
}

/* A function that has changed since the start was not worth any other verdict. */
static void judge_drift(th_gradcheck_result *result, double spread) {
  for (int r = 0; r < result->row_count && spread > 0; r++) {
    result->rows[r].verdict = TH_PASS;
    result->rows[r].detail[0] = '\0';
    th__row_verdict(&result->rows[r], TH_NOISY,
                    "not deterministic: at the end of the check the outputs differ by up to %.3g",
                    spread);
  }
}

static th_gradcheck_options with_defaults(const th_gradcheck_options *options) {
  th_gradcheck_options o = options != NULL ? *options : (th_gradcheck_options){0};
  if (!(o.tolerance > 0)) o.tolerance = 1e-7;
  if (o.projections <= 0) o.projections = 4;
  if (o.projections > MOST_PROJECTIONS) o.projections = MOST_PROJECTIONS;
  if (o.samples <= 0) o.samples = 256;
  return o;
}

th_status th__gradcheck_subject(th__subject *subject, const th_gradcheck_options *options,
                                th_gradcheck_result *result, th_error *error) {
  *result = (th_gradcheck_result){0};
  subject->seed = options->seed;
  subject->tolerance = options->tolerance;
  subject->serial = options->serial;
  int checked = 0;
  for (int i = 0; i < subject->input_count; i++) checked += th__checked(subject, i);
  if (checked == 0)
    return th__error(error, TH_ERR_VALUE,
                     "gradcheck: there is nothing to check; give at least one f32 or f64 input");
  double spread, drift = 0;
  th_check_mode mode = options->mode;
  th_status status = th__subject_start(subject, &spread, error);
  if (status == TH_OK && mode == TH_CHECK_HESSIAN)
    status = check_symmetry(subject, options, spread, result, error);
  else if (status == TH_OK && (mode != TH_CHECK_PRECISION || spread > 0))
    status = check_f64(subject, options, spread, result, error);
  if (status == TH_OK && (options->f32 || mode == TH_CHECK_PRECISION) && spread == 0)
    status = th__precision(subject, result, error);
  if (status == TH_OK && spread == 0) status = th__subject_again(subject, &drift, error);
  judge_drift(result, drift);
  for (int r = 0; r < result->row_count; r++)
    if (result->rows[r].verdict > result->verdict) result->verdict = result->rows[r].verdict;
  return status;
}

th_status th_gradcheck_case(const th_check *check, const th_gradcheck_options *options,
                            th_gradcheck_result *result, th_error *error) {
  th_gradcheck_options o = with_defaults(options);
  if (o.mode == TH_CHECK_AUTO && check->large) o.mode = TH_CHECK_PROJECTION;
  th__subject subject = {
      .function = check->forward, .context = check->context, .input_count = check->input_count};
  for (int i = 0; i < check->input_count; i++) subject.slot[i] = i;
  th_status status = th__fill(check, o.seed, subject.inputs, error);
  if (status != TH_OK) return status;
  status = th__gradcheck_subject(&subject, &o, result, error);
  th__subject_free(&subject);
  return status;
}

/* ---- a user's tensors ---- */

/* First and one past last byte of a tensor's memory. */
static void memory_of(const th_tensor *x, const char **begin, const char **end) {
  ptrdiff_t span = x->count > 0 ? 1 : 0;
  for (int i = 0; i < x->ndim && span > 0; i++) span += (x->shape[i] - 1) * x->strides[i];
  *begin = x->data;
  *end = *begin + span * (ptrdiff_t)th_dtype_size(x->dtype);
}

static bool overlap(const th_tensor *a, const th_tensor *b) {
  const char *a_begin, *a_end, *b_begin, *b_end;
  memory_of(a, &a_begin, &a_end);
  memory_of(b, &b_begin, &b_end);
  return a_begin < b_end && b_begin < a_end && a->count > 0 && b->count > 0;
}

/* f64 for what is differentiated, the type it has for what is constant; contiguous. */
static th_tensor *master_copy(const th_tensor *x, th_error *error) {
  bool constant = !th__is_float(x);
  th_tensor *copy = th_tensor_new(constant ? x->dtype : TH_F64, x->ndim, x->shape, error);
  if (copy == NULL) return NULL;
  if (constant)
    th__tensor_copy(copy, x);
  else
    th_tensor_read(x, copy->data);
  if (x->name[0] != '\0') th_tensor_set_name(copy, x->name);
  return copy;
}

static th_status take_inputs(th__subject *subject, th_tensor *const *inputs, int count,
                             th_error *error) {
  for (int i = 0; i < count; i++) {
    if (inputs[i] == NULL) return th__error(error, TH_ERR_VALUE, "gradcheck: input %d is NULL", i);
    int same = 0;
    while (inputs[same] != inputs[i]) same++;
    subject->slot[i] = same;
    for (int j = 0; j < i; j++)
      if (inputs[j] != inputs[i] && overlap(inputs[j], inputs[i]))
        return th__error(error, TH_ERR_VALUE,
                         "gradcheck: inputs %d and %d share memory, so one cannot be changed without "
                         "the other; pass copies, or the same tensor twice",
                         j, i);
    subject->inputs[i] = same == i ? master_copy(inputs[i], error) : subject->inputs[same];
    if (subject->inputs[i] == NULL) return TH_ERR_MEMORY;
    subject->input_count = i + 1;
  }
  return TH_OK;
}

th_status th_gradcheck(th_function *function, th_tensor *const *inputs, int input_count,
                       const void *context, const th_gradcheck_options *options,
                       th_gradcheck_result *result, th_error *error) {
  if (function == NULL || result == NULL || input_count < 1 || input_count > TH_MAX_INPUTS)
    return th__error(error, TH_ERR_VALUE,
                     "gradcheck: a function, 1 to %d inputs and a result are needed; got %d inputs",
                     TH_MAX_INPUTS, input_count);
  th_gradcheck_options o = with_defaults(options);
  th__subject subject = {.function = function, .context = context};
  th_status status = take_inputs(&subject, inputs, input_count, error);
  if (status == TH_OK) status = th__gradcheck_subject(&subject, &o, result, error);
  th__subject_free(&subject);
  return status;
}
