/* apart: every pair of windows into one tensor against the elements they have, and windows that ops need. */
#include "../support.h"

enum { ROWS = 4, WIDTH = 7 };

/* Windows [.., n] into [2, ROWS, WIDTH] or [ROWS, WIDTH]: which elements they hold. */
static void mark(const th_tensor *window, const th_tensor *base, bool *held) {
  for (ptrdiff_t i = 0; i < window->count; i++) {
    const char *at = th__at(window, th__offset(window, i));
    held[(at - (const char *)base->data) / (ptrdiff_t)sizeof(double)] = true;
  }
}

static bool meet(const th_tensor *a, const th_tensor *b, const th_tensor *base) {
  bool held[2][2 * ROWS * WIDTH] = {{0}};
  mark(a, base, held[0]), mark(b, base, held[1]);
  for (int i = 0; i < 2 * ROWS * WIDTH; i++)
    if (held[0][i] && held[1][i]) return true;
  return false;
}

static th_tensor *window(th_tape *tape, th_tensor *base, ptrdiff_t row, ptrdiff_t column,
                         ptrdiff_t rows, ptrdiff_t n) {
  th_tensor *high = th_slice(tape, base, -2, row, row + rows);
  return th_slice(tape, high, -1, column, column + n);
}

/* Never true of windows that meet; and true of all that hold columns of their own, or rows. */
static void every_pair(int ndim, ptrdiff_t rows, ptrdiff_t n) {
  th_tape *tape = th_tape_new();
  const ptrdiff_t shape[] = {2, ROWS, WIDTH};
  th_tensor *base = th_input(tape, TH_F64, ndim, shape + 3 - ndim, NULL);
  for (ptrdiff_t r = 0; r + rows <= ROWS; r++)
    for (ptrdiff_t c = 0; c + n <= WIDTH; c++)
      for (ptrdiff_t s = 0; s + rows <= ROWS; s++)
        for (ptrdiff_t d = 0; d + n <= WIDTH; d++) {
          th_tensor *a = window(tape, base, r, c, rows, n), *b = window(tape, base, s, d, rows, n);
          bool apart = th__apart(a, b);
          cr_assert(!apart || !meet(a, b, base), "[%td, %td] and [%td, %td] of %td x %td meet", r,
                    c, s, d, rows, n);
          if (ndim == 3) { /* outer axes whose strides are no multiples of a row */
            th_tensor *at = th_transpose(tape, a, 0, 1), *bt = th_transpose(tape, b, 0, 1);
            cr_assert(!th__apart(at, bt) || !meet(a, b, base), "transposed");
          }
          bool same_rows = r == s && (c + n <= d || d + n <= c) && rows > 1;
          bool other_rows = ndim == 2 && (r + rows <= s || s + rows <= r);
          if (same_rows || other_rows)
            cr_assert(apart, "[%td, %td] and [%td, %td] of %td x %td", r, c, s, d, rows, n);
        }
  th_tape_free(tape);
}

Test(apart, every_pair_of_windows) {
  for (ptrdiff_t rows = 1; rows <= ROWS; rows++)
    for (ptrdiff_t n = 1; n <= WIDTH; n++) every_pair(2, rows, n), every_pair(3, rows, n);
}

Test(apart, other_forms) {
  th_tape *tape = th_tape_new();
  th_tensor *x = th_input(tape, TH_F32, TH_SHAPE(3, 8), NULL);
  cr_assert_not(th__apart(x, x));
  cr_assert(th__apart(x, th_input(tape, TH_F32, TH_SHAPE(3, 8), NULL)));
  th_tensor *line = th_reshape(tape, x, TH_SHAPE(24));
  cr_assert(th__apart(th_slice(tape, line, 0, 0, 5), th_slice(tape, line, 0, 5, 10)));
  cr_assert_not(th__apart(th_slice(tape, line, 0, 0, 5), th_slice(tape, line, 0, 4, 9)));
  th_tensor *scalar = th_input(tape, TH_F32, TH_SCALAR, NULL);
  cr_assert_not(th__apart(scalar, scalar));
  th_tensor *none = th_input(tape, TH_F32, TH_SHAPE(0, 8), NULL);
  cr_assert(th__apart(none, none));
  th_tape_free(tape);
}
