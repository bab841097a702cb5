/* Masked rows do not exist for attention: whatever is parked there, not one bit of anything changes. What
 * is not masked comes through: NaN reaches whoever sees it, and nobody else. */
#include "attention.h"

#define SHAPES(b, h, hk, nq, nk, dk, dv)                                                           \
  (problem) { .batch = b, .heads = h, .key_heads = hk, .n_q = nq, .n_k = nk, .d_k = dk, .d_v = dv }

/* Query rows are numbered (b H + h) n_q + i, key rows (b Hk + kh) n_k + j. */
static ptrdiff_t key_row(const problem *p, ptrdiff_t query, ptrdiff_t j) {
  ptrdiff_t head = query / p->n_q;
  return (head / p->heads * p->key_heads + head % p->heads / (p->heads / p->key_heads)) * p->n_k + j;
}
static bool query_sees(const problem *p, ptrdiff_t query, ptrdiff_t j) {
  ptrdiff_t head = query / p->n_q;
  return may_attend(p, head / p->heads, head % p->heads, query % p->n_q, j);
}

static void fill_row(double *x, ptrdiff_t row, ptrdiff_t width, double value) {
  for (ptrdiff_t c = 0; c < width; c++) x[row * width + c] = value;
}

/* Fills the rows of keys that nobody sees and of queries that see nothing; how many there were. */
static ptrdiff_t park(problem *p, double value) {
  ptrdiff_t queries = p->batch * p->heads * p->n_q, keys = p->batch * p->key_heads * p->n_k;
  bool *seen = room(keys, sizeof *seen);
  ptrdiff_t parked = 0;
  for (ptrdiff_t i = 0; i < queries; i++) {
    bool sees = false;
    for (ptrdiff_t j = 0; j < p->n_k; j++)
      if (query_sees(p, i, j)) sees = seen[key_row(p, i, j)] = true;
    if (sees) continue;
    parked++;
    fill_row(p->q, i, p->d_k, value);
    fill_row(p->dy, i, p->d_v, value);
  }
  for (ptrdiff_t row = 0; row < keys; row++) {
    if (seen[row]) continue;
    parked++;
    fill_row(p->k, row, p->d_k, value);
    fill_row(p->v, row, p->d_v, value);
  }
  free(seen);
  return parked;
}

/* Everything that a run yields, as doubles. */
typedef struct values {
  double *part[PARTS];
} values;

static values run(th_dtype dtype, const problem *p) {
  const ptrdiff_t counts[] = {y_count(p), w_count(p), q_count(p), k_count(p), v_count(p)};
  th_tape *tape = th_tape_new();
  result r = attend_both_ways(tape, dtype, p);
  const th_tensor *parts[PARTS];
  parts_of(&r, parts);
  values v;
  for (int i = 0; i < PARTS; i++) {
    v.part[i] = room(counts[i], sizeof(double));
    th_tensor_read(parts[i], v.part[i]);
  }
  th_tape_free(tape);
  return v;
}

static void values_free(values *v) {
  for (int i = 0; i < PARTS; i++) free(v->part[i]);
}

/* ---- parked: masked for everybody ---- */

static void check_parked(th_dtype dtype, problem shapes, int masks) {
  problem p = random_problem(shapes, masks, 21);
  cr_assert_gt(park(&p, 0), 0, "masks %d leave no row out", masks);
  const ptrdiff_t counts[] = {y_count(&p), w_count(&p), q_count(&p), k_count(&p), v_count(&p)};
  values want = run(dtype, &p);
  double huge = dtype == TH_F32 ? 1e38 : 1e307;
  const double values_to_park[] = {(double)NAN, (double)INFINITY, -(double)INFINITY, huge, -huge};
  for (int n = 0; n < 5; n++) {
    park(&p, values_to_park[n]);
    values got = run(dtype, &p);
    for (int i = 0; i < PARTS; i++)
      for (ptrdiff_t j = 0; j < counts[i]; j++)
        cr_assert(memcmp(got.part[i] + j, want.part[i] + j, sizeof(double)) == 0,
                  "masks %d, %g parked: %s[%td] %.17g became %.17g", masks, values_to_park[n],
                  part_names[i], j, want.part[i][j], got.part[i][j]);
    values_free(&got);
  }
  values_free(&want);
  problem_free(&p);
}

