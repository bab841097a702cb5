/* evidence.h: what is collected about a wrong gradient before its mistake is named. */
#ifndef TH_AUTOGRAD_GRADCHECK_EVIDENCE_H
#define TH_AUTOGRAD_GRADCHECK_EVIDENCE_H

#include "autograd/diagnose.h"
#include "autograd/gradcheck/gradcheck.h"

/* One random point: the subject there, the gradients claimed and, for wrong inputs, those measured.
 * Run 0 is the point that was checked. */
typedef struct th__trial {
  th__subject *subject;
  th__gradients got;
  double *want[TH_MAX_INPUTS];
} th__trial;

/* The Jacobian of one input, measured and claimed: [elements of the input][elements of the output]. */
typedef struct th__jacobian {
  const th_tensor *x;
  int output_ndim;
  const ptrdiff_t *output_shape;
  ptrdiff_t inputs, outputs;
  const double *y; /* the output */
  double *want, *got;
  double limit; /* entries closer than this are equal */
} th__jacobian;

/* jacobian.c: memory comes from `memory`. */
th_status th__jacobian_of(th_tape *memory, const th__subject *subject, int input,
                          th__jacobian *jacobian, th_error *error);

/* structure.c: mistakes that show in the Jacobian and not in one gradient. False: none fits. */
bool th__jacobian_diagonal(const th__jacobian *jacobian); /* an operation element by element */
bool th__diagnose_jacobian(const th__jacobian *jacobian, th__diagnosis *found);

/* locate.c: writes "in the backward of attention, through input 1" for a set of wrong inputs (bits),
 * or "". */
void th__locate(const th__subject *subject, unsigned wrong, char *text, size_t room);

#endif
