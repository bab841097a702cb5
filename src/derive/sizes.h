/* sizes.h: other values for the named sizes, so that a square case cannot hide a transpose, nor n = d a
 * division by the wrong one. */
#ifndef TH_DERIVE_SIZES_H
#define TH_DERIVE_SIZES_H

#include "derive/draw.h"

typedef struct th__jitter {
  const ptrdiff_t *sizes; /* one per facts.sizes */
  bool unequal;           /* sizes that are equal as given differ here */
  bool related;           /* and sizes of which one is a multiple of the other stay so (d = 2 h) */
} th__jitter;

/* Up to `room` sets of sizes for which the forward pass of `first` (a draw with the given sizes) fits
 * too, different from what is given and from each other; those that keep more relations come first.
 * Returns how many. Memory is the calc's. */
int th__sizes_vary(th__calc *c, const th__draw *first, int room, th__jitter *found);

#endif
