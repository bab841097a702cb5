/* pointwise.h: an operation y_i = f(x_i) whose derivative is given beside it, right or wrong: what the
 * checker is tried on. */
#ifndef TESTS_GRADCHECK_POINTWISE_H
#define TESTS_GRADCHECK_POINTWISE_H

#include "support.h"

typedef struct pointwise {
  double (*f)(double x);
  double (*df)(double x); /* what backward claims */
  bool overwrites;        /* = instead of += */
  double f32_factor;      /* the f32 backward is off by this factor; 0: it is not */
} pointwise;

static inline th_status pointwise_backward(th_node *node) {
  const pointwise *p = *(const pointwise **)th_node_saved(node);
  const th_tensor *x = th_node_input(node, 0), *dy = th_node_upstream(node);
  th_tensor *dx = th_node_grad(node, 0);
  for (ptrdiff_t i = 0; i < x->count; i++) {
    double add = p->df(th__get(x, i)) * th__get(dy, i);
    if (p->f32_factor != 0 && x->dtype == TH_F32) add *= p->f32_factor;
    th__set(dx, i, p->overwrites ? add : th__get(dx, i) + add);
  }
  return TH_OK;
}

static inline th_tensor *apply_pointwise(th_tape *tape, th_tensor *x, const pointwise *p) {
  static const th_op op = {.name = "pointwise", .backward = pointwise_backward};
  th_tensor *y = th_output(tape, x->dtype, x->ndim, x->shape);
  if (y == NULL) return NULL;
  for (ptrdiff_t i = 0; i < x->count; i++) th__set(y, i, p->f(th__get(x, i)));
  return th_record(tape, &op, y, &x, 1, &p, sizeof p);
}

/* For th_gradcheck: the context is a pointwise. */
static inline th_tensor *pointwise_function(th_tape *tape, th_tensor *const *in,
                                            const void *context) {
  return apply_pointwise(tape, in[0], context);
}

static inline th_tensor *vector(ptrdiff_t count, const double *values) {
  th_tensor *x = th_tensor_from(TH_F64, 1, &count, values, NULL);
  cr_assert_not_null(x);
  return x;
}

/* Checks f with its claimed derivative at the given points. */
static inline th_gradcheck_result check_pointwise(const pointwise *p, ptrdiff_t count,
                                                  const double *points,
                                                  const th_gradcheck_options *options) {
  th_tensor *x = vector(count, points);
  th_gradcheck_result result;
  th_error error = {TH_OK, ""};
  th_status status = th_gradcheck(pointwise_function, &x, 1, p, options, &result, &error);
  cr_assert_eq(status, TH_OK, "%s", error.message);
  th_tensor_free(x);
  return result;
}

static inline void expect_verdict(const th_gradcheck_result *result, th_verdict verdict) {
  cr_expect_eq(result->verdict, verdict, "%s (%s), expected %s", th_verdict_name(result->verdict),
               result->rows[0].detail, th_verdict_name(verdict));
}

static inline double square(double x) { return x * x; }
static inline double twice(double x) { return 2 * x; }
static inline double one(double x) { return x == x ? 1 : 0; }
static inline double zero(double x) { return x == x ? 0 : 0; }
static inline double sine(double x) { return sin(x); }
static inline double cosine(double x) { return cos(x); }

static const double points[4] = {0.3, -1.2, 2.5, 0.7};
static inline double wrong_at_one_place(double x) { return x == 0.5 ? 2 * x + 1e-2 : 2 * x; }

#endif
