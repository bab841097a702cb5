/* The diagnosis names planted mistakes, with several runs of different sizes, and stays silent where
 * nothing fits. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "autograd/diagnose.h"

enum { RUNS = 3, ROOM = 1024, CLUES = 8 };

/* Three runs of an [n, m] problem: dy and y (softmax of normal numbers), got and want to be filled in. */
typedef struct bench {
  ptrdiff_t n[RUNS], m[RUNS];
  double y[RUNS][ROOM], dy[RUNS][ROOM], extra[RUNS][ROOM], got[RUNS][ROOM], want[RUNS][ROOM];
  th__constant constants[RUNS][2];
  th__clue clues[RUNS][CLUES];
  int clue_count;
  th__evidence evidence[RUNS];
} bench;

static double normal(int run, uint32_t purpose, ptrdiff_t i) {
  return th_random_normal((th_random){7, purpose, (uint64_t)run}, (uint64_t)i);
}

static th__grid grid(ptrdiff_t n, ptrdiff_t m, const double *data) {
  return (th__grid){2, {n, m}, data};
}

static bench *start(void) {
  static bench b;
  memset(&b, 0, sizeof b);
  static const ptrdiff_t n[RUNS] = {6, 4, 5}, m[RUNS] = {6, 10, 8};
  for (int run = 0; run < RUNS; run++) {
    b.n[run] = n[run];
    b.m[run] = m[run];
    for (ptrdiff_t i = 0; i < n[run]; i++) {
      double sum = 0;
      for (ptrdiff_t j = 0; j < m[run]; j++) {
        ptrdiff_t k = i * m[run] + j;
        b.dy[run][k] = normal(run, 1, k);
        b.extra[run][k] = normal(run, 2, k);
        b.y[run][k] = exp(normal(run, 3, k));
        sum += b.y[run][k];
      }
      for (ptrdiff_t j = 0; j < m[run]; j++) b.y[run][i * m[run] + j] /= sum;
    }
    b.constants[run][0] = (th__constant){"n", (double)n[run]};
    b.constants[run][1] = (th__constant){"m", (double)m[run]};
    b.clues[run][0] = (th__clue){"y", TH__CLUE_VALUE, grid(n[run], m[run], b.y[run])};
    b.clues[run][1] = (th__clue){"dy", TH__CLUE_GRADIENT, grid(n[run], m[run], b.dy[run])};
    b.evidence[run] = (th__evidence){grid(n[run], m[run], b.got[run]),
                                     grid(n[run], m[run], b.want[run]),
                                     2,
                                     b.clues[run],
                                     2,
                                     b.constants[run],
                                     false};
  }
  return &b;
}

static void expect(bench *b, th__bug kind, const char *text) {
  th__diagnosis found;
  cr_assert_eq(th__diagnose("dx", RUNS, b->evidence, 1e-8, &found), TH_OK);
  cr_assert_eq(found.kind, kind, "%s: %s", th__bug_name(found.kind), found.text);
  cr_assert_not_null(strstr(found.text, text), "\"%s\" lacks \"%s\"", found.text, text);
}

#define EACH(b, run, k)                                                                            \
  for (int run = 0; run < RUNS; run++)                                                             \
    for (ptrdiff_t k = 0; k < (b)->n[run] * (b)->m[run]; k++)

static double row_sum(const bench *b, int run, ptrdiff_t row, const double *x, const double *y) {
  double sum = 0;
  for (ptrdiff_t j = row * b->m[run]; j < (row + 1) * b->m[run]; j++)
    sum += x[j] * (y != NULL ? y[j] : 1);
  return sum;
}

