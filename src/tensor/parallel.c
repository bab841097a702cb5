#include "tensor/parallel.h"

#include <omp.h>
#include <pthread.h>
#include <stdatomic.h>

#include "tapehead.h"

/* ---- subnormals ---- */

/* Within pieces, results below the smallest normal number are 0: many processors take a hundred cycles
 * for a subnormal one, and saturated rows are full of them. Each thread has a setting of its own, which
 * is put back afterwards. */
#if defined(__SSE2__)
#include <xmmintrin.h>

static unsigned start_flushing(void) {
  unsigned before = _mm_getcsr();
  _mm_setcsr(before | _MM_FLUSH_ZERO_ON);
  return before;
}
static void stop_flushing(unsigned before) { _mm_setcsr(before); }
#else
static unsigned start_flushing(void) { return 0; }
static void stop_flushing(unsigned before) { (void)before; }
#endif

/* ---- threads ---- */

/* A piece of this many element operations takes some 5 to 10 microseconds, several times what OpenMP
 * needs to hand one out; below it a second thread does not pay. */
#define PIECE_COST 16384

static atomic_int requested; /* 0: OpenMP's default */
static atomic_bool in_forked_child;

/* GNU OpenMP's threads do not survive fork(), and its next parallel region in the child waits for
 * them forever: a child therefore works on one thread. */
static void after_fork(void) { atomic_store(&in_forked_child, true); }

__attribute__((constructor)) static void watch_forks(void) {
  pthread_atfork(NULL, NULL, after_fork);
}

th_status th_set_threads(int threads) {
  if (threads < 0 || threads > 4096) return TH_ERR_VALUE;
  atomic_store(&requested, threads);
  return TH_OK;
}

int th_threads(void) {
  if (atomic_load(&in_forked_child)) return 1;
  int threads = atomic_load(&requested);
  return threads > 0 ? threads : omp_get_max_threads();
}

ptrdiff_t th__grain(ptrdiff_t cost) {
  if (cost < 1) cost = 1;
  return cost >= PIECE_COST ? 1 : PIECE_COST / cost;
}

int th__workers(ptrdiff_t count, ptrdiff_t grain) {
  ptrdiff_t pieces = count <= 0 ? 1 : (count - 1) / (grain < 1 ? 1 : grain) + 1;
  int threads = pieces > 1 ? th_threads() : 1;
  return threads > pieces ? (int)pieces : threads;
}

/* BLAS runs single-threaded inside a parallel region, but outside one it starts a team of its own
 * unless this thread's OpenMP setting is 1. That setting is the caller's: it is put back. */
static void run_serially(ptrdiff_t count, ptrdiff_t grain, th__worker_piece *piece,
                         const void *context) {
  int callers = omp_get_max_threads();
  if (callers > 1) omp_set_num_threads(1);
  unsigned before = start_flushing();
  for (ptrdiff_t begin = 0; begin < count; begin += grain)
    piece(context, begin, count - begin > grain ? begin + grain : count, 0);
  stop_flushing(before);
  if (callers > 1) omp_set_num_threads(callers);
}

void th__parallel_workers(ptrdiff_t count, ptrdiff_t grain, int workers, th__worker_piece *piece,
                          const void *context) {
  if (count <= 0) return;
  if (grain < 1) grain = 1;
  ptrdiff_t pieces = (count - 1) / grain + 1;
  if (workers <= 1) {
    run_serially(count, grain, piece, context);
    return;
  }
#pragma omp parallel num_threads(workers)
  {
    unsigned before = start_flushing();
#pragma omp for schedule(dynamic, 1) nowait
    for (ptrdiff_t i = 0; i < pieces; i++)
      piece(context, i * grain, i + 1 < pieces ? (i + 1) * grain : count, omp_get_thread_num());
    stop_flushing(before);
  }
}

typedef struct plain {
  th__piece *piece;
  const void *context;
} plain;

static void run_plain(const void *context, ptrdiff_t begin, ptrdiff_t end, int worker) {
  (void)worker;
  const plain *p = context;
  p->piece(p->context, begin, end);
}

void th__parallel(ptrdiff_t count, ptrdiff_t grain, th__piece *piece, const void *context) {
  const plain p = {piece, context};
  th__parallel_workers(count, grain, th__workers(count, grain), run_plain, &p);
}
