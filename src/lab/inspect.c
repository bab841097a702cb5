#include "lab/inspect.h"

#include <math.h>
#include <stdio.h>

#include "lab/heatmap.h"
#include "lab/row.h"
#include "tensor/alloc.h"
#include "tensor/error.h"

#define SATURATED 0.99

/* ---- attention ---- */

/* Puts column j among the head's most attended ones, in falling order. */
static void insert(th__inspect_head *head, ptrdiff_t j, double share) {
  for (int k = 0; k < TH__INSPECT_TOP; k++) {
    if (head->top[k] >= 0 && head->top_share[k] >= share) continue;
    for (int i = TH__INSPECT_TOP - 1; i > k; i--) {
      head->top[i] = head->top[i - 1];
      head->top_share[i] = head->top_share[i - 1];
    }
    head->top[k] = j;
    head->top_share[k] = share;
    return;
  }
}

static void sum_up(const double *weights, ptrdiff_t n, th__inspect_head *head) {
  ptrdiff_t rows = 0;
  for (ptrdiff_t i = 0; i < n; i++) {
    th__row row = th__row_figures(weights + i * n, n);
    if (row.zeros == n) continue;
    head->entropy += row.entropy;
    head->effective += exp(row.entropy);
    head->saturated += row.largest > SATURATED;
    rows++;
  }
  if (rows == 0) return;
  head->entropy /= (double)rows;
  head->effective /= (double)rows;
  head->saturated /= (double)rows;
  for (ptrdiff_t j = 0; j < n; j++) {
    double received = 0;
    for (ptrdiff_t i = 0; i < n; i++) received += weights[i * n + j];
    if (received > 0) insert(head, j, received / (double)rows);
  }
}

static void sum_up_all(th__inspection *out) {
  ptrdiff_t n = out->tokens;
  for (ptrdiff_t i = 0; i < out->layers * out->heads; i++) {
    out->head[i] = (th__inspect_head){.layer = i / out->heads, .head = i % out->heads};
    for (int k = 0; k < TH__INSPECT_TOP; k++) out->head[i].top[k] = -1;
    sum_up(out->weights + i * n * n, n, &out->head[i]);
  }
}

/* ---- the pass ---- */

static th_status pass(th_tape *tape, th_model *model, const int32_t *tokens, th_tensor **weights,
                      th__inspection *out, th_error *error) {
  ptrdiff_t n = out->tokens;
  const th_pass options = {.weights = weights};
  th_tensor *ids = th_input(tape, TH_I32, TH_SHAPE(1, n), tokens);
  if (th_model_kind_of(model) == TH_MODEL_CLASSIFIER) {
    th_classifier_forward(tape, model, ids, NULL, &options);
  } else {
    th_tensor *logits = th_model_forward(tape, model, ids, &options);
    if (n > 1) {
      th_tensor *next = th_input(tape, TH_I32, TH_SHAPE(1, n - 1), tokens + 1);
      out->loss = th_tensor_item(th_cross_entropy(tape, th_slice(tape, logits, 1, 0, n - 1), next));
    }
  }
  if (th_tape_status(tape) != TH_OK)
    return th__error(error, th_tape_status(tape), "%s", th_tape_message(tape));
  for (ptrdiff_t l = 0; l < out->layers; l++)
    th_tensor_read(weights[l], out->weights + l * out->heads * n * n);
  return TH_OK;
}

static th_status allocate(th__inspection *out, th_tensor ***weights, th_tape **tape,
                          th_error *error) {
  size_t heads = (size_t)(out->layers * out->heads), n = (size_t)out->tokens;
  size_t bytes = heads * n * n * sizeof(double);
  out->head = th__alloc(heads * sizeof *out->head);
  out->weights = th__alloc(bytes);
  *weights = th__alloc((size_t)out->layers * sizeof **weights);
  *tape = th_tape_new();
  if (out->head != NULL && out->weights != NULL && *weights != NULL && *tape != NULL) return TH_OK;
  return th__error_memory(error, "inspect", bytes);
}

