/* norm.h: what layer_norm and rms_norm share: checks, and a backward whose gradients of x go by rows, those
 * of gain and bias by columns, side by side. */
#ifndef TH_AUTOGRAD_RECORD_NORM_H
#define TH_AUTOGRAD_RECORD_NORM_H

#include "autograd/tape.h"

/* x has a last axis and eps is above 0, or an error. */
bool th__norm_valid(th_tape *tape, const char *op, const th_tensor *x, double eps);
/* `vector` is NULL or as long as x's last axis, or an error that calls it `name`. */
bool th__norm_fits(th_tape *tape, const char *op, const th_tensor *x, const th_tensor *vector,
                   const char *name);

/* Work on items begin .. end-1, as in parallel.h; `cost` of one item as for th__grain. None if count is 0. */
typedef struct th__side {
  void (*run)(const void *context, ptrdiff_t begin, ptrdiff_t end);
  ptrdiff_t count, cost;
} th__side;

/* All pieces of both, on several threads at once unless both write the same memory (`shared`) or there is
 * little to do. */
void th__rows_and_columns(th__side rows, th__side columns, bool shared, const void *context);

#endif