Test(diagnose, factor_follows_the_size) {
  bench *b = start();
  EACH(b, run, k) {
    b->want[run][k] = b->dy[run][k];
    b->got[run][k] = b->dy[run][k] / sqrt((double)b->m[run]);
  }
  expect(b, TH__BUG_FACTOR, "right up to a factor 0.40824829 = 1/sqrt(m)");
  EACH(b, run, k) b->got[run][k] = b->dy[run][k] * (double)b->n[run] * 2;
  expect(b, TH__BUG_FACTOR, "right up to a factor 12 = 2*n");
  EACH(b, run, k) b->got[run][k] = b->dy[run][k] * (double)b->n[run] / (double)b->m[run];
  expect(b, TH__BUG_FACTOR, "= n/m");
  EACH(b, run, k) b->got[run][k] = b->dy[run][k] * 0.7319;
  expect(b, TH__BUG_FACTOR, "right up to a factor 0.7319");
  EACH(b, run, k) b->got[run][k] = -b->dy[run][k];
  expect(b, TH__BUG_SIGN, "wrong sign");
  EACH(b, run, k) b->got[run][k] = 0;
  expect(b, TH__BUG_MISSING_TERM, "zero everywhere");
}

Test(diagnose, factor_that_differs_without_a_name_is_no_factor) {
  bench *b = start();
  EACH(b, run, k) {
    b->want[run][k] = b->dy[run][k];
    b->got[run][k] = b->dy[run][k] * (0.3 + 0.127 * run);
  }
  expect(b, TH__BUG_UNKNOWN, "none of the usual mistakes");
}

Test(diagnose, transpose_square_and_by_shape) {
  bench *b = start();
  for (int run = 0; run < RUNS; run++) {
    b->evidence[run].got = grid(b->m[run], b->n[run], b->got[run]);
    for (ptrdiff_t i = 0; i < b->n[run]; i++)
      for (ptrdiff_t j = 0; j < b->m[run]; j++) {
        b->want[run][i * b->m[run] + j] = b->dy[run][i * b->m[run] + j];
        b->got[run][j * b->n[run] + i] = b->dy[run][i * b->m[run] + j];
      }
  }
  expect(b, TH__BUG_TRANSPOSE, "equals its transpose");
}

Test(diagnose, softmax_without_its_row_sum) {
  bench *b = start();
  EACH(b, run, k) {
    b->got[run][k] = b->y[run][k] * b->dy[run][k];
    b->want[run][k] =
        b->y[run][k] * (b->dy[run][k] - row_sum(b, run, k / b->m[run], b->y[run], b->dy[run]));
  }
  expect(b, TH__BUG_MISSING_ROW_SUM, "misses the term -y * sum(y * dy, axis=-1) (fit 1.000)");
}

Test(diagnose, missing_mean_and_its_sign) {
  bench *b = start();
  EACH(b, run, k) {
    double mean = row_sum(b, run, k / b->m[run], b->dy[run], NULL) / (double)b->m[run];
    b->got[run][k] = b->dy[run][k];
    b->want[run][k] = b->dy[run][k] - mean;
  }
  expect(b, TH__BUG_MISSING_MEAN, "misses the term -mean(dy, axis=-1) (fit 1.000)");
  EACH(b, run, k) b->got[run][k] = 2 * b->dy[run][k] - b->want[run][k];
  expect(b, TH__BUG_SIGN, "mean(dy, axis=-1) with the wrong sign");
}

Test(diagnose, missing_product) {
  bench *b = start();
  EACH(b, run, k) {
    b->got[run][k] = b->extra[run][k];
    b->want[run][k] = b->extra[run][k] + b->y[run][k] * (1 - b->y[run][k]) * b->dy[run][k];
  }
  expect(b, TH__BUG_MISSING_TERM, "y*(1 - y) * dy");
}

Test(diagnose, factor_by_a_named_array) {
  bench *b = start();
  EACH(b, run, k) {
    b->got[run][k] = b->dy[run][k];
    b->want[run][k] = b->dy[run][k] * (1 - b->y[run][k] * b->y[run][k]);
  }
  expect(b, TH__BUG_FACTOR, "misses the factor (1 - y**2)");
}

static void add_parts(bench *b, double parts[][RUNS][ROOM], int count) {
  static const char *const names[] = {"Q (line 4)", "K (line 5)", "V (line 6)"};
  for (int run = 0; run < RUNS; run++) {
    for (int p = 0; p < count; p++)
      b->clues[run][2 + p] =
          (th__clue){names[p], TH__CLUE_PART, grid(b->n[run], b->m[run], parts[p][run])};
    b->evidence[run].clue_count = 2 + count;
  }
  EACH(b, run, k) {
    b->want[run][k] = 0;
    for (int p = 0; p < count; p++) b->want[run][k] += parts[p][run][k];
  }
}

