/* Identities behind the sweep: of the gradients of one query, and of training with and without 1/sqrt(d_k). */
#include "support.h"

/* ---- one query's gradients ---- */

enum { KEYS = 24, DV = 9 };

static th_tensor *normal(th_tape *tape, th_dtype dtype, ptrdiff_t rows, ptrdiff_t columns,
                         bool wanted, uint32_t purpose) {
  th_tensor *x = wanted ? th_input_grad(tape, dtype, TH_SHAPE(1, 1, rows, columns), NULL)
                        : th_input(tape, dtype, TH_SHAPE(1, 1, rows, columns), NULL);
  cr_assert_not_null(x, "%s", th_tape_message(tape));
  th_init_normal(x, 0, 1, (th_random){21, purpose, 0});
  return x;
}

static double *read(const th_tensor *x) {
  cr_assert_not_null(x);
  double *values = malloc((size_t)th_tensor_count(x) * sizeof *values);
  th_tensor_read(x, values);
  return values;
}

/* |sum| <= limit * sum of sizes, and the terms are not all 0. */
typedef struct balance {
  double sum, size;
} balance;
static void add(balance *b, double term) {
  b->sum += term;
  b->size += fabs(term);
}
static void expect_balanced(const char *what, const balance *b, double limit) {
  cr_assert(b->size > 0, "%s: nothing to add up", what);
  cr_assert(fabs(b->sum) <= limit * b->size, "%s: %.3g is left of %.3g", what, b->sum, b->size);
}

static const double limits[] = {[TH_F32] = 3e-6, [TH_F64] = 1e-14};

/* The rows of the softmax's Jacobian sum to 0, so the logits' gradients do: from flat to sharp rows. */
TEST_BOTH(saturation, gradients_of_logits_sum_to_zero) {
  for (double sd = 0.1; sd < 60; sd *= 3) {
    th_tape *tape = th_tape_new();
    th_tensor *s = normal(tape, dtype, 1, KEYS, true, 1);
    th_init_normal(s, 0, sd, (th_random){21, 1, 0});
    th_tensor *y = th_matmul(tape, th_softmax(tape, s), normal(tape, dtype, KEYS, DV, false, 2), 0);
    th_backward_from(tape, y, normal(tape, dtype, 1, DV, false, 3));
    double *ds = read(th_tensor_grad(s));
    balance b = {0};
    for (int j = 0; j < KEYS; j++) add(&b, ds[j]);
    expect_balanced("sum of dS", &b, limits[dtype]);
    free(ds);
    th_tape_free(tape);
  }
}

/* dL/dq = scale sum_j dS_j k_j and dL/dk_j = scale dS_j q. So sum_j dL/dk_j = 0 and
 * q . dL/dq = sum_j k_j . dL/dk_j, with every scale. */
static void check_query(th_dtype dtype, ptrdiff_t d_k, th_scale_kind scale) {
  th_tape *tape = th_tape_new();
  th_tensor *q = normal(tape, dtype, 1, d_k, true, 1), *k = normal(tape, dtype, KEYS, d_k, true, 2);
  th_tensor *y = th_attention(tape, q, k, normal(tape, dtype, KEYS, DV, false, 3),
                              &(th_attention_options){.scale = scale});
  th_backward_from(tape, y, normal(tape, dtype, 1, DV, false, 4));
  cr_assert_eq(th_tape_status(tape), TH_OK, "%s", th_tape_message(tape));
  double *qs = read(q), *ks = read(k), *dq = read(th_tensor_grad(q)), *dk = read(th_tensor_grad(k));
  balance both = {0};
  for (ptrdiff_t c = 0; c < d_k; c++) {
    balance column = {0};
    for (ptrdiff_t j = 0; j < KEYS; j++) {
      add(&column, dk[j * d_k + c]);
      add(&both, ks[j * d_k + c] * dk[j * d_k + c]);
    }
    expect_balanced("sum of dL/dk_j", &column, limits[dtype]);
    add(&both, -qs[c] * dq[c]);
  }
  expect_balanced("q.dL/dq - sum k_j.dL/dk_j", &both, limits[dtype]);
  free(qs);
  free(ks);
  free(dq);
  free(dk);
  th_tape_free(tape);
}

TEST_BOTH(saturation, gradients_of_query_and_keys_balance) {
  const ptrdiff_t widths[] = {4, 64, 1024};
  for (int i = 0; i < 3; i++) {
    check_query(dtype, widths[i], TH_SCALE_NONE);
    check_query(dtype, widths[i], TH_SCALE_SQRT);
    check_query(dtype, widths[i], TH_SCALE_DK);
  }
}

/* ---- training: scale none is 1/sqrt(d_k) with larger W_q and W_k ---- */

enum { TOKENS = 7, WIDTH = 12, STEPS = 60 };

/* y = attention(x Wq^T, x Wk^T, x Wv^T), loss |y - target|^2 / 2, SGD with a rate of its own for Wq and
 * Wk. With c = d_k^(1/4), c Wq and c Wk under 1/sqrt(d_k) give the same logits; their gradients are 1/c
 * times as large, so a rate of c^2 = sqrt(d_k) times as much moves them c times as far. */
