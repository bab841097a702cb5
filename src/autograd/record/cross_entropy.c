/* Recording cross_entropy, as a mean and as a sum: targets are checked and copied first; saves three
 * numbers per row. */
#include "autograd/record/cross_entropy.h"

typedef struct rows_of {
  ptrdiff_t n;
  double scale;            /* dL/dloss / divisor, for the backward */
  const th_tensor *logits; /* contiguous */
  const int32_t *targets;
  double *losses;
  void *stats; /* [rows, 3] of the logits' type */
  th_tensor *dlogits;
} rows_of;

typedef struct saved {
  const int32_t *targets;
  void *stats;
  double divisor; /* how many targets count, or 1 of a sum; 0 if none does */
} saved;

static void *stats_at(const rows_of *r, ptrdiff_t row) {
  return (char *)r->stats + 3 * row * (ptrdiff_t)th_dtype_size(r->logits->dtype);
}

static void forward_rows(const void *context, ptrdiff_t begin, ptrdiff_t end) {
  const rows_of *r = context;
  TH__CALL(r->logits->dtype, cross_entropy_fwd, end - begin, r->n, th__at(r->logits, begin * r->n),
           r->targets + begin, r->losses + begin, stats_at(r, begin));
}

static void backward_rows(const void *context, ptrdiff_t begin, ptrdiff_t end) {
  const rows_of *r = context;
  ptrdiff_t at = begin * r->n;
  TH__CALL(r->logits->dtype, cross_entropy_bwd, end - begin, r->n, r->scale, th__at(r->logits, at),
           r->targets + begin, stats_at(r, begin), th__at(r->dlogits, at));
}

th_status th__cross_entropy_backward(th_node *node) {
  const saved *s = th_node_saved(node);
  if (s->divisor == 0) return TH_OK;
  rows_of r = {.logits = th_node_input(node, 0),
               .targets = s->targets,
               .stats = s->stats,
               .dlogits = th_node_grad(node, 0)};
  r.n = th__dim(r.logits, -1);
  r.scale = th__get(th_node_upstream(node), 0) / s->divisor;
  th__parallel(r.logits->count / r.n, th__grain(8 * r.n), backward_rows, &r);
  return TH_OK;
}

/* ---- checks ---- */

th_tensor *th__run_loss(th_tape *tape, th_tensor *const *in, const void *context) {
  th__loss *const *op = context;
  return (*op)(tape, in[0], in[1]);
}

static th__loss *const mean_loss = th_cross_entropy;

/* clang-format off */
static const th_check checks[] = {
    {"", th__run_loss, &mean_loss, .input_count = 2, .inputs = {
        {"logits", TH_FILL_NORMAL, 0, 2, {4, 5}}, {"targets", TH_FILL_IDS, 5, 1, {4}}}},
    {"ignored", th__run_loss, &mean_loss, .input_count = 2, .inputs = {
        {"logits", TH_FILL_NORMAL, 0, 3, {2, 4, 5}}, {"targets", TH_FILL_LABELS, 5, 2, {2, 4}}}},
    {"saturated", th__run_loss, &mean_loss, .input_count = 2, .inputs = {
        {"logits", TH_FILL_NORMAL, 8, 2, {4, 6}}, {"targets", TH_FILL_IDS, 6, 1, {4}}}},
    {"large", th__run_loss, &mean_loss, .large = true, .input_count = 2, .inputs = {
        {"logits", TH_FILL_NORMAL, 0, 3, {4, 32, 65}}, {"targets", TH_FILL_LABELS, 65, 2, {4, 32}}}},
    {0}};
/* clang-format on */

const th_op th__op_cross_entropy = {"cross_entropy", th__cross_entropy_backward, checks};

/* ---- recording ---- */

static bool valid(th_tape *tape, const char *op, const th_tensor *logits, const th_tensor *targets) {
  if (logits->ndim < 1)
    th_fail(tape, TH_ERR_SHAPE, op, "the logits are a scalar; [..., V] is expected");
  else if (targets->dtype != TH_I32)
    th_fail(tape, TH_ERR_DTYPE, op, "the targets are %s; i32 is expected",
            th_dtype_name(targets->dtype));
  else if (!th__shape_equal(logits->ndim - 1, logits->shape, targets->ndim, targets->shape))
    th_fail(tape, TH_ERR_SHAPE, op,
            "the targets are %s but the logits %s; one target per row of logits is expected",
            TH__TEXT(targets), TH__TEXT(logits));
  else
    return true;
  return false;
}

/* How many targets count, or -1 with an error for the first that is neither a class nor ignored. */
static ptrdiff_t count_targets(th_tape *tape, const char *op, ptrdiff_t rows, ptrdiff_t n,
                               const int32_t *targets) {
  ptrdiff_t counted = 0;
  for (ptrdiff_t i = 0; i < rows; i++) {
    if (targets[i] == TH_IGNORE) continue;
    if (targets[i] < 0 || targets[i] >= n) {
      th_fail(tape, TH_ERR_INDEX, op,
              "target %d at index %td; 0 to %td are classes, %d (TH_IGNORE) is not counted",
              (int)targets[i], i, n - 1, TH_IGNORE);
      return -1;
    }
    counted++;
  }
  return counted;
}

/* The rows' losses, added in their order. */
static double total(ptrdiff_t rows, const double *losses) {
  double sum = 0;
  for (ptrdiff_t i = 0; i < rows; i++) sum += losses[i];
  return sum;
}

th_tensor *th__cross_entropy(th_tape *tape, const th_op *op, th_tensor *logits,
                             const th_tensor *targets, bool mean) {
  th_tensor *second = (th_tensor *)(uintptr_t)targets;
  if (!th__ready(tape, op->name, 2, (th_tensor *[]){logits, second}) ||
      !th__same_dtype(tape, op->name, 1, &logits) || !valid(tape, op->name, logits, targets))
    return NULL;
  const th_tensor *kept = th__keep(tape, targets);
  logits = kept == NULL ? NULL : th_contiguous(tape, logits);
  if (logits == NULL) return NULL;
  rows_of r = {.n = th__dim(logits, -1), .logits = logits, .targets = kept->data};
  ptrdiff_t rows = kept->count, counted = count_targets(tape, op->name, rows, r.n, r.targets);
  if (counted < 0) return NULL;

  th_tensor *loss = th_output(tape, logits->dtype, TH_SCALAR);
  r.losses = th_tape_alloc(tape, (size_t)rows * sizeof *r.losses);
  r.stats = th_tape_alloc(tape, 3 * (size_t)rows * th_dtype_size(logits->dtype));
  if (loss == NULL || r.losses == NULL || r.stats == NULL) return NULL;
  saved s = {r.targets, r.stats, mean || counted == 0 ? (double)counted : 1.0};
  if (counted > 0) th__parallel(rows, th__grain(8 * r.n), forward_rows, &r);
  th__set(loss, 0, counted > 0 ? total(rows, r.losses) / s.divisor : 0.0);
  return th_record(tape, op, loss, &logits, 1, &s, sizeof s);
}

th_tensor *th_cross_entropy(th_tape *tape, th_tensor *logits, const th_tensor *targets) {
  return th__cross_entropy(tape, &th__op_cross_entropy, logits, targets, true);
}
