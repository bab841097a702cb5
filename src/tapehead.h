/* tapehead.h: train transformers from C, with every backward pass written by hand and checked.
 *
 * This header is the whole public interface, ordered from simple to advanced:
 *
 *   1  status, errors, version          7  files and generation
 *   2  tensors                          8  random numbers
 *   3  the tape                         9  toy data
 *   4  operations                      10  gradient checks
 *   5  parameters and models           11  your own operation
 *   6  optimisers and schedules        12  threads and the machine
 *
 * Three rules hold everywhere:
 *
 *   Errors are values. A function with a tape leaves its first error there and returns NULL; given
 *   NULL it returns NULL, so a program may build a whole step and check th_tape_status() once. A
 *   function without a tape returns a th_status, or NULL with a th_error filled in. Nothing in this
 *   library prints, exits or aborts.
 *
 *   IN EVERY MASK, 1 (true) MEANS "MAY ATTEND" and 0 means "may not". There is no additive mask.
 *
 *   Ownership: the tape owns what operations return, and th_tape_reset() releases all of it at once.
 *   A model owns its parameters. What a th_..._new() returns is released by the matching
 *   th_..._free(), which accepts NULL. Options structs and arrays are read during the call only.
 *
 * Shape letters: B batch, T tokens (sequence length), C channels (d_model), H heads,
 * D head width (d_k), V vocabulary. Shapes are written [B, T, C], the last axis is contiguous. */
#ifndef TAPEHEAD_H
#define TAPEHEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(TH_BUILDING) && defined(__GNUC__)
#define TH_API __attribute__((visibility("default")))
#else
#define TH_API
#endif

/* ---- 1. Status, errors, version ------------------------------------------------------------ */

#define TH_STATUS_LIST(X)                                                                          \
  X(TH_OK, "no error")                                                                             \
  X(TH_ERR_SHAPE, "shapes do not fit")                                                             \
  X(TH_ERR_DTYPE, "wrong element type")                                                            \
  X(TH_ERR_INDEX, "index out of range")                                                            \
  X(TH_ERR_VALUE, "value out of range")                                                            \
  X(TH_ERR_STATE, "call out of order")                                                             \
  X(TH_ERR_MEMORY, "out of memory")                                                                \
  X(TH_ERR_NONFINITE, "value is infinite or not a number")                                         \
  X(TH_ERR_IO, "file error")

typedef enum th_status {
#define X(code, text) code,
  TH_STATUS_LIST(X)
#undef X
} th_status;

/* A short text for a status, for example "shapes do not fit". Never NULL. */
TH_API const char *th_status_text(th_status status);

/* What went wrong: a status and a sentence that names the operation, what it got, what it expected
 * and what to do. Pass NULL where you do not want it. A function that succeeds leaves it alone. */
typedef struct th_error {
  th_status status;
  char message[256];
} th_error;

/* "0.1.0" and one line with compiler, flags, BLAS and the kernels in use. Never NULL. */
TH_API const char *th_version(void);
TH_API const char *th_build_info(void);

/* ---- 2. Tensors ---------------------------------------------------------------------------- */

/* Element types. Floating-point operations run in f32 (training) or f64 (checking), never mixed;
 * TH_I32 holds tokens, labels and lengths, TH_BOOL holds masks (one byte, 0 or 1). */
typedef enum th_dtype { TH_F32, TH_F64, TH_I32, TH_BOOL } th_dtype;
TH_API const char *th_dtype_name(th_dtype dtype); /* "f32" */
TH_API size_t th_dtype_size(th_dtype dtype);      /* bytes per element */

#define TH_MAX_DIMS 8

/* Writes "ndim, shape" for the functions below: th_tensor_new(TH_F32, TH_SHAPE(2, 3), &error).
 * A scalar has no dimensions: TH_SCALAR. In C++ pass the two arguments yourself. */
#define TH_SHAPE(...)                                                                              \
  (int)(sizeof((ptrdiff_t[]){__VA_ARGS__}) / sizeof(ptrdiff_t)), (const ptrdiff_t[]) { __VA_ARGS__ }
#define TH_SCALAR 0, NULL

typedef struct th_tensor th_tensor;

/* A tensor of zeros that you own, row-major. Zero-sized dimensions are legal. NULL with `error` when
 * a dimension is negative, there are more than TH_MAX_DIMS, the product overflows, or memory ends. */
TH_API th_tensor *th_tensor_new(th_dtype dtype, int ndim, const ptrdiff_t *shape, th_error *error);

/* The same, filled from `data` (row-major, copied). */
TH_API th_tensor *th_tensor_from(th_dtype dtype, int ndim, const ptrdiff_t *shape, const void *data,
                                 th_error *error);
TH_API void th_tensor_free(th_tensor *tensor);

TH_API th_dtype th_tensor_dtype(const th_tensor *tensor);
/* NULL, which a failed operation returns, has sizes of 0, no data, no gradient and no name. */
TH_API int th_tensor_ndim(const th_tensor *tensor);
/* Length of one axis; a negative axis counts from the end (-1 is the last). 0 if there is none. */
TH_API ptrdiff_t th_tensor_dim(const th_tensor *tensor, int axis);
TH_API ptrdiff_t th_tensor_count(const th_tensor *tensor); /* number of elements */
/* ndim entries each, valid as long as the tensor. Strides are in elements. */
TH_API const ptrdiff_t *th_tensor_shape(const th_tensor *tensor);
TH_API const ptrdiff_t *th_tensor_strides(const th_tensor *tensor);
TH_API bool th_tensor_is_contiguous(const th_tensor *tensor);

/* The first element. Contiguous tensors may be read and written as a plain array; a view may be
 * strided: see th_tensor_is_contiguous. */
TH_API void *th_tensor_data(const th_tensor *tensor);

/* Reads all elements in row-major order, whatever the strides, as double. `out` has room for
 * th_tensor_count(tensor). */
TH_API void th_tensor_read(const th_tensor *tensor, double *out);
/* Overwrites all elements, given as double in row-major order. */
TH_API void th_tensor_write(th_tensor *tensor, const double *values);
/* The value of a one-element tensor: a plain number, so a log that adds it up keeps nothing alive.
 * NaN for NULL or when there is not exactly one element. */
TH_API double th_tensor_item(const th_tensor *tensor);

/* Marks a tensor that you own as one whose gradient is wanted, and gives it a gradient of zeros.
 * Needs f32 or f64. Call it before the tensor is used on a tape. */
TH_API th_status th_tensor_require_grad(th_tensor *tensor, th_error *error);
/* The gradient, same shape. For tensors that you own or th_input()s with a wanted gradient: what
 * th_backward() added so far. For inner values: see th_retain_grad(). NULL where there is none. */
