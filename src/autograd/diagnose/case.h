/* case.h: one diagnosis under way: the evidence, how close a guess must come, room to work in. Each
 * th__try_... looks for one family of mistakes and returns true once it has found and described one. */
#ifndef TH_AUTOGRAD_DIAGNOSE_CASE_H
#define TH_AUTOGRAD_DIAGNOSE_CASE_H

#include <math.h>

#include "autograd/diagnose.h"

#define TH__NO_NUMBER ((double)NAN)

typedef struct th__case {
  const char *name; /* of the gradient */
  int runs;
  const th__evidence *evidence;
  double slack;
  ptrdiff_t count[TH__DIAGNOSIS_RUNS]; /* entries of want */
  double limit[TH__DIAGNOSIS_RUNS];    /* a guess comes this close to want, everywhere */
  double *guess, *spare;               /* room for the largest array of any run, each */
  double budget;                       /* element operations that the search may still take */
  const char *place;                   /* "" or ", in row 3 only", for the sentence */
  th__diagnosis *found;
} th__case;

/* Writes down what was found. Returns true. */
bool th__case_found(th__case *c, th__bug kind, double factor, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

bool th__grid_same_shape(const th__grid *a, const th__grid *b);
ptrdiff_t th__grid_count(const th__grid *grid);
double th__grid_largest(const th__grid *grid); /* max |x|; 0 if empty */
/* Repeats grid's entries along stretched axes to fill `shape`. False if it does not broadcast. */
bool th__grid_stretch(const th__grid *grid, int ndim, const ptrdiff_t *shape, double *out);
/* The same with fewer axes aligned at the first one, if `by_rows`: an entry per row. */
bool th__grid_stretch_rows(const th__grid *grid, bool by_rows, int ndim, const ptrdiff_t *shape,
                           double *out);

/* max |guess - want| of one run within its limit; NaN is not. */
bool th__case_fits(const th__case *c, int run, const double *guess);
bool th__case_same_shapes(const th__case *c); /* got and want, in every run */

/* got = f * want by least squares, for any got of want's shape; false if that does not hold at every
 * entry. f is NaN where both are 0. */
bool th__case_fit_factor(const th__case *c, int run, const double *got, double *f);
/* Finds what a number is made of: value[run] = "1/sqrt(d)", "-2/n", "-1", followed in every run (runs
 * with a NaN are left out). Writes "" and returns false when it is nothing known. Two readings that
 * the runs do not tell apart are joined by " or ". */
bool th__case_name_number(const th__case *c, const double *value, char *text, size_t room);
/* The same number in every run. */
bool th__case_constant(const th__case *c, const double *value);

bool th__try_shape(th__case *c);       /* layout.c: got has another shape */
bool th__try_factor(th__case *c);      /* factor.c: a number, anywhere */
bool th__try_clue_factor(th__case *c); /* factor.c: a named array, element by element */
bool th__try_transpose(th__case *c);   /* layout.c */
bool th__try_rotation(th__case *c);    /* layout.c */
bool th__try_heads(th__case *c);       /* heads.c */
bool th__try_mask(th__case *c);        /* mask.c */
/* terms.c: missing row sums and means; `itself`: of what was got, else of gradients among the clues */
bool th__try_reductions(th__case *c, bool itself);
bool th__try_products(th__case *c);     /* terms.c: other missing terms */
bool th__try_contractions(th__case *c); /* contract.c: missing matrix products, or a term of one */
bool th__try_rows(th__case *c);         /* contract.c: rows overwritten where they should add up */
bool th__try_parts(th__case *c);        /* parts.c: shares of one use missing, negated, scaled */
bool th__try_slice(th__case *c);        /* layout.c: one slice where a sum belongs */

#endif
