/* array.h: n-dimensional arrays of numbers that know how exact they are.
 *
 * Values are long double: with 64 bits of precision (113 on some machines) rounding stays far below
 * anything that a mistake in a derivation changes. Each value carries a bound of its own rounding
 * error, propagated through every operation: |v - what exact arithmetic gives| <= e to first order. So
 * a comparison of two ways to compute one thing needs no tolerance picked by hand.
 *
 * Arrays are immutable once made and live in the evaluation's arena. Shapes broadcast as in NumPy. */
#ifndef TH_DERIVE_ARRAY_H
#define TH_DERIVE_ARRAY_H

#include "derive/calc.h"
#include "tapehead.h"

typedef long double th__number;

typedef struct th__array {
  int ndim;
  ptrdiff_t shape[TH_MAX_DIMS];
  ptrdiff_t count;
  th__number *v;
  double *e;
} th__array;

/* "(5, 8)", as NumPy writes it. TH__SHAPE(x) may be used several times in one statement. */
#define TH__ARRAY_SHAPE_TEXT 128
const char *th__array_shape_text(char *buffer, int ndim, const ptrdiff_t *shape);
#define TH__SHAPE_OF(x) th__array_shape_text((char[TH__ARRAY_SHAPE_TEXT]){0}, (x)->ndim, (x)->shape)

/* ---- array.c: making and reshaping ---- */

/* Uninitialised values with exact (0) bounds. */
th__array *th__array_new(th__calc *c, int ndim, const ptrdiff_t *shape);
th__array *th__array_scalar(th__calc *c, th__number value);
th__array *th__array_full(th__calc *c, int ndim, const ptrdiff_t *shape, th__number value);
/* The same numbers under another shape of equal count. */
th__array *th__array_reshape(th__calc *c, const th__array *x, int ndim, const ptrdiff_t *shape);
/* Repeated along stretched axes; the shape must fit. */
th__array *th__array_stretch(th__calc *c, const th__array *x, int ndim, const ptrdiff_t *shape);
/* Summed back to the shape from which it was stretched. */
th__array *th__array_sum_to(th__calc *c, const th__array *x, int ndim, const ptrdiff_t *shape);
/* The common shape of two operands, or false. */
bool th__array_broadcast(const th__array *a, const th__array *b, int *ndim, ptrdiff_t *shape);
bool th__array_same_shape(const th__array *a, const th__array *b);
/* Steps of x's entries along the axes of a shape to which it stretches: 0 where it is repeated. */
void th__array_strides(const th__array *x, int ndim, ptrdiff_t *stride);

/* ---- elementwise.c ---- */

typedef enum th__function1 {
  TH__NEGATE,
  TH__EXP,
  TH__LOG,
  TH__SQRT,
  TH__TANH,
  TH__ERF,
  TH__SIGMOID,
  TH__RELU,
  TH__ABS,
  TH__SIN,
  TH__COS,
  TH__NOT,
  TH__SIGN,
  TH__STEP, /* x > 0 */
  TH__FUNCTIONS1
} th__function1;

typedef enum th__function2 {
  TH__ADD,
  TH__SUBTRACT,
  TH__MULTIPLY,
  TH__DIVIDE,
  TH__POWER,
  TH__FLOOR_DIVIDE,
  TH__MODULO,
  TH__LESS,
  TH__LESS_EQUAL,
  TH__GREATER,
  TH__GREATER_EQUAL,
  TH__EQUAL,
  TH__NOT_EQUAL,
  TH__AND,
  TH__OR,
  TH__GATE, /* a * b for an upstream gradient a: nothing passes where a is 0, whatever b is */
  TH__FUNCTIONS2
} th__function2;

const char *th__function2_sign(th__function2 f); /* "+" */
bool th__function2_compares(th__function2 f);

th__array *th__array_map1(th__calc *c, th__function1 f, const th__array *x);
th__array *th__array_map2(th__calc *c, th__function2 f, const th__array *a, const th__array *b);
/* a where the condition is not 0, else b; all three broadcast. */
th__array *th__array_where(th__calc *c, const th__array *condition, const th__array *a,
                           const th__array *b);

/* ---- reduce.c: over the axes in a bit set ---- */

typedef struct th__axes {
  unsigned set;
  bool keep; /* the reduced axes, with length 1 */
} th__axes;

th__array *th__array_sum(th__calc *c, const th__array *x, th__axes axes);
th__array *th__array_max(th__calc *c, const th__array *x, th__axes axes);
/* log(sum(exp(x))) with the largest x taken out; -inf where all are. */
th__array *th__array_logsumexp(th__calc *c, const th__array *x, th__axes axes);
/* Over one axis. A row of -inf gives zeros. */
th__array *th__array_softmax(th__calc *c, const th__array *x, int axis);
/* What a reduction's result looks like with the reduced axes kept. */
void th__axes_kept_shape(const th__array *x, unsigned set, ptrdiff_t *shape);

/* ---- matmul.c ---- */

/* a @ b as NumPy has it: vectors, matrices, leading axes that broadcast. */
th__array *th__array_matmul(th__calc *c, const th__array *a, const th__array *b);

/* ---- gather.c: any rearrangement is a list of where each entry comes from ---- */

/* out[i] = map[i] < 0 ? 0 : x[map[i]]. */
th__array *th__array_gather(th__calc *c, const th__array *x, const ptrdiff_t *map, int ndim,
                            const ptrdiff_t *shape);
/* The reverse: entries that come from the same place are added. */
th__array *th__array_scatter(th__calc *c, const th__array *y, const ptrdiff_t *map, int ndim,
                             const ptrdiff_t *shape);
/* Maps; NULL with a fault. `order` lists the axis of x that comes first, second, ...; `shape` receives
 * the result's. The triangles keep entries on one side of a diagonal of the last two axes. */
ptrdiff_t *th__map_transpose(th__calc *c, const th__array *x, const int *order, ptrdiff_t *shape);
ptrdiff_t *th__map_triangle(th__calc *c, const th__array *x, ptrdiff_t diagonal, bool upper);
/* Not a map, but the same idea: the parts one after another along an axis. They fit. */
th__array *th__array_concat(th__calc *c, const th__array *const *parts, int count, int axis);

#endif
