/* distance.h: recall at a distance: some pairs, then `distance` tokens that mean nothing, then one
 * question, which is the last token:
 *
 *     k3=v1 k0=v6 k7=v6 k2=v0   f f f f ... f   k0?   -> v6
 *
 * A pair is one token that stands for key and value together, so that one layer of attention can match
 * it; the keys of a sequence are all different. A filler is drawn from a few tokens of their own. Token
 * numbers: pairs (key * values + value), questions (one per key), fillers, answers (one per value). */
#ifndef TH_DATA_DISTANCE_H
#define TH_DATA_DISTANCE_H

#include "tapehead.h"

typedef struct th__distance {
  ptrdiff_t pairs, keys, values, fillers; /* pairs <= keys <= TH__DISTANCE_MOST_KEYS */
  ptrdiff_t distance;                     /* fillers between the last pair and the question */
} th__distance;
enum { TH__DISTANCE_MOST_KEYS = 64 };

static inline ptrdiff_t th__distance_length(const th__distance *d) {
  return d->pairs + d->distance + 1;
}
static inline ptrdiff_t th__distance_vocab(const th__distance *d) {
  return d->keys * d->values + d->keys + d->fillers + d->values;
}

/* `count` sequences of th__distance_length() tokens each, and their answers (token numbers). Which pair
 * is asked for is drawn, too, or is the first one. Sequence i is a function of (d, stream, i). */
void th__distance_fill(const th__distance *d, th_random stream, bool ask_first, ptrdiff_t count,
                       int32_t *tokens, int32_t *answers);

#endif