Test(diagnose, parts) {
  bench *b = start();
  static double parts[3][RUNS][ROOM];
  for (uint32_t p = 0; p < 3; p++) EACH(b, run, k) parts[p][run][k] = normal(run, 10 + p, k);
  add_parts(b, parts, 3);
  EACH(b, run, k) b->got[run][k] = parts[1][run][k];
  expect(b, TH__BUG_OVERWRITTEN, "only the part through K (line 5)");
  EACH(b, run, k) b->got[run][k] = parts[1][run][k] + parts[2][run][k];
  expect(b, TH__BUG_MISSING_TERM, "misses the part through Q (line 4)");
  EACH(b, run, k) b->got[run][k] = parts[1][run][k] + parts[2][run][k] - parts[0][run][k];
  expect(b, TH__BUG_SIGN, "part through Q (line 4) with the wrong sign");
  EACH(b, run, k)
  b->got[run][k] = parts[1][run][k] + parts[2][run][k] + parts[0][run][k] * (double)b->n[run];
  expect(b, TH__BUG_FACTOR, "part through Q (line 4) right up to a factor 6 = n");
  /* A residual connection: the part is dy itself. */
  EACH(b, run, k) parts[0][run][k] = b->dy[run][k];
  add_parts(b, parts, 2);
  EACH(b, run, k) b->got[run][k] = parts[1][run][k];
  expect(b, TH__BUG_MISSING_TERM, "misses the term dy");
}

Test(diagnose, masks) {
  bench *b = start();
  static double mask[RUNS][ROOM];
  for (int run = 0; run < RUNS; run++) {
    for (ptrdiff_t k = 0; k < b->n[run] * b->m[run]; k++)
      mask[run][k] = k % b->m[run] <= k / b->m[run] ? 1 : 0;
    b->clues[run][2] = (th__clue){"M", TH__CLUE_VALUE, grid(b->n[run], b->m[run], mask[run])};
    b->evidence[run].clue_count = 3;
  }
  EACH(b, run, k) {
    b->want[run][k] = mask[run][k] * b->extra[run][k];
    b->got[run][k] = b->extra[run][k];
  }
  expect(b, TH__BUG_MASK_NOT_APPLIED, "mask M were missing");
  EACH(b, run, k)
  b->got[run][k] = k % b->m[run] + 1 <= k / b->m[run] ? b->extra[run][k] : 0;
  expect(b, TH__BUG_MASK_SHIFTED, "mask M shifted by one column to the left");
  EACH(b, run, k)
  b->got[run][k] = k % b->m[run] - 1 <= k / b->m[run] ? b->extra[run][k] : 0;
  expect(b, TH__BUG_MASK_SHIFTED, "mask M shifted by one column to the right");
  for (int run = 0; run < RUNS; run++) b->evidence[run].clue_count = 2;
  expect(b, TH__BUG_MASK_SHIFTED, "mask shifted");
}

Test(diagnose, heads) {
  bench *b = start();
  EACH(b, run, k) b->want[run][k] = b->dy[run][k];
  EACH(b, run, k) {
    ptrdiff_t m = b->m[run], half = m / 2, column = k % m;
    b->got[run][k] = b->dy[run][k - column + (column + half) % m];
  }
  expect(b, TH__BUG_HEADS_PERMUTED, "2 blocks of axis 1");
  /* [n, 2, m/2] in memory, read as [2, n, m/2]. */
  EACH(b, run, k) {
    ptrdiff_t m = b->m[run], half = m / 2, i = k / m, h = k % m / half, j = k % half;
    b->got[run][(h * b->n[run] + i) * half + j] = b->dy[run][k];
  }
  expect(b, TH__BUG_HEADS_PERMUTED, "heads");
}

