/* inputs.c: input(n, d, distribution) and input("file.npy"). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "derive/eval.h"

/* Streams of this command's random numbers: one per input and draw. */
enum { PURPOSE = 0x6465 };

static th_random stream_of(th__inputs *in) {
  return (th_random){in->seed, PURPOSE, (uint64_t)in->draw << 20 | (uint64_t)in->count++};
}

static const char *const distributions[] = {"normal",   "positive", "onehot",
                                            "integers", "mask",     NULL};

/* The index of a distribution's name, or -1. */
static int distribution_of(const th__expression *e) {
  if (e->kind != TH__EXPR_NAME && e->kind != TH__EXPR_CALL) return -1;
  for (int i = 0; distributions[i] != NULL; i++)
    if (strcmp(e->name, distributions[i]) == 0) return i;
  return -1;
}

static void fill_normal(th__array *x, th_random stream, th__number sd) {
  for (ptrdiff_t i = 0; i < x->count; i++)
    x->v[i] = sd * (th__number)th_random_normal(stream, (uint64_t)i);
}

static void fill_positive(th__array *x, th_random stream) {
  for (ptrdiff_t i = 0; i < x->count; i++)
    x->v[i] = expl((th__number)th_random_normal(stream, (uint64_t)i));
}

static void fill_onehot(th__array *x, th_random stream) {
  ptrdiff_t n = x->shape[x->ndim - 1];
  for (ptrdiff_t i = 0; i < x->count; i++) x->v[i] = 0;
  for (ptrdiff_t row = 0; n > 0 && row < x->count / n; row++)
    x->v[row * n + (ptrdiff_t)th_random_below(stream, (uint64_t)row, (uint64_t)n)] = 1;
}

/* ---- masks: 1 may be seen ---- */

/* The last row meets the last column. */
static void fill_causal(th__array *x) {
  ptrdiff_t rows = x->shape[x->ndim - 2], columns = x->shape[x->ndim - 1];
  for (ptrdiff_t i = 0; i < x->count; i++)
    x->v[i] = i % columns <= i / columns % rows + columns - rows;
}

/* Each row begins with 1s, at least one, and ends with 0s. */
static void fill_padding(th__array *x, th_random stream) {
  ptrdiff_t n = x->shape[x->ndim - 1];
  for (ptrdiff_t i = 0; i < x->count; i++) {
    uint64_t row = (uint64_t)(i / n);
    x->v[i] = i % n <= (ptrdiff_t)th_random_below(stream, row, (uint64_t)n);
  }
}

/* Three of four are 1, and one of each row in any case. */
static void fill_random(th__array *x, th_random stream) {
  ptrdiff_t n = x->shape[x->ndim - 1];
  for (ptrdiff_t i = 0; i < x->count; i++)
    x->v[i] = th_random_uniform(stream, (uint64_t)i) < 0.75 || i % n == i / n % n;
}

static bool fill_mask(th__evaluator *ev, const th__expression *e, th__array *x, th_random stream) {
  th__calc *c = th__eval_calc(ev);
  const th__expression *kind = e->kind == TH__EXPR_CALL && e->count == 1 ? e->items[0] : NULL;
  const char *name = kind != NULL && kind->kind == TH__EXPR_NAME ? kind->name : "";
  c->place = e->place;
  bool causal = strcmp(name, "causal") == 0;
  if (x->ndim < (causal ? 2 : 1))
    return th__calc_fail(c, "a mask of shape %s", TH__SHAPE_OF(x)) != NULL;
  if (causal)
    fill_causal(x);
  else if (strcmp(name, "padding") == 0)
    fill_padding(x, stream);
  else if (strcmp(name, "random") == 0)
    fill_random(x, stream);
  else
    return th__calc_fail(c, "write mask(causal), mask(padding) or mask(random)") != NULL;
  return true;
}

/* ---- one input ---- */

static bool fill_integers(th__evaluator *ev, const th__expression *e, th__array *x,
                          th_random stream) {
  th__calc *c = th__eval_calc(ev);
  ptrdiff_t limit = 0;
  c->place = e->place;
  if (e->kind != TH__EXPR_CALL || e->count != 1)
    return th__calc_fail(c, "write integers(k): whole numbers from 0 to k - 1") != NULL;
  if (!th__eval_integer(ev, e->items[0], "the limit of integers(k)", &limit)) return false;
  if (limit < 1)
    return th__calc_fail(c, "integers(%td): the limit must be positive", limit) != NULL;
  for (ptrdiff_t i = 0; i < x->count; i++)
    x->v[i] = (th__number)th_random_below(stream, (uint64_t)i, (uint64_t)limit);
  return true;
}

