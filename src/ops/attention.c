/* attention: scaled dot-product attention of one head, for a block of its queries.
 * Shapes    q dq: (n_q, d_k)   k dk: (n_k, d_k)   v dv: (n_k, d_v)   y dy: (n_q, d_v), each with its own
 *           distance between rows; p ds: (end - begin, n_k), the block's weights. Queries of the block:
 *           begin <= i < end. q, k, v, y and their gradients point at row 0, p and ds at row `begin`.
 * Forward   S = scale Q K^T                     s_ij = scale sum_c q_ic k_jc
 *           p_ij = exp(s_ij - m_i) / sum_l exp(s_il - m_i)  over the keys that i may attend to, else 0
 *           Y = P V                             y_ic = sum_j p_ij v_jc
 * Saves     p
 * Backward  dV += P^T dY                        dv_jc += sum_i p_ij dy_ic
 *           dP = dY V^T                         dp_ij = sum_c dy_ic v_jc
 *           dS = P * (dP - sum_l p_il dp_il)    softmax.c: dp is first shifted by its value at the row's
 *                                               largest weight, so that a saturated row does not cancel
 *           dQ += scale dS K                    dq_ic += scale sum_j ds_ij k_jc
 *           dK += scale dS^T Q                  dk_jc += scale sum_i ds_ij q_ic
 * Causal    a block reads only the keys that its last query can see: half of the work for many blocks.
 * Masked    S and dP are read where i may attend to j and nowhere else. The other four products sum over
 *           keys or queries, with weight 0 where masked, and 0 * NaN is NaN: they run over copies whose
 *           non-finite rows are zeros (q0 k0 v0 dy0; the array itself where it has none), and what those
 *           rows owe to those who may see them is added afterwards, pair by pair.
 * Writes    p y ds: overwrites.  dq dk dv: accumulates (+=); NULL where not wanted.
 * Edges     a query that sees nothing: p = 0, y = 0, ds = 0.  n_k = 0 or d_v = 0: legal.
 * Checks    rows of p sum to 1, rows of ds to 0; sum_c q_ic dq_ic = sum over i of ds_ij s_ij for one query.
 *           tests/ops/test_attention.c */
#include "ops/attention.h"
#include "ops/finite.h"
#include "ops/real.h"
#include "ops/vecmath.h"

/* ---- who sees whom ---- */

/* Query i may attend to keys 0 .. limit - 1 at most; grows with i. */
static ptrdiff_t limit_of(const th__attention_head *a, ptrdiff_t i) {
  ptrdiff_t limit = a->keys;
  if (a->causal && i + a->n_k - a->n_q + 1 < limit) limit = i + a->n_k - a->n_q + 1;
  return limit > 0 ? limit : 0;
}

static const uint8_t *keep_row(const th__attention_head *a, ptrdiff_t i) {
  return a->keep != NULL ? a->keep + i * a->ld_keep : NULL;
}

static bool sees(const th__attention_head *a, ptrdiff_t i, ptrdiff_t j) {
  const uint8_t *keep = keep_row(a, i);
  return j < limit_of(a, i) && (keep == NULL || keep[j] != 0);
}

static void fill(ptrdiff_t begin, ptrdiff_t end, real *x, real value) {
  for (ptrdiff_t j = begin; j < end; j++) x[j] = value;
}

static void fill_masked(ptrdiff_t n, const uint8_t *restrict keep, real *restrict x, real value) {
#pragma omp simd
  for (ptrdiff_t j = 0; j < n; j++) x[j] = keep[j] != 0 ? x[j] : value;
}

/* ---- rows that hold Inf or NaN ---- */

static void add_row(ptrdiff_t n, real factor, const real *restrict x, real *restrict y) {
#pragma omp simd
  for (ptrdiff_t c = 0; c < n; c++) y[c] += factor * x[c];
}

/* y_i += factor sum_j w_ij x_j over the non-finite rows j of x that query i may see. */
static void add_nonfinite_keys(const th__attention_head *a, ptrdiff_t begin, ptrdiff_t end,
                               ptrdiff_t n, real factor, const real *w, const real *x,
                               ptrdiff_t ldx, real *y, ptrdiff_t ldy) {
  for (ptrdiff_t j = 0; j < limit_of(a, end - 1); j++) {
    if (th__finite_row(n, x + j * ldx)) continue;
    for (ptrdiff_t i = begin; i < end; i++)
      if (sees(a, i, j)) add_row(n, factor * w[(i - begin) * a->n_k + j], x + j * ldx, y + i * ldy);
  }
}

/* y_j += factor sum_i w_ij x_i over the non-finite rows i of x that may see key j. */
static void add_nonfinite_queries(const th__attention_head *a, ptrdiff_t begin, ptrdiff_t end,
                                  ptrdiff_t n, real factor, const real *w, const real *x,
                                  ptrdiff_t ldx, real *y, ptrdiff_t ldy) {
  for (ptrdiff_t i = begin; i < end; i++) {
    if (th__finite_row(n, x + i * ldx)) continue;
    for (ptrdiff_t j = 0; j < limit_of(a, i); j++)
      if (sees(a, i, j)) add_row(n, factor * w[(i - begin) * a->n_k + j], x + i * ldx, y + j * ldy);
  }
}

/* ---- forward ---- */