Test(diagnose, rotation) {
  for (int clue = 0; clue < 2; clue++) {
    bench *b = start();
    for (int run = 0; run < RUNS; run++) {
      if (!clue) b->evidence[run].clue_count = 1; /* without dy, two runs of one shape must do */
      b->n[run] = 4;
      b->m[run] = 6;
      b->evidence[run].got = grid(4, 6, b->got[run]);
      b->evidence[run].want = grid(4, 6, b->want[run]);
      b->clues[run][0].grid = grid(4, 6, b->y[run]);
      b->clues[run][1].grid = grid(4, 6, b->dy[run]);
      for (ptrdiff_t i = 0; i < 4; i++)
        for (ptrdiff_t j = 0; j < 3; j++) {
          double angle = (double)i * pow(10, -(double)j), c = cos(angle), s = sin(angle);
          const double *g = b->dy[run] + i * 6 + j;
          double *got = b->got[run] + i * 6 + j, *want = b->want[run] + i * 6 + j;
          want[0] = c * g[0] + s * g[3], want[3] = c * g[3] - s * g[0];
          got[0] = c * g[0] - s * g[3], got[3] = c * g[3] + s * g[0];
        }
    }
    expect(b, TH__BUG_ROTATED, "rotated");
  }
}

Test(diagnose, bias_not_summed) {
  bench *b = start();
  for (int run = 0; run < RUNS; run++) {
    b->evidence[run].want = (th__grid){1, {b->m[run]}, b->want[run]};
    for (ptrdiff_t j = 0; j < b->m[run]; j++)
      for (ptrdiff_t i = 0; i < b->n[run]; i++) b->want[run][j] += b->dy[run][i * b->m[run] + j];
  }
  EACH(b, run, k) b->got[run][k] = b->dy[run][k];
  expect(b, TH__BUG_NOT_SUMMED, "not summed over axis 0");
  for (int run = 0; run < RUNS; run++) {
    ptrdiff_t m = b->m[run], last = (b->n[run] - 1) * m;
    b->evidence[run].got = (th__grid){1, {m}, b->got[run]};
    for (ptrdiff_t j = 0; j < m; j++) b->got[run][j] = b->dy[run][last + j];
  }
  expect(b, TH__BUG_NOT_SUMMED, "the last row of dy");
  for (int run = 0; run < RUNS; run++)
    for (ptrdiff_t j = 0; j < b->m[run]; j++) b->got[run][j] = b->want[run][j] / (double)b->n[run];
  expect(b, TH__BUG_FACTOR, "= 1/n");
}

Test(diagnose, says_where) {
  bench *b = start();
  EACH(b, run, k) b->got[run][k] = b->want[run][k] = b->dy[run][k];
  for (int run = 0; run < RUNS; run++)
    for (ptrdiff_t j = 0; j < b->m[run]; j++) b->got[run][2 * b->m[run] + j] *= 2;
  expect(b, TH__BUG_FACTOR, "right up to a factor 2 = 2; only at index 2 of axis 0");
  EACH(b, run, k) b->got[run][k] = b->want[run][k];
  for (int run = 0; run < RUNS; run++) b->got[run][b->m[run] + 3] += 0.25;
  expect(b, TH__BUG_UNKNOWN,
         "1 of 36 entries are wrong, all at index 1 of axis 0, the worst at [1, 3]");
  for (int run = 0; run < RUNS; run++) b->got[run][0] = (double)NAN;
  expect(b, TH__BUG_UNKNOWN, "is not a number in 1 of 36 entries");
}

Test(diagnose, unrelated_numbers_and_lone_scalars_are_unknown) {
  bench *b = start();
  EACH(b, run, k) {
    b->want[run][k] = normal(run, 20, k);
    b->got[run][k] = normal(run, 21, k);
  }
  expect(b, TH__BUG_UNKNOWN, "36 of 36 entries are wrong");
  for (int run = 0; run < RUNS; run++) {
    b->evidence[run].got = (th__grid){0, {0}, b->got[run]};
    b->evidence[run].want = (th__grid){0, {0}, b->want[run]};
    b->evidence[run].clue_count = 0;
  }
  expect(b, TH__BUG_UNKNOWN, "1 of 1 entries");
}
