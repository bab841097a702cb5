/* rope: goldens (C22), positions of a cached text (C21), properties, strides, threads, rejection. */
#include "gradients.h"
#include "support.h"

#include "golden/rope.inc"

typedef struct golden {
  const char *name;
  th_rope_options options;
  int ndim;
  const ptrdiff_t *shape;
  const double *x, *dy, *y, *dx;
} golden;

#define NDIM(shape) ((int)(sizeof(shape) / sizeof *(shape)))
#define G(name, part) golden_rope_##name##_##part
#define CASE(name)                                                                                 \
  {                                                                                                \
#name, {G(name, base), G(name, offset), G(name, interleaved) }, NDIM(G(name, x_shape)),        \
            G(name, x_shape), G(name, x), G(name, dy), G(name, y), G(name, dx)                     \
  }
static const golden goldens[] = {CASE(heads),
                                 CASE(offset),
                                 CASE(far),
                                 CASE(heads_interleaved),
                                 CASE(offset_interleaved),
                                 CASE(far_interleaved),
                                 CASE(long),
                                 CASE(one_pair),
                                 CASE(position_zero)};

TEST_BOTH(rope, golden) {
  th_tape *tape = th_tape_new();
  for (size_t i = 0; i < sizeof goldens / sizeof *goldens; i++) {
    const golden *g = &goldens[i];
    th_tensor *x = make(tape, dtype, g->ndim, g->shape, g->x);
    th_tensor *y = th_rope(tape, x, &g->options);
    expect_values(g->name, y, g->y, tolerances[dtype].value);
    backward_from(tape, y, g->dy);
    expect_values(g->name, th_tensor_grad(x), g->dx, tolerances[dtype].gradient);
    th_tape_reset(tape);
  }
  th_tape_free(tape);
}

Test(rope, gradients) { check_gradients("rope"); }

TEST_BOTH(rope, position_zero_is_the_identity_bit_for_bit) {
  th_tape *tape = th_tape_new();
  th_tensor *x = th_input_grad(tape, dtype, TH_SHAPE(5, 1, 64), NULL);
  th_init_normal(x, 0, 1, (th_random){1, 0, 0});
  th_tensor *y = th_rope(tape, x, NULL), *dy = th_scale(tape, th_detach(tape, x), 3);
  cr_assert_eq(th_backward_from(tape, y, dy), TH_OK);
  size_t bytes = 5 * 64 * th_dtype_size(dtype);
  cr_assert_eq(memcmp(y->data, x->data, bytes), 0);
  cr_assert_eq(memcmp(x->grad->data, dy->data, bytes), 0);
  th_tape_free(tape);
}

/* C21: the new query stands at position 3 and sees the keys at 0 .. 3. */
TEST_BOTH(rope, new_token_at_its_position) {
  const double right[] = {0.1048710491, 0.1573545672, 0.3094551973, 0.4283191864};
  const double out[] = {1.9387774790, 3.0612225210};
  th_tape *tape = th_tape_new();
  th_tensor *q = make(tape, dtype, TH_SHAPE(1, 1, 1, 2), (double[]){1, 0});
  th_tensor *k = make(tape, dtype, TH_SHAPE(1, 1, 4, 2), (double[]){1, 0, 1, 0, 1, 0, 1, 0});
  th_tensor *v = make(tape, dtype, TH_SHAPE(1, 1, 4, 1), (double[]){1, 2, 3, 4});
  k = th_rope(tape, k, NULL);
  for (int i = 0; i < 2; i++) {
    th_tensor *weights = NULL, *turned = th_rope(tape, q, &(th_rope_options){.offset = 3 * i});
    th_tensor *y = th_attention(tape, turned, k, v,
                                &(th_attention_options){.causal = true, .weights = &weights});
    expect_values("out", y, &out[i], dtype == TH_F32 ? 1e-6 : 1e-10);
    if (i == 1) expect_values("weights", weights, right, dtype == TH_F32 ? 1e-6 : 1e-10);
  }
  th_tape_free(tape);
}

