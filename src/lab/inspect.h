/* inspect.h: what a model's attention does with a text, and what its parameters look like. */
#ifndef TH_LAB_INSPECT_H
#define TH_LAB_INSPECT_H

#include "tapehead.h"

/* One head of one layer; means over the queries that may attend to anything. */
#define TH__INSPECT_TOP 3
typedef struct th__inspect_head {
  ptrdiff_t layer, head;
  double entropy; /* -sum p ln p, nats */
  double effective; /* exp(entropy) of each query, averaged: as many equally weighted keys are as spread */
  double saturated; /* share of queries with more than 0.99 on one key */
  /* The tokens that receive most of all attention paid, and the share that each receives; -1: none. */
  ptrdiff_t top[TH__INSPECT_TOP];
  double top_share[TH__INSPECT_TOP];
} th__inspect_head;

typedef struct th__inspection {
  ptrdiff_t layers, heads, tokens;
  th__inspect_head *head; /* layers * heads of them */
  double *weights;        /* [layers, heads, tokens, tokens] */
  double loss;            /* of a gpt: mean -ln p of each next token; NaN otherwise */
} th__inspection;

/* Runs a gpt or a classifier over the tokens, at least one. TH_ERR_VALUE for a model without attention
 * or with a second input; what its forward pass refuses otherwise. */
th_status th__inspect(th_model *model, const int32_t *tokens, ptrdiff_t count, th__inspection *out,
                      th_error *error);
void th__inspection_free(th__inspection *inspection);

/* One parameter. */
typedef struct th__inspect_tensor {
  double mean, sd, largest; /* largest |x| */
  ptrdiff_t broken;         /* Inf or NaN; they count in nothing else */
} th__inspect_tensor;
th_status th__inspect_parameter(const th_tensor *tensor, th__inspect_tensor *out, th_error *error);

/* "layer 1 head 2" maps of all heads, a layer per row, with the names of the tokens. */
char *th__inspect_svg(const th__inspection *inspection, const char *const *names, size_t *size,
                      th_error *error);
/* The map of one head as text. */
char *th__inspect_map(const th__inspection *inspection, ptrdiff_t layer, ptrdiff_t head,
                      const char *const *names, th_error *error);

#endif