TH_API th_tensor *th_tensor_grad(const th_tensor *tensor);
/* Sets the gradient to zero (th_optim_step does so itself). */
TH_API void th_tensor_zero_grad(th_tensor *tensor);

/* A name for messages and files, copied; at most 63 bytes are kept. Never NULL: "" if none. */
TH_API void th_tensor_set_name(th_tensor *tensor, const char *name);
TH_API const char *th_tensor_name(const th_tensor *tensor);

/* ---- 3. The tape --------------------------------------------------------------------------- */

/* Operations compute at once and record one node each. th_backward() walks the nodes in reverse.
 * Everything that operations return lives in the tape's arena until th_tape_reset(), which is O(1)
 * and keeps the memory, so a steady training step makes no heap allocation. One tape belongs to one
 * thread at a time; two tapes may run in two threads as long as they share no wanted gradient. */
typedef struct th_tape th_tape;

TH_API th_tape *th_tape_new(void); /* NULL when memory ends */
TH_API void th_tape_free(th_tape *tape);

/* Forgets all values and nodes. Parameters, and the first error, stay. */
TH_API void th_tape_reset(th_tape *tape);

/* The first error since th_tape_new() or th_tape_clear_error(), and its sentence ("" if none). While
 * there is one, every operation on this tape returns NULL and th_backward() does nothing. */
TH_API th_status th_tape_status(const th_tape *tape);
TH_API const char *th_tape_message(const th_tape *tape);
TH_API void th_tape_clear_error(th_tape *tape);

/* Turns recording on or off and returns what it was. Off: operations compute and save nothing. */
TH_API bool th_tape_set_recording(th_tape *tape, bool on);

TH_API size_t th_tape_node_count(const th_tape *tape);
TH_API size_t th_tape_bytes(const th_tape *tape); /* arena memory held, in bytes */

/* A tensor on the tape: zeros if `data` is NULL, otherwise a copy of it. th_input_grad's gradient is
 * wanted and can be read with th_tensor_grad() after th_backward(). */
TH_API th_tensor *th_input(th_tape *tape, th_dtype dtype, int ndim, const ptrdiff_t *shape,
                           const void *data);
TH_API th_tensor *th_input_grad(th_tape *tape, th_dtype dtype, int ndim, const ptrdiff_t *shape,
                                const void *data);

/* The same values as a tensor through which no gradient flows. No copy. */
TH_API th_tensor *th_detach(th_tape *tape, th_tensor *x);

/* Asks th_backward() to keep the gradient of an inner value (which otherwise is recycled as soon as
 * it has been used). Returns x. Call it before x is used. */
TH_API th_tensor *th_retain_grad(th_tape *tape, th_tensor *x);

/* Adds dL/dx to the gradient of every wanted x, for a scalar loss L (dL/dL = 1). A tape runs
 * backward once: a second call before th_tape_reset() is TH_ERR_STATE. No recursion: the length of
 * the tape is limited by memory only. */
TH_API th_status th_backward(th_tape *tape, th_tensor *loss);
/* The same from any tensor y with the upstream gradient given: adds (dy/dx)^T upstream. */
TH_API th_status th_backward_from(th_tape *tape, th_tensor *y, const th_tensor *upstream);

/* ---- 4. Operations ------------------------------------------------------------------------- */

/* Every operation: (tape, inputs, settings) -> a new tensor on the tape. Inputs may be strided views
 * unless said otherwise; where a kernel needs contiguous rows the operation copies them itself. */

/* a + b, a - b, a * b, element by element. Shapes broadcast as in NumPy: aligned at the last axis, a
 * length of 1 stretches. The gradient of a stretched operand is summed back to its own shape. */
TH_API th_tensor *th_add(th_tape *tape, th_tensor *a, th_tensor *b);
TH_API th_tensor *th_sub(th_tape *tape, th_tensor *a, th_tensor *b);
TH_API th_tensor *th_mul(th_tape *tape, th_tensor *a, th_tensor *b);
TH_API th_tensor *th_scale(th_tape *tape, th_tensor *x, double factor); /* finite factor * x */
/* x [..., n] + bias [n], the same bias on every row. */
TH_API th_tensor *th_bias(th_tape *tape, th_tensor *x, th_tensor *bias);

/* a [..., m, k] times b [..., k, n] -> [..., m, n]. Either may be given transposed in its last two
 * axes. Leading axes are equal, or one operand is 2-D and serves all. */
enum { TH_TRANSPOSE_A = 1, TH_TRANSPOSE_B = 2 };
TH_API th_tensor *th_matmul(th_tape *tape, th_tensor *a, th_tensor *b, int transpose);

/* y = x W^T + b for x [..., in], weight [out, in], bias [out] or NULL -> [..., out]. */
TH_API th_tensor *th_linear(th_tape *tape, th_tensor *x, th_tensor *weight, th_tensor *bias);

/* Views: no copy; the gradient flows into the same memory. th_reshape copies only when the strides
 * leave no other way. th_slice keeps begin <= i < end of one axis. */
TH_API th_tensor *th_reshape(th_tape *tape, th_tensor *x, int ndim, const ptrdiff_t *shape);
TH_API th_tensor *th_transpose(th_tape *tape, th_tensor *x, int axis1, int axis2);
TH_API th_tensor *th_slice(th_tape *tape, th_tensor *x, int axis, ptrdiff_t begin, ptrdiff_t end);
/* Cuts x along one axis into `count` pieces of the given sizes, whose sum is the length: views. On an
 * error all pieces are NULL. */
TH_API void th_split(th_tape *tape, th_tensor *x, int axis, const ptrdiff_t *sizes, int count,
                     th_tensor **pieces);
/* Joins `count` tensors along one axis; the other axes are equal. A copy. */
TH_API th_tensor *th_concat(th_tape *tape, th_tensor *const *pieces, int count, int axis);
/* [B, T, H*D] -> [B, H, T, D] (head h holds columns h*D .. h*D+D-1), and back. */
TH_API th_tensor *th_split_heads(th_tape *tape, th_tensor *x, ptrdiff_t heads);
TH_API th_tensor *th_merge_heads(th_tape *tape, th_tensor *x);
/* x itself if it is contiguous, otherwise a contiguous copy. */
TH_API th_tensor *th_contiguous(th_tape *tape, th_tensor *x);

/* Over one axis (which disappears; negative counts from the end), or over TH_ALL_AXES to a scalar.
 * Summed in double, in an order that threads do not change. The mean of no elements is an error. */
#define TH_ALL_AXES 127
TH_API th_tensor *th_sum(th_tape *tape, th_tensor *x, int axis);
TH_API th_tensor *th_mean(th_tape *tape, th_tensor *x, int axis);

TH_API th_tensor *th_relu(th_tape *tape, th_tensor *x); /* max(x, 0), NaN stays; slope at 0 is 0 */

