/* flat.h: all parameters as one long row of numbers, in the order of the list. Optimisers and clipping
 * cut that row into pieces, so that one parallel region serves the many small parameters of a small
 * model and the few large ones of a large model alike. */
#ifndef TH_OPTIM_FLAT_H
#define TH_OPTIM_FLAT_H

#include "tapehead.h"
#include "tensor/parallel.h"

/* At most this many pieces, whatever the size: one number per piece fits on the stack. */
#define TH__FLAT_PIECES 1024

/* Numbers per piece, by the number of all of them alone. */
ptrdiff_t th__flat_grain(ptrdiff_t elements);

/* The part of a parameter that lies in the range being walked. */
typedef struct th__flat {
  const th_params *params;
  ptrdiff_t index;      /* which parameter */
  th_tensor *tensor;    /* it; NULL: the range is done */
  ptrdiff_t from, size; /* its elements from .. from + size - 1 */
  ptrdiff_t left;       /* numbers of the range after these */
} th__flat;

/* for (th__flat f = th__flat_first(params, begin, end); f.tensor != NULL; th__flat_next(&f)) */
th__flat th__flat_first(const th_params *params, ptrdiff_t begin, ptrdiff_t end);
void th__flat_next(th__flat *flat);

#endif
