/* recall_model.h: the model and the data of recall.h, for its training and its measurements. */
#ifndef TH_LAB_RECALL_MODEL_H
#define TH_LAB_RECALL_MODEL_H

#include "lab/recall.h"

typedef struct th__recall_model {
  th_params *params;
  th_tensor *keys, *values;           /* embeddings [32, 64], [16, 64] */
  th_tensor *wq, *wk, *wv, *wo, *out; /* [dk, 64] twice, [64, 64] twice, [16, 64] */
} th__recall_model;

/* Parameters of the given type, drawn from the seed (the same numbers in f32 and f64). */
bool th__recall_model_new(th__recall_model *model, const th__recall *settings, th_dtype dtype,
                          th_error *error);
void th__recall_model_free(th__recall_model *model);

/* One batch: TH_I32 tensors [32, 32] and [32, 4]. `slots` is where each query's key stands. */
typedef struct th__recall_batch {
  th_tensor *slot_keys, *slot_values, *query_keys, *answers, *slots;
} th__recall_batch;

bool th__recall_batch_new(th__recall_batch *batch, th_error *error);
void th__recall_batch_free(th__recall_batch *batch);
void th__recall_batch_fill(th__recall_batch *batch, uint64_t seed, bool heldout, uint64_t number);

/* What a pass leaves on the tape. */
typedef struct th__recall_pass {
  th_tensor *q, *k;   /* after Wq and Wk: [32, 4, dk], [32, 32, dk]; q keeps its gradient */
  th_tensor *weights; /* [32, 1, 4, 32] */
  th_tensor *logits;  /* [32, 4, 16] */
  th_tensor *loss;
} th__recall_pass;

th__recall_pass th__recall_forward(th_tape *tape, const th__recall_model *model,
                                   const th__recall *settings, const th__recall_batch *batch);

/* The factor that multiplies q.k. */
double th__recall_scale(const th__recall *settings);

/* Share of right answers. */
double th__recall_accuracy(const th__recall_pass *pass, const th__recall_batch *batch);

/* Fills a point from a pass after th_backward (recall_measure.c). False: the tape holds an error. */
bool th__recall_measure(th_tape *tape, const th__recall_model *model, const th__recall *settings,
                        const th__recall_batch *batch, const th__recall_pass *pass,
                        th__recall_point *point);

/* The gradients of Wq, Wk and Wv as they stand (f32) against finite differences in f64 on the same
 * weights and batch: the largest relative error of their derivatives along fixed random directions
 * (recall_check.c). NaN with an error when it could not be done. */
double th__recall_fd_error(const th__recall_model *model, const th__recall *settings,
                           const th__recall_batch *batch, int step, th_error *error);

#endif
