/* builtins.c: the functions of the language, and how their arguments are read. */
#include <string.h>

#include "derive/eval.h"

enum { MAX_ARGUMENTS = 4 };

/* A call's arguments by parameter; NULL where one is left out. */
typedef struct arguments {
  const th__expression *call;
  const th__expression *given[MAX_ARGUMENTS];
} arguments;

typedef th__vertex *builtin_function(th__evaluator *ev, const arguments *a, int code);

typedef struct builtin {
  const char *name;
  const char *parameters[MAX_ARGUMENTS]; /* NULL: no more. None at all: the function reads the call */
  int needed;                            /* of them; the others have defaults */
  int code;
  builtin_function *run;
} builtin;

/* ---- arguments ---- */

static bool read_arguments(th__evaluator *ev, const builtin *b, const th__expression *call,
                           arguments *a) {
  th__calc *c = th__eval_calc(ev);
  *a = (arguments){.call = call};
  if (b->parameters[0] == NULL) return true;
  for (int i = 0; i < call->count; i++) {
    int at = i;
    if (call->keywords[i] != NULL)
      for (at = 0; at < MAX_ARGUMENTS && b->parameters[at] != NULL; at++)
        if (strcmp(b->parameters[at], call->keywords[i]) == 0) break;
    c->place = call->items[i]->place;
    if (at >= MAX_ARGUMENTS || b->parameters[at] == NULL) {
      if (call->keywords[i] != NULL)
        return th__calc_fail(c, "%s has no argument '%s'", b->name, call->keywords[i]) != NULL;
      return th__calc_fail(c, "%s has too many arguments", b->name) != NULL;
    }
    if (a->given[at] != NULL)
      return th__calc_fail(c, "%s has its argument '%s' twice", b->name, b->parameters[at]) != NULL;
    a->given[at] = call->items[i];
  }
  c->place = call->place;
  for (int i = 0; i < b->needed; i++)
    if (a->given[i] == NULL)
      return th__calc_fail(c, "%s lacks its argument '%s'", b->name, b->parameters[i]) != NULL;
  return true;
}

static bool is_none(const th__expression *e) {
  return e == NULL || (e->kind == TH__EXPR_NAME && strcmp(e->name, "None") == 0);
}

/* True, False, 1 or 0. */
static bool read_flag(th__evaluator *ev, const th__expression *e, bool *flag) {
  ptrdiff_t value = 0;
  if (!is_none(e) && !th__eval_integer(ev, e, "keepdims", &value)) return false;
  *flag = value != 0;
  return true;
}

/* One axis, from the end if negative. */
static bool normal_axis(th__evaluator *ev, const th__vertex *x, ptrdiff_t given, int *axis) {
  ptrdiff_t ndim = x->value->ndim;
  if (given < -ndim || given >= ndim)
    return th__calc_fail(th__eval_calc(ev), "axis %td of an array of shape %s", given,
                         TH__SHAPE_OF(x->value)) != NULL;
  *axis = (int)(given < 0 ? given + ndim : given);
  return true;
}

/* axis=None (all), a number, or several. */
static bool read_axes(th__evaluator *ev, const th__vertex *x, const th__expression *axis,
                      const th__expression *keep, th__axes *axes) {
  *axes = (th__axes){0};
  if (!read_flag(ev, keep, &axes->keep)) return false;
  if (is_none(axis)) {
    axes->set = (1u << x->value->ndim) - 1;
    return true;
  }
  ptrdiff_t values[TH_MAX_DIMS];
  int found = 0;
  th__expression *const items[] = {(th__expression *)axis};
  if (!th__eval_integers(ev, items, 1, "axis", &found, values)) return false;
  th__eval_calc(ev)->place = axis->place;
  for (int i = 0; i < found; i++) {
    int one = 0;
    if (!normal_axis(ev, x, values[i], &one)) return false;
    if (axes->set >> one & 1)
      return th__calc_fail(th__eval_calc(ev), "axis %td twice", values[i]) != NULL;
    axes->set |= 1u << one;
  }
  return true;
}

/* ---- functions ---- */

static th__vertex *value_of(th__evaluator *ev, const arguments *a, int i) {
  th__vertex *x = th__evaluate(ev, a->given[i]);
  th__eval_calc(ev)->place = a->call->operator_place;
  return x;
}

static th__vertex *run_map1(th__evaluator *ev, const arguments *a, int code) {
  return th__graph_map1(ev->graph, (th__function1)code, value_of(ev, a, 0));
}

static th__vertex *run_reduction(th__evaluator *ev, const arguments *a, int code) {
  th__vertex *x = value_of(ev, a, 0);
  th__axes axes;
  if (x == NULL || !read_axes(ev, x, a->given[1], a->given[2], &axes)) return NULL;
  th__eval_calc(ev)->place = a->call->operator_place;
  return th__graph_reduce(ev->graph, (th__operation)code, x, axes);
}

