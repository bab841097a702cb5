/* diagnosis.c: names the mistake in every gradient that is wrong.
 *
 * The evidence is the claimed and the measured gradient at the point that was checked and at two more
 * random points, with the inputs, the output, the upstream gradient and the sizes as clues. Where the
 * gradients alone do not tell, small functions are looked at once more through their whole Jacobian.
 * A wrong gradient that fits nothing is explained by what was found for another input of the same
 * function: most often one mistake spoils several. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "autograd/gradcheck/evidence.h"
#include "tensor/error.h"

enum { TRIALS = 3, MOST_CLUES = 2 * TH_MAX_INPUTS + 2, MOST_CONSTANTS = 24 };
#define MOST_WORK                                                                                  \
  5e7 /* elements of the input times elements of the output: beyond it, no diagnosis */
#define MOST_JACOBIAN 4e5 /* the same for the Jacobian */
#define SLACK 1e-7        /* accuracy of a measured gradient */

/* ---- more points ---- */

/* The same function with every value multiplied by 0.6 .. 1.4 and another upstream gradient. */
static th_status other_point(const th__subject *subject, int trial, th__subject *other,
                             th_error *error) {
  *other = (th__subject){.function = subject->function,
                         .context = subject->context,
                         .seed = subject->seed + (uint64_t)trial * 7919,
                         .tolerance = subject->tolerance,
                         .serial = subject->serial};
  for (int i = 0; i < subject->input_count; i++) {
    const th_tensor *x = subject->inputs[i];
    int slot = other->slot[i] = subject->slot[i];
    other->inputs[i] = slot == i ? th_tensor_from(x->dtype, x->ndim, x->shape, x->data, error)
                                 : other->inputs[slot];
    if (other->inputs[i] == NULL) return TH_ERR_MEMORY;
    other->input_count = i + 1;
    if (slot != i || !th__is_float(x)) continue;
    double *values = other->inputs[i]->data;
    th_random stream = th__draw(other->seed, TH__DRAW_INPUT, (uint64_t)i);
    for (ptrdiff_t k = 0; k < x->count; k++)
      values[k] *= 0.6 + 0.8 * th_random_uniform(stream, (uint64_t)k);
  }
  double spread;
  return th__subject_start(other, &spread, error);
}

static th_status measure_wrong(th_tape *memory, th__trial *t, unsigned wrong, th_error *error) {
  th_status status = TH_OK;
  for (int i = 0; i < t->subject->input_count && status == TH_OK; i++) {
    if (!(wrong & 1u << i)) continue;
    ptrdiff_t count = t->subject->inputs[i]->count;
    t->want[i] = th_tape_alloc(memory, (size_t)count * sizeof(double));
    if (t->want[i] == NULL) return th__error_memory(error, "gradcheck", 0);
    double largest = 0;
    for (ptrdiff_t k = 0; k < count; k++)
      if (isfinite(t->got.of[i][k])) largest = fmax(largest, fabs(t->got.of[i][k]));
    status = th__measure(t->subject, i, 0.1 * SLACK * largest, t->want[i], error);
  }
  return status;
}

/* ---- clues ---- */

typedef struct dossier {
  char names[TH_MAX_INPUTS][24], derived[TH_MAX_INPUTS][40]; /* of values made of the inputs */
  int clue_count;
  th__clue clues[TRIALS][MOST_CLUES];
  int constant_count;
  char constant_names[MOST_CONSTANTS][40];
  th__constant constants[MOST_CONSTANTS];
} dossier;

static void add_constant(dossier *d, double value, const char *format, const char *name, int axis) {
  for (int i = 0; i < d->constant_count; i++)
    if (d->constants[i].value == value) return;
  if (value <= 1 || d->constant_count == MOST_CONSTANTS) return;
  char *text = d->constant_names[d->constant_count];
  snprintf(text, sizeof d->constant_names[0], format, name, axis);
  d->constants[d->constant_count++] = (th__constant){text, value};
}

/* Sizes a factor may be made of: the axes of inputs and output, from the last, then numbers of rows. */
static void add_shape(dossier *d, const char *name, int ndim, const ptrdiff_t *shape) {
  double count = 1;
  for (int axis = ndim - 1; axis >= 0; axis--) {
    add_constant(d, (double)shape[axis], "%.20s.shape[%d]", name, axis - ndim);
    count *= (double)shape[axis];
  }
  if (ndim > 1) add_constant(d, count / (double)shape[ndim - 1], "rows of %.20s", name, 0);
  add_constant(d, count, "elements of %.20s", name, 0);
}

static bool add_tensor(th_tape *memory, dossier *d, int trial, const char *name, th__clue_kind kind,
                       const th_tensor *x) {
  double *values = th_tape_alloc(memory, (size_t)x->count * sizeof *values);
  if (values == NULL) return false;
  th_tensor_read(x, values);
  th__clue *clue = &d->clues[trial][d->clue_count++];
  *clue = (th__clue){name, kind, {.ndim = x->ndim, .data = values}};
  memcpy(clue->grid.shape, x->shape, (size_t)x->ndim * sizeof *x->shape);
  return true;
}