/* Token by token, in pieces or as a whole: the same bits, wherever the tables begin. */
TEST_BOTH(rope, a_text_in_pieces_is_the_text) {
  const ptrdiff_t start[] = {0, 31, 999970};
  for (int s = 0; s < 3; s++) {
    th_tape *tape = th_tape_new();
    th_tensor *x = th_input(tape, dtype, TH_SHAPE(3, 70, 10), NULL);
    th_init_normal(x, 0, 1, (th_random){2, 0, 0});
    th_tensor *y = th_contiguous(
        tape, th_transpose(tape, th_rope(tape, x, &(th_rope_options){.offset = start[s]}), 0, 1));
    size_t row = 30 * th_dtype_size(dtype);
    char *all = malloc(70 * row);
    memcpy(all, y->data, 70 * row);
    for (ptrdiff_t t = 0, n; t < 70; t += n) {
      n = t < 33 || t == 69 ? 1 : 36;
      th_tape_reset(tape); /* and with it the table */
      x = th_input(tape, dtype, TH_SHAPE(3, 70, 10), NULL);
      th_init_normal(x, 0, 1, (th_random){2, 0, 0});
      th_tensor *piece =
          th_rope(tape, th_slice(tape, x, 1, t, t + n), &(th_rope_options){.offset = start[s] + t});
      piece = th_contiguous(tape, th_transpose(tape, piece, 0, 1));
      cr_assert_eq(memcmp(piece->data, all + (size_t)t * row, (size_t)n * row), 0, "%td", t);
    }
    free(all);
    th_tape_free(tape);
  }
}

static double dot(const th_tensor *a, const th_tensor *b, ptrdiff_t n) {
  double sum = 0;
  for (ptrdiff_t i = 0; i < n; i++) sum += th__get(a, i) * th__get(b, i);
  return sum;
}

/* rope(q, m) . rope(k, n) depends on m - n only, and no length changes. */
TEST_BOTH(rope, products_depend_on_distance) {
  const ptrdiff_t shifts[] = {0, 1, 17, 4096, 1000000};
  for (int interleaved = 0; interleaved < 2; interleaved++)
    for (ptrdiff_t distance = 0; distance < 40; distance += 13) {
      th_tape *tape = th_tape_new();
      th_tensor *q = th_input(tape, dtype, TH_SHAPE(1, 16), NULL);
      th_tensor *k = th_input(tape, dtype, TH_SHAPE(1, 16), NULL);
      th_init_normal(q, 0, 1, (th_random){1, 0, 0});
      th_init_normal(k, 0, 1, (th_random){2, 0, 0});
      double first = 0, limit = dtype == TH_F32 ? 1e-5 : 1e-12;
      for (int s = 0; s < 5; s++) {
        th_rope_options far = {0, shifts[s] + distance, interleaved},
                        near = {0, shifts[s], interleaved};
        th_tensor *a = th_rope(tape, q, &far), *b = th_rope(tape, k, &near);
        double product = dot(a, b, 16);
        if (s == 0) first = product;
        cr_assert(fabs(product - first) < limit, "%d %td + %td: %.12g, %.12g", interleaved,
                  distance, shifts[s], product, first);
        cr_assert(fabs(dot(a, a, 16) - dot(q, q, 16)) < 2 * limit);
        if (distance > 0) cr_assert(fabs(product - dot(q, k, 16)) > 0.01, "nothing turned");
      }
      th_tape_free(tape);
    }
}

/* C22: the gradient has the length of the upstream, and turning it forwards gives the upstream back. */
TEST_BOTH(rope, gradient_turns_back) {
  th_tape *tape = th_tape_new();
  th_rope_options options = {.offset = 12345};
  th_tensor *x = th_input_grad(tape, dtype, TH_SHAPE(4, 9, 24), NULL);
  th_tensor *dy = th_input(tape, dtype, TH_SHAPE(4, 9, 24), NULL);
  th_init_normal(dy, 0, 1, (th_random){1, 0, 0});
  cr_assert_eq(th_backward_from(tape, th_rope(tape, x, &options), dy), TH_OK);
  double want[864];
  th_tensor_read(dy, want);
  double length = dot(dy, dy, 864);
  cr_assert(fabs(dot(x->grad, x->grad, 864) - length) < 1e-5 * length);
  th_tensor *again = th_rope(tape, th_input(tape, dtype, 3, x->shape, x->grad->data), &options);
  expect_values("dy", again, want, tolerances[dtype].value);
  th_tape_free(tape);
}

/* Heads of the queries in a projection to queries, keys and values: no copy, no more than one node. */
TEST_BOTH(rope, strided_inputs) {
  th_tape *tape = th_tape_new();
  const golden *g = &goldens[0]; /* [2, 2, 3, 4] */
  double qkv[144] = {0}, want[144] = {0};
  for (int i = 0; i < 48; i++) {
    int b = i / 24, h = i / 12 % 2, t = i / 4 % 3, d = i % 4, at = (b * 3 + t) * 24 + 8 + h * 4 + d;
    qkv[at] = g->x[i];
    want[at] = g->dx[i];
  }
  th_tensor *stored = make(tape, dtype, TH_SHAPE(2, 3, 24), qkv);
  th_tensor *k = th_split_heads(tape, th_slice(tape, stored, 2, 8, 16), 2);
  size_t before = th_tape_node_count(tape);
  th_tensor *y = th_rope(tape, k, &g->options);
  cr_assert_eq(th_tape_node_count(tape), before + 1);
  expect_values("y", y, g->y, tolerances[dtype].value);
  backward_from(tape, y, g->dy);
  expect_values("dx", th_tensor_grad(stored), want, tolerances[dtype].gradient);
  th_tape_free(tape);
}

