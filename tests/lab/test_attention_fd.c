/* attention_fd: the differences resolve gradients of any size, and tell right gradients from wrong. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#include "lab/attention_fd.h"

enum { KEYS = 6, DK = 24, DV = 10 };

typedef struct row_memory {
  double q[DK], k[KEYS * DK], v[KEYS * DV], g[DV], dq[DK], dk[KEYS * DK];
} row_memory;

static void fill(double *x, int n, double sd, uint32_t purpose) {
  for (int i = 0; i < n; i++) x[i] = sd * th_random_normal((th_random){7, purpose, 0}, (uint64_t)i);
}

static th__attention_case case_of(const row_memory *m, double scale) {
  return (th__attention_case){KEYS, DK, DV, scale, m->q, m->k, m->v, m->g, m->dq, m->dk};
}

static void new_row(row_memory *m) {
  fill(m->q, DK, 1, 1);
  fill(m->k, KEYS * DK, 1, 2);
  fill(m->v, KEYS * DV, 1, 3);
  fill(m->g, DV, 1, 4);
  for (int c = 0; c < DK; c++) m->k[c] += 0.3 * m->q[c]; /* key 0 has the largest logit */
}

/* The library's gradients, in f64. */
static void differentiate(row_memory *m, double scale) {
  th_tape *tape = th_tape_new();
  th_tensor *q = th_input_grad(tape, TH_F64, TH_SHAPE(1, 1, 1, DK), m->q);
  th_tensor *k = th_input_grad(tape, TH_F64, TH_SHAPE(1, 1, KEYS, DK), m->k);
  th_tensor *v = th_input(tape, TH_F64, TH_SHAPE(1, 1, KEYS, DV), m->v);
  th_tensor *g = th_input(tape, TH_F64, TH_SHAPE(1, 1, 1, DV), m->g);
  th_tensor *y = th_attention(tape, q, k, v,
                              &(th_attention_options){.scale = TH_SCALE_FACTOR, .factor = scale});
  cr_assert_eq(th_backward_from(tape, y, g), TH_OK, "%s", th_tape_message(tape));
  th_tensor_read(th_tensor_grad(q), m->dq);
  th_tensor_read(th_tensor_grad(k), m->dk);
  th_tape_free(tape);
}

static void measure(const th__attention_case *c, double *dq_error, double *dk_error) {
  th_tape *tape = th_tape_new();
  th_random directions = {3, 9, 0};
  cr_assert_eq(th__attention_fd(tape, c, directions, dq_error, dk_error), TH_OK, "%s",
               th_tape_message(tape));
  th_tape_free(tape);
}

static double largest(const double *x, int n) {
  double most = 0;
  for (int i = 0; i < n; i++) most = fmax(most, fabs(x[i]));
  return most;
}

/* From a flat softmax to one whose gradient is some 1e-200. */
Test(attention_fd, right_at_every_size) {
  row_memory m;
  new_row(&m);
  const double scales[] = {1e-3, 0.2, 1, -1, 4, 20, 60};
  double least = 1;
  for (int i = 0; i < 7; i++) {
    differentiate(&m, scales[i]);
    th__attention_case c = case_of(&m, scales[i]);
    double dq_error, dk_error;
    measure(&c, &dq_error, &dk_error);
    cr_assert(dq_error <= 1e-9 && dk_error <= 1e-9, "scale %g: errors %.3g, %.3g", scales[i],
              dq_error, dk_error);
    least = fmin(least, largest(m.dq, DK));
  }
  cr_assert(0 < least && least < 1e-100, "no tiny gradient among them: %.3g", least);
}

/* d_k 64, q = k0 = ones, k1 = zeros, v = 1, 0: each entry of dL/dq is p (1 - p) with
 * p = 1 / (1 + e^-64), 1.6038108905e-28. A difference of the output itself would see 0. */
Test(attention_fd, dead_gradient_is_resolved) {
  double ones[64], zeros[64] = {0}, k[128] = {0}, v[] = {1, 0}, g = 1, dq[64], dk[128];
  for (int i = 0; i < 64; i++) {
    ones[i] = k[i] = 1;
    dq[i] = dk[i] = 1.6038108905e-28;
    dk[64 + i] = -1.6038108905e-28;
  }
  th__attention_case c = {2, 64, 1, 1, ones, k, v, &g, dq, dk};
  double dq_error, dk_error;
  measure(&c, &dq_error, &dk_error);
  cr_assert(dq_error <= 1e-10 && dk_error <= 1e-10, "errors %.3g, %.3g", dq_error, dk_error);

  c.dq = zeros; /* what a backward that cancels would claim */
  measure(&c, &dq_error, &dk_error);
  cr_assert(dq_error > 0.999 && dk_error <= 1e-10);
}

static void scale_by(double *x, int n, double factor) {
  for (int i = 0; i < n; i++) x[i] *= factor;
}

/* Faults in one gradient show there, and not in the other. */
Test(attention_fd, wrong_gradients_are_seen) {
  row_memory m;
  double dq_error, dk_error;
  const double factors[] = {0, -1, 2, 1.001}, expected[] = {1, 2, 0.5, 0.001 / 1.001};
  new_row(&m);
  for (int i = 0; i < 4; i++) {
    th__attention_case c = case_of(&m, 3);
    differentiate(&m, 3);
    scale_by(m.dq, DK, factors[i]);
    measure(&c, &dq_error, &dk_error);
    cr_assert_float_eq(dq_error, expected[i], 1e-8);
    cr_assert(dk_error <= 1e-9);
    differentiate(&m, 3);
    scale_by(m.dk, KEYS * DK, factors[i]);
    measure(&c, &dq_error, &dk_error);
    cr_assert_float_eq(dk_error, expected[i], 1e-8);
    cr_assert(dq_error <= 1e-9);
  }
}

/* One entry, the largest, is wrong by a tenth. */
Test(attention_fd, one_wrong_entry_is_seen) {
  row_memory m;
  new_row(&m);
  differentiate(&m, 1);
  int worst = 0;
  for (int i = 0; i < DK; i++)
    if (fabs(m.dq[i]) > fabs(m.dq[worst])) worst = i;
  m.dq[worst] *= 1.1;
  th__attention_case c = case_of(&m, 1);
  double dq_error, dk_error;
  measure(&c, &dq_error, &dk_error);
  cr_assert(dq_error > 1e-3, "error %.3g", dq_error);
}

/* Nothing to differentiate: scale 0, a single key. */
Test(attention_fd, gradients_that_are_zero) {
  row_memory m;
  double dq_error, dk_error;
  new_row(&m);
  differentiate(&m, 0);
  th__attention_case c = case_of(&m, 0);
  measure(&c, &dq_error, &dk_error);
  cr_assert(dq_error == 0 && dk_error == 0);
  c.scale = 1;
  c.keys = 1;
  measure(&c, &dq_error, &dk_error);
  cr_assert(dq_error == 0 && dk_error == 0);
}