static void add_array(dossier *d, int trial, const char *name, th__clue_kind kind,
                      const th__subject *s, const double *values) {
  th__clue *clue = &d->clues[trial][d->clue_count++];
  *clue = (th__clue){name, kind, {.ndim = s->output_ndim, .data = values}};
  memcpy(clue->grid.shape, s->output_shape, (size_t)s->output_ndim * sizeof *s->output_shape);
}

/* What a formula may hold besides the inputs themselves: the one-hot rows of labels times a scalar's
 * upstream gradient, and the bell curve of a value, from which GELU's derivative is made. */
static bool add_derived(th_tape *memory, dossier *d, int trial, const th__subject *s, int input) {
  const th_tensor *x = s->inputs[input], *table = s->inputs[0];
  bool labels = x->dtype == TH_I32 && s->output_count == 1 && table->ndim == x->ndim + 1 &&
                th__is_float(table) &&
                memcmp(x->shape, table->shape, (size_t)x->ndim * sizeof *x->shape) == 0;
  bool curve = th__is_float(x) && x->count == s->output_count && s->input_count == 1;
  if (!labels && !curve) return true;
  const th_tensor *like = labels ? table : x;
  double *values = th_tape_alloc(memory, (size_t)like->count * sizeof *values);
  if (values == NULL) return false;
  ptrdiff_t n = labels ? th__dim(table, -1) : 1;
  for (ptrdiff_t k = 0; k < like->count; k++) {
    double v = th__get(x, k / n);
    values[k] = labels ? (v == (double)(k % n) ? s->upstream[0] : 0) : exp(-v * v / 2);
  }
  snprintf(d->derived[input], sizeof d->derived[input],
           labels ? "onehot(%s) * dy" : "exp(-%s**2 / 2)", d->names[input]);
  th__clue *clue = &d->clues[trial][d->clue_count++];
  th__clue_kind kind = labels ? TH__CLUE_GRADIENT : TH__CLUE_VALUE;
  *clue = (th__clue){d->derived[input], kind, {.ndim = like->ndim, .data = values}};
  memcpy(clue->grid.shape, like->shape, (size_t)like->ndim * sizeof *like->shape);
  return true;
}

static bool collect_clues(th_tape *memory, const th__trial *trials, dossier *d) {
  for (int trial = 0; trial < TRIALS; trial++) {
    const th__subject *s = trials[trial].subject;
    d->clue_count = 0;
    for (int i = 0; i < s->input_count; i++) {
      const th_tensor *x = s->inputs[i];
      if (!add_derived(memory, d, trial, s, i)) return false;
      if (s->slot[i] != i || (!th__is_float(x) && x->dtype != TH_BOOL)) continue;
      if (!add_tensor(memory, d, trial, d->names[i], TH__CLUE_VALUE, x)) return false;
    }
    add_array(d, trial, "y", TH__CLUE_VALUE, s, s->output);
    add_array(d, trial, "dy", TH__CLUE_GRADIENT, s, s->upstream);
  }
  const th__subject *s = trials[0].subject;
  for (int i = 0; i < s->input_count; i++)
    if (s->slot[i] == i) add_shape(d, d->names[i], s->inputs[i]->ndim, s->inputs[i]->shape);
  add_shape(d, "y", s->output_ndim, s->output_shape);
  return true;
}

/* ---- one input ---- */

static th_status from_gradients(const th__trial *trials, const dossier *d, int input,
                                th__diagnosis *found) {
  th__evidence evidence[TRIALS];
  char name[32];
  snprintf(name, sizeof name, "d%s", d->names[input]);
  for (int t = 0; t < TRIALS; t++) {
    const th_tensor *x = trials[t].subject->inputs[input];
    th__grid grid = {.ndim = x->ndim};
    memcpy(grid.shape, x->shape, (size_t)x->ndim * sizeof *x->shape);
    evidence[t] = (th__evidence){.got = grid,
                                 .want = grid,
                                 .clue_count = d->clue_count,
                                 .clues = d->clues[t],
                                 .constant_count = d->constant_count,
                                 .constants = d->constants};
    evidence[t].got.data = trials[t].got.of[input];
    evidence[t].want.data = trials[t].want[input];
  }
  return th__diagnose(name, TRIALS, evidence, SLACK, found);
}

static bool has_numbers_only(const double *values, ptrdiff_t count) {
  for (ptrdiff_t k = 0; k < count; k++)
    if (!isfinite(values[k])) return false;
  return true;
}

static th_status diagnose_input(th_tape *memory, const th__trial *trials, const dossier *d,
                                int input, th__diagnosis *found, th_error *error) {
  const th__subject *s = trials[0].subject;
  ptrdiff_t count = s->inputs[input]->count;
  th_status status = from_gradients(trials, d, input, found);
  /* A row of zeros in the gradient may look like a mask, so the Jacobian has a word in that, too. */
  bool told = found->kind != TH__BUG_UNKNOWN && found->kind != TH__BUG_MASK_SHIFTED;
  bool small = (double)count * (double)s->output_count <= MOST_JACOBIAN;
  if (status != TH_OK || told || !small || !has_numbers_only(trials[0].got.of[input], count))
    return status;
  th__jacobian j;
  status = th__jacobian_of(memory, s, input, &j, error);
  th__diagnosis better;
  if (status != TH_OK) return status;
  if (th__diagnose_jacobian(&j, &better))
    *found = better;
  else if (!th__jacobian_diagonal(&j))
    found->kind = TH__BUG_UNKNOWN;
  return TH_OK;
}