/* x * Phi(x) (Hendrycks & Gimpel 2016, arXiv:1606.08415, section 2), exactly with erf, or with the
 * tanh approximation of the same section, which GPT-2 uses. */
typedef enum th_gelu_form { TH_GELU_EXACT, TH_GELU_TANH } th_gelu_form;
TH_API th_tensor *th_gelu(th_tape *tape, th_tensor *x, th_gelu_form form);

TH_API th_tensor *th_tanh(th_tape *tape, th_tensor *x);
TH_API th_tensor *th_sigmoid(th_tape *tape, th_tensor *x); /* 1 / (1 + exp(-x)) */
TH_API th_tensor *th_silu(th_tape *tape, th_tensor *x);    /* x sigmoid(x) (arXiv:1702.03118) */
/* silu(gate) * up, of one shape (Shazeer 2020, arXiv:2002.05202, equation 6): the inside of a SwiGLU
 * feed-forward layer. */
TH_API th_tensor *th_swiglu(th_tape *tape, th_tensor *gate, th_tensor *up);

/* log(sum(exp(x))) over the last axis, which disappears. A row of -inf only gives -inf, gradient 0. */
TH_API th_tensor *th_logsumexp(th_tape *tape, th_tensor *x);

/* Over the last axis. A row of -inf only gives zeros (softmax). Weights below the smallest normal
 * number (1.2e-38 in f32, 2.2e-308 in f64) are exactly 0, so that no subnormal slows a run. The
 * backward keeps its relative accuracy when a row saturates. */
TH_API th_tensor *th_softmax(th_tape *tape, th_tensor *x);
TH_API th_tensor *th_log_softmax(th_tape *tape, th_tensor *x);

/* Mean over counted tokens of -log softmax(logits)[target], a scalar. logits [..., V]; targets TH_I32
 * of the leading shape; a target of TH_IGNORE is not counted; any other value outside 0..V-1 is
 * TH_ERR_INDEX. All ignored: loss 0, gradient 0. */
#define TH_IGNORE (-1)
TH_API th_tensor *th_cross_entropy(th_tape *tape, th_tensor *logits, const th_tensor *targets);
/* The sum in place of the mean, and how many targets count (-1 if they are NULL or not TH_I32).
 * Micro-batches whose sums are each scaled by 1 / (counted targets of all of them) add up to the
 * gradient of the whole batch. */
TH_API th_tensor *th_cross_entropy_sum(th_tape *tape, th_tensor *logits, const th_tensor *targets);
TH_API ptrdiff_t th_counted_targets(const th_tensor *targets);

/* Rows of table [V, C] for ids TH_I32 of any shape -> [..., C]. An id outside 0..V-1 is
 * TH_ERR_INDEX. A row hit several times gets the sum of its gradients, in the order of the ids. */
TH_API th_tensor *th_embedding(th_tape *tape, th_tensor *table, const th_tensor *ids);

/* A stream of random numbers: depends on these three only, never on threads or on what was drawn
 * before. `purpose` tells streams of one seed apart (use numbers below 2^31: the library's own streams
 * lie above), `step` is usually the training step. */
typedef struct th_random {
  uint64_t seed;
  uint32_t purpose;
  uint64_t step;
} th_random;

/* Zeroes each element with probability p, 0 <= p < 1, and multiplies the others by 1 / (1 - p). Which
 * ones depends on the stream and on an element's place in row-major order only. p = 0: x itself. */
TH_API th_tensor *th_dropout(th_tape *tape, th_tensor *x, double p, th_random stream);

/* (x - mean) / sqrt(variance + eps) * gain + bias over the last axis (Ba, Kiros & Hinton 2016,
 * arXiv:1607.06450, equation 4; biased variance, eps inside the root). gain and bias [n] may each be
 * NULL. eps > 0; GPT-2 uses 1e-5. */
TH_API th_tensor *th_layer_norm(th_tape *tape, th_tensor *x, th_tensor *gain, th_tensor *bias,
                                double eps);

/* x / sqrt(mean(x^2) + eps) * gain over the last axis (Zhang & Sennrich 2019, arXiv:1910.07467,
 * equation 4, eps inside the root as in Llama). gain [n] or NULL. eps > 0. */
TH_API th_tensor *th_rms_norm(th_tape *tape, th_tensor *x, th_tensor *gain, double eps);

/* Rotary positions (Su et al. 2021, arXiv:2104.09864, equation 34). x [..., T, D], D even: row t is
 * turned as position offset + t, pair i by the angle position * base^(-2i/D). Pairs are (x[i],
 * x[i + D/2]), as in GPT-NeoX and Llama files of Hugging Face, or interleaved: (x[2i], x[2i + 1]). */
typedef struct th_rope_options {
  double base;      /* [10000] */
  ptrdiff_t offset; /* position of row 0 [0]; with a cache, what it holds already */
  bool interleaved;
} th_rope_options;
TH_API th_tensor *th_rope(th_tape *tape, th_tensor *x, const th_rope_options *options);

/* Sinusoidal positions offset .. offset + T - 1 (Vaswani et al. 2017, section 3.5), a constant [T, C]:
 * sine in even columns, cosine in odd ones. C even. */
TH_API th_tensor *th_sinusoidal(th_tape *tape, th_dtype dtype, ptrdiff_t offset, ptrdiff_t length,
                                ptrdiff_t width);

/* Recurrent layers over a whole sequence, with backward through time. x [B, T, in]; the first states
 * h0, c0 [B, H] may be NULL: zeros. Weights w_x [G*H, in], w_h [G*H, H], bias [G*H] or NULL.
 * rnn (G = 1; Elman 1990): h_t = tanh(W_x x_t + W_h h_(t-1) + b). -> all h [B, T, H].
 * lstm (G = 4; Hochreiter & Schmidhuber 1997 with forget gates, as PyTorch has it, whose two biases
 * are added here; gates stacked as i, f, g, o): c_t = f c_(t-1) + i g, h_t = o tanh(c_t). -> all h
 * [B, T, H]; *cells, if not NULL, receives all c [B, T, H], through which gradients flow too. */
typedef struct th_recurrent_weights {
  th_tensor *w_x, *w_h, *bias;
} th_recurrent_weights;
TH_API th_tensor *th_rnn(th_tape *tape, th_tensor *x, th_tensor *h0,
                         const th_recurrent_weights *weights);
TH_API th_tensor *th_lstm(th_tape *tape, th_tensor *x, th_tensor *h0, th_tensor *c0,
                          const th_recurrent_weights *weights, th_tensor **cells);