static bool fill(th__evaluator *ev, const th__expression *e, int distribution, th__array *x) {
  th__calc *c = th__eval_calc(ev);
  th_random stream = stream_of(ev->inputs);
  bool call = e != NULL && e->kind == TH__EXPR_CALL;
  switch (distribution) {
  case 1: fill_positive(x, stream); return true;
  case 2:
    if (x->ndim > 0) fill_onehot(x, stream);
    return x->ndim > 0 || th__calc_fail(c, "onehot needs an axis") != NULL;
  case 3: return fill_integers(ev, e, x, stream);
  case 4: return fill_mask(ev, e, x, stream);
  default: break;
  }
  th__number sd = 1;
  if (call) {
    th__vertex *given = e->count == 1 ? th__evaluate(ev, e->items[0]) : NULL;
    if (given == NULL || given->value->count != 1)
      return th__calc_fail(c, "write normal or normal(standard deviation)") != NULL;
    sd = given->value->v[0];
  }
  fill_normal(x, stream, sd * (th__number)ev->inputs->scale);
  return true;
}

static th__vertex *load_input(th__evaluator *ev, const th__expression *e) {
  th__calc *c = th__eval_calc(ev);
  const th__inputs *in = ev->inputs;
  if (in->load == NULL) return th__calc_fail(c, "files cannot be read here");
  size_t room = strlen(in->folder) + strlen(e->name) + 2;
  char *path = th__calc_alloc(c, room);
  if (path == NULL) return NULL;
  bool relative = e->name[0] != '/' && in->folder[0] != '\0';
  snprintf(path, room, "%s%s%s", relative ? in->folder : "", relative ? "/" : "", e->name);
  th_error error = {0};
  th_tensor *tensor = in->load(path, &error);
  if (tensor == NULL) return th__calc_fail(c, "%s", error.message);
  th__array *x = th__array_new(c, th_tensor_ndim(tensor), th_tensor_shape(tensor));
  double *values = x == NULL ? NULL : th__calc_alloc(c, (size_t)x->count * sizeof *values);
  if (values != NULL) th_tensor_read(tensor, values);
  for (ptrdiff_t i = 0; values != NULL && i < x->count; i++) x->v[i] = (th__number)values[i];
  th_tensor_free(tensor);
  return values == NULL ? NULL : th__graph_leaf(ev->graph, x);
}

th__vertex *th__eval_input(th__evaluator *ev, const th__expression *call) {
  th__calc *c = th__eval_calc(ev);
  c->place = call->place;
  if (ev->inputs == NULL)
    return th__calc_fail(c, "an input after loss(...): claims use what is there");
  for (int i = 0; i < call->count; i++)
    if (call->keywords[i] != NULL)
      return th__calc_fail(c, "input has no argument '%s'", call->keywords[i]);
  int sizes = call->count;
  const th__expression *last = sizes > 0 ? call->items[sizes - 1] : NULL;
  if (last != NULL && last->kind == TH__EXPR_STRING) {
    if (sizes != 1) return th__calc_fail(c, "a file brings its own shape: input(\"x.npy\")");
    return load_input(ev, last);
  }
  int distribution = last == NULL ? -1 : distribution_of(last), ndim = 0;
  if (distribution < 0 && last != NULL && last->kind == TH__EXPR_NAME &&
      th__scope_find(ev->values, last->name) == NULL) {
    c->place = last->place;
    return th__calc_fail(c,
                         "'%s' is neither a size nor a distribution; those are normal, positive, "
                         "onehot, integers(k), mask(causal), mask(padding), mask(random)",
                         last->name);
  }
  if (distribution >= 0) sizes--;
  ptrdiff_t shape[TH_MAX_DIMS];
  if (!th__eval_integers(ev, call->items, sizes, "size", &ndim, shape)) return NULL;
  c->place = call->place;
  for (int axis = 0; axis < ndim; axis++)
    if (shape[axis] < 0) return th__calc_fail(c, "a negative size: %td", shape[axis]);
  th__array *x = th__array_new(c, ndim, shape);
  if (x == NULL || !fill(ev, distribution >= 0 ? last : NULL, distribution, x)) return NULL;
  return th__graph_leaf(ev->graph, x);
}