/* ---- all of them ---- */

static void write_row(th_gradcheck_row *row, const th__diagnosis *found, const char *place) {
  snprintf(row->diagnosis, sizeof row->diagnosis, "%s", th__bug_name(found->kind));
  row->factor = found->factor;
  snprintf(row->cause, sizeof row->cause, "d%s %s%s%s", row->input, found->text,
           place[0] != '\0' ? "; " : "", place);
}

/* A wrong row that fits nothing takes over what most of the others have. */
static void share_findings(th_gradcheck_result *result, th__diagnosis *found) {
  int best = -1, most = 0;
  for (int r = 0; r < result->row_count; r++) {
    int same = 0;
    for (int o = 0; o < result->row_count; o++)
      same += result->rows[o].diagnosis[0] != '\0' && found[o].kind == found[r].kind;
    if (result->rows[r].diagnosis[0] == '\0' || found[r].kind == TH__BUG_UNKNOWN || same <= most)
      continue;
    best = r;
    most = same;
  }
  for (int r = 0; r < result->row_count && best >= 0; r++) {
    th_gradcheck_row *row = &result->rows[r];
    if (row->diagnosis[0] == '\0' || found[r].kind != TH__BUG_UNKNOWN) continue;
    snprintf(row->diagnosis, sizeof row->diagnosis, "%s", result->rows[best].diagnosis);
    snprintf(row->cause, sizeof row->cause, "explained by: %.*s", (int)sizeof row->cause - 15,
             result->rows[best].cause);
  }
}

static unsigned wrong_inputs(const th__subject *subject, const th_gradcheck_result *result) {
  unsigned wrong = 0;
  for (int r = 0; r < result->row_count; r++) {
    const th_gradcheck_row *row = &result->rows[r];
    double work = (double)row->elements * (double)subject->output_count;
    if (row->dtype == TH_F64 && row->verdict == TH_WRONG && row->diagnosis[0] == '\0' &&
        work <= MOST_WORK)
      wrong |= 1u << row->input_index;
  }
  return wrong;
}

static th_status examine(th_tape *memory, const th__trial *trials, dossier *d, unsigned wrong,
                         th_gradcheck_result *result, th_error *error) {
  th__diagnosis found[TH_GRADCHECK_ROWS] = {{.kind = TH__BUG_UNKNOWN}};
  char place[96];
  const th__subject *s = trials[0].subject;
  for (int i = 0; i < s->input_count; i++)
    snprintf(d->names[i], sizeof d->names[i], "%.23s",
             s->inputs[i]->name[0] != '\0' ? s->inputs[i]->name : "x");
  if (!collect_clues(memory, trials, d)) return th__error_memory(error, "gradcheck", 0);
  th__locate(s, wrong, place, sizeof place);
  th_status status = TH_OK;
  for (int r = 0; r < result->row_count && status == TH_OK; r++) {
    th_gradcheck_row *row = &result->rows[r];
    if (row->dtype != TH_F64 || !(wrong & 1u << row->input_index)) continue;
    status = diagnose_input(memory, trials, d, row->input_index, &found[r], error);
    if (status == TH_OK) write_row(row, &found[r], place);
  }
  if (status == TH_OK) share_findings(result, found);
  return status;
}

th_status th__name_mistakes(const th__subject *subject, const th__gradients *gradients,
                            th_gradcheck_result *result, th_error *error) {
  unsigned wrong = wrong_inputs(subject, result);
  if (wrong == 0) return TH_OK;
  th__subject first = *subject, others[TRIALS] = {{0}};
  th__trial trials[TRIALS] = {{&first, *gradients, {0}}};
  th_tape *memory = th_tape_new();
  dossier *d = memory != NULL ? th_tape_alloc(memory, sizeof *d) : NULL;
  th_status status = d != NULL ? TH_OK : th__error_memory(error, "gradcheck", sizeof *d);
  if (d != NULL) *d = (dossier){0};
  for (int t = 1; t < TRIALS && status == TH_OK; t++) {
    trials[t].subject = &others[t];
    status = other_point(subject, t, &others[t], error);
    if (status == TH_OK)
      status = th__backward(&others[t], &(th__backward_run){.dtype = TH_F64}, &trials[t].got, error);
  }
  for (int t = 0; t < TRIALS && status == TH_OK; t++)
    status = measure_wrong(memory, &trials[t], wrong, error);
  if (status == TH_OK) status = examine(memory, trials, d, wrong, result, error);
  for (int t = 1; t < TRIALS; t++) {
    th__gradients_free(&trials[t].got);
    th__subject_free(&others[t]);
  }
  th_tape_free(memory);
  return status;
}
