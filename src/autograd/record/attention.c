/* Recording attention: q, k, v as they lie in memory (any strides, rows contiguous). The output is
 * [B, n_q, H, d_v] in memory and handed out as a view [B, H, n_q, d_v], so that joining the heads
 * afterwards is free. Saves the weights, and only if a backward may come. */
#include "autograd/record/attention.h"

#include <math.h>

/* Queries that are worked on together, and blocks per piece of the forward: keys and values are packed
 * once per piece. */
#define BLOCK 32
#define BLOCKS_PER_PIECE 8

typedef struct saved {
  th__attention_masks masks;
  const th_tensor *p; /* weights [B, H, n_q, n_k] */
  double scale;
  bool plain;
} saved;

typedef struct call {
  const saved *saved;
  th__attention_head head;    /* what all heads have in common */
  ptrdiff_t heads, group;     /* H, and query heads per key head */
  ptrdiff_t chunk, chunks;    /* forward: queries per item, items per head */
  const th_tensor *q, *k, *v; /* inputs */
  const th_tensor *y, *dy;    /* in memory order, [B, n_q, H, d_v] */
  th_tensor *dq, *dk, *dv;    /* NULL where not wanted */
  char *room;                 /* of each worker: the kernel's, then weights that nobody saves */
  size_t room_bytes;          /* of one worker */
} call;

static call new_call(const saved *s, const th_tensor *q, const th_tensor *k, const th_tensor *v,
                     const th_tensor *y) {
  call c = {.saved = s, .q = q, .k = k, .v = v, .y = y};
  c.head = (th__attention_head){.n_q = q->shape[2],
                                .n_k = k->shape[2],
                                .d_k = q->shape[3],
                                .d_v = v->shape[3],
                                .ldq = q->strides[2],
                                .ldk = k->strides[2],
                                .ldv = v->strides[2],
                                .ldy = y->strides[1],
                                .scale = s->scale,
                                .keys = k->shape[2],
                                .causal = s->masks.causal,
                                .ld_keep = s->masks.row_stride,
                                .block = BLOCK,
                                .save = s->p != NULL,
                                .plain = s->plain};
  c.heads = q->shape[1];
  c.group = k->shape[1] > 0 ? q->shape[1] / k->shape[1] : 1;
  c.chunk = BLOCK * BLOCKS_PER_PIECE;
  c.chunks = c.head.n_q > 0 ? (c.head.n_q - 1) / c.chunk + 1 : 0;
  return c;
}

/* What a head costs in units of th__grain: per pair of query and key `steps` for the softmax, and the
 * products at 16 multiply-adds per unit. */
static ptrdiff_t cost(const call *c, ptrdiff_t queries, ptrdiff_t widths, ptrdiff_t steps) {
  return queries * c->head.n_k * (steps + widths / 16);
}

/* ---- one head ---- */

static th__attention_head head_at(const call *c, ptrdiff_t b, ptrdiff_t h) {
  const th__attention_masks *masks = &c->saved->masks;
  th__attention_head head = c->head;
  if (masks->key_lengths != NULL) head.keys = masks->key_lengths[b];
  if (masks->keep != NULL)
    head.keep = masks->keep + b * masks->batch_stride + h * masks->head_stride;
  return head;
}

/* Row 0 of (sample, head) in x [B, H, n, d], and in x [B, n, H, d]; NULL for NULL. */
static void *rows_at(const th_tensor *x, ptrdiff_t b, ptrdiff_t h) {
  return x == NULL ? NULL : th__at(x, b * x->strides[0] + h * x->strides[1]);
}
static void *output_at(const th_tensor *x, ptrdiff_t b, ptrdiff_t h) {
  return th__at(x, b * x->strides[0] + h * x->strides[2]);
}
static void *weights_at(const call *c, ptrdiff_t b, ptrdiff_t h, ptrdiff_t i) {
  return th__at(c->saved->p, ((b * c->heads + h) * c->head.n_q + i) * c->head.n_k);
}
static void *room_of(const call *c, int worker) { return c->room + (size_t)worker * c->room_bytes; }

static bool make_room(th_tape *tape, call *c, int workers, ptrdiff_t elements) {
  c->room_bytes = ((size_t)elements * th_dtype_size(c->q->dtype) + 63) / 64 * 64;
  c->room = th_tape_alloc(tape, (size_t)workers * c->room_bytes);
  return c->room != NULL;
}