typedef struct learner {
  th_params *projections, *values;
  th_tensor *wq, *wk, *wv;
  th_optim *optim, *optim_values;
  th_scale_kind scale;
  th_tape *tape;
} learner;

static learner new_learner(ptrdiff_t d_k, th_scale_kind scale, double factor, double lr) {
  learner m = {.projections = th_params_new(NULL),
               .values = th_params_new(NULL),
               .scale = scale,
               .tape = th_tape_new()};
  m.wq = th_params_add(m.projections, "wq", TH_F64, TH_SHAPE(d_k, WIDTH), NULL);
  m.wk = th_params_add(m.projections, "wk", TH_F64, TH_SHAPE(d_k, WIDTH), NULL);
  m.wv = th_params_add(m.values, "wv", TH_F64, TH_SHAPE(5, WIDTH), NULL);
  double sd = 1 / sqrt(WIDTH);
  th_init_normal(m.wq, 0, factor * sd, (th_random){5, 1, 0});
  th_init_normal(m.wk, 0, factor * sd, (th_random){5, 2, 0});
  th_init_normal(m.wv, 0, sd, (th_random){5, 3, 0});
  m.optim = th_sgd_new(m.projections, &(th_sgd){.lr = lr}, NULL);
  m.optim_values = th_sgd_new(m.values, &(th_sgd){.lr = 0.02}, NULL);
  return m;
}

static void free_learner(learner *m) {
  th_optim_free(m->optim);
  th_optim_free(m->optim_values);
  th_params_free(m->projections);
  th_params_free(m->values);
  th_tape_free(m->tape);
}

/* One step on fresh data; returns the loss before it. */
static double step(learner *m, int number) {
  th_tape *t = m->tape;
  th_tape_reset(t);
  th_tensor *x = normal(t, TH_F64, TOKENS, WIDTH, false, 10 + 2 * (uint32_t)number);
  th_tensor *target = normal(t, TH_F64, TOKENS, 5, false, 11 + 2 * (uint32_t)number);
  th_tensor *y =
      th_attention(t, th_linear(t, x, m->wq, NULL), th_linear(t, x, m->wk, NULL),
                   th_linear(t, x, m->wv, NULL), &(th_attention_options){.scale = m->scale});
  double *out = read(y), *wanted = read(target), loss = 0;
  for (int i = 0; i < TOKENS * 5; i++) {
    out[i] -= wanted[i];
    loss += out[i] * out[i] / 2;
  }
  backward_from(t, y, out); /* dL/dy = y - target */
  cr_assert_eq(th_optim_step(m->optim, NULL), TH_OK);
  cr_assert_eq(th_optim_step(m->optim_values, NULL), TH_OK);
  free(out);
  free(wanted);
  return loss;
}

/* max |factor * a - b| / max |b| */
static double distance(const th_tensor *a, const th_tensor *b, double factor) {
  double *left = read(a), *right = read(b), most = 0, size = 0;
  for (ptrdiff_t i = 0; i < th_tensor_count(a); i++) {
    most = fmax(most, fabs(factor * left[i] - right[i]));
    size = fmax(size, fabs(right[i]));
  }
  free(left);
  free(right);
  return most / size;
}

/* The largest relative distance between the two over all steps, in loss and parameters. */
static double drift(ptrdiff_t d_k, double rate_factor) {
  double c = pow((double)d_k, 0.25), lr = 0.003, worst = 0;
  learner plain = new_learner(d_k, TH_SCALE_NONE, 1, lr);
  learner scaled = new_learner(d_k, TH_SCALE_SQRT, c, rate_factor * lr);
  learner start = new_learner(d_k, TH_SCALE_NONE, 1, lr);
  for (int i = 0; i < STEPS; i++) {
    double a = step(&plain, i), b = step(&scaled, i);
    worst = fmax(worst, fabs(a - b) / a);
    worst = fmax(worst, distance(plain.wq, scaled.wq, c));
    worst = fmax(worst, distance(plain.wk, scaled.wk, c));
    worst = fmax(worst, distance(plain.wv, scaled.wv, 1));
  }
  cr_assert(distance(start.wq, plain.wq, 1) > 0.01, "nothing was learnt");
  free_learner(&plain);
  free_learner(&scaled);
  free_learner(&start);
  return worst;
}

/* d_k^(1/4) is exact for 16 and 256, not for 24 and 64. */
Test(saturation, scale_is_a_choice_of_initialisation_and_rate) {
  const ptrdiff_t widths[] = {16, 24, 64, 256};
  for (int i = 0; i < 4; i++) {
    double worst = drift(widths[i], sqrt((double)widths[i]));
    cr_assert(worst <= 1e-12, "d_k %td: %.3g apart", widths[i], worst);
  }
}

/* ... and of the rate: with the same rate the two part. */
Test(saturation, the_rate_is_part_of_it) { cr_assert(drift(64, 1) > 1e-3); }
