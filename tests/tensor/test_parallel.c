/* Parallel pieces: cut by size alone, the caller's OpenMP setting untouched, fork survives (C25). */
#include <omp.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"
#include "tensor/parallel.h"

typedef struct visits {
  atomic_int seen[1000];
  atomic_int pieces;
} visits;

static void visit(const void *context, ptrdiff_t begin, ptrdiff_t end) {
  visits *v = (visits *)(uintptr_t)context;
  atomic_fetch_add(&v->pieces, 1);
  for (ptrdiff_t i = begin; i < end; i++) atomic_fetch_add(&v->seen[i], 1);
}

Test(parallel, every_item_once_in_the_same_pieces) {
  for (int threads = 1; threads <= 8; threads++) {
    static visits v;
    memset(&v, 0, sizeof v);
    cr_assert_eq(th_set_threads(threads), TH_OK);
    th__parallel(1000, 7, visit, &v);
    cr_assert_eq(v.pieces, 143);
    for (int i = 0; i < 1000; i++) cr_assert_eq(v.seen[i], 1);
  }
  th_set_threads(0);
}

typedef struct rooms {
  atomic_int busy[8], seen[1000];
  int workers;
} rooms;

static void use_room(const void *context, ptrdiff_t begin, ptrdiff_t end, int worker) {
  rooms *r = (rooms *)(uintptr_t)context;
  cr_assert(worker >= 0 && worker < r->workers);
  cr_assert_eq(atomic_fetch_add(&r->busy[worker], 1), 0, "two pieces in room %d", worker);
  for (ptrdiff_t i = begin; i < end; i++) atomic_fetch_add(&r->seen[i], 1);
  atomic_fetch_sub(&r->busy[worker], 1);
}

Test(parallel, a_worker_has_its_room_for_itself) {
  for (int threads = 1; threads <= 8; threads++) {
    static rooms r;
    memset(&r, 0, sizeof r);
    th_set_threads(threads);
    r.workers = th__workers(1000, 7);
    cr_assert_eq(r.workers, threads);
    th__parallel_workers(1000, 7, r.workers, use_room, &r);
    for (int i = 0; i < 1000; i++) cr_assert_eq(r.seen[i], 1);
  }
  cr_assert_eq(th__workers(0, 1), 1);
  cr_assert_eq(th__workers(10, 10), 1);
  cr_assert_eq(th__workers(11, 10), 2);
  th_set_threads(0);
}

Test(parallel, thread_numbers_are_checked) {
  cr_assert_eq(th_set_threads(-1), TH_ERR_VALUE);
  cr_assert_eq(th_set_threads(100000), TH_ERR_VALUE);
  cr_assert_eq(th_set_threads(0), TH_OK);
}

static th_tensor *product(th_tape *tape) {
  th_tensor *a = th_input(tape, TH_F32, TH_SHAPE(256, 256), NULL);
  return th_matmul(tape, a, a, 0);
}

Test(parallel, callers_setting_is_untouched) {
  omp_set_num_threads(3);
  th_tape *tape = th_tape_new();
  cr_assert_not_null(product(tape));
  th_tensor *small = th_input(tape, TH_F32, TH_SHAPE(4, 4), NULL);
  cr_assert_not_null(th_matmul(tape, small, small, 0));
  cr_assert_eq(omp_get_max_threads(), 3);
  th_tape_free(tape);
}

Test(parallel, product_then_fork_then_product, .timeout = 60) {
  th_set_threads(2);
  th_tape *tape = th_tape_new();
  cr_assert_not_null(product(tape));
  pid_t child = fork();
  if (child == 0) {
    alarm(30); /* a child that hangs ends with a signal */
    _exit(product(tape) != NULL ? 0 : 1);
  }
  int status = -1;
  cr_assert_eq(waitpid(child, &status, 0), child);
  cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child's status is %d", status);
  th_tape_free(tape);
}