/* Scores in s[0 .. limit) become weights. */
static void weights_row(ptrdiff_t limit, const uint8_t *keep, real *s) {
  if (keep != NULL) fill_masked(limit, keep, s, -RINF);
  real max = -RINF;
#pragma omp simd reduction(max : max)
  for (ptrdiff_t j = 0; j < limit; j++) max = s[j] > max ? s[j] : max;
  if (max == -RINF) max = 0; /* nothing to see: exp(-inf - 0) = 0 everywhere */

  real sum = 0;
#pragma omp simd reduction(+ : sum)
  for (ptrdiff_t j = 0; j < limit; j++) {
    real e = th__exp(s[j] - max);
    s[j] = e;
    sum += e;
  }
  real inverse = sum > 0 || sum != sum ? 1 / sum : 0;
#pragma omp simd
  for (ptrdiff_t j = 0; j < limit; j++) {
    real p = s[j] * inverse;
    s[j] = p < RMIN ? 0 : p;
  }
  /* A NaN among the keys that are seen has reached every weight: these have none. */
  if (keep != NULL && inverse != inverse) fill_masked(limit, keep, s, 0);
}

void RN(attention_fwd)(const th__attention_head *a, ptrdiff_t begin, ptrdiff_t end, const real *q,
                       const real *k, const real *v, const real *v0, real *p, real *y) {
  ptrdiff_t rows = end - begin, n = a->n_k, width = limit_of(a, end - 1);
  RN(gemm)
  (false, true, rows, width, a->d_k, a->scale, q + begin * a->ldq, a->ldq, k, a->ldk, 0, p, n);
  for (ptrdiff_t i = begin; i < end; i++) {
    ptrdiff_t limit = limit_of(a, i);
    real *p_row = p + (i - begin) * n;
    weights_row(limit, keep_row(a, i), p_row);
    fill(limit, a->fill ? n : width, p_row, 0);
  }
  RN(gemm)(false, false, rows, a->d_v, width, 1, p, n, v0, a->ldv, 0, y + begin * a->ldy, a->ldy);
  if (v0 != v) add_nonfinite_keys(a, begin, end, a->d_v, 1, p, v, a->ldv, y, a->ldy);
}

/* ---- backward ---- */

/* The first position of the largest of p (n >= 1, p >= 0). */
static ptrdiff_t largest(ptrdiff_t n, const real *p) {
  real max = 0;
#pragma omp simd reduction(max : max)
  for (ptrdiff_t j = 0; j < n; j++) max = p[j] > max ? p[j] : max;
  ptrdiff_t top = 0;
  while (top < n - 1 && p[top] != max) top++;
  return top;
}

/* Gradients of weights in g[0 .. limit) become gradients of scores. */
static void scores_row(ptrdiff_t limit, const uint8_t *keep, bool plain, const real *restrict p,
                       real *restrict g) {
  if (limit == 0) return;
  if (keep != NULL) fill_masked(limit, keep, g, 0);
  ptrdiff_t top = plain ? 0 : largest(limit, p);
  real shift = plain || p[top] == 0 ? 0 : g[top];

  real dot = 0; /* sum over j of p_j (g_j - shift): the term of `top` is 0 */
#pragma omp simd reduction(+ : dot)
  for (ptrdiff_t j = 0; j < limit; j++) dot += p[j] * (g[j] - shift);
#pragma omp simd
  for (ptrdiff_t j = 0; j < limit; j++) g[j] = p[j] * (g[j] - shift - dot);
  if (keep != NULL && (shift + dot) * 0 != 0) fill_masked(limit, keep, g, 0); /* 0 * NaN */
}

void RN(attention_bwd)(const th__attention_head *a, ptrdiff_t begin, ptrdiff_t end, const real *q,
                       const real *k, const real *v, const real *q0, const real *k0, const real *p,
                       const real *dy, const real *dy0, real *ds, real *dq, real *dk, real *dv) {
  ptrdiff_t rows = end - begin, n = a->n_k, width = limit_of(a, end - 1);
  real scale = (real)a->scale;
  if (dv != NULL) {
    RN(gemm)
    (true, false, width, a->d_v, rows, 1, p, n, dy0 + begin * a->ldy, a->ldy, 1, dv, a->ldv);
    if (dy0 != dy) add_nonfinite_queries(a, begin, end, a->d_v, 1, p, dy, a->ldy, dv, a->ldv);
  }
  if (dq == NULL && dk == NULL) return;

  RN(gemm)(false, true, rows, width, a->d_v, 1, dy + begin * a->ldy, a->ldy, v, a->ldv, 0, ds, n);
  for (ptrdiff_t i = begin; i < end; i++) {
    ptrdiff_t limit = limit_of(a, i), at = (i - begin) * n;
    scores_row(limit, keep_row(a, i), a->plain, p + at, ds + at);
    fill(limit, width, ds + at, 0);
  }
  if (dq != NULL) {
    RN(gemm)
    (false, false, rows, a->d_k, width, a->scale, ds, n, k0, a->ldk, 1, dq + begin * a->ldq, a->ldq);
    if (k0 != k) add_nonfinite_keys(a, begin, end, a->d_k, scale, ds, k, a->ldk, dq, a->ldq);
  }
  if (dk != NULL) {
    RN(gemm)
    (true, false, width, a->d_k, rows, a->scale, ds, n, q0 + begin * a->ldq, a->ldq, 1, dk, a->ldk);
    if (q0 != q) add_nonfinite_queries(a, begin, end, a->d_k, scale, ds, q, a->ldq, dk, a->ldk);
  }
}