static th__vertex *run_min(th__evaluator *ev, const arguments *a, int code) {
  (void)code;
  th__vertex *x = value_of(ev, a, 0);
  th__axes axes;
  if (x == NULL || !read_axes(ev, x, a->given[1], a->given[2], &axes)) return NULL;
  th__vertex *top =
      th__graph_reduce(ev->graph, TH__OP_MAX, th__graph_map1(ev->graph, TH__NEGATE, x), axes);
  return th__graph_map1(ev->graph, TH__NEGATE, top);
}

static th__vertex *mean_of(th__evaluator *ev, th__vertex *x, th__axes axes) {
  ptrdiff_t count = 1;
  for (int axis = 0; axis < x->value->ndim; axis++)
    if (axes.set >> axis & 1) count *= x->value->shape[axis];
  if (count == 0)
    return th__calc_fail(th__eval_calc(ev), "the mean of no entries: shape %s",
                         TH__SHAPE_OF(x->value));
  th__vertex *sum = th__graph_reduce(ev->graph, TH__OP_SUM, x, axes);
  return th__graph_map2(ev->graph, TH__DIVIDE, sum, th__graph_number(ev->graph, (th__number)count));
}

static th__vertex *run_mean(th__evaluator *ev, const arguments *a, int code) {
  (void)code;
  th__vertex *x = value_of(ev, a, 0);
  th__axes axes;
  if (x == NULL || !read_axes(ev, x, a->given[1], a->given[2], &axes)) return NULL;
  th__eval_calc(ev)->place = a->call->operator_place;
  return mean_of(ev, x, axes);
}

/* The biased variance, as in a layer norm. */
static th__vertex *run_var(th__evaluator *ev, const arguments *a, int code) {
  (void)code;
  th__vertex *x = value_of(ev, a, 0);
  th__axes axes;
  if (x == NULL || !read_axes(ev, x, a->given[1], a->given[2], &axes)) return NULL;
  th__vertex *mean = mean_of(ev, x, (th__axes){axes.set, true});
  th__vertex *away = th__graph_map2(ev->graph, TH__SUBTRACT, x, mean);
  th__vertex *square = th__graph_map2(ev->graph, TH__MULTIPLY, away, away);
  return square == NULL ? NULL : mean_of(ev, square, axes);
}

static th__vertex *run_norm(th__evaluator *ev, const arguments *a, int code) {
  (void)code;
  th__vertex *x = value_of(ev, a, 0);
  th__axes axes;
  if (x == NULL || !read_axes(ev, x, a->given[1], a->given[2], &axes)) return NULL;
  th__vertex *square = th__graph_map2(ev->graph, TH__MULTIPLY, x, x);
  return th__graph_map1(ev->graph, TH__SQRT, th__graph_reduce(ev->graph, TH__OP_SUM, square, axes));
}

/* code 1: the logarithm of it, x - logsumexp(x). */
static th__vertex *run_softmax(th__evaluator *ev, const arguments *a, int code) {
  th__calc *c = th__eval_calc(ev);
  th__vertex *x = value_of(ev, a, 0);
  ptrdiff_t given = -1;
  int axis = 0;
  if (x == NULL || (a->given[1] != NULL && !th__eval_integer(ev, a->given[1], "axis", &given)))
    return NULL;
  c->place = a->call->operator_place;
  if (x->value->ndim == 0) return th__calc_fail(c, "softmax of a single number");
  if (!normal_axis(ev, x, given, &axis)) return NULL;
  if (code == 0) return th__graph_softmax(ev->graph, x, axis);
  th__axes axes = {1u << axis, true};
  return th__graph_map2(ev->graph, TH__SUBTRACT, x,
                        th__graph_reduce(ev->graph, TH__OP_LOGSUMEXP, x, axes));
}

static th__vertex *run_where(th__evaluator *ev, const arguments *a, int code) {
  (void)code;
  th__vertex *condition = value_of(ev, a, 0), *yes = value_of(ev, a, 1), *no = value_of(ev, a, 2);
  return th__graph_where(ev->graph, condition, yes, no);
}

/* maximum (code GREATER) and minimum (LESS) of two values. */
static th__vertex *run_choice(th__evaluator *ev, const arguments *a, int code) {
  th__vertex *x = value_of(ev, a, 0), *y = value_of(ev, a, 1);
  th__vertex *first = th__graph_map2(ev->graph, (th__function2)code, x, y);
  return th__graph_where(ev->graph, first, x, y);
}

static th__vertex *run_matmul(th__evaluator *ev, const arguments *a, int code) {
  (void)code;
  th__vertex *x = value_of(ev, a, 0), *y = value_of(ev, a, 1);
  return th__graph_matmul(ev->graph, x, y);
}

static th__vertex *run_outer(th__evaluator *ev, const arguments *a, int code) {
  (void)code;
  th__vertex *x = value_of(ev, a, 0), *y = value_of(ev, a, 1);
  return th__eval_outer(ev, x, y);
}

