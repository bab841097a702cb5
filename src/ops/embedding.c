/* embedding: rows of a table, chosen by id.
 * Shapes    table dtable: (vocabulary, n), ids: (rows), y dy: (rows, n); rows of a table lie ldt apart,
 *           rows of dy ldy; ids lie within 0..vocabulary-1 (checked where recorded)
 * Forward   y_ij = table[id_i]_j
 * Saves     the ids
 * Backward  with g = dL/dy: dL/dtable_vj = sum over the i with id_i = v of g_ij
 *           in the order of the ids. It is cut over columns j, so that a row hit twice is no race and
 *           every number of threads adds in the same order; rows that no id names are not touched.
 * Writes    y: overwrites.  dtable: accumulates (+=), always.
 * Edges     n = 0 or rows = 0: nothing.
 * Checks    the serial sum, bit for bit.   tests/ops/test_embedding.c */
#include <string.h>

#include "ops/real.h"

void RN(embedding_fwd)(ptrdiff_t rows, ptrdiff_t n, const int32_t *ids, const real *table,
                       ptrdiff_t ldt, real *y) {
  if (n == 0) return;
  for (ptrdiff_t i = 0; i < rows; i++)
    memcpy(y + i * n, table + ids[i] * ldt, (size_t)n * sizeof *y);
}

void RN(embedding_bwd)(ptrdiff_t rows, ptrdiff_t n, const int32_t *ids, const real *dy,
                       ptrdiff_t ldy, real *dtable, ptrdiff_t ldt) {
  for (ptrdiff_t i = 0; i < rows; i++) {
    const real *restrict from = dy + i * ldy;
    real *restrict to = dtable + ids[i] * ldt;
#pragma omp simd
    for (ptrdiff_t j = 0; j < n; j++) to[j] += from[j];
  }
}