static void *spare_weights(const call *c, int worker) {
  size_t offset = (size_t)th__attention_room(&c->head, false) * th_dtype_size(c->q->dtype);
  return (char *)room_of(c, worker) + offset;
}

/* ---- forward: an item is a chunk of the queries of one head ---- */

static void forward_items(const void *context, ptrdiff_t begin, ptrdiff_t end, int worker) {
  const call *c = context;
  for (ptrdiff_t item = begin; item < end; item++) {
    ptrdiff_t from = item % c->chunks * c->chunk, to = from + c->chunk;
    ptrdiff_t h = item / c->chunks % c->heads, b = item / c->chunks / c->heads;
    th__attention_head head = head_at(c, b, h);
    void *p = head.save ? weights_at(c, b, h, from) : spare_weights(c, worker);
    TH__CALL(c->q->dtype, attention_fwd, &head, from, to < head.n_q ? to : head.n_q,
             rows_at(c->q, b, h), rows_at(c->k, b, h / c->group), rows_at(c->v, b, h / c->group), p,
             output_at(c->y, b, h), room_of(c, worker));
  }
}

static bool forward(th_tape *tape, call *c) {
  const th__attention_head *h = &c->head;
  ptrdiff_t count = c->q->shape[0] * c->heads * c->chunks;
  ptrdiff_t queries = c->chunk < h->n_q ? c->chunk : h->n_q;
  ptrdiff_t grain = th__grain(cost(c, queries, h->d_k + h->d_v, 4));
  int workers = th__workers(count, grain);
  ptrdiff_t spare = h->save ? 0 : h->block * h->n_k;
  if (!make_room(tape, c, workers, th__attention_room(h, false) + spare)) return false;
  th__parallel_workers(count, grain, workers, forward_items, c);
  return true;
}

/* ---- backward: an item is one key head of one sample, whose gradients have one writer ---- */

static void backward_items(const void *context, ptrdiff_t begin, ptrdiff_t end, int worker) {
  const call *c = context;
  ptrdiff_t key_heads = c->k->shape[1];
  for (ptrdiff_t item = begin; item < end; item++) {
    ptrdiff_t b = item / key_heads, key_head = item % key_heads;
    for (ptrdiff_t h = key_head * c->group; h < (key_head + 1) * c->group; h++) {
      th__attention_head head = head_at(c, b, h);
      TH__CALL(c->q->dtype, attention_bwd, &head, rows_at(c->q, b, h), rows_at(c->k, b, key_head),
               rows_at(c->v, b, key_head), weights_at(c, b, h, 0), output_at(c->dy, b, h),
               rows_at(c->dq, b, h), rows_at(c->dk, b, key_head), rows_at(c->dv, b, key_head),
               room_of(c, worker));
    }
  }
}

/* Inputs may be views of one tensor in which one item's keys are another's queries: one piece then. */
static bool items_apart(const th_node *node) {
  for (int i = 0; i < 3; i++)
    for (int j = 0; j < i; j++)
      if (th_node_grad(node, i) != NULL && th_node_grad(node, j) != NULL &&
          !th__heads_apart(th_node_input(node, i), th_node_input(node, j)))
        return false;
  return true;
}

static th_status backward(th_node *node) {
  th_tensor *y = th_node_output(node);
  call c = new_call(th_node_saved(node), th_node_input(node, 0), th_node_input(node, 1),
                    th_node_input(node, 2), y);
  const th__attention_head *h = &c.head;
  c.dy = th_node_upstream(node);
  c.dq = th_node_grad(node, 0);
  c.dk = th_node_grad(node, 1);
  c.dv = th_node_grad(node, 2);
  ptrdiff_t count = c.k->shape[0] * c.k->shape[1];
  ptrdiff_t grain = th__grain(cost(&c, c.group * h->n_q, 2 * (h->d_k + h->d_v), 3));
  if (!items_apart(node)) grain = count;
  int workers = th__workers(count, grain);
  if (!make_room(y->tape, &c, workers, th__attention_room(h, true))) return TH_ERR_MEMORY;
  th__parallel_workers(count, grain, workers, backward_items, &c);
  return TH_OK;
}

const th_op th__op_attention = {"attention", backward, th__attention_checks};

/* ---- recording ---- */