/* What multiplies q.k before the softmax. */
typedef enum th_scale_kind {
  TH_SCALE_SQRT,  /* 1/sqrt(d_k), the default */
  TH_SCALE_NONE,  /* 1 */
  TH_SCALE_DK,    /* 1/d_k */
  TH_SCALE_FACTOR /* th_attention_options.factor */
} th_scale_kind;

typedef struct th_attention_options {
  th_scale_kind scale;
  double factor; /* for TH_SCALE_FACTOR, any finite number */

  /* Who may attend to whom: a key is seen only if EVERY mask given says so (logical AND).
   * 1 MEANS "MAY ATTEND". Masked keys and values are skipped, so NaN or Inf parked there changes
   * nothing, forward or backward; masked weights are exactly 0; a query that may attend to nothing
   * gives output 0 and gradient 0. */
  bool causal;                  /* query i sees keys 0 .. i + n_k - n_q: last meets last */
  const th_tensor *key_lengths; /* TH_I32 [B], 0..n_k: sample b sees its first key_lengths[b] keys */
  const th_tensor *key_mask;    /* TH_BOOL [B, n_k] */
  const th_tensor *mask;        /* TH_BOOL [n_q, n_k], [B, n_q, n_k] or [B, H, n_q, n_k] */

  th_tensor **weights; /* if not NULL, receives the weights [B, H, n_q, n_k], detached */

  bool plain_backward; /* the textbook dS = P (dP - sum P dP), which cancels when a row saturates: for
                          the laboratory, to be measured against. Leave it false. */
} th_attention_options;

/* softmax(scale * q k^T) v (Vaswani et al. 2017, arXiv:1706.03762, equation 1).
 * q [B, H, n_q, d_k], k [B, Hk, n_k, d_k], v [B, Hk, n_k, d_v] -> [B, H, n_q, d_v]. d_v may differ
 * from d_k, n_q from n_k. Hk divides H: query head h reads key head h / (H / Hk) (grouped-query
 * attention). options may be NULL. */
TH_API th_tensor *th_attention(th_tape *tape, th_tensor *q, th_tensor *k, th_tensor *v,
                               const th_attention_options *options);

/* The matrices of multi-head attention, each [out, in] as in th_linear, biases [out] or NULL.
 * wq [H*d_k, C], wk [H*d_k, C_kv], wv [H*d_v, C_kv], wo [C_out, H*d_v]. */
typedef struct th_mha_weights {
  th_tensor *wq, *wk, *wv, *wo;
  th_tensor *bq, *bk, *bv, *bo;
} th_mha_weights;

/* Multi-head attention (Vaswani et al. 2017, section 3.2.2): projects x [B, n_q, C] to queries and
 * memory [B, n_k, C_kv] to keys and values (pass x again for self-attention), attends in `heads`
 * heads, joins them and projects with wo -> [B, n_q, C_out]. */
TH_API th_tensor *th_multi_head_attention(th_tape *tape, th_tensor *x, th_tensor *memory,
                                          const th_mha_weights *weights, ptrdiff_t heads,
                                          const th_attention_options *options);

/* ---- 5. Parameters and models -------------------------------------------------------------- */

/* A list of named parameters. It owns them; they are f32 or f64 tensors with a wanted gradient. A
 * tensor stands in the list once, however many layers use it (tied weights count once). */
typedef struct th_params th_params;
TH_API th_params *th_params_new(th_error *error);
TH_API void th_params_free(th_params *params);
/* A new parameter of zeros. The name must be new. */
TH_API th_tensor *th_params_add(th_params *params, const char *name, th_dtype dtype, int ndim,
                                const ptrdiff_t *shape, th_error *error);
/* A list that is NULL, as a model's is whose making failed, has no parameters. */
TH_API ptrdiff_t th_params_count(const th_params *params);    /* tensors */
TH_API ptrdiff_t th_params_elements(const th_params *params); /* numbers */
TH_API th_tensor *th_params_at(const th_params *params, ptrdiff_t i);
TH_API th_tensor *th_params_find(const th_params *params, const char *name); /* NULL if none */
TH_API void th_params_zero_grad(th_params *params);

/* Fills a tensor with N(mean, sd^2) or with the uniform distribution on [low, high). NULL: nothing. */
TH_API void th_init_normal(th_tensor *tensor, double mean, double sd, th_random stream);
TH_API void th_init_uniform(th_tensor *tensor, double low, double high, th_random stream);

/* A model: parameters and a configuration. */
typedef struct th_model th_model;
typedef enum th_model_kind {
  TH_MODEL_GPT,        /* decoder-only transformer */
  TH_MODEL_RECURRENT,  /* RNN or LSTM language model */
  TH_MODEL_CLASSIFIER, /* encoder, one answer per sequence */
  TH_MODEL_SEQ2SEQ     /* encoder and decoder with cross-attention */
} th_model_kind;
TH_API void th_model_free(th_model *model);
TH_API th_params *th_model_params(const th_model *model); /* NULL for NULL */
TH_API th_model_kind th_model_kind_of(const th_model *model);

typedef enum th_norm_kind { TH_NORM_LAYER, TH_NORM_RMS } th_norm_kind;
typedef enum th_position_kind {
  TH_POSITION_LEARNED,    /* a table [context, C], added to the embedding */
  TH_POSITION_SINUSOIDAL, /* th_sinusoidal, added to the embedding */
  TH_POSITION_ROPE,       /* th_rope on queries and keys of each layer */
  TH_POSITION_NONE
} th_position_kind;
typedef enum th_feed_forward_kind {
  TH_FEED_FORWARD_GELU_TANH,
  TH_FEED_FORWARD_GELU,
  TH_FEED_FORWARD_RELU,
  TH_FEED_FORWARD_SWIGLU, /* down(silu(gate x) * (up x)) */
  TH_FEED_FORWARD_NONE
} th_feed_forward_kind;
/* First values of matrices and tables; biases are 0, gains 1.
 *   gpt2    N(0, 0.02^2) (Radford et al. 2019), projections that end in a residual divided by the root
 *           of their number in that residual: 1/sqrt(2 L) for L layers with feed-forward, and
 *           1/sqrt(3 L) in a decoder with cross-attention
 *   width   the same with 1/sqrt(width) in place of 0.02: small models learn sooner
 *   xavier  uniform on +-sqrt(6 / (in + out)) (Glorot & Bengio 2010; c_attn counts as one matrix),
 *           tables N(0, 1/width) */
typedef enum th_init_kind { TH_INIT_GPT2, TH_INIT_WIDTH, TH_INIT_XAVIER } th_init_kind;

