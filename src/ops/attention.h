/* attention.h: what the attention kernels are told about one head. */
#ifndef TH_OPS_ATTENTION_H
#define TH_OPS_ATTENTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct th__attention_head {
  ptrdiff_t n_q, n_k, d_k, d_v;
  ptrdiff_t ldq, ldk, ldv, ldy; /* elements from one row to the next, in the gradients as well */
  double scale;

  /* Query i may attend to key j if all of these hold:
   *   j < keys;   causal: j <= i + n_k - n_q;   keep != NULL: keep[i * ld_keep + j] != 0 */
  ptrdiff_t keys; /* 0 .. n_k */
  bool causal;
  const uint8_t *keep;
  ptrdiff_t ld_keep;

  ptrdiff_t block; /* queries that are worked on together */
  bool save;       /* forward: p has a row for each query, otherwise for one block only */
  bool fill;  /* forward: somebody looks at all weights, so write the zeros nobody else reads */
  bool plain; /* backward: the textbook form, without the shift */
} th__attention_head;

/* Elements of room that a kernel needs: for operands packed in panels of up to 32 columns (product.h),
 * and in the backward for ds. */
static inline ptrdiff_t th__attention_room(const th__attention_head *a, bool backward) {
  ptrdiff_t n_k = (a->n_k + 31) / 32 * 32, d_k = (a->d_k + 31) / 32 * 32;
  ptrdiff_t d_v = (a->d_v + 31) / 32 * 32;
  if (!backward) return n_k * (d_k + d_v);
  return n_k * (d_k + d_v) + a->block * (d_k + d_v + n_k);
}

#endif
