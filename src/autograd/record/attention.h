/* attention.h: what the files that record attention share. */
#ifndef TH_AUTOGRAD_RECORD_ATTENTION_H
#define TH_AUTOGRAD_RECORD_ATTENTION_H

#include "autograd/tape.h"

/* All masks of a call, brought into one form: the causal rule, a length per sample, and bytes
 * keep[b * batch_stride + h * head_stride + i * row_stride + j] that hold key_mask AND mask. */
typedef struct th__attention_masks {
  bool causal;
  const int32_t *key_lengths; /* [B], or NULL */
  const uint8_t *keep;        /* or NULL */
  ptrdiff_t batch_stride, head_stride, row_stride;
} th__attention_masks;

/* B, H, n_q, n_k of a call. */
typedef struct th__attention_shape {
  ptrdiff_t batch, heads, n_q, n_k;
} th__attention_shape;

/* Checks the masks of `options` and brings them into that form, copied where the backward needs them
 * (`copy`) or they are not contiguous. False with an error on the tape. */
bool th__attention_masks_make(th_tape *tape, const th_attention_options *options,
                              const th__attention_shape *shape, bool copy,
                              th__attention_masks *masks);

/* May the gradients of a and b be written side by side, by pieces that each own one (sample, head)? */
bool th__heads_apart(const th_tensor *a, const th_tensor *b);

/* The cases for the gradient checker. */
extern const th_check th__attention_checks[];

#endif