static bool shapes_fit(th_tape *tape, const th_tensor *q, const th_tensor *k, const th_tensor *v) {
  const char *why = NULL;
  if (q->ndim != 4 || k->ndim != 4 || v->ndim != 4)
    why = "[B, H, n_q, d_k], [B, Hk, n_k, d_k] and [B, Hk, n_k, d_v] are expected";
  else if (q->shape[0] != k->shape[0] || k->shape[0] != v->shape[0])
    why = "the batch size (axis 0) must be one";
  else if (k->shape[1] != v->shape[1] || k->shape[2] != v->shape[2])
    why = "k and v must have the same heads and keys (axes 1 and 2)";
  else if (q->shape[3] != k->shape[3] || q->shape[3] == 0)
    why = "q and k must have the same width d_k >= 1 (axis 3)";
  else if (q->shape[1] > 0 && (k->shape[1] == 0 || q->shape[1] % k->shape[1] != 0))
    why = "the heads of k and v must divide those of q (axis 1)";
  if (why == NULL) return true;
  th_fail(tape, TH_ERR_SHAPE, "attention", "q is %s, k %s, v %s; %s", TH__TEXT(q), TH__TEXT(k),
          TH__TEXT(v), why);
  return false;
}

static bool scale_of(th_tape *tape, const th_attention_options *options, ptrdiff_t d_k,
                     double *scale) {
  switch (options->scale) {
  case TH_SCALE_SQRT: *scale = 1 / sqrt((double)d_k); return true;
  case TH_SCALE_NONE: *scale = 1; return true;
  case TH_SCALE_DK: *scale = 1 / (double)d_k; return true;
  case TH_SCALE_FACTOR: *scale = options->factor; break;
  default:
    th_fail(tape, TH_ERR_VALUE, "attention", "scale is %d, which is no th_scale_kind",
            (int)options->scale);
    return false;
  }
  if (isfinite(*scale)) return true;
  th_fail(tape, TH_ERR_VALUE, "attention", "factor is %g; a finite number is expected", *scale);
  return false;
}

/* Checked inputs -> the node's output in memory order, [B, n_q, H, d_v], and the weights if kept. */
static th_tensor *attend(th_tape *tape, th_tensor *const *in, const th_attention_options *options,
                         double scale, th_tensor **weights) {
  const th_tensor *q = in[0], *k = in[1], *v = in[2];
  const th__attention_shape shape = {q->shape[0], q->shape[1], q->shape[2], k->shape[2]};
  bool wanted = th__wanted(tape, 3, in);
  saved s = {.scale = scale, .plain = options->plain_backward};
  if (!th__attention_masks_make(tape, options, &shape, wanted, &s.masks)) return NULL;

  th_tensor *p = NULL;
  if (wanted || options->weights != NULL) {
    p = th_output(tape, q->dtype, TH_SHAPE(shape.batch, shape.heads, shape.n_q, shape.n_k));
    if (p == NULL) return NULL;
  }
  s.p = p;
  th_tensor *y =
      th_output(tape, q->dtype, TH_SHAPE(shape.batch, shape.n_q, shape.heads, v->shape[3]));
  if (y == NULL) return NULL;
  call c = new_call(&s, q, k, v, y);
  c.head.fill = options->weights != NULL;
  if (!forward(tape, &c)) return NULL;
  *weights = p;
  return th_record(tape, &th__op_attention, y, in, 3, &s, sizeof s);
}

th_tensor *th_attention(th_tape *tape, th_tensor *q, th_tensor *k, th_tensor *v,
                        const th_attention_options *options) {
  static const th_attention_options defaults = {0};
  if (options == NULL) options = &defaults;
  if (options->weights != NULL) *options->weights = NULL;
  double scale = 1;
  if (!TH__READY(tape, "attention", q, k, v) ||
      !th__same_dtype(tape, "attention", 3, (th_tensor *[]){q, k, v}) ||
      !shapes_fit(tape, q, k, v) || !scale_of(tape, options, q->shape[3], &scale))
    return NULL;
  th_tensor *in[] = {th__dense_rows(tape, q), th__dense_rows(tape, k), th__dense_rows(tape, v)};
  if (in[0] == NULL || in[1] == NULL || in[2] == NULL) return NULL;
  th_tensor *weights = NULL, *y = attend(tape, in, options, scale, &weights);
  if (y != NULL) y = th_transpose(tape, y, 1, 2);
  if (y != NULL && options->weights != NULL) *options->weights = weights;
  return y;
}
