/* sample.c: which coordinates of a large input are compared.
 *
 * Stratified by row (everything but the last axis): every row gets its share, so a head or a row that
 * is wrong as a whole is never missed while there are as many samples as rows; with fewer samples, rows
 * are taken evenly from the whole length, that is from all samples and heads alike. Within a row the
 * places are drawn without repetition. A single wrong entry in a row of n of which m are looked at is
 * missed with probability 1 - m/n, times the share of rows that are not looked at. */
#include "autograd/gradcheck/gradcheck.h"

ptrdiff_t th__entries_wanted(const th_tensor *x, ptrdiff_t samples) {
  return samples <= 0 || samples >= x->count ? x->count : samples;
}

/* m of the n places of a row, by Floyd's algorithm: entries[] holds m afterwards. */
static void draw_row(ptrdiff_t row, ptrdiff_t n, ptrdiff_t m, th_random stream, ptrdiff_t *entries) {
  for (ptrdiff_t i = 0; i < m; i++) {
    ptrdiff_t top = n - m + i;
    ptrdiff_t pick =
        row * n + (ptrdiff_t)th_random_below(stream, (uint64_t)(row * n + i), (uint64_t)top + 1);
    for (ptrdiff_t before = 0; before < i; before++)
      if (entries[before] == pick) pick = row * n + top;
    entries[i] = pick;
  }
}

ptrdiff_t th__choose_entries(const th_tensor *x, ptrdiff_t samples, th_random stream,
                             ptrdiff_t *entries, double *miss) {
  ptrdiff_t wanted = th__entries_wanted(x, samples), n = x->ndim > 0 ? th__dim(x, -1) : 1;
  *miss = 0;
  if (wanted == x->count) {
    for (ptrdiff_t k = 0; k < wanted; k++) entries[k] = k;
    return wanted;
  }
  ptrdiff_t rows = x->count / n, chosen = 0, strata = rows < wanted ? rows : wanted, least = n;
  for (ptrdiff_t s = 0; s < strata; s++) {
    ptrdiff_t begin = s * rows / strata, end = (s + 1) * rows / strata;
    ptrdiff_t row = begin + (ptrdiff_t)th_random_below(stream, (uint64_t)(x->count + s),
                                                       (uint64_t)(end - begin));
    ptrdiff_t m = (s + 1) * wanted / strata - s * wanted / strata;
    draw_row(row, n, m, stream, entries + chosen);
    chosen += m;
    least = m < least ? m : least;
  }
  *miss = 1 - (double)least / (double)n * ((double)strata / (double)rows);
  return chosen;
}