/* A transformer. Zeros give the GPT-2 layout (Radford et al. 2019): layer norm before attention and
 * feed-forward, learned positions, tanh-GELU, biases, output tied to the token table. Any mixture is
 * legal; {TH_LLAMA, .layers = ...} starts from Llama's (Touvron et al. 2023, arXiv:2302.13971). Fields
 * left 0 take the value in brackets.
 *
 * Names of parameters are GPT-2's: wte.weight, wpe.weight, h.0.ln_1.weight, h.0.ln_1.bias,
 * h.0.attn.c_attn.weight, h.0.attn.c_proj.weight, h.0.ln_2.weight, h.0.mlp.c_fc.weight,
 * h.0.mlp.c_proj.weight, ..., ln_f.weight; with SwiGLU h.0.mlp.c_gate.weight; an untied output is
 * lm_head.weight. Matrices are [out, in]; c_attn stacks the rows of W_q, W_k and W_v. */
typedef struct th_gpt {
  ptrdiff_t layers, heads, width, context, vocab;
  ptrdiff_t kv_heads;   /* heads of keys and values, a divisor of heads [heads] */
  ptrdiff_t head_width; /* d_k of queries and keys [width / heads]; values stay width / heads */
  ptrdiff_t hidden; /* feed-forward width [4 width; with SwiGLU 8/3 width, up to a multiple of 8] */
  th_norm_kind norm;
  th_position_kind positions;
  th_feed_forward_kind feed_forward;
  bool post_norm; /* norm(x + f(x)), as in Vaswani et al. 2017, and no norm at the end */
  bool no_bias;
  bool untied;         /* an output matrix of its own: counted, stepped and stored separately */
  double norm_eps;     /* [1e-5] */
  double rope_base;    /* [10000] */
  th_scale_kind scale; /* [TH_SCALE_SQRT] */
  double factor;       /* for TH_SCALE_FACTOR */
  double dropout;      /* on embeddings, attention output and feed-forward [0] */
  th_init_kind init;   /* [TH_INIT_GPT2] */
  bool all_see_all;    /* no causal mask */
  th_dtype dtype;      /* [TH_F32] */
} th_gpt;
#define TH_LLAMA                                                                                   \
  .norm = TH_NORM_RMS, .positions = TH_POSITION_ROPE, .feed_forward = TH_FEED_FORWARD_SWIGLU,      \
  .no_bias = true, .untied = true
TH_API th_model *th_gpt_new(const th_gpt *config, uint64_t seed, th_error *error);
/* Its configuration, with zeros replaced by what they stood for; also of a classifier and a seq2seq.
 * NULL for other models and for NULL. */
TH_API const th_gpt *th_model_gpt(const th_model *model);

/* A recurrent language model: token table, `layers` of th_rnn or th_lstm, logits by the token table.
 * Names: wte.weight, h.0.w_x, h.0.w_h, h.0.bias, ..., lm_head.weight if untied. Matrices of cells are
 * uniform on +-1/sqrt(width), tables N(0, 0.02^2), biases 0, an LSTM's forget gates 1 (Jozefowicz et
 * al. 2015). */
typedef struct th_recurrent {
  ptrdiff_t layers, width, vocab;
  bool lstm;
  bool untied;
  double dropout; /* on the embedding and between layers [0] */
  th_dtype dtype; /* [TH_F32] */
} th_recurrent;
TH_API th_model *th_recurrent_new(const th_recurrent *config, uint64_t seed, th_error *error);
TH_API const th_recurrent *th_model_recurrent(const th_model *model); /* NULL for other models */

/* An encoder (no causal mask) whose last states are averaged over each sequence's tokens and projected
 * to `classes` logits: head.weight, head.bias. Everything else as th_gpt; all_see_all and untied are
 * ignored. */
TH_API th_model *th_classifier_new(const th_gpt *config, ptrdiff_t classes, uint64_t seed,
                                   th_error *error);
/* Encoder and decoder of `layers` layers each (Vaswani et al. 2017, section 3.1) with one token table.
 * Names: wte.weight, enc.wpe.weight, enc.0..., enc.ln_f.weight, dec.wpe.weight, dec.0..., the latter
 * with cross.c_q, cross.c_kv, cross.c_proj and ln_x, dec.ln_f.weight. The decoder is causal whatever
 * all_see_all says. Cross-attention has no rotary positions: they are of one sequence. */
TH_API th_model *th_seq2seq_new(const th_gpt *config, uint64_t seed, th_error *error);

/* Keys and values (or recurrent states) of the tokens that a model has seen, for decoding. ONE rule:
 * the tokens of a pass stand at positions length .. length + T - 1, in every layer; the length moves
 * once, when the pass is over. Grouped heads store only their own. */
typedef struct th_cache th_cache;
/* For `batch` sequences of up to `capacity` tokens [0: the model's context; recurrent models have no
 * limit]. Only for the model it is made for, which must outlive its use. */
TH_API th_cache *th_cache_new(const th_model *model, ptrdiff_t batch, ptrdiff_t capacity,
                              th_error *error);
TH_API void th_cache_free(th_cache *cache);
TH_API void th_cache_clear(th_cache *cache); /* the next pass starts at position 0 and sees nothing */
TH_API ptrdiff_t th_cache_length(const th_cache *cache);
TH_API size_t th_cache_bytes(const th_cache *cache);

/* What one pass may be asked for; NULL or zeros: evaluation, nothing kept. */
typedef struct th_pass {
  bool training;       /* dropout on */
  th_random stream;    /* for dropout: step = the training step, purpose < 65536; each place that
                           drops adds its own multiple of 65536 */
  th_tensor **weights; /* `layers` entries, receive the attention weights [B, H, n_q, n_k], detached;
                          of a seq2seq those of its cross-attention */
  th_cache *cache;     /* th_model_forward without recording only: the tokens go on from there */
} th_pass;

/* tokens TH_I32 [B, T] -> logits [B, T, V], of a gpt or a recurrent model. At most `context` tokens
 * for a gpt, those in the cache included: TH_ERR_STATE names the limit. */
TH_API th_tensor *th_model_forward(th_tape *tape, th_model *model, const th_tensor *tokens,
                                   const th_pass *pass);
/* The same, for a gpt only. */
TH_API th_tensor *th_gpt_forward(th_tape *tape, th_model *model, const th_tensor *tokens,
                                 const th_pass *pass);
/* tokens [B, T], lengths TH_I32 [B] of 1..T, or NULL: all T -> logits [B, classes]. What stands in the
 * padding (any legal token) changes nothing. */
TH_API th_tensor *th_classifier_forward(th_tape *tape, th_model *model, const th_tensor *tokens,
                                        const th_tensor *lengths, const th_pass *pass);
/* source [B, S], lengths of the sources or NULL, target [B, T] -> logits [B, T, V]: those at t have
 * seen the source and target 0 .. t. */
TH_API th_tensor *th_seq2seq_forward(th_tape *tape, th_model *model, const th_tensor *source,
                                     const th_tensor *lengths, const th_tensor *target,
                                     const th_pass *pass);

