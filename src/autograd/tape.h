/* tape.h: the tape, its nodes and what recording an op needs, for the floors above `tensor` and `ops`. */
#ifndef TH_AUTOGRAD_TAPE_H
#define TH_AUTOGRAD_TAPE_H

#include "ops/kernels.h"
#include "tapehead.h"
#include "tensor/arena.h"
#include "tensor/parallel.h"
#include "tensor/shape.h"
#include "tensor/tensor.h"

struct th_node {
  th_node *previous;
  const th_op *op;
  th_tensor *output;
  void *saved;
  int input_count;
  th_tensor *inputs[]; /* input_count entries, NULL for an optional one not given */
};

/* A gradient's memory on a free list of the backward pass: at least 64 bytes, so this fits. There are
 * several lists, by size: a graph may set free many of one size while it needs another. */
typedef struct th__spare {
  struct th__spare *next;
  size_t bytes;
} th__spare;
#define TH__SPARE_LISTS 64

struct th_tape {
  th__arena arena;
  th_node *last; /* nodes are linked backwards, the way backward walks them */
  size_t node_count;
  th__spare *spares[TH__SPARE_LISTS];
  struct th__turns *turns; /* sines and cosines made since the last reset (record/rope.c) */
  bool recording;
  bool consumed; /* backward has run since the last reset */
  th_error error;
};

/* TH__REQUIRE(tape, condition, TH_ERR_SHAPE, "linear", "x has %td columns, ...", ...): leaves the
 * error and returns NULL from the recording function unless the condition holds. */
#define TH__REQUIRE(tape, condition, status, op, ...)                                              \
  do {                                                                                             \
    if (!(condition)) return th_fail(tape, status, op, __VA_ARGS__);                               \
  } while (0)

/* First line of every recording function: false if there is nothing to do, because the tape holds an
 * error or an input is NULL (which then is an error of an earlier op, or the caller's: said so). */
bool th__ready(th_tape *tape, const char *op, int count, th_tensor *const *inputs);
#define TH__READY(tape, op, ...)                                                                   \
  th__ready(tape, op, (int)(sizeof((th_tensor *[]){__VA_ARGS__}) / sizeof(th_tensor *)),           \
            (th_tensor *[]){__VA_ARGS__})

/* All inputs float and of one type, or an error. NULL entries are skipped. */
bool th__same_dtype(th_tape *tape, const char *op, int count, th_tensor *const *inputs);

/* Makes a negative axis count from the end; false, with an error, if x has no such axis. */
bool th__valid_axis(th_tape *tape, const char *op, const th_tensor *x, int *axis);

/* A view of x with other shape, strides and start (in elements from x's first): no node, the gradient
 * flows into x's. */
th_tensor *th__view(th_tape *tape, th_tensor *x, int ndim, const ptrdiff_t *shape,
                    const ptrdiff_t *strides, ptrdiff_t offset);
/* A constant copy of a user's tensor (ids, masks) on the tape, so that the user may change his. */
th_tensor *th__keep(th_tape *tape, const th_tensor *x);
/* x, or a copy whose last axis is contiguous (rows may still be strided). */
th_tensor *th__dense_rows(th_tape *tape, th_tensor *x);
/* True if any input's gradient is wanted and the tape records: if not, an op need save nothing. */
bool th__wanted(const th_tape *tape, int count, th_tensor *const *inputs);

/* "[2, 3]" for messages; TH__TEXT(x) may be used several times in one statement. */
#define TH__TEXT(x) th__shape_text((char[TH__SHAPE_TEXT]){0}, (x)->ndim, (x)->shape)

/* All ops, ended by NULL. */
extern const th_op *const th__ops[];
#define OP(name) extern const th_op th__op_##name;
#include "autograd/ops.def"
#undef OP

#endif
