/* split: one axis cut into pieces, each a view.
 * Shapes    x (.., n, ..)   y_k (.., n_k, ..), n = sum of n_k
 * Forward   y_k ..i.. = x_..(n_0 + .. + n_(k-1) + i)..
 * Backward  dL/dx_..(n_0 + .. + n_(k-1) + i).. = dL/dy_k ..i.., in place: no node (reshape.c)
 * Checks    concat() gives x back.   tests/ops/test_split.c */
#include "autograd/tape.h"

/* Queries, keys and values of one projection, each used otherwise. */
static th_tensor *run(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  th_tensor *pieces[3];
  th_split(tape, in[0], -1, (const ptrdiff_t[]){2, 3, 2}, 3, pieces);
  th_tensor *turned[] = {th_mul(tape, pieces[2], pieces[0]), pieces[1], pieces[0]};
  return th_concat(tape, turned, 3, -1);
}

static const th_check checks[] = {
    {"", run, .input_count = 1, .inputs = {{"x", TH_FILL_NORMAL, 0, 3, {2, 2, 7}}}}, {0}};

const th_op th__op_split = {"split", NULL, checks};

/* x, or NULL with an error. */
static th_tensor *checked(th_tape *tape, th_tensor *x, int *axis, const ptrdiff_t *sizes,
                          int count) {
  if (!TH__READY(tape, "split", x) || !th__valid_axis(tape, "split", x, axis)) return NULL;
  ptrdiff_t left = x->shape[*axis];
  for (int i = 0; i < count; i++) {
    TH__REQUIRE(tape, sizes[i] >= 0, TH_ERR_VALUE, "split", "size %d is %td; 0 or more is expected",
                i, sizes[i]);
    TH__REQUIRE(tape, sizes[i] <= left, TH_ERR_SHAPE, "split",
                "size %d is %td where %td of the %td of axis %d are left", i, sizes[i], left,
                x->shape[*axis], *axis);
    left -= sizes[i];
  }
  TH__REQUIRE(tape, left == 0, TH_ERR_SHAPE, "split",
              "the %d sizes leave %td of the %td of axis %d over; their sum is to be its length",
              count, left, x->shape[*axis], *axis);
  return x;
}

void th_split(th_tape *tape, th_tensor *x, int axis, const ptrdiff_t *sizes, int count,
              th_tensor **pieces) {
  for (int i = 0; i < count; i++) pieces[i] = NULL;
  if (checked(tape, x, &axis, sizes, count) == NULL) return;
  ptrdiff_t begin = 0;
  for (int i = 0; i < count; i++) {
    pieces[i] = th_slice(tape, x, axis, begin, begin + sizes[i]);
    begin += sizes[i];
  }
  bool complete = count == 0 || pieces[count - 1] != NULL; /* the first error stops all after it */
  for (int i = 0; i < count && !complete; i++) pieces[i] = NULL;
}
