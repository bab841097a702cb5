/* recall_measure.c: one point of a trajectory, read off a pass whose backward has run. */
#include <math.h>

#include "lab/recall_model.h"
#include "lab/row.h"
#include "tensor/tensor.h"

static double norm_of(const double *x, ptrdiff_t n) {
  double squares = 0;
  for (ptrdiff_t i = 0; i < n; i++) squares += x[i] * x[i];
  return sqrt(squares);
}

/* All values of a tensor as doubles, in memory of the tape. */
static double *values_of(th_tape *tape, const th_tensor *x) {
  double *values = th_tape_alloc(tape, (size_t)th_tensor_count(x) * sizeof *values);
  if (values != NULL) th_tensor_read(x, values);
  return values;
}

static double grad_norm(th_tape *tape, const th_tensor *w) {
  const double *values = values_of(tape, th_tensor_grad(w));
  return values == NULL ? (double)NAN : norm_of(values, th_tensor_count(w));
}

/* Root mean square, over query rows, of the standard deviation of a row's 32 logits. */
static double logit_sd(const double *q, const double *k, ptrdiff_t dk, double scale) {
  double total = 0;
  for (ptrdiff_t row = 0; row < TH__RECALL_ROWS; row++) {
    const double *keys = k + row / TH__RECALL_QUERIES * TH__RECALL_SLOTS * dk;
    double logits[TH__RECALL_SLOTS], mean = 0, squares = 0;
    for (ptrdiff_t j = 0; j < TH__RECALL_SLOTS; j++) {
      double dot = 0;
      for (ptrdiff_t c = 0; c < dk; c++) dot += q[row * dk + c] * keys[j * dk + c];
      logits[j] = scale * dot;
      mean += logits[j] / TH__RECALL_SLOTS;
    }
    for (ptrdiff_t j = 0; j < TH__RECALL_SLOTS; j++)
      squares += (logits[j] - mean) * (logits[j] - mean);
    total += squares / TH__RECALL_SLOTS;
  }
  return sqrt(total / TH__RECALL_ROWS);
}

static void measure_weights(const double *p, const int32_t *slots, th__recall_point *point) {
  double norms[TH__RECALL_ROWS], entropy = 0;
  ptrdiff_t wrong = 0, right = 0;
  for (ptrdiff_t i = 0; i < TH__RECALL_ROWS; i++) {
    th__row row = th__row_figures(p + i * TH__RECALL_SLOTS, TH__RECALL_SLOTS);
    norms[i] = row.jacobian_norm;
    entropy += row.entropy;
    if (row.largest > 0.99) {
      wrong += row.top != slots[i];
      right += row.top == slots[i];
    }
  }
  point->entropy_ratio = entropy / TH__RECALL_ROWS / log(TH__RECALL_SLOTS);
  point->stuck_wrong_share = (double)wrong / TH__RECALL_ROWS;
  point->stuck_right_share = (double)right / TH__RECALL_ROWS;
  point->saturated_share = (double)(wrong + right) / TH__RECALL_ROWS;
  point->jacobian_norm_median = th__summarise(norms, TH__RECALL_ROWS).median;
}

bool th__recall_measure(th_tape *tape, const th__recall_model *model, const th__recall *settings,
                        const th__recall_batch *batch, const th__recall_pass *pass,
                        th__recall_point *point) {
  ptrdiff_t dk = settings->dk;
  const double *q = values_of(tape, pass->q), *k = values_of(tape, pass->k);
  const double *p = values_of(tape, pass->weights), *dq = values_of(tape, th_tensor_grad(pass->q));
  if (q == NULL || k == NULL || p == NULL || dq == NULL) return false;
  double norms[TH__RECALL_ROWS];
  for (ptrdiff_t i = 0; i < TH__RECALL_ROWS; i++)
    norms[i] = TH__RECALL_ROWS * norm_of(dq + i * dk, dk);
  point->loss = th_tensor_item(pass->loss);
  point->logit_sd = logit_sd(q, k, dk, th__recall_scale(settings));
  measure_weights(p, th_tensor_data(batch->slots), point);
  point->dq_norm = th__summarise(norms, TH__RECALL_ROWS);
  point->dwq_norm = grad_norm(tape, model->wq);
  point->dwv_norm = grad_norm(tape, model->wv);
  return th_tape_status(tape) == TH_OK;
}