/* ---- 6. Optimisers and schedules ----------------------------------------------------------- */

/* An optimiser steps every parameter that got a gradient since the last step, and sets that gradient
 * to zero: several th_backward()s before one step accumulate. The parameters must outlive it. */
typedef struct th_optim th_optim;
TH_API void th_optim_free(th_optim *optim);

/* m = momentum m + g; w -= lr m. Fields left 0 take the value in brackets. */
typedef struct th_sgd {
  double lr;       /* [1e-3] */
  double momentum; /* 0 <= momentum < 1 [0] */
} th_sgd;
TH_API th_optim *th_sgd_new(th_params *params, const th_sgd *options, th_error *error);

/* Adam (Kingma & Ba 2015, arXiv:1412.6980, algorithm 1) and AdamW (Loshchilov & Hutter 2019,
 * arXiv:1711.05101, algorithm 2): w -= lr (decay w + mhat / (sqrt(vhat) + eps)), with w before the
 * update on the right. Only matrices and tables (2 or more axes) decay; biases and gains do not. */
typedef struct th_adamw {
  double lr;           /* [1e-3] */
  double beta1, beta2; /* [0.9, 0.999] */
  double eps;          /* [1e-8] */
  double weight_decay; /* [0] */
} th_adamw;
TH_API th_optim *th_adamw_new(th_params *params, const th_adamw *options, th_error *error);
/* Adam: the same without decay; a weight_decay other than 0 is refused. */
TH_API th_optim *th_adam_new(th_params *params, const th_adamw *options, th_error *error);

/* What parameter i of the list decays with at each step: weight_decay, or 0 if it does not. */
TH_API double th_optim_weight_decay(const th_optim *optim, ptrdiff_t i);

/* Learning rates of steps 1 .. steps: rises linearly over the first `warmup` steps to `peak`, which is
 * reached once (constant: and kept), then falls to `floor` at the last step along a line or half a
 * cosine (Loshchilov & Hutter 2017, arXiv:1608.03983, equation 5). Never 0 at step 1 unless peak is,
 * never rising after the peak; beyond the last step it stays. A single step has the peak. */
typedef enum th_schedule_kind {
  TH_SCHEDULE_CONSTANT,
  TH_SCHEDULE_LINEAR,
  TH_SCHEDULE_COSINE
} th_schedule_kind;
typedef struct th_schedule {
  th_schedule_kind kind;
  double peak, floor; /* 0 <= floor <= peak */
  long warmup, steps; /* 0 <= warmup < steps, or warmup <= steps for a constant one */
} th_schedule;
TH_API th_status th_schedule_check(const th_schedule *schedule, th_error *error);
TH_API double th_schedule_lr(const th_schedule *schedule, long step);

/* For schedules; 0 is legal. TH_ERR_VALUE, and nothing changed, unless lr is finite and >= 0. NULL has
 * a rate of 0 and no steps. */
TH_API th_status th_optim_set_lr(th_optim *optim, double lr);
TH_API double th_optim_lr(const th_optim *optim);
TH_API long th_optim_steps(const th_optim *optim); /* steps taken */

/* Takes one step. TH_ERR_STATE, and nothing changed, when no gradient has arrived since the last
 * step (say, because the tape holds an error). */
TH_API th_status th_optim_step(th_optim *optim, th_error *error);

/* The norm over all gradients, computed without overflow; then, if it exceeds limit > 0, scales them
 * so that it is `limit`. TH_ERR_NONFINITE names the first parameter whose gradient holds Inf or NaN,
 * and no gradient is changed: take no step then. norm may be NULL. limit = INFINITY only measures. */
TH_API th_status th_clip_grad_norm(th_params *params, double limit, double *norm, th_error *error);

/* ---- 7. Files and generation --------------------------------------------------------------- */

/* Files are in the safetensors format, which Python's `safetensors` and PyTorch read. They are written
 * beside the old file, synced, and renamed: whatever happens, one of the two is there, whole.
 * Reading checks every field against the file's size first: a malformed file is TH_ERR_IO with the
 * tensor and the field, and nothing is changed. docs/files.md has the layout. */

/* All parameters, under their names. */
TH_API th_status th_params_save(const th_params *params, const char *path, th_error *error);
/* Fills every parameter from the file. Names, shapes and types must agree (F32 and F64 are converted,
 * F16 and BF16 widened); tensors that the list does not have are an error unless they are called
 * "optim.*". Either all is loaded or nothing. */
TH_API th_status th_params_load(th_params *params, const char *path, th_error *error);
/* The same with the configuration inside, from which the model is made again. */
TH_API th_status th_model_save(const th_model *model, const char *path, th_error *error);
TH_API th_model *th_model_load(const char *path, th_error *error);

/* Draws from softmax(logits / temperature): of the top_k largest, and of what they leave of the fewest,
 * largest first, whose probabilities reach top_p (Holtzman et al. 2020, arXiv:1904.09751). Of equal
 * logits the first are kept. */
typedef struct th_sampling {
  double temperature; /* 0: the first of the largest logits */
  ptrdiff_t top_k;    /* [0: all] */
  double top_p;       /* 0 < top_p <= 1 [0: 1] */
} th_sampling;
/* Draws with `uniform` in [0, 1) from the last row of logits [..., V]. Options may be NULL: zeros. What
 * has probability 0, as -inf, is never drawn. -1 with `error`: a NaN, +inf, or nothing but -inf among
 * the logits; settings out of range. */
TH_API ptrdiff_t th_sample(const th_tensor *logits, const th_sampling *options, double uniform,
                           th_error *error);

/* ---- 8. Random numbers --------------------------------------------------------------------- */

/* Counter-based (Philox4x32-10; Salmon et al. 2011, doi:10.1145/2063384.2063405): number i of a
 * stream is a function of (stream, i), so any of them can be had in any order by any thread. */
TH_API uint64_t th_random_bits(th_random stream, uint64_t i);
TH_API double th_random_uniform(th_random stream, uint64_t i); /* [0, 1), 53 bits */
TH_API double th_random_normal(th_random stream, uint64_t i);  /* N(0, 1), Box-Muller */
TH_API uint64_t th_random_below(th_random stream, uint64_t i, uint64_t limit); /* 0 .. limit-1 */

/* ---- 9. Toy data --------------------------------------------------------------------------- */

/* Sequence tasks, made from the seed. Tokens and targets are TH_I32 [batch, seq]; a target of
 * TH_IGNORE marks a position without an answer. docs/tasks.md shows a sequence of each. */
