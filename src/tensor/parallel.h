/* parallel.h: the one place that knows about threads. Kernels are serial and work on a range. */
#ifndef TH_TENSOR_PARALLEL_H
#define TH_TENSOR_PARALLEL_H

#include <stddef.h>

/* Works on items begin <= i < end. */
typedef void th__piece(const void *context, ptrdiff_t begin, ptrdiff_t end);

/* Cuts 0 .. count-1 into pieces of `grain` items and runs them, in parallel if there are several. The
 * cut depends on count and grain only, never on the number of threads: as long as two pieces write
 * to different memory, every number of threads gives the same bits. Products (BLAS) run on one thread
 * inside a piece, and only there: call them nowhere else. */
void th__parallel(ptrdiff_t count, ptrdiff_t grain, th__piece *piece, const void *context);

/* The same for pieces that need room of their own: `worker` is 0 .. workers - 1, and of two pieces that
 * run at the same time each has another. th__workers() is how many there are any use for now. */
typedef void th__worker_piece(const void *context, ptrdiff_t begin, ptrdiff_t end, int worker);
void th__parallel_workers(ptrdiff_t count, ptrdiff_t grain, int workers, th__worker_piece *piece,
                          const void *context);
int th__workers(ptrdiff_t count, ptrdiff_t grain);

/* Items per piece when one item costs about `cost` simple element operations (a load, a few
 * multiply-adds, a store): small enough to balance, large enough to pay for handing out. */
ptrdiff_t th__grain(ptrdiff_t cost);

#endif
