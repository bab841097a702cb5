/* The masks of attention: checked, and combined into one form. */
#include "autograd/record/attention.h"

/* ---- checks: each returns false with an error on the tape ---- */

static bool is_bool(th_tape *tape, const char *name, const th_tensor *mask) {
  if (mask->dtype == TH_BOOL) return true;
  th_fail(tape, TH_ERR_DTYPE, "attention",
          "%s is %s; TH_BOOL is expected, where 1 means \"may attend\" (a mask is never added to the "
          "scores)",
          name, th_dtype_name(mask->dtype));
  return false;
}

static bool has_shape(th_tape *tape, const char *name, const th_tensor *x, int ndim,
                      const ptrdiff_t *shape, const char *letters) {
  if (th__shape_equal(x->ndim, x->shape, ndim, shape)) return true;
  char expected[TH__SHAPE_TEXT];
  th_fail(tape, TH_ERR_SHAPE, "attention", "%s is %s; %s = %s is expected", name, TH__TEXT(x),
          letters, th__shape_text(expected, ndim, shape));
  return false;
}

static bool lengths_fit(th_tape *tape, const th__attention_shape *s, const th_tensor *lengths) {
  if (lengths->dtype != TH_I32) {
    th_fail(tape, TH_ERR_DTYPE, "attention", "key_lengths is %s; TH_I32 is expected",
            th_dtype_name(lengths->dtype));
    return false;
  }
  if (!has_shape(tape, "key_lengths", lengths, 1, &s->batch, "[B]")) return false;
  for (ptrdiff_t b = 0; b < s->batch; b++) {
    int32_t length = ((const int32_t *)lengths->data)[b * lengths->strides[0]];
    if (length >= 0 && length <= s->n_k) continue;
    th_fail(tape, TH_ERR_INDEX, "attention",
            "key_lengths[%td] is %d; 0 to %td is expected, the number of keys", b, (int)length,
            s->n_k);
    return false;
  }
  return true;
}

static bool key_mask_fits(th_tape *tape, const th__attention_shape *s, const th_tensor *mask) {
  const ptrdiff_t shape[] = {s->batch, s->n_k};
  return is_bool(tape, "key_mask", mask) && has_shape(tape, "key_mask", mask, 2, shape, "[B, n_k]");
}

static bool mask_fits(th_tape *tape, const th__attention_shape *s, const th_tensor *mask) {
  if (!is_bool(tape, "mask", mask)) return false;
  const ptrdiff_t per_head[] = {s->batch, s->heads, s->n_q, s->n_k};
  const ptrdiff_t per_batch[] = {s->batch, s->n_q, s->n_k};
  if (mask->ndim == 4) return has_shape(tape, "mask", mask, 4, per_head, "[B, H, n_q, n_k]");
  if (mask->ndim == 3) return has_shape(tape, "mask", mask, 3, per_batch, "[B, n_q, n_k]");
  return has_shape(tape, "mask", mask, 2, per_head + 2, "[n_q, n_k]");
}

/* ---- one form ---- */

/* The data of x as a plain array that nobody changes before the backward has read it. */
static const void *settled(th_tape *tape, const th_tensor *x, bool copy) {
  if (copy || !th_tensor_is_contiguous(x)) x = th__keep(tape, x);
  return x == NULL ? NULL : x->data;
}

/* keep [B, 1 or H, n_q, n_k] = mask AND key_mask; `masks` holds the mask alone. */
static bool combine(th_tape *tape, const th__attention_shape *s, const uint8_t *key_mask,
                    th__attention_masks *masks) {
  ptrdiff_t heads = masks->head_stride != 0 ? s->heads : 1;
  th_tensor *both = th_output(tape, TH_BOOL, TH_SHAPE(s->batch, heads, s->n_q, s->n_k));
  if (both == NULL) return false;
  uint8_t *out = both->data;
  for (ptrdiff_t b = 0; b < s->batch; b++)
    for (ptrdiff_t h = 0; h < heads; h++)
      for (ptrdiff_t i = 0; i < s->n_q; i++, out += s->n_k) {
        const uint8_t *keep =
            masks->keep + b * masks->batch_stride + h * masks->head_stride + i * masks->row_stride;
        for (ptrdiff_t j = 0; j < s->n_k; j++)
          out[j] = (uint8_t)(keep[j] != 0 && key_mask[b * s->n_k + j] != 0);
      }
  masks->keep = both->data;
  masks->batch_stride = heads * s->n_q * s->n_k;
  if (masks->head_stride != 0) masks->head_stride = s->n_q * s->n_k;
  return true;
}

static bool settle_bytes(th_tape *tape, const th_attention_options *options,
                         const th__attention_shape *s, bool copy, th__attention_masks *masks) {
  const th_tensor *mask = options->mask, *key_mask = options->key_mask;
  copy = copy && (mask == NULL || key_mask == NULL); /* what is combined needs no other copy */
  const uint8_t *key_bytes = NULL;
  if (key_mask != NULL && (key_bytes = settled(tape, key_mask, copy)) == NULL) return false;
  if (mask == NULL) {
    masks->keep = key_bytes;
    masks->batch_stride = s->n_k;
    return true;
  }
  if ((masks->keep = settled(tape, mask, copy)) == NULL) return false;
  masks->row_stride = s->n_k;
  if (mask->ndim == 4) masks->head_stride = s->n_q * s->n_k;
  if (mask->ndim >= 3) masks->batch_stride = s->n_q * s->n_k * (mask->ndim == 4 ? s->heads : 1);
  return key_bytes == NULL || combine(tape, s, key_bytes, masks);
}

bool th__attention_masks_make(th_tape *tape, const th_attention_options *options,
                              const th__attention_shape *shape, bool copy,
                              th__attention_masks *masks) {
  const th_tensor *lengths = options->key_lengths, *key_mask = options->key_mask;
  if ((lengths != NULL && !lengths_fit(tape, shape, lengths)) ||
      (key_mask != NULL && !key_mask_fits(tape, shape, key_mask)) ||
      (options->mask != NULL && !mask_fits(tape, shape, options->mask)))
    return false;

  /* The last query sees every key: one query, as in decoding with a cache, needs no causal rule. */
  *masks = (th__attention_masks){.causal = options->causal && shape->n_q > 1};
  if (lengths != NULL && (masks->key_lengths = settled(tape, lengths, copy)) == NULL) return false;
  if (key_mask == NULL && options->mask == NULL) return true;
  return settle_bytes(tape, options, shape, copy, masks);
}