typedef enum th_task_kind {
  TH_TASK_COPY,      /* a random word, a separator, then the word again */
  TH_TASK_REVERSE,   /* ... then the word backwards */
  TH_TASK_SORT,      /* ... then its letters sorted */
  TH_TASK_RECALL,    /* key value key value ..., then keys again: each is answered with its value */
  TH_TASK_INDUCTION, /* random tokens, then a passage of them again: each next one is the answer */
  TH_TASK_COUNT
} th_task_kind;

typedef struct th_task_options {
  th_task_kind kind;
  ptrdiff_t seq, batch; /* tokens per sequence, sequences per batch */
  ptrdiff_t vocab;      /* symbols, without the separator; 0: the task's own default */
  uint64_t seed;
} th_task_options;

/* Both belong to the task and stay valid until the next call. */
typedef struct th_batch {
  const th_tensor *tokens, *targets;
} th_batch;

typedef struct th_task th_task;
TH_API th_task *th_task_new(const th_task_options *options, th_error *error);
TH_API void th_task_free(th_task *task);
TH_API ptrdiff_t th_task_vocab(const th_task *task); /* tokens: the symbols and the separator */
/* Training batch 0, 1, 2, ... ; and any batch by number, from the training or the held-out stream,
 * which does not move the former. No sequence of the held-out stream ever occurs in training, of this
 * seed or another (unless a task has so few, say fewer than 64, that all fall into one class). */
TH_API th_batch th_task_next(th_task *task);
TH_API th_batch th_task_batch(th_task *task, bool heldout, uint64_t number);

/* ---- 10. Gradient checks ------------------------------------------------------------------- */

/* A function of tensors, built from operations. Returns a tensor of any shape, NULL on error. It
 * must be deterministic. */
typedef th_tensor *th_function(th_tape *tape, th_tensor *const *inputs, const void *context);

/* How an input is filled. The first group is differentiated, the second is constant. */
typedef enum th_fill {
  TH_FILL_NORMAL,   /* N(0, param^2); param 0 means 1 */
  TH_FILL_POSITIVE, /* 0.5 + uniform */
  TH_FILL_IDS,      /* TH_I32 uniform on 0 .. param-1 */
  TH_FILL_LENGTHS,  /* TH_I32 uniform on 0 .. param, the last one param */
  TH_FILL_LABELS,   /* TH_I32 uniform on 0 .. param-1, each fourth TH_IGNORE */
  TH_FILL_MASK      /* TH_BOOL, each 1 with probability 3/4; row 0 of each matrix is all 0 */
} th_fill;

#define TH_MAX_INPUTS 12

typedef struct th_check_input {
  const char *name; /* "weight" */
  th_fill fill;
  double param;
  int ndim;
  ptrdiff_t shape[TH_MAX_DIMS];
} th_check_input;

/* One case for the checker: a function and its inputs. Small cases are checked at every coordinate;
 * `large` ones by random projections. */
typedef struct th_check {
  const char *variant; /* "causal"; "" for the plain one */
  th_function *forward;
  const void *context;
  bool large;
  bool kinks; /* has points without a derivative */
  int input_count;
  th_check_input inputs[TH_MAX_INPUTS];
} th_check;

/* What a check found, from best to worst; the worst entry is the verdict of an input, the worst input
 * that of the check. The first three do not count as a failure (th_verdict_ok).
 *   pass         every entry right to the tolerance
 *   below-floor  entries too small to be seen beside round-off, and claimed to be so
 *   kink         entries without a derivative: what is claimed lies between the one-sided slopes
 *   noisy        the function is not deterministic, or far rougher than round-off makes it
 *   vacuous      could not have failed: loss constant in the input, nothing compared, or the gradient
 *                never arrived
 *   wrong        a gradient outside tolerance plus error bar, or one that is not finite */
#define TH_VERDICT_LIST(X)                                                                         \
  X(TH_PASS, "pass")                                                                               \
  X(TH_BELOW_FLOOR, "below-floor")                                                                 \
  X(TH_KINK, "kink")                                                                               \
  X(TH_NOISY, "noisy")                                                                             \
  X(TH_VACUOUS, "vacuous")                                                                         \
  X(TH_WRONG, "wrong")

typedef enum th_verdict {
#define X(code, text) code,
  TH_VERDICT_LIST(X)
#undef X
} th_verdict;
TH_API const char *th_verdict_name(th_verdict verdict); /* "below-floor" */
TH_API bool th_verdict_ok(th_verdict verdict);

/* What is compared.
 *   every       each dL/dx_i against differences along x_i
 *   projection  (J^T v).u against v.(Ju) for random directions u
 *   sample      as `every`, for a random sample of coordinates, stratified by row and head
 *   hessian     u.(Hv) against v.(Hu) by differences of the claimed gradient: symmetry of the second
 *               derivative, over all inputs together. Blind to a constant factor.
 *   precision   the f32 backward against the f64 backward of the same inputs
 *   auto        every coordinate where that is cheap, otherwise projections */
#define TH_CHECK_MODE_LIST(X)                                                                      \
  X(TH_CHECK_AUTO, "auto")                                                                         \
  X(TH_CHECK_EVERY, "every")                                                                       \
  X(TH_CHECK_PROJECTION, "projection")                                                             \
  X(TH_CHECK_SAMPLE, "sample")                                                                     \
  X(TH_CHECK_HESSIAN, "hessian")                                                                   \
  X(TH_CHECK_PRECISION, "precision")

typedef enum th_check_mode {
#define X(code, text) code,
  TH_CHECK_MODE_LIST(X)
#undef X
} th_check_mode;
TH_API const char *th_check_mode_name(th_check_mode mode);

/* Fields left 0 take the value in brackets. */
typedef struct th_gradcheck_options {
  th_check_mode mode; /* [AUTO: EVERY up to 20000 coordinates in all, else PROJECTION] */
  uint64_t seed;    /* of the upstream gradient, of directions, and of th_gradcheck_case's inputs */
  double tolerance; /* relative [1e-7] */
  int projections;  /* directions per input; pairs of them for HESSIAN [4], at most 1000 */
  ptrdiff_t samples; /* coordinates per input for SAMPLE [256] */
  bool f32;          /* also compare the f32 backward with the f64 backward */
  bool serial;       /* call the function from this thread only: it is not safe to share */
} th_gradcheck_options;