th_status th__inspect(th_model *model, const int32_t *tokens, ptrdiff_t count, th__inspection *out,
                      th_error *error) {
  const th_gpt *config = th_model_gpt(model);
  *out = (th__inspection){.tokens = count, .loss = (double)NAN};
  if (config == NULL)
    return th__error(error, TH_ERR_VALUE,
                     "a recurrent model has no attention to look at; leave the text out");
  if (th_model_kind_of(model) == TH_MODEL_SEQ2SEQ)
    return th__error(error, TH_ERR_VALUE,
                     "an encoder-decoder reads two texts, and no attention maps are made of "
                     "it; leave the text out");
  if (count < 1) return th__error(error, TH_ERR_VALUE, "the text is empty");
  if (count > config->context)
    return th__error(error, TH_ERR_VALUE,
                     "the text has %td tokens, the model's context is %td; take a shorter "
                     "text",
                     count, config->context);
  out->layers = config->layers;
  out->heads = config->heads;
  th_tensor **weights = NULL;
  th_tape *tape = NULL;
  th_status status = allocate(out, &weights, &tape, error);
  if (status == TH_OK) {
    th_tape_set_recording(tape, false);
    status = pass(tape, model, tokens, weights, out, error);
  }
  th_tape_free(tape);
  th__free(weights);
  if (status == TH_OK)
    sum_up_all(out);
  else
    th__inspection_free(out);
  return status;
}

void th__inspection_free(th__inspection *inspection) {
  th__free(inspection->head);
  th__free(inspection->weights);
  *inspection = (th__inspection){0};
}

/* ---- parameters ---- */

th_status th__inspect_parameter(const th_tensor *tensor, th__inspect_tensor *out, th_error *error) {
  ptrdiff_t count = th_tensor_count(tensor), finite = 0;
  size_t bytes = (size_t)count * sizeof(double);
  double *x = th__alloc(bytes);
  *out = (th__inspect_tensor){0};
  if (x == NULL) return th__error_memory(error, "inspect", bytes);
  th_tensor_read(tensor, x);
  for (ptrdiff_t i = 0; i < count; i++) {
    if (!isfinite(x[i])) continue;
    out->mean += x[i];
    out->largest = fmax(out->largest, fabs(x[i]));
    finite++;
  }
  out->broken = count - finite;
  if (finite > 0) out->mean /= (double)finite;
  double squares = 0;
  for (ptrdiff_t i = 0; i < count; i++)
    if (isfinite(x[i])) squares += (x[i] - out->mean) * (x[i] - out->mean);
  if (finite > 0) out->sd = sqrt(squares / (double)finite);
  th__free(x);
  return TH_OK;
}

/* ---- pictures ---- */

#define TITLE 48

static th__heatmap map_of(const th__inspection *in, ptrdiff_t index, const char *const *names,
                          char title[TITLE]) {
  const th__inspect_head *head = &in->head[index];
  snprintf(title, TITLE, "layer %td head %td: H %.2f", head->layer, head->head, head->entropy);
  return (th__heatmap){title, in->tokens, in->tokens, in->weights + index * in->tokens * in->tokens,
                       names, names};
}

char *th__inspect_map(const th__inspection *inspection, ptrdiff_t layer, ptrdiff_t head,
                      const char *const *names, th_error *error) {
  char title[TITLE];
  th__heatmap map = map_of(inspection, layer * inspection->heads + head, names, title);
  return th__heatmap_text(&map, error);
}

char *th__inspect_svg(const th__inspection *in, const char *const *names, size_t *size,
                      th_error *error) {
  ptrdiff_t count = in->layers * in->heads;
  size_t bytes = (size_t)count * (sizeof(th__heatmap) + TITLE);
  th__heatmap *maps = th__alloc(bytes);
  if (maps == NULL) {
    th__error_memory(error, "inspect", bytes);
    return NULL;
  }
  char(*titles)[TITLE] = (char(*)[TITLE])(maps + count);
  for (ptrdiff_t i = 0; i < count; i++) maps[i] = map_of(in, i, names, titles[i]);
  char *svg = th__heatmaps_svg(maps, (int)count, (int)in->heads, size, error);
  th__free(maps);
  return svg;
}
