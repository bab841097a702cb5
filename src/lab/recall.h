/* recall.h: the demo's task, slot-coded associative recall, and what is measured while it is learnt.
 *
 * A sequence has 32 slots; slot j is the sum of a key's and a value's embedding, all 32 keys occur, and
 * each has one of 16 values. Four queries hold a key's embedding and are to answer its value: chance is
 * 1/16. One attention layer with one head reads the slots (keys, values) for the queries:
 *
 *     x = queries,  m = slots                                 [32, 4, 64], [32, 32, 64]
 *     x = x + attention(norm(x) Wq^T, norm(m) Wk^T, norm(m) Wv^T) Wo^T
 *     logits = norm(x) Wout^T                                 [32, 4, 16]
 *
 * norm: layer norm without gain and bias. d_model = d_v = 64; d_k and the scale vary. No biases, no
 * feed-forward. Embeddings ~ N(0, 1), matrices ~ N(0, 1 / fan_in). Fresh data at each step. The task
 * is chosen because a query finds its slot by one sharp look-up, which is where a missing scale hurts. */
#ifndef TH_LAB_RECALL_H
#define TH_LAB_RECALL_H

#include "lab/stats.h"
#include "tapehead.h"

enum {
  TH__RECALL_SLOTS = 32,
  TH__RECALL_VALUES = 16,
  TH__RECALL_QUERIES = 4,
  TH__RECALL_WIDTH = 64,
  TH__RECALL_BATCH = 32,
  TH__RECALL_ROWS = TH__RECALL_BATCH * TH__RECALL_QUERIES, /* query rows of a batch */
  TH__RECALL_POINTS = 32                                   /* room for a run's trajectory */
};

/* One run's settings. */
typedef struct th__recall {
  th_scale_kind scale;
  double factor; /* for TH_SCALE_FACTOR */
  ptrdiff_t dk;
  bool sgd;  /* otherwise AdamW, betas 0.9 and 0.999, weight decay 0.01 */
  double lr; /* 0: 0.3 for SGD, 1e-3 for AdamW */
  int steps;
  uint64_t seed;
} th__recall;

/* What is measured at one step, before its update. Row gradients (dq: with respect to a query row after
 * Wq) are those of the mean loss times the number of rows; weight gradients those of the mean loss. */
typedef struct th__recall_point {
  int step;
  double loss;              /* mean over this step's batch, nats */
  double accuracy;          /* on 256 held-out answers */
  double logit_sd;          /* of scale * q.k over a row's keys, root mean square over rows */
  double entropy_ratio;     /* mean entropy of the weights / ln 32 */
  double saturated_share;   /* rows whose largest weight exceeds 0.99 */
  double stuck_wrong_share; /* of all rows: saturated, and on a slot with another key */
  double stuck_right_share; /* of all rows: saturated on the right slot */
  double jacobian_norm_median;
  th__summary dq_norm;
  double dwq_norm, dwv_norm;
  double fd_rel_error; /* the attention layer's gradient against finite differences; NaN: not checked */
} th__recall_point;

typedef struct th__recall_run {
  th__recall settings;
  int steps_to_95; /* the first multiple of 10 with 95 % of held-out answers right, of 256 and then of
                      2048 others; -1: not reached */
  double heldout_accuracy; /* after the last step, on 2048 answers */
  int point_count;
  th__recall_point points[TH__RECALL_POINTS];
  th_error error; /* status TH_OK if the run came to its end */
} th__recall_run;

/* Runs all; `runs` comes with its settings filled in and is filled in otherwise. Runs are independent
 * and go side by side; each gives the same figures at any number of threads. `done`, if not NULL, is
 * called after each, from any thread but one at a time. Returns the first run's error if one failed. */
th_status th__recall_runs(th__recall_run *runs, ptrdiff_t count, void (*done)(void *),
                          void *context, th_error *error);

#endif
