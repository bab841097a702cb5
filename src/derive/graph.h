/* graph.h: a derivation as computed: one vertex per operation, in order, with its value. From it come
 * the true gradients, by reverse differentiation, and the values anew when one of them is moved, for
 * finite differences. Neither looks at what the user claims. */
#ifndef TH_DERIVE_GRAPH_H
#define TH_DERIVE_GRAPH_H

#include "derive/array.h"

typedef enum th__operation {
  TH__OP_LEAF, /* an input, a number */
  TH__OP_NAME, /* its input, under a name of its own: Y = X */
  TH__OP_MAP1,
  TH__OP_MAP2,
  TH__OP_WHERE,
  TH__OP_MATMUL,
  TH__OP_SUM,
  TH__OP_MAX,
  TH__OP_LOGSUMEXP,
  TH__OP_SOFTMAX,
  TH__OP_GATHER,
  TH__OP_RESHAPE,
  TH__OP_CONCAT
} th__operation;

typedef struct th__vertex th__vertex;

/* What one use contributes to the gradient of a named value. */
typedef struct th__share {
  const th__vertex *user;
  const th__array *value;
  struct th__share *next;
} th__share;

struct th__vertex {
  th__operation op;
  int function; /* MAP1, MAP2 */
  th__axes axes;
  int axis;             /* SOFTMAX, CONCAT */
  const ptrdiff_t *map; /* GATHER */
  int input_count;
  th__vertex **inputs;
  const th__array *value;
  th__place place;
  int index;
  bool wanted; /* its gradient is asked for */
  bool moves;  /* it is wanted, or depends on a value that is */
  const th__array *gradient;
  th__share *shares; /* of a wanted one, last use first */
};

typedef struct th__graph {
  th__calc *calc;
  int count, room;
  th__vertex **vertices;
  int kinks; /* operations met at a point without a derivative: relu(0), a tie of max, ... */
} th__graph;

/* Each adds a vertex and computes it; NULL inputs give NULL. The place is the calc's. */
th__vertex *th__graph_leaf(th__graph *g, const th__array *value);
th__vertex *th__graph_number(th__graph *g, th__number value);
th__vertex *th__graph_name(th__graph *g, th__vertex *x);
th__vertex *th__graph_map1(th__graph *g, th__function1 f, th__vertex *x);
th__vertex *th__graph_map2(th__graph *g, th__function2 f, th__vertex *a, th__vertex *b);
th__vertex *th__graph_where(th__graph *g, th__vertex *condition, th__vertex *a, th__vertex *b);
th__vertex *th__graph_matmul(th__graph *g, th__vertex *a, th__vertex *b);
th__vertex *th__graph_reduce(th__graph *g, th__operation op, th__vertex *x, th__axes axes);
th__vertex *th__graph_softmax(th__graph *g, th__vertex *x, int axis);
th__vertex *th__graph_gather(th__graph *g, th__vertex *x, const ptrdiff_t *map, int ndim,
                             const ptrdiff_t *shape);
th__vertex *th__graph_reshape(th__graph *g, th__vertex *x, int ndim, const ptrdiff_t *shape);
th__vertex *th__graph_concat(th__graph *g, th__vertex *const *parts, int count, int axis);
th__vertex *th__graph_transpose(th__graph *g, th__vertex *x, const int *order);

/* Marks a leaf or a name as one whose gradient is wanted; before anything uses it. */
void th__graph_want(th__vertex *x);

/* Sets the gradient of sum(upstream * end) in every wanted vertex (NULL: it has no influence), and
 * their shares. False with a fault. */
bool th__graph_reverse(th__graph *g, th__vertex *end, const th__array *upstream);

/* The value of `end` when that of `moved` is replaced. Computed in c's arena, which may be another
 * one than the graph's; `trial` has room for g->count pointers. NULL with a fault. */
const th__array *th__graph_replay(const th__graph *g, th__calc *c, const th__vertex *end,
                                  const th__vertex *moved, const th__array *replacement,
                                  const th__array **trial);

/* The value of one operation, given those of its inputs (for replay). */
th__array *th__vertex_compute(th__calc *c, const th__vertex *v, const th__array *const *inputs);

#endif