/* Rows and columns exchanged: the last axis is strided. */
TEST_BOTH(rope, transposed_input) {
  th_tape *tape = th_tape_new();
  const golden *g = &goldens[6]; /* [70, 6] */
  double x[420], dx[420];
  for (int i = 0; i < 420; i++) x[i % 6 * 70 + i / 6] = g->x[i], dx[i % 6 * 70 + i / 6] = g->dx[i];
  th_tensor *stored = make(tape, dtype, TH_SHAPE(6, 70), x);
  th_tensor *y = th_rope(tape, th_transpose(tape, stored, 0, 1), &g->options);
  expect_values("y", y, g->y, tolerances[dtype].value);
  backward_from(tape, y, g->dy);
  expect_values("dx", th_tensor_grad(stored), dx, tolerances[dtype].gradient);
  th_tape_free(tape);
}

TEST_BOTH(rope, two_uses_add_up) {
  th_tape *tape = th_tape_new();
  const golden *g = &goldens[3];
  th_tensor *x = make(tape, dtype, g->ndim, g->shape, g->x);
  backward_from(tape, th_add(tape, th_rope(tape, x, &g->options), th_rope(tape, x, &g->options)),
                g->dy);
  double twice[48];
  for (int i = 0; i < 48; i++) twice[i] = 2 * g->dx[i];
  expect_values("dx", th_tensor_grad(x), twice, tolerances[dtype].gradient);
  th_tape_free(tape);
}

/* One table serves queries and keys, and a part of it the later rows; another base does not take it. */
TEST_BOTH(rope, tables_are_shared) {
  th_tape *tape = th_tape_new();
  th_tensor *x = th_input(tape, dtype, TH_SHAPE(2, 256, 64), NULL);
  th_init_normal(x, 0, 1, (th_random){1, 0, 0});
  th_tensor *first = th_rope(tape, x, NULL);
  const void *table = tape->turns;
  th_tensor *later = th_slice(tape, x, 1, 100, 200);
  th_tensor *part = th_rope(tape, later, &(th_rope_options){.offset = 100});
  th_rope(tape, x, &(th_rope_options){.base = 10000, .interleaved = true});
  cr_assert_eq(tape->turns, table);
  double want[2 * 100 * 64];
  th_tensor_read(th_slice(tape, first, 1, 100, 200), want);
  expect_values("part", part, want, 0);
  th_tensor *other = th_rope(tape, x, &(th_rope_options){.base = 500});
  cr_assert_neq(tape->turns, table);
  cr_assert_neq(th__get(other, 64 + 1), th__get(first, 64 + 1));
  th_tape_reset(tape);
  cr_assert_null(tape->turns);
  th_tape_free(tape);
}

TEST_BOTH(rope, extreme_values) {
  const double sizes[] = {1e-30, 1e-300, 1e30, 1e300};
  th_tape *tape = th_tape_new();
  for (int i = 0; i < 4; i++) {
    double a = sizes[i], c = cos(1), s = sin(1);
    if (dtype == TH_F32 && (a > 1e38 || a < 1e-37)) continue;
    th_tensor *x = make(tape, dtype, TH_SHAPE(1, 2), (double[]){a, -2 * a});
    th_tensor *y = th_rope(tape, x, &(th_rope_options){.offset = 1});
    expect_relative("y", y, (double[]){a * (c + 2 * s), a * (s - 2 * c)}, 1e-6);
    th_tape_reset(tape);
  }
  th_tape_free(tape);
}

TEST_BOTH(rope, same_bits_at_any_number_of_threads) {
  th_tensor *results[2][2];
  th_tape *tapes[2] = {th_tape_new(), th_tape_new()};
  for (int t = 0; t < 2; t++) {
    th_set_threads(t + 1);
    th_tensor *x = th_input_grad(tapes[t], dtype, TH_SHAPE(3, 5, 700, 66), NULL);
    th_init_normal(x, 1, 2, (th_random){1, 0, 0});
    th_tensor *y = th_rope(tapes[t], x, NULL);
    cr_assert_eq(th_backward_from(tapes[t], y, th_detach(tapes[t], x)), TH_OK);
    results[t][0] = y, results[t][1] = x->grad;
  }
  th_set_threads(0);
  for (int i = 0; i < 2; i++)
    cr_assert_eq(memcmp(results[0][i]->data, results[1][i]->data,
                        (size_t)results[0][i]->count * th_dtype_size(dtype)),
                 0, "result %d", i);
  th_tape_free(tapes[0]);
  th_tape_free(tapes[1]);
}

