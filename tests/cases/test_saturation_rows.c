/* saturation in rows of more than two: ties at the top, weights far below it, any upstream (C04). Each
 * gradient keeps its relative accuracy, against p_i sum_j p_j (g_i - g_j) in long double. */
#include <float.h>

#include "../support.h"

enum { MOST = 5 };

static void exact(int n, const double *x, const double *g, double *dx) {
  long double p[MOST], sum = 0, max = -INFINITY;
  for (int i = 0; i < n; i++) max = x[i] > (double)max ? (long double)x[i] : max;
  for (int i = 0; i < n; i++) sum += p[i] = expl((long double)x[i] - max);
  for (int i = 0; i < n; i++) {
    long double d = 0;
    for (int j = 0; j < n; j++) d += p[j] / sum * ((long double)g[i] - (long double)g[j]);
    dx[i] = (double)(p[i] / sum * d);
  }
}

static const struct {
  int n;
  double x[MOST], g[MOST];
} rows[] = {{2, {20, 0}, {0, 1}},
            {2, {0, 64}, {1, 0}},
            {3, {20, 20, 0}, {1, 1, 0}},
            {3, {40, 0, 0}, {1, 1, 0}},
            {3, {40, 0, 0}, {0, 0, 1}},
            {4, {30, 30, 30, 0}, {2, 2, 2, -1}},
            {5, {10, 0, -20, -40, -60}, {1, 2, 3, 4, 5}},
            {5, {0, 60, 0, 30, 0}, {7, 7, 7, 7, 8}}};

TEST_BOTH(saturation_rows, softmax_and_attention) {
  double limit = dtype == TH_F32 ? 2e-6 : 2e-14, want[MOST];
  th_tape *tape = th_tape_new();
  for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
    int n = rows[r].n;
    exact(n, rows[r].x, rows[r].g, want);
    for (int i = 0; dtype == TH_F32 && i < n; i++)
      if (fabs(want[i]) < (double)FLT_MIN) want[i] = 0; /* as documented */
    th_tensor *x = make(tape, dtype, TH_SHAPE(n), rows[r].x);
    backward_from(tape, th_softmax(tape, x), rows[r].g);
    expect_relative("softmax", th_tensor_grad(x), want, limit);
    th_tape_reset(tape);

    /* The same scores as products with a query of 1, the same upstream as values. */
    th_tensor *q = make(tape, dtype, TH_SHAPE(1, 1, 1, 1), (double[]){1});
    th_tensor *k = make(tape, dtype, TH_SHAPE(1, 1, n, 1), rows[r].x);
    th_tensor *v = make(tape, dtype, TH_SHAPE(1, 1, n, 1), rows[r].g);
    th_attention_options options = {.scale = TH_SCALE_NONE};
    backward_from(tape, th_attention(tape, q, k, v, &options), (double[]){1});
    expect_relative("attention", th_tensor_grad(k), want, limit);
    th_tape_reset(tape);
  }
  th_tape_free(tape);
}
