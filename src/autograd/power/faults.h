/* faults.h: backward passes made wrong on purpose, to prove that the checker finds and names them.
 *
 * A fault sits in one operation. The right backward runs first, onto zeros; the fault then changes what
 * it would have added (`delta`), or replaces it, and the result is added to the gradient. */
#ifndef TH_AUTOGRAD_POWER_FAULTS_H
#define TH_AUTOGRAD_POWER_FAULTS_H

#include "autograd/diagnose.h"
#include "autograd/tape.h"

/* One input's share of a backward pass, as doubles in row-major order. */
typedef struct th__spoiled {
  th_node *node;
  int input;
  ptrdiff_t count;
  double *delta;  /* what the right backward adds; the fault changes it */
  bool overwrite; /* the fault sets it: = instead of += */
  double param;
} th__spoiled;

typedef struct th__fault {
  const char *title;                  /* "dS without its row sum" */
  const char *op;                     /* name of the operation whose backward is spoiled */
  const char *where;                  /* name of the case where it shows */
  int input;                          /* whose gradient is spoiled; -1: all */
  th_status (*spoil)(th__spoiled *s); /* TH_ERR_MEMORY, or TH_OK */
  double param;
  th__bug kind; /* how it ought to be named */
} th__fault;

/* The catalogue, ended by an entry without a title. */
extern const th__fault th__faults[];

/* The cases that the catalogue uses, by name; NULL if there is none. */
const th_check *th__fault_case(const char *name);

/* A check that runs `base`, or fault->where, with the fault planted in every operation of the fault's
 * name; `planted` must live as long as *check. */
typedef struct th__planted {
  const th__fault *fault;
  const th_check *base;
} th__planted;
void th__plant_in(const th__fault *fault, const th_check *base, th__planted *planted,
                  th_check *check);
void th__plant(const th__fault *fault, th__planted *planted, th_check *check);

/* ---- for the functions that spoil ---- */

/* The values of a tensor of the node, in row-major order; memory of the tape. NULL when it ends. */
double *th__values(th_node *node, const th_tensor *x);

/* spoil.c: faults that any operation may have. */
th_status th__spoil_nothing(th__spoiled *s);   /* nothing is added */
th_status th__spoil_zeros(th__spoiled *s);     /* zeros are written */
th_status th__spoil_factor(th__spoiled *s);    /* times param */
th_status th__spoil_nan(th__spoiled *s);       /* one entry NaN */
th_status th__spoil_overwrite(th__spoiled *s); /* = instead of += */
th_status th__spoil_transpose(th__spoiled *s); /* the last two axes read in the other order */
th_status th__spoil_width(th__spoiled *s);     /* times (last axis of input 0) ^ param */
th_status th__spoil_rows(th__spoiled *s);      /* times (rows of input 0) ^ param */
th_status th__spoil_last_row(th__spoiled *s); /* vector: the upstream's last row, not the rows' sum */
th_status th__spoil_swap_heads(th__spoiled *s);     /* axis 1: 0 and 1 exchanged */
th_status th__spoil_upstream(th__spoiled *s);       /* dy as it is */
th_status th__spoil_second_quarter(th__spoiled *s); /* rows n/4 .. n/2 are 0 */
th_status th__spoil_drop_entry(th__spoiled *s);     /* the largest entry missing */

/* spoil_ops.c and spoil_attention.c: faults of particular operations. */
th_status th__spoil_linear_term(th__spoiled *s);         /* one term of each sum dropped */
th_status th__spoil_softmax_row_sum(th__spoiled *s);     /* y * dy */
th_status th__spoil_log_softmax_row_sum(th__spoiled *s); /* dy */
th_status th__spoil_norm_mean(th__spoiled *s);           /* without - mean(dxhat) */
th_status th__spoil_norm_projection(th__spoiled *s);     /* without - xhat mean(dxhat xhat) */
th_status th__spoil_entropy_onehot(th__spoiled *s);      /* p instead of p - onehot */
th_status th__spoil_entropy_ignored(th__spoiled *s);     /* ignored rows get a gradient */
th_status th__spoil_embedding_last(th__spoiled *s);      /* the last hit wins */
th_status th__spoil_gate_open(th__spoiled *s);           /* dy where the forward has 0 */
th_status th__spoil_gelu_term(th__spoiled *s);           /* without x phi(x) */
th_status th__spoil_rotation(th__spoiled *s);            /* turned by +angle */
th_status th__spoil_rope(th__spoiled *s);                /* turned by +angle; param: interleaved */
th_status th__spoil_rms_mean(th__spoiled *s);            /* without - x mean(d x) / rms^2 */
th_status th__spoil_silu_term(th__spoiled *s);           /* dy sigmoid(x) */
th_status th__spoil_swiglu_up(th__spoiled *s);           /* dgate without the factor up */
th_status th__spoil_swiglu_swap(th__spoiled *s);         /* each input gets the other's */
th_status th__spoil_rows_upstream(th__spoiled *s);       /* a row's dy at each entry */
th_status th__spoil_concat_swap(th__spoiled *s); /* of two equal pieces, each gets the other's */
th_status th__spoil_attention_row_sum(th__spoiled *s);
th_status th__spoil_attention_mask(th__spoiled *s); /* param: extra keys seen; large: no mask */
th_status th__spoil_attention_untransposed(th__spoiled *s); /* dv = P dy */
th_status th__spoil_attention_last_head(th__spoiled *s); /* grouped keys: the group's last head only */

#endif
