/* attention: scaled dot-product attention of one head.
 * Shapes    q dq: (n_q, d_k)   k dk: (n_k, d_k)   v dv: (n_k, d_v)   y dy: (n_q, d_v), each with its own
 *           distance between rows; p: weights (n_q, n_k); room: th__attention_room() elements.
 *           Forward: queries begin <= i < end; p points at row `begin`, the others at row 0.
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
 * Blocks    queries are taken a->block at a time, against the keys that the last of them can see: a causal
 *           mask saves half of the work, and a block's scores stay in the cache.
 * Masked    S and dP are read where i may attend to j and nowhere else. The other four products sum over
 *           keys or queries, with weight 0 where masked, and 0 * NaN is NaN: so their right operand is
 *           packed with zeros for each row that holds Inf or NaN, and what such a row owes to those who
 *           may see it is added afterwards, pair by pair.
 * Writes    p y: overwrites.  dq dk dv: accumulates (+=); NULL where not wanted.
 * Edges     a query that sees nothing: p = 0, y = 0, ds = 0.  n_k = 0 or d_v = 0: legal.
 * Checks    rows of p sum to 1, rows of ds to 0; equal to matmul, scale, softmax, matmul.
 *           tests/ops/test_attention.c, tests/autograd/test_attention_mask.c and _finite.c */
#include "ops/attention.h"
#include "ops/product.h"
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

/* A row is worked on up to a multiple of 16, as far as there is room: no odd ends for the loops. */
static ptrdiff_t rounded(ptrdiff_t limit, ptrdiff_t width) {
  ptrdiff_t up = (limit + 15) / 16 * 16;
  return up < width ? up : width;
}

static void fill(ptrdiff_t begin, ptrdiff_t end, real *x, real value) {
  for (ptrdiff_t j = begin; j < end; j++) x[j] = value;
}

static void fill_masked(ptrdiff_t n, const uint8_t *restrict keep, real *restrict x, real value) {
#pragma omp simd
  for (ptrdiff_t j = 0; j < n; j++) x[j] = keep[j] != 0 ? x[j] : value;
}

/* ---- rows that hold Inf or NaN ---- */

/* Packs x as the right operand of a sum over its rows. False if rows were left out. */
static bool pack(const th__attention_head *a, ptrdiff_t rows, ptrdiff_t n, const real *x,
                 ptrdiff_t ldx, real *packed) {
  if (a->causal || a->keep != NULL || a->keys < a->n_k)
    return th__pack_finite(rows, n, x, ldx, packed);
  th__pack(rows, n, x, ldx, packed); /* everybody sees everything */
  return true;
}

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

/* Scores in s[0 .. limit) become weights, and s[limit .. width) becomes 0. */
static void weights_row(ptrdiff_t limit, ptrdiff_t width, const uint8_t *keep, real *s) {
  ptrdiff_t n = rounded(limit, width);
  if (keep != NULL) fill_masked(limit, keep, s, -RINF);
  fill(limit, n, s, -RINF);
  real max = -RINF;
#pragma omp simd reduction(max : max)
  for (ptrdiff_t j = 0; j < n; j++) max = s[j] > max ? s[j] : max;
  if (max == -RINF) max = 0; /* nothing to see: exp(-inf - 0) = 0 everywhere */

  real sum = 0;
#pragma omp simd reduction(+ : sum)
  for (ptrdiff_t j = 0; j < n; j++) {
    real e = th__exp(s[j] - max);
    s[j] = e;
    sum += e;
  }
  real inverse = sum > 0 || sum != sum ? 1 / sum : 0;
#pragma omp simd
  for (ptrdiff_t j = 0; j < n; j++) {
    real p = s[j] * inverse;
    s[j] = p < RMIN ? 0 : p;
  }
  /* A NaN among the keys that are seen has reached every weight: these have none. */
  if (keep != NULL && inverse != inverse) fill_masked(limit, keep, s, 0);
  fill(limit, width, s, 0);
}

/* One query that sees every key up to its limit, as in decoding: packing would cost more than the
 * products. Rows that hold Inf or NaN need no care, for none is hidden. */
