/* eval.h: runs a program's expressions into a graph. */
#ifndef TH_DERIVE_EVAL_H
#define TH_DERIVE_EVAL_H

#include "derive/graph.h"
#include "derive/syntax.h"

typedef struct th__binding {
  const char *name;
  th__vertex *value; /* NULL: its line has a fault of its own */
  th__place place;
} th__binding;

typedef struct th__scope {
  int count, room;
  th__binding *list;
} th__scope;

th__binding *th__scope_find(const th__scope *scope, const char *name);
/* Binds, or binds anew. False with a fault. */
bool th__scope_bind(th__calc *c, th__scope *scope, const char *name, th__vertex *value,
                    th__place place);

/* Reads a .npy file; NULL with an error. */
typedef th_tensor *th__load(const char *path, th_error *error);

/* Where input(...) gets its numbers. */
typedef struct th__inputs {
  uint64_t seed;
  int draw;
  double scale;       /* of what is normally distributed */
  const char *folder; /* file names are relative to it */
  th__load *load;     /* NULL: no files */
  int count;          /* inputs made so far */
} th__inputs;

typedef struct th__evaluator th__evaluator;
struct th__evaluator {
  th__graph *graph;
  const th__program *program;
  int functions; /* statements before this one may define the functions that are called */
  th__scope *values;
  const th__scope *helpers; /* looked up before values; NULL: none */
  th__inputs *inputs;       /* NULL: input(...) is not allowed here */
  /* Gradients: the value of a name such as dY, or NULL if it is none (without a fault) or cannot be
   * had (with one). A NULL function: there are none here. */
  th__vertex *(*gradient)(th__evaluator *ev, const char *name);
  void *context;           /* for gradient */
  const th__scope *locals; /* parameters of the function being called */
  int calls, depth;
  const th__expression *replaced, *replacement; /* evaluated in its place; NULL: none */
  bool inherited; /* the fault is another line's: a name without a value was used */
};

/* NULL with a fault. */
th__vertex *th__evaluate(th__evaluator *ev, const th__expression *e);

/* ---- for the built-in functions ---- */

th__calc *th__eval_calc(th__evaluator *ev);
/* A whole number. False with a fault that says what it is for: "axis". */
bool th__eval_integer(th__evaluator *ev, const th__expression *e, const char *what,
                      ptrdiff_t *value);
/* Whole numbers from a list of arguments, tuples and x.shape flattened. At most TH_MAX_DIMS. */
bool th__eval_integers(th__evaluator *ev, th__expression *const *items, int count, const char *what,
                       int *found, ptrdiff_t *values);
/* builtins.c. NULL without a fault: there is no such function. */
th__vertex *th__eval_builtin(th__evaluator *ev, const th__expression *call, bool *known);
/* shaping.c */
th__vertex *th__eval_reshape(th__evaluator *ev, const th__expression *call);
th__vertex *th__eval_transpose(th__evaluator *ev, const th__expression *call);
th__vertex *th__eval_concat(th__evaluator *ev, const th__expression *call);
th__vertex *th__eval_triangle(th__evaluator *ev, th__vertex *x, const th__expression *diagonal,
                              bool upper);
th__vertex *th__eval_diag(th__evaluator *ev, th__vertex *x);
th__vertex *th__eval_outer(th__evaluator *ev, th__vertex *a, th__vertex *b);
th__vertex *th__eval_filled(th__evaluator *ev, const th__expression *call, th__number value);
th__vertex *th__eval_eye(th__evaluator *ev, const th__expression *call);
th__vertex *th__eval_arange(th__evaluator *ev, const th__expression *call);
th__vertex *th__eval_flip(th__evaluator *ev, th__vertex *x, bool all_axes); /* .T and .mT */
/* index.c: x[...] */
th__vertex *th__eval_index(th__evaluator *ev, const th__expression *e);
/* inputs.c: input(...) */
th__vertex *th__eval_input(th__evaluator *ev, const th__expression *call);

#endif
