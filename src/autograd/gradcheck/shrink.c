/* shrink.c: the smallest case that still fails.
 *
 * A case is made from a few numbers: the distinct lengths in its inputs' shapes (axes of one length are
 * taken to belong together), or batch, length, heads and width given to a maker. Each number in turn is
 * lowered, 1 first, as long as the check still ends with the same verdict; a case that the function
 * refuses does not count. The rounds end when no number can be lowered any more. */
#include <string.h>

#include "autograd/gradcheck/gradcheck.h"
#include "tensor/error.h"

enum { MOST_NUMBERS = 16 };

typedef struct shrinking {
  const th_gradcheck_options *options;
  th_verdict verdict; /* to be kept */
  int count;
  ptrdiff_t numbers[MOST_NUMBERS];
  /* Makes a case from the numbers. */
  void (*make)(const struct shrinking *s, th_check *check);
  const th_check *original; /* shapes: the case, and its numbers */
  ptrdiff_t first[MOST_NUMBERS];
  th_case_maker *maker; /* sizes */
  th_case_sizes *sizes;
} shrinking;

static bool still_fails(shrinking *s, th_gradcheck_result *result) {
  th_check check;
  th_gradcheck_result found;
  s->make(s, &check);
  if (th_gradcheck_case(&check, s->options, &found, NULL) != TH_OK) return false;
  if (found.verdict != s->verdict) return false;
  *result = found;
  return true;
}

/* The least number that fails: 1, 2, 3, then halves, then one less. */
static bool lower(shrinking *s, int which, th_gradcheck_result *result) {
  ptrdiff_t now = s->numbers[which];
  const ptrdiff_t tries[] = {1, 2, 3, now / 4, now / 2, now - 1};
  for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
    if (tries[i] < 1 || tries[i] >= now) continue;
    s->numbers[which] = tries[i];
    if (still_fails(s, result)) return true;
  }
  s->numbers[which] = now;
  return false;
}

static void shrink(shrinking *s, th_gradcheck_result *result) {
  bool lowered = true;
  while (lowered) {
    lowered = false;
    for (int i = 0; i < s->count; i++)
      while (lower(s, i, result)) lowered = true;
  }
}

/* ---- from the shapes of a case ---- */

static ptrdiff_t replaced(const shrinking *s, ptrdiff_t length) {
  for (int i = 0; i < s->count; i++)
    if (s->first[i] == length) return s->numbers[i];
  return length;
}

static void make_from_shapes(const shrinking *s, th_check *check) {
  *check = *s->original;
  for (int i = 0; i < check->input_count; i++) {
    th_check_input *in = &check->inputs[i];
    for (int axis = 0; axis < in->ndim; axis++) in->shape[axis] = replaced(s, in->shape[axis]);
    bool counts =
        in->fill == TH_FILL_IDS || in->fill == TH_FILL_LABELS || in->fill == TH_FILL_LENGTHS;
    if (counts) in->param = (double)replaced(s, (ptrdiff_t)in->param);
  }
}

static void take_numbers(shrinking *s, const th_check *check) {
  for (int i = 0; i < check->input_count; i++)
    for (int axis = 0; axis < check->inputs[i].ndim; axis++) {
      ptrdiff_t length = check->inputs[i].shape[axis];
      bool known = length < 2 || s->count == MOST_NUMBERS;
      for (int n = 0; n < s->count; n++) known = known || s->first[n] == length;
      if (known) continue;
      s->first[s->count] = s->numbers[s->count] = length;
      s->count++;
    }
}

th_status th_gradcheck_shrink(const th_check *check, const th_gradcheck_options *options,
                              th_check *smallest, th_gradcheck_result *result, th_error *error) {
  *smallest = *check;
  th_status status = th_gradcheck_case(check, options, result, error);
  if (status != TH_OK || th_verdict_ok(result->verdict)) return status;
  shrinking s = {
      .options = options, .verdict = result->verdict, .make = make_from_shapes, .original = check};
  take_numbers(&s, check);
  shrink(&s, result);
  make_from_shapes(&s, smallest);
  return TH_OK;
}

/* ---- from batch, length, heads and width ---- */

static void make_from_sizes(const shrinking *s, th_check *check) {
  *s->sizes = (th_case_sizes){s->numbers[0], s->numbers[1], s->numbers[2], s->numbers[3]};
  *check = (th_check){.variant = ""};
  s->maker(s->sizes, check);
}

th_status th_gradcheck_shrink_sized(th_case_maker *maker, th_case_sizes *sizes,
                                    const th_gradcheck_options *options,
                                    th_gradcheck_result *result, th_error *error) {
  if (sizes->batch < 1 || sizes->length < 1 || sizes->heads < 1 || sizes->width < 1)
    return th__error(
        error, TH_ERR_VALUE,
        "gradcheck: batch %td, length %td, heads %td, width %td; each must be at least 1",
        sizes->batch, sizes->length, sizes->heads, sizes->width);
  shrinking s = {
      .options = options, .make = make_from_sizes, .count = 4, .maker = maker, .sizes = sizes};
  const ptrdiff_t numbers[] = {sizes->batch, sizes->length, sizes->heads, sizes->width};
  memcpy(s.numbers, numbers, sizeof numbers);
  th_check check;
  make_from_sizes(&s, &check);
  th_status status = th_gradcheck_case(&check, options, result, error);
  if (status != TH_OK || th_verdict_ok(result->verdict)) return status;
  s.verdict = result->verdict;
  shrink(&s, result);
  make_from_sizes(&s, &check);
  return TH_OK;
}