static void one_query(const th__attention_head *a, ptrdiff_t i, const real *q, const real *k,
                      const real *v, real *p, real *restrict y) {
  ptrdiff_t width = limit_of(a, i);
  th__row_times_rows(width, a->d_k, (real)a->scale, q, k, a->ldk, 0, p);
  weights_row(width, a->fill ? a->n_k : width, NULL, p);
  fill(0, a->d_v, y, 0);
  ptrdiff_t j = 0;
  for (; j + 4 <= width; j += 4) {
    const real *v0 = v + j * a->ldv, *v1 = v0 + a->ldv, *v2 = v1 + a->ldv, *v3 = v2 + a->ldv;
    real p0 = p[j], p1 = p[j + 1], p2 = p[j + 2], p3 = p[j + 3];
#pragma omp simd
    for (ptrdiff_t c = 0; c < a->d_v; c++)
      y[c] += (p0 * v0[c] + p1 * v1[c]) + (p2 * v2[c] + p3 * v3[c]);
  }
  for (; j < width; j++) add_row(a->d_v, p[j], v + j * a->ldv, y);
}

void RN(attention_fwd)(const th__attention_head *a, ptrdiff_t begin, ptrdiff_t end, const real *q,
                       const real *k, const real *v, real *p, real *y, real *room) {
  if (end - begin == 1 && a->keep == NULL) {
    one_query(a, begin, q + begin * a->ldq, k, v, p, y + begin * a->ldy);
    return;
  }
  ptrdiff_t n = a->n_k, keys = limit_of(a, end - 1);
  real *k_turned = room, *v_packed = room + th__packed(a->d_k, keys);
  th__pack_transposed(a->d_k, keys, k, a->ldk, k_turned);
  bool whole = pack(a, keys, a->d_v, v, a->ldv, v_packed);

  for (ptrdiff_t from = begin; from < end; from += a->block) {
    ptrdiff_t to = from + a->block < end ? from + a->block : end, width = limit_of(a, to - 1);
    real *p_block = a->save ? p + (from - begin) * n : p;
    th__left q_block = {q + from * a->ldq, a->ldq, 1}, p_left = {p_block, n, 1};
    th__product(to - from, width, a->d_k, (real)a->scale, q_block, k_turned, a->d_k, false, p_block,
                n);
    for (ptrdiff_t i = from; i < to; i++)
      weights_row(limit_of(a, i), a->fill ? n : width, keep_row(a, i), p_block + (i - from) * n);
    th__product(to - from, a->d_v, width, 1, p_left, v_packed, keys, false, y + from * a->ldy,
                a->ldy);
    if (!whole) add_nonfinite_keys(a, from, to, a->d_v, 1, p_block, v, a->ldv, y, a->ldy);
  }
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

/* Gradients of weights in g[0 .. limit) become gradients of scores, and g[limit .. width) becomes 0. */
static void scores_row(ptrdiff_t limit, ptrdiff_t width, const uint8_t *keep, bool plain,
                       const real *restrict p, real *restrict g) {
  ptrdiff_t n = rounded(limit, width);
  if (n == 0) {
    fill(0, width, g, 0);
    return;
  }
  if (keep != NULL) fill_masked(limit, keep, g, 0);
  fill(limit, n, g, 0);
  real shift = plain ? 0 : g[largest(n, p)];

  real dot = 0; /* sum over j of p_j (g_j - shift): the largest weight's term is 0 */
#pragma omp simd reduction(+ : dot)
  for (ptrdiff_t j = 0; j < n; j++) dot += p[j] * (g[j] - shift);
#pragma omp simd
  for (ptrdiff_t j = 0; j < n; j++) g[j] = p[j] * (g[j] - shift - dot);
  if (keep != NULL && (shift + dot) * 0 != 0) fill_masked(limit, keep, g, 0); /* 0 * NaN */
  fill(limit, width, g, 0);
}

/* One head, and what its blocks share. */
typedef struct head {
  const th__attention_head *a;
  const real *q, *k, *v, *p, *dy;
  real *dq, *dk, *dv;
  real *v_turned, *k_packed, *q_packed, *dy_packed, *ds; /* room; q, dy and ds for one block */
  bool k_whole;
} head;

static void pack_head(head *s, real *room) {
  const th__attention_head *a = s->a;
  ptrdiff_t keys = limit_of(a, a->n_q - 1);
  s->v_turned = room;
  s->k_packed = s->v_turned + th__packed(a->d_v, keys);
  s->q_packed = s->k_packed + th__packed(keys, a->d_k);
  s->dy_packed = s->q_packed + th__packed(a->block, a->d_k);
  s->ds = s->dy_packed + th__packed(a->block, a->d_v);
  if (s->dq != NULL || s->dk != NULL) th__pack_transposed(a->d_v, keys, s->v, a->ldv, s->v_turned);
  if (s->dq != NULL) s->k_whole = pack(a, keys, a->d_k, s->k, a->ldk, s->k_packed);
}

/* dV += P^T dY */
static void to_values(const head *s, ptrdiff_t from, ptrdiff_t to, ptrdiff_t width) {
  const th__attention_head *a = s->a;
  const real *p = s->p + from * a->n_k, *dy = s->dy + from * a->ldy;
  bool whole = pack(a, to - from, a->d_v, dy, a->ldy, s->dy_packed);
  th__product(width, a->d_v, to - from, 1, (th__left){p, 1, a->n_k}, s->dy_packed, to - from, true,
              s->dv, a->ldv);
  if (!whole) add_nonfinite_queries(a, from, to, a->d_v, 1, p, s->dy, a->ldy, s->dv, a->ldv);
}

/* dP = dY V^T, in ds; then dS = P * (dP - sum P dP), in its place */
static void to_scores(const head *s, ptrdiff_t from, ptrdiff_t to, ptrdiff_t width) {
  const th__attention_head *a = s->a;
  th__left dy = {s->dy + from * a->ldy, a->ldy, 1};
  th__product(to - from, width, a->d_v, 1, dy, s->v_turned, a->d_v, false, s->ds, a->n_k);
  for (ptrdiff_t i = from; i < to; i++)
    scores_row(limit_of(a, i), width, keep_row(a, i), a->plain, s->p + i * a->n_k,
               s->ds + (i - from) * a->n_k);
}

/* dQ += scale dS K */
static void to_queries(const head *s, ptrdiff_t from, ptrdiff_t to, ptrdiff_t width) {
  const th__attention_head *a = s->a;
  ptrdiff_t keys = limit_of(a, a->n_q - 1);
  th__product(to - from, a->d_k, width, (real)a->scale, (th__left){s->ds, a->n_k, 1}, s->k_packed,
              keys, true, s->dq + from * a->ldq, a->ldq);
  if (!s->k_whole)
    add_nonfinite_keys(a, from, to, a->d_k, (real)a->scale, s->ds, s->k, a->ldk, s->dq, a->ldq);
}

/* dK += scale dS^T Q */
static void to_keys(const head *s, ptrdiff_t from, ptrdiff_t to, ptrdiff_t width) {
  const th__attention_head *a = s->a;
  bool whole = pack(a, to - from, a->d_k, s->q + from * a->ldq, a->ldq, s->q_packed);
  th__product(width, a->d_k, to - from, (real)a->scale, (th__left){s->ds, 1, a->n_k}, s->q_packed,
              to - from, true, s->dk, a->ldk);
  if (!whole)
    add_nonfinite_queries(a, from, to, a->d_k, (real)a->scale, s->ds, s->q, a->ldq, s->dk, a->ldk);
}

void RN(attention_bwd)(const th__attention_head *a, const real *q, const real *k, const real *v,
                       const real *p, const real *dy, real *dq, real *dk, real *dv, real *room) {
  head s = {.a = a, .q = q, .k = k, .v = v, .p = p, .dy = dy, .dq = dq, .dk = dk, .dv = dv};
  pack_head(&s, room);
  for (ptrdiff_t from = 0; from < a->n_q; from += a->block) {
    ptrdiff_t to = from + a->block < a->n_q ? from + a->block : a->n_q;
    ptrdiff_t width = limit_of(a, to - 1);
    if (dv != NULL) to_values(&s, from, to, width);
    if (dq == NULL && dk == NULL) continue;
    to_scores(&s, from, to, width);
    if (dq != NULL) to_queries(&s, from, to, width);
    if (dk != NULL) to_keys(&s, from, to, width);
  }
}
