/* transformer.h: the inside of gpt, classifier and seq2seq: their weights, and their blocks as functions
 * of them, so that the gradient checks can call the same code with weights of their own. */
#ifndef TH_NN_TRANSFORMER_H
#define TH_NN_TRANSFORMER_H

#include "nn/maker.h"
#include "nn/model.h"

/* Members that a configuration leaves out (biases, feed-forward, cross-attention) are NULL. */
typedef struct th__layer {
  th__affine ln_1, c_attn, attn_proj;     /* c_attn: the rows of W_q, then of W_k, then of W_v */
  th__affine ln_x, c_q, c_kv, cross_proj; /* attention to an encoder; c_kv: W_k, then W_v */
  th__affine ln_2, c_gate, c_fc, mlp_proj;
} th__layer;

/* Layers one after another, and what goes in and out of them. */
typedef struct th__stack {
  th_tensor *wpe; /* learned positions [context, C] */
  th__layer *layers;
  th__affine ln_f; /* not with post_norm */
} th__stack;

typedef struct th__transformer {
  th_gpt config;              /* zeros replaced by what they stand for */
  th_tensor *wte;             /* token table [V, C] */
  th__stack encoder, decoder; /* a gpt is a decoder, a classifier an encoder */
  th__affine head;            /* of a classifier; otherwise an output of its own, or NULL: wte */
} th__transformer;

/* ---- making (config.c, weights.c) ---- */

/* Replaces zeros by what they stand for and checks the rest. `who` makes messages: "th_gpt". */
th_status th__gpt_complete(th_gpt *config, const char *who, th_error *error);

/* Rows of c_attn: queries, keys, values; and of c_kv. */
static inline ptrdiff_t th__kv_rows(const th_gpt *c) {
  return c->kv_heads * (c->head_width + c->width / c->heads);
}
static inline ptrdiff_t th__qkv_rows(const th_gpt *c) {
  return c->heads * c->head_width + th__kv_rows(c);
}

/* A model of this class with room for its layers, its configuration completed. */
th_model *th__transformer_new(const th__model_class *class, const th_gpt *config, const char *who,
                              bool encoder, bool decoder, th_error *error);
void th__transformer_free(th_model *model);

/* Adds the parameters of a stack; names begin with `prefix` ("h.", "enc."), those of its position
 * table and last norm with `ends` ("", "enc."). */
void th__make_stack(th__maker *maker, th__stack *stack, const th_gpt *config, bool cross,
                    const char *prefix, const char *ends);
/* A table [rows, C]; lm_head.weight; a matrix and its bias, which no_bias leaves out. */
th_tensor *th__make_table(th__maker *maker, const th_gpt *config, const char *name, ptrdiff_t rows);
th_tensor *th__make_output(th__maker *maker, const th_gpt *config);
th__affine th__make_dense(th__maker *maker, const th_gpt *config, const char *block,
                          const char *name, ptrdiff_t out, ptrdiff_t in);

/* ---- running (blocks.c) ---- */

/* One pass through one stack. All layers see the same `offset`. */
typedef struct th__run {
  const th_gpt *config;
  const th_pass *pass; /* may be NULL */
  th_cache *cache;     /* may be NULL */
  ptrdiff_t offset;    /* position of the first token: what the cache holds */
  bool causal;
  const th_tensor *lengths; /* keys of each sample [B], or NULL: all */
  th_tensor *memory;        /* cross-attention: the encoder's last states [B, S, C], or NULL */
  const th_tensor *memory_lengths;
  ptrdiff_t site; /* number of the stack's first place that drops; each has a stream of its own */
} th__run;

/* x + f(norm(x)), or norm(x + f(x)) with post_norm, for f = attention within x, attention to
 * run->memory, and feed-forward, each with dropout at its end. [B, T, C]. */
th_tensor *th__attention_block(th_tape *tape, th_tensor *x, const th__layer *layer, ptrdiff_t index,
                               const th__run *run);
th_tensor *th__cross_block(th_tape *tape, th_tensor *x, const th__layer *layer, ptrdiff_t index,
                           const th__run *run);
th_tensor *th__feed_forward_block(th_tape *tape, th_tensor *x, const th__layer *layer,
                                  ptrdiff_t index, const th__run *run);

/* tokens [B, T] -> last states [B, T, C]: embedding, positions, all layers, last norm. */
th_tensor *th__stack_states(th_tape *tape, th_tensor *wte, const th__stack *stack,
                            const th_tensor *tokens, const th__run *run);
/* Number of places that drop in a stack: its embedding and each layer's branches. */
ptrdiff_t th__stack_sites(const th_gpt *config, bool cross);

/* Whole models (gpt.c, classifier.c, seq2seq.c). lengths may be NULL. */
th_tensor *th__gpt_logits(th_tape *tape, const th__transformer *t, const th_tensor *tokens,
                          const th_pass *pass);
th_tensor *th__classifier_logits(th_tape *tape, const th__transformer *t, const th_tensor *tokens,
                                 const th_tensor *lengths, const th_pass *pass);
th_tensor *th__seq2seq_logits(th_tape *tape, const th__transformer *t, const th_tensor *source,
                              const th_tensor *lengths, const th_tensor *target,
                              const th_pass *pass);
/* lengths, if given, is i32 [B] of 1 .. T for tokens [B, T]; otherwise an error on the tape. */
bool th__lengths_fit(th_tape *tape, const char *op, const th_tensor *tokens,
                     const th_tensor *lengths);

#endif
