/* elementwise.c: functions of one and two numbers, each with the bound of its result's error. */
#include <float.h>
#include <math.h>

#include "derive/array.h"

#define UNIT ((double)LDBL_EPSILON)

/* How far a library function may be from the exact result, in units of the last place. */
#define LIBRARY 8

/* slope * e, where an exact operand (e = 0) adds no error however steep the slope is. */
static double carried(th__number slope, double e) { return e == 0 ? 0 : (double)fabsl(slope) * e; }

/* ---- one operand ---- */

static th__number value1(th__function1 f, th__number x) {
  switch (f) {
  case TH__NEGATE: return -x;
  case TH__EXP: return expl(x);
  case TH__LOG: return logl(x);
  case TH__SQRT: return sqrtl(x);
  case TH__TANH: return tanhl(x);
  case TH__ERF: return erfl(x);
  case TH__SIGMOID: return x >= 0 ? 1 / (1 + expl(-x)) : expl(x) / (1 + expl(x));
  case TH__RELU: return x > 0 ? x : isnan(x) ? x : 0;
  case TH__ABS: return fabsl(x);
  case TH__SIN: return sinl(x);
  case TH__COS: return cosl(x);
  case TH__NOT: return x == 0;
  case TH__SIGN: return (x > 0) - (x < 0);
  case TH__STEP: return x > 0;
  default: return 0;
  }
}

/* |derivative| at x, where y is the value: how much an error of x is magnified. */
static th__number slope1(th__function1 f, th__number x, th__number y) {
  switch (f) {
  case TH__EXP: return y;
  case TH__LOG: return 1 / x;
  case TH__SQRT: return y > 0 ? 0.5L / y : 0;
  case TH__TANH: return 1 - y * y;
  case TH__ERF: return 1.12837916709551257390L * expl(-x * x);
  case TH__SIGMOID: return y * (1 - y);
  case TH__SIN: return cosl(x);
  case TH__COS: return sinl(x);
  case TH__NOT:
  case TH__SIGN:
  case TH__STEP: return 0;
  default: return 1;
  }
}

static bool is_library(th__function1 f) { return f >= TH__EXP && f <= TH__SIGMOID; }

static double bound1(th__function1 f, th__number x, double e, th__number y) {
  if (f == TH__RELU) return x > -(th__number)e ? e : 0;
  double own = is_library(f) || f == TH__SIN || f == TH__COS ? LIBRARY * UNIT : 0;
  /* The argument of sin and cos is reduced exactly, that of exp is multiplied by 1/ln 2. */
  return carried(slope1(f, x, y), e) + own * (double)fabsl(y);
}

th__array *th__array_map1(th__calc *c, th__function1 f, const th__array *x) {
  if (x == NULL) return NULL;
  th__array *y = th__array_new(c, x->ndim, x->shape);
  if (y == NULL || !th__calc_spend(c, 8.0 * (double)x->count)) return NULL;
  for (ptrdiff_t i = 0; i < x->count; i++) {
    y->v[i] = value1(f, x->v[i]);
    y->e[i] = isfinite(y->v[i]) ? bound1(f, x->v[i], x->e[i], y->v[i]) : 0;
  }
  return y;
}

/* ---- two operands ---- */

const char *th__function2_sign(th__function2 f) {
  static const char *const signs[TH__FUNCTIONS2] = {"+",  "-", "*",  "/",  "**", "//", "%", "<",
                                                    "<=", ">", ">=", "==", "!=", "&",  "|", "*"};
  return signs[f];
}

bool th__function2_compares(th__function2 f) { return f >= TH__LESS && f <= TH__NOT_EQUAL; }

static th__number value2(th__function2 f, th__number a, th__number b) {
  switch (f) {
  case TH__ADD: return a + b;
  case TH__SUBTRACT: return a - b;
  case TH__MULTIPLY: return a * b;
  case TH__DIVIDE: return a / b;
  case TH__POWER: return b == 2 ? a * a : powl(a, b);
  case TH__FLOOR_DIVIDE: return floorl(a / b);
  case TH__MODULO: return a - b * floorl(a / b);
  case TH__LESS: return a < b;
  case TH__LESS_EQUAL: return a <= b;
  case TH__GREATER: return a > b;
  case TH__GREATER_EQUAL: return a >= b;
  case TH__EQUAL: return a == b;
  case TH__NOT_EQUAL: return a != b;
  case TH__AND: return a != 0 && b != 0;
  case TH__OR: return a != 0 || b != 0;
  case TH__GATE: return a == 0 ? 0 : a * b;
  default: return 0;
  }
}

