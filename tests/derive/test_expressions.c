/* The language against NumPy: the same text gives the same numbers. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>

#include "derive/draw.h"

typedef struct expression {
  const char *text;
  int ndim;
  ptrdiff_t shape[TH_MAX_DIMS];
  const double *values;
} expression;

#include "derive/numpy.inc"

/* Runs "setup; Y = text; loss(Y); dY = G" once. */
static void run(th__draw *draw, th__derivation *d, th__calc *c, const char *text) {
  static char program[8192];
  snprintf(program, sizeof program,
           "%sY = %s\nloss(where(Y > -inf, Y, 0))\ndY = where(Y > -inf, G, 0)\n", setup, text);
  bool parsed = th__parse(c, program, strlen(program), &d->program) &&
                th__facts_find(c, &d->program, &d->facts) &&
                th__claims_find(c, &d->program, &d->facts, &d->claims);
  cr_assert(parsed, "%s: %d:%d: %s", text, c->fault.place.line, c->fault.place.column,
            c->fault.message);
  static ptrdiff_t sizes[16];
  for (int i = 0; i < d->facts.size_count; i++) sizes[i] = d->facts.sizes[i].given;
  th__draw_start(draw, d, 0, 1, sizes);
  cr_assert(th__draw_forward(draw), "%s: column %d: %s", text, draw->calc.fault.place.column,
            draw->calc.fault.message);
}

Test(expressions, equal_numpy) {
  for (size_t k = 0; k < sizeof expressions / sizeof *expressions; k++) {
    const expression *e = &expressions[k];
    th__arena arena = {0};
    th__limits limits = {1000000, 1e8, 10000};
    th__calc c = {.arena = &arena, .limits = limits};
    th__derivation d = {.limits = limits, .folder = ""};
    th__draw draw;
    run(&draw, &d, &c, e->text);
    const th__array *y = th__scope_find(&draw.values, "Y")->value->value;
    cr_assert_eq(y->ndim, e->ndim, "%s: shape %s", e->text, TH__SHAPE_OF(y));
    for (int axis = 0; axis < e->ndim; axis++)
      cr_assert_eq(y->shape[axis], e->shape[axis], "%s: shape %s", e->text, TH__SHAPE_OF(y));
    for (ptrdiff_t i = 0; i < y->count; i++) {
      double got = (double)y->v[i], want = e->values[i];
      cr_assert(got == want || fabs(got - want) <= 4e-15 * fmax(1, fabs(want)),
                "%s: entry %td is %.17g, NumPy says %.17g", e->text, i, got, want);
    }
    th__draw_free(&draw);
    th__arena_free(&arena);
  }
}