TEST_BOTH(attention_finite, parked_rows_change_nothing) {
  check_parked(dtype, SHAPES(3, 2, 2, 9, 8, 5, 7), LENGTHS);
  check_parked(dtype, SHAPES(3, 2, 2, 9, 8, 5, 7), KEY_MASK);
  check_parked(dtype, SHAPES(2, 2, 2, 9, 8, 5, 7), MASK);
  check_parked(dtype, SHAPES(2, 2, 2, 9, 8, 5, 7), MASK_HEAD);
  check_parked(dtype, SHAPES(2, 2, 2, 9, 4, 5, 7), CAUSAL); /* queries 0..4 see nothing */
  check_parked(dtype, SHAPES(3, 4, 2, 9, 9, 5, 7), CAUSAL | LENGTHS | KEY_MASK | MASK_SAMPLE);
}

/* Several blocks, and sizes at which BLAS takes its fast paths. */
TEST_BOTH(attention_finite, parked_rows_change_nothing_in_large) {
  check_parked(dtype, SHAPES(2, 2, 1, 70, 75, 16, 16), CAUSAL | LENGTHS | KEY_MASK);
  check_parked(dtype, SHAPES(1, 2, 2, 96, 128, 64, 64), KEY_MASK | MASK);
  check_parked(dtype, SHAPES(1, 2, 2, 130, 130, 33, 24), CAUSAL | KEY_MASK);
}

/* A scale above 1 must not lift a huge parked number to Inf before its weight 0 meets it. */
TEST_BOTH(attention_finite, parked_rows_change_nothing_under_a_large_scale) {
  problem shapes = SHAPES(2, 2, 2, 40, 40, 8, 8);
  shapes.scale = 50;
  check_parked(dtype, shapes, CAUSAL | KEY_MASK | MASK);
}

/* ---- NaN that some see and some do not ---- */

typedef enum place { IN_Q, IN_K, IN_V, IN_DY } place;

/* Marks what NaN in one row reaches: the queries that touch it, and the keys that these see. */
static void mark(const problem *p, ptrdiff_t query, place where, bool *reached[PARTS]) {
  for (ptrdiff_t c = 0; c < p->d_v && where != IN_DY; c++) reached[0][query * p->d_v + c] = true;
  for (ptrdiff_t c = 0; c < p->d_k; c++) reached[2][query * p->d_k + c] = true;
  for (ptrdiff_t j = 0; j < p->n_k; j++) {
    if (!query_sees(p, query, j)) continue;
    ptrdiff_t row = key_row(p, query, j);
    if (where == IN_Q || where == IN_K) reached[1][query * p->n_k + j] = true;
    for (ptrdiff_t c = 0; c < p->d_k; c++) reached[3][row * p->d_k + c] = true;
    for (ptrdiff_t c = 0; c < p->d_v && where != IN_V; c++) reached[4][row * p->d_v + c] = true;
  }
}

static bool touches(const problem *p, ptrdiff_t query, place where, ptrdiff_t row) {
  for (ptrdiff_t j = 0; j < p->n_k; j++) {
    if (!query_sees(p, query, j)) continue;
    if (where == IN_Q || where == IN_DY ? query == row : key_row(p, query, j) == row) return true;
  }
  return false;
}

static void check_nan(th_dtype dtype, problem *p, place where, ptrdiff_t row) {
  const ptrdiff_t counts[] = {y_count(p), w_count(p), q_count(p), k_count(p), v_count(p)};
  double *arrays[] = {p->q, p->k, p->v, p->dy};
  ptrdiff_t width = where == IN_Q || where == IN_K ? p->d_k : p->d_v;
  double *kept = room(width, sizeof *kept);
  memcpy(kept, arrays[where] + row * width, (size_t)width * sizeof *kept);
  fill_row(arrays[where], row, width, 0);
  values clean = run(dtype, p);
  fill_row(arrays[where], row, width, (double)NAN);
  values got = run(dtype, p);

  bool *reached[PARTS];
  for (int i = 0; i < PARTS; i++) reached[i] = room(counts[i], sizeof(bool));
  for (ptrdiff_t i = 0; i < p->batch * p->heads * p->n_q; i++)
    if (touches(p, i, where, row)) mark(p, i, where, reached);
  for (int i = 0; i < PARTS; i++)
    for (ptrdiff_t j = 0; j < counts[i]; j++)
      if (reached[i][j])
        cr_assert(isnan(got.part[i][j]), "place %d row %td: %s[%td] is %.17g, not NaN", (int)where,
                  row, part_names[i], j, got.part[i][j]);
      else
        cr_assert(memcmp(got.part[i] + j, clean.part[i] + j, sizeof(double)) == 0,
                  "place %d row %td: %s[%td] %.17g became %.17g", (int)where, row, part_names[i], j,
                  clean.part[i][j], got.part[i][j]);
  memcpy(arrays[where] + row * width, kept, (size_t)width * sizeof *kept);
  for (int i = 0; i < PARTS; i++) free(reached[i]);
  values_free(&clean);
  values_free(&got);
  free(kept);
}