TEST_BOTH(rope, zero_sizes) {
  const ptrdiff_t shapes[][3] = {{0, 3, 4}, {2, 0, 4}, {2, 3, 0}};
  th_tape *tape = th_tape_new();
  for (int i = 0; i < 3; i++) {
    th_tensor *x = th_input_grad(tape, dtype, 3, shapes[i], NULL);
    th_tensor *y = th_rope(tape, x, NULL);
    cr_assert(th__same_shape(x, y));
    backward_from(tape, y, (double[]){0});
    th_tape_reset(tape);
  }
  th_tape_free(tape);
}

Test(rope, rejects) {
  th_tape *tape = th_tape_new();
  th_tensor *x = th_input(tape, TH_F32, TH_SHAPE(2, 4), NULL);
  cr_assert_null(th_rope(tape, th_input(tape, TH_F32, TH_SHAPE(2, 3), NULL), NULL));
  expect_error(tape, TH_ERR_SHAPE, "x is [2, 3]; [..., T, D] is expected, D even");
  cr_assert_null(th_rope(tape, th_input(tape, TH_F32, TH_SHAPE(4), NULL), NULL));
  expect_error(tape, TH_ERR_SHAPE, "x is [4]");
  const double bad[] = {-1, NAN, INFINITY, -INFINITY};
  for (int i = 0; i < 4; i++) {
    cr_assert_null(th_rope(tape, x, &(th_rope_options){.base = bad[i]}));
    expect_error(tape, TH_ERR_VALUE, "the base is");
  }
  const ptrdiff_t offsets[] = {-1, PTRDIFF_MIN, PTRDIFF_MAX, ((ptrdiff_t)1 << 40) - 1};
  for (int i = 0; i < 4; i++) {
    cr_assert_null(th_rope(tape, x, &(th_rope_options){.offset = offsets[i]}));
    expect_error(tape, TH_ERR_VALUE, "the offset is");
  }
  cr_assert_null(th_rope(tape, th_input(tape, TH_I32, TH_SHAPE(2, 4), NULL), NULL));
  expect_error(tape, TH_ERR_DTYPE, "i32");
  cr_assert_null(th_rope(tape, NULL, NULL));
  expect_error(tape, TH_ERR_VALUE, "NULL");
  th_tape_free(tape);
}

/* The two orders of pairs are one rotation of entries in another order, forward and backward, at any
 * offset. */
TEST_BOTH(rope, orders_differ_by_a_permutation) {
  enum { ROWS = 3, WIDTH = 8, HALF = WIDTH / 2 };
  static const ptrdiff_t offsets[] = {0, 1, 7, 1000, 1000000};
  th_tape *tape = th_tape_new();
  for (size_t k = 0; k < sizeof offsets / sizeof *offsets; k++) {
    double values[2][ROWS * WIDTH], y[2][ROWS * WIDTH], dx[2][ROWS * WIDTH];
    for (int i = 0; i < ROWS * WIDTH; i++) {
      int at = i % WIDTH;
      values[1][i] = th_random_normal((th_random){.seed = 5}, (uint64_t)i);
      values[0][i - at + at / 2 + at % 2 * HALF] = values[1][i];
    }
    for (int interleaved = 0; interleaved < 2; interleaved++) {
      th_tensor *x = make(tape, dtype, TH_SHAPE(ROWS, WIDTH), values[interleaved]);
      th_rope_options options = {.offset = offsets[k], .interleaved = interleaved};
      th_tensor *turned = th_rope(tape, x, &options);
      cr_assert_eq(th_backward(tape, th_sum(tape, th_mul(tape, turned, turned), TH_ALL_AXES)),
                   TH_OK, "%s", th_tape_message(tape));
      th_tensor_read(turned, y[interleaved]);
      th_tensor_read(th_tensor_grad(x), dx[interleaved]);
      th_tape_reset(tape);
    }
    for (int i = 0; i < ROWS * WIDTH; i++) {
      int at = i % WIDTH, half = i - at + at / 2 + at % 2 * HALF;
      double limit = tolerances[dtype].value;
      cr_assert(fabs(y[1][i] - y[0][half]) <= limit, "offset %td: %g, %g", offsets[k], y[1][i],
                y[0][half]);
      /* The norm does not change, so the gradient of its square is 2 x. */
      cr_assert(fabs(dx[1][i] - 2 * values[1][i]) <= 10 * limit &&
                    fabs(dx[0][half] - dx[1][i]) <= 10 * limit,
                "offset %td: %g, %g, not %g", offsets[k], dx[1][i], dx[0][half], 2 * values[1][i]);
    }
  }
  th_tape_free(tape);
}