/* One input in one mode. "Worst entry": of the worst verdict, the one with the largest error. */
typedef struct th_gradcheck_row {
  char input[32]; /* the tensor's or case's name for it, or "input 0" */
  int input_index;
  th_dtype dtype; /* whose backward is judged */
  th_check_mode mode;
  th_verdict verdict;
  ptrdiff_t elements; /* of the input */
  ptrdiff_t compared; /* entries (or directions) compared */
  ptrdiff_t kinks, below_floor;
  double miss; /* SAMPLE: the probability that a single wrong entry is not among those compared */
  /* Relative to the largest of |analytic|, |numeric| and a thousandth of the input's largest gradient
   * (projections: a tenth of the typical projection), over the entries that could be resolved. */
  double max_abs_error, max_rel_error;
  ptrdiff_t index; /* the worst entry (or direction), row-major */
  double analytic,
      numeric;        /* the gradient claimed there, and the one measured (or computed in f64) */
  double error_bar;   /* of `numeric` */
  double left, right; /* one-sided slopes there, where they differ (kinks), else 0 */
  char detail[192];   /* the evidence in a sentence, "" for a pass */
  /* The mistake behind a wrong f64 gradient: "factor", "sign", "transpose", "missing-row-sum",
   * "missing-mean", "missing-term", "overwritten", "mask-shifted", "mask-not-applied",
   * "heads-permuted", "not-summed", "rotated-wrong-way", "unknown"; "" where nothing was looked for.
   * factor: claimed = factor * true, or NaN. cause: a sentence, with the place where that is known. */
  char diagnosis[24];
  double factor;
  char cause[320];
} th_gradcheck_row;

#define TH_GRADCHECK_ROWS (2 * TH_MAX_INPUTS)

typedef struct th_gradcheck_result {
  th_verdict verdict;
  int row_count;
  th_gradcheck_row rows[TH_GRADCHECK_ROWS];
} th_gradcheck_result;

/* Checks the gradients of a function at the given inputs: those of f32 and f64 tensors, integers and
 * masks are constants. The loss is sum(v * function(inputs)) with random v, never a plain sum.
 *
 * Per coordinate, or per random direction, central differences over a sweep of step sizes are
 * extrapolated (Richardson; Ridders 1982) to a derivative with an error bar; an entry is wrong only
 * if it lies outside tolerance plus error bar. The backward runs twice, the second time onto a
 * non-zero gradient, which it must add to.
 *
 * The function is called with f64 (and, for options->f32, f32) copies of the inputs on tapes of the
 * checker's own, from several threads at once unless options->serial. The inputs themselves are only
 * read. A tensor that stands there twice is checked once, as a total. Different tensors that share
 * memory are refused. options and error may be NULL.
 *
 * Returns TH_OK when the check could be made: what it found is in *result. Otherwise the function's
 * own error, TH_ERR_VALUE (overlap, nothing to check), TH_ERR_MEMORY. */
TH_API th_status th_gradcheck(th_function *function, th_tensor *const *inputs, int input_count,
                              const void *context, const th_gradcheck_options *options,
                              th_gradcheck_result *result, th_error *error);

/* The same for a case: draws its inputs from options->seed. A `large` case is projected. */
TH_API th_status th_gradcheck_case(const th_check *check, const th_gradcheck_options *options,
                                   th_gradcheck_result *result, th_error *error);

/* Checks a case and, if it fails, looks for the smallest shapes that end with the same verdict: axes of
 * one length are lowered together, as are the limits of ids and labels that equal it; shapes that the
 * function refuses are passed over. *smallest is the case, and *result what it gives; if nothing fails,
 * the case as it was. */
TH_API th_status th_gradcheck_shrink(const th_check *check, const th_gradcheck_options *options,
                                     th_check *smallest, th_gradcheck_result *result,
                                     th_error *error);

/* The same for a case that is made from four sizes: fills in check->forward, context, input_count and
 * inputs. The context may point to *sizes. *sizes is lowered. */
typedef struct th_case_sizes {
  ptrdiff_t batch, length, heads, width;
} th_case_sizes;
typedef void th_case_maker(const th_case_sizes *sizes, th_check *check);
TH_API th_status th_gradcheck_shrink_sized(th_case_maker *maker, th_case_sizes *sizes,
                                           const th_gradcheck_options *options,
                                           th_gradcheck_result *result, th_error *error);

/* ---- 11. Your own operation ---------------------------------------------------------------- */

/* One recorded operation: inputs, output, what was saved. */
typedef struct th_node th_node;

/* An operation is a value; the built-in ones are made of the same parts (examples/custom_op.c). */
typedef struct th_op {
  const char *name;
  /* Reads th_node_upstream() (dL/dy) and ADDS dL/dx to th_node_grad(node, i) of each input that has
   * one. Returns TH_OK, or TH_ERR_MEMORY when th_node_workspace() gave NULL. */
  th_status (*backward)(th_node *node);
  const th_check *checks; /* for the gradient checker; ends with an entry whose forward is NULL */
} th_op;

/* An uninitialised contiguous tensor on the tape, for an operation to fill. NULL on error. */
TH_API th_tensor *th_output(th_tape *tape, th_dtype dtype, int ndim, const ptrdiff_t *shape);
/* Records `output` as op(inputs) and returns it. Copies saved_bytes of `saved`. An input may be NULL
 * (an optional one that was not given). Records nothing when no input's gradient is wanted. */
TH_API th_tensor *th_record(th_tape *tape, const th_op *op, th_tensor *output,
                            th_tensor *const *inputs, int input_count, const void *saved,
                            size_t saved_bytes);
/* Leaves an error on the tape, with a printf-style sentence after "op: ". Returns NULL. */
TH_API th_tensor *th_fail(th_tape *tape, th_status status, const char *op, const char *format, ...)
#ifdef __GNUC__
    __attribute__((format(printf, 4, 5)))
#endif
    ;

TH_API th_tensor *th_node_input(const th_node *node, int i);
TH_API th_tensor *th_node_output(const th_node *node);
TH_API const th_tensor *th_node_upstream(const th_node *node); /* same strides as the output */
/* Where to add dL/d(input i), same strides as the input; NULL if nobody wants it. */
TH_API th_tensor *th_node_grad(const th_node *node, int i);
TH_API void *th_node_saved(const th_node *node);
/* Uninitialised scratch memory until the tape's reset, 64-byte aligned. NULL when memory ends. */
TH_API void *th_node_workspace(th_node *node, size_t bytes);
/* The same while recording: memory that the backward reads later through `saved`. */
TH_API void *th_tape_alloc(th_tape *tape, size_t bytes);

/* ---- 12. Threads and the machine ----------------------------------------------------------- */

/* How many threads operations use; 0 returns to the default, OpenMP's (OMP_NUM_THREADS). With the
 * same seed every number of threads gives the same bits. On x86, operations and optimisers make every
 * result below the smallest normal number 0, on each thread and while they run only: saturated weights
 * would be such numbers, and computing with them can take many times as long (bench/subnormals.c). */
TH_API th_status th_set_threads(int threads);
TH_API int th_threads(void);

/* The kernels in use: "avx512", "avx2" or "base". The environment variable TAPEHEAD_ISA forces one
 * when it is set before the program starts; one the machine lacks is ignored. */
TH_API const char *th_isa(void);

#ifdef __cplusplus
}
#endif

#endif
