#include "data/distance.h"

typedef struct draws {
  th_random stream;
  uint64_t next;
} draws;

static ptrdiff_t below(draws *d, ptrdiff_t limit) {
  return (ptrdiff_t)th_random_below(d->stream, d->next++, (uint64_t)limit);
}

static void fill_one(const th__distance *d, draws *from, bool ask_first, int32_t *tokens,
                     int32_t *answer) {
  ptrdiff_t deck[TH__DISTANCE_MOST_KEYS], asked = below(from, d->pairs);
  if (ask_first) asked = 0;
  for (ptrdiff_t key = 0; key < d->keys; key++) deck[key] = key;
  ptrdiff_t questions = d->keys * d->values, fillers = questions + d->keys;
  for (ptrdiff_t i = 0; i < d->pairs; i++) {
    ptrdiff_t pick = i + below(from, d->keys - i), key = deck[pick], value = below(from, d->values);
    deck[pick] = deck[i];
    *tokens++ = (int32_t)(key * d->values + value);
    if (i != asked) continue;
    tokens[d->pairs - 1 - i + d->distance] = (int32_t)(questions + key);
    *answer = (int32_t)(fillers + d->fillers + value);
  }
  for (ptrdiff_t i = 0; i < d->distance; i++)
    *tokens++ = (int32_t)(fillers + below(from, d->fillers));
}

void th__distance_fill(const th__distance *d, th_random stream, bool ask_first, ptrdiff_t count,
                       int32_t *tokens, int32_t *answers) {
  ptrdiff_t length = th__distance_length(d);
  for (ptrdiff_t i = 0; i < count; i++) {
    draws from = {stream, (uint64_t)i << 32}; /* far more draws apart than a sequence has */
    fill_one(d, &from, ask_first, tokens + i * length, answers + i);
  }
}