static th__vertex *run_triangle(th__evaluator *ev, const arguments *a, int code) {
  return th__eval_triangle(ev, value_of(ev, a, 0), a->given[1], code != 0);
}

static th__vertex *run_diag(th__evaluator *ev, const arguments *a, int code) {
  (void)code;
  return th__eval_diag(ev, value_of(ev, a, 0));
}

/* ---- functions that read the call themselves ---- */

static th__vertex *run_reshape(th__evaluator *ev, const arguments *a, int code) {
  (void)code;
  return th__eval_reshape(ev, a->call);
}

static th__vertex *run_transpose(th__evaluator *ev, const arguments *a, int code) {
  (void)code;
  return th__eval_transpose(ev, a->call);
}

static th__vertex *run_concat(th__evaluator *ev, const arguments *a, int code) {
  (void)code;
  return th__eval_concat(ev, a->call);
}

static th__vertex *run_filled(th__evaluator *ev, const arguments *a, int code) {
  return th__eval_filled(ev, a->call, code);
}

static th__vertex *run_eye(th__evaluator *ev, const arguments *a, int code) {
  (void)code;
  return th__eval_eye(ev, a->call);
}

static th__vertex *run_arange(th__evaluator *ev, const arguments *a, int code) {
  (void)code;
  return th__eval_arange(ev, a->call);
}

static th__vertex *run_input(th__evaluator *ev, const arguments *a, int code) {
  (void)code;
  return th__eval_input(ev, a->call);
}

#define ONE                                                                                        \
  { "x" }
#define TWO                                                                                        \
  { "a", "b" }
#define REDUCTION                                                                                  \
  { "x", "axis", "keepdims" }
#define WHOLE_CALL                                                                                 \
  { NULL }

static const builtin builtins[] = {
    {"exp", ONE, 1, TH__EXP, run_map1},
    {"log", ONE, 1, TH__LOG, run_map1},
    {"sqrt", ONE, 1, TH__SQRT, run_map1},
    {"tanh", ONE, 1, TH__TANH, run_map1},
    {"erf", ONE, 1, TH__ERF, run_map1},
    {"sigmoid", ONE, 1, TH__SIGMOID, run_map1},
    {"relu", ONE, 1, TH__RELU, run_map1},
    {"abs", ONE, 1, TH__ABS, run_map1},
    {"sign", ONE, 1, TH__SIGN, run_map1},
    {"sin", ONE, 1, TH__SIN, run_map1},
    {"cos", ONE, 1, TH__COS, run_map1},
    {"sum", REDUCTION, 1, TH__OP_SUM, run_reduction},
    {"max", REDUCTION, 1, TH__OP_MAX, run_reduction},
    {"logsumexp", REDUCTION, 1, TH__OP_LOGSUMEXP, run_reduction},
    {"min", REDUCTION, 1, 0, run_min},
    {"mean", REDUCTION, 1, 0, run_mean},
    {"var", REDUCTION, 1, 0, run_var},
    {"norm", REDUCTION, 1, 0, run_norm},
    {"softmax", {"x", "axis"}, 1, 0, run_softmax},
    {"log_softmax", {"x", "axis"}, 1, 1, run_softmax},
    {"where", {"condition", "a", "b"}, 3, 0, run_where},
    {"maximum", TWO, 2, TH__GREATER, run_choice},
    {"minimum", TWO, 2, TH__LESS, run_choice},
    {"matmul", TWO, 2, 0, run_matmul},
    {"dot", TWO, 2, 0, run_matmul},
    {"outer", TWO, 2, 0, run_outer},
    {"tril", {"x", "k"}, 1, 0, run_triangle},
    {"triu", {"x", "k"}, 1, 1, run_triangle},
    {"diag", ONE, 1, 0, run_diag},
    {"reshape", WHOLE_CALL, 0, 0, run_reshape},
    {"transpose", WHOLE_CALL, 0, 0, run_transpose},
    {"concat", WHOLE_CALL, 0, 0, run_concat},
    {"concatenate", WHOLE_CALL, 0, 0, run_concat},
    {"ones", WHOLE_CALL, 0, 1, run_filled},
    {"zeros", WHOLE_CALL, 0, 0, run_filled},
    {"eye", WHOLE_CALL, 0, 0, run_eye},
    {"arange", WHOLE_CALL, 0, 0, run_arange},
    {"input", WHOLE_CALL, 0, 0, run_input},
};

th__vertex *th__eval_builtin(th__evaluator *ev, const th__expression *call, bool *known) {
  for (size_t i = 0; i < sizeof builtins / sizeof *builtins; i++) {
    const builtin *b = &builtins[i];
    if (strcmp(b->name, call->name) != 0) continue;
    arguments a;
    if (!read_arguments(ev, b, call, &a)) return NULL;
    return b->run(ev, &a, b->code);
  }
  *known = false;
  return NULL;
}