static double bound2(th__function2 f, th__number a, double ea, th__number b, double eb,
                     th__number y) {
  double own = UNIT * (double)fabsl(y);
  switch (f) {
  case TH__ADD:
  case TH__SUBTRACT: return ea + eb + own;
  case TH__MULTIPLY: return carried(b, ea) + carried(a, eb) + own;
  case TH__GATE: return a == 0 && ea == 0 ? 0 : carried(b, ea) + carried(a, eb) + own;
  case TH__DIVIDE: return carried(1 / b, ea) + carried(y / b, eb) + own;
  case TH__POWER: {
    double of_base = ea == 0 ? 0 : carried(b * powl(a, b - 1), ea);
    /* 0^b is 0 for every b near a positive one; 0 * log(0) would be no number. */
    double of_exponent = eb == 0 || a == 0 ? 0 : carried(y * logl(fabsl(a)), eb);
    return of_base + of_exponent + LIBRARY * own;
  }
  default: return 0;
  }
}

/* Walks over the result's positions with the offsets of up to three operands. */
typedef struct walk {
  int ndim;
  ptrdiff_t index[TH_MAX_DIMS], stride[3][TH_MAX_DIMS], at[3];
} walk;

static void step(walk *w, const ptrdiff_t *shape) {
  for (int axis = w->ndim - 1; axis >= 0; axis--) {
    for (int k = 0; k < 3; k++) w->at[k] += w->stride[k][axis];
    if (++w->index[axis] < shape[axis]) return;
    for (int k = 0; k < 3; k++) w->at[k] -= w->stride[k][axis] * shape[axis];
    w->index[axis] = 0;
  }
}

th__array *th__array_map2(th__calc *c, th__function2 f, const th__array *a, const th__array *b) {
  if (a == NULL || b == NULL) return NULL;
  ptrdiff_t shape[TH_MAX_DIMS];
  walk w = {0};
  if (!th__array_broadcast(a, b, &w.ndim, shape))
    return th__calc_fail(c, "shapes %s and %s do not fit for %s", TH__SHAPE_OF(a), TH__SHAPE_OF(b),
                         th__function2_sign(f));
  th__array *y = th__array_new(c, w.ndim, shape);
  if (y == NULL || !th__calc_spend(c, 4.0 * (double)y->count)) return NULL;
  th__array_strides(a, w.ndim, w.stride[0]);
  th__array_strides(b, w.ndim, w.stride[1]);
  for (ptrdiff_t i = 0; i < y->count; i++) {
    th__number p = a->v[w.at[0]], q = b->v[w.at[1]], v = value2(f, p, q);
    y->v[i] = v;
    y->e[i] = isfinite(v) ? bound2(f, p, a->e[w.at[0]], q, b->e[w.at[1]], v) : 0;
    step(&w, y->shape);
  }
  return y;
}

th__array *th__array_where(th__calc *c, const th__array *condition, const th__array *a,
                           const th__array *b) {
  if (condition == NULL || a == NULL || b == NULL) return NULL;
  th__array both = {0};
  ptrdiff_t shape[TH_MAX_DIMS];
  walk w = {0};
  if (!th__array_broadcast(a, b, &both.ndim, both.shape) ||
      !th__array_broadcast(condition, &both, &w.ndim, shape))
    return th__calc_fail(c, "shapes %s, %s and %s do not fit for where(condition, a, b)",
                         TH__SHAPE_OF(condition), TH__SHAPE_OF(a), TH__SHAPE_OF(b));
  th__array *y = th__array_new(c, w.ndim, shape);
  if (y == NULL) return NULL;
  th__array_strides(condition, w.ndim, w.stride[0]);
  th__array_strides(a, w.ndim, w.stride[1]);
  th__array_strides(b, w.ndim, w.stride[2]);
  for (ptrdiff_t i = 0; i < y->count; i++) {
    const th__array *from = condition->v[w.at[0]] != 0 ? a : b;
    ptrdiff_t at = from == a ? w.at[1] : w.at[2];
    y->v[i] = from->v[at];
    y->e[i] = from->e[at];
    step(&w, y->shape);
  }
  return y;
}