static void check_nan_everywhere(th_dtype dtype, problem shapes, int masks) {
  problem p = random_problem(shapes, masks, 33);
  ptrdiff_t queries = p.batch * p.heads * p.n_q, keys = p.batch * p.key_heads * p.n_k;
  for (ptrdiff_t row = 0; row < queries; row += 3) {
    check_nan(dtype, &p, IN_Q, row);
    check_nan(dtype, &p, IN_DY, row);
  }
  for (ptrdiff_t row = 0; row < keys; row += 3) {
    check_nan(dtype, &p, IN_K, row);
    check_nan(dtype, &p, IN_V, row);
  }
  problem_free(&p);
}

TEST_BOTH(attention_finite, nan_reaches_whoever_sees_it) {
  check_nan_everywhere(dtype, SHAPES(1, 2, 2, 7, 7, 3, 4), CAUSAL);
  check_nan_everywhere(dtype, SHAPES(2, 4, 2, 6, 7, 3, 4), CAUSAL | KEY_MASK | MASK_HEAD);
  check_nan_everywhere(dtype, SHAPES(2, 2, 1, 6, 7, 3, 4), MASK | LENGTHS);
  check_nan_everywhere(dtype, SHAPES(1, 1, 1, 4, 5, 3, 4), 0);
  check_nan_everywhere(dtype, SHAPES(1, 1, 1, 40, 40, 8, 8), CAUSAL | MASK);
}

/* Inf that is seen: exp(-inf) = 0 for a score of -inf, an infinite value where it has weight, and
 * 0 * inf = NaN in the gradient of the query, with a mask as without. */
TEST_BOTH(attention_finite, infinity_that_is_seen) {
  th_tape *tape = th_tape_new();
  for (int causal = 0; causal < 2; causal++) {
    th_attention_options options = {.causal = causal != 0};
    th_tensor *q = make(tape, dtype, TH_SHAPE(1, 1, 2, 1), (double[]){1, 1});
    th_tensor *k = make(tape, dtype, TH_SHAPE(1, 1, 2, 1), (double[]){0, -(double)INFINITY});
    th_tensor *v = make(tape, dtype, TH_SHAPE(1, 1, 2, 1), (double[]){(double)INFINITY, 5});
    double y[2], dq[2];
    th_tensor_read(th_attention(tape, q, k, v, &options), y);
    cr_assert(isinf(y[0]) && isinf(y[1]));

    v = make(tape, dtype, TH_SHAPE(1, 1, 2, 1), (double[]){3, 5});
    th_tensor *out = th_attention(tape, q, k, v, &options);
    th_tensor_read(out, y);
    cr_assert(y[0] == 3 && y[1] == 3);
    backward_from(tape, out, (double[]){1, 1});
    th_tensor_read(th_tensor_grad(q), dq);
    cr_assert(isnan(dq[1]) && (causal ? dq[0] == 0 : isnan(dq[0])));
    th_tape_reset(tape);

    q = make(tape, dtype, TH_SHAPE(1, 1, 2, 1), (double[]){1, -(double)INFINITY});
    k = make(tape, dtype, TH_SHAPE(1, 1, 2, 1), (double[]){1, 2});
    v = make(tape, dtype, TH_SHAPE(1, 1, 2, 1), (double[]){3, 5});
    out = th_attention(tape, q, k, v, &options);
    th_tensor_read(out, y);
    cr_assert(y[0] >= 3 && y[1] == 0); /* all scores -inf: no weights */
    backward_from(tape, out, (double[]){1, 1});
    th_tensor_read(th_tensor_grad(k), dq);
    cr_assert(isnan(dq[0]) && isnan(dq[1]));
    th_tape_reset(tape);
  }
  th_tape_free(tape);
}
