/* How attention is recorded: layouts of its inputs, inputs that share memory, running out of memory. */
#include "attention.h"

#include "autograd/record/attention.h"
#include "tensor/alloc.h"

enum { B = 3, H = 4, T = 40, D = 16, C = H * D };

static double *read_all(const th_tensor *x) {
  cr_assert_not_null(x);
  double *values = room(th_tensor_count(x), sizeof *values);
  th_tensor_read(x, values);
  return values;
}

/* ---- layouts ---- */

/* Ways to hand over one tensor [B, H, T, D], given as contiguous [B, H, T, D] on the tape. */
typedef enum layout { AS_IS, BY_TOKEN, BY_WIDTH, IN_THE_MIDDLE, LAYOUTS } layout;

static th_tensor *laid_out(th_tape *tape, th_dtype dtype, layout how, const double *values,
                           th_tensor **leaf) {
  th_tensor *x = th_input(tape, dtype, TH_SHAPE(B, H, T, D), NULL);
  th_tensor_write(x, values);
  if (how == AS_IS) return *leaf = make(tape, dtype, TH_SHAPE(B, H, T, D), values);
  if (how == IN_THE_MIDDLE) { /* of a wider tensor */
    *leaf = th_input_grad(tape, dtype, TH_SHAPE(B, H, T, 3 * D), NULL);
    th_tensor *middle = th_slice(tape, *leaf, 3, D, 2 * D);
    th_tensor_write(middle, values);
    return middle;
  }
  int axis = how == BY_TOKEN ? 1 : 3;
  double *turned = read_all(th_transpose(tape, x, axis, 2));
  *leaf = how == BY_TOKEN ? make(tape, dtype, TH_SHAPE(B, T, H, D), turned)
                          : make(tape, dtype, TH_SHAPE(B, H, D, T), turned);
  free(turned);
  return th_transpose(tape, *leaf, axis, 2);
}

/* The gradient that has arrived in the leaf, as [B, H, T, D]. */
static double *gradient(th_tape *tape, layout how, const th_tensor *leaf) {
  th_tensor *grad = th_tensor_grad(leaf);
  if (how == BY_TOKEN) grad = th_transpose(tape, grad, 1, 2);
  if (how == BY_WIDTH) grad = th_transpose(tape, grad, 3, 2);
  if (how == IN_THE_MIDDLE) grad = th_slice(tape, grad, 3, D, 2 * D);
  return read_all(grad);
}

TEST_BOTH(attention_record, any_layout) {
  problem p = random_problem(
      (problem){.batch = B, .heads = H, .key_heads = H, .n_q = T, .n_k = T, .d_k = D, .d_v = D},
      CAUSAL, 41);
  naive(&p);
  const double *inputs[] = {p.q, p.k, p.v}, *want[] = {p.dq, p.dk, p.dv};
  th_tape *tape = th_tape_new();
  for (int how = 0; how < LAYOUTS; how++) {
    th_tensor *x[3], *leaf[3];
    for (int i = 0; i < 3; i++) x[i] = laid_out(tape, dtype, (layout)how, inputs[i], &leaf[i]);
    th_attention_options options = options_of(tape, &p);
    th_tensor *y = th_attention(tape, x[0], x[1], x[2], &options);
    expect_values("y", y, p.y, tolerances[dtype].value);
    backward_from(tape, y, p.dy);
    for (int i = 0; i < 3; i++) {
      double *got = gradient(tape, (layout)how, leaf[i]);
      for (ptrdiff_t j = 0; j < th_tensor_count(x[i]); j++)
        cr_assert(fabs(got[j] - want[i][j]) <=
                      tolerances[dtype].gradient * fmax(1, fabs(want[i][j])),
                  "layout %d, input %d, element %td: %g, not %g", how, i, j, got[j], want[i][j]);
      free(got);
    }
    th_tape_reset(tape);
  }
  th_tape_free(tape);
  problem_free(&p);
}

/* One projection [B, T, 3C] cut into q, k, v: no copies, no node but attention's own. */
TEST_BOTH(attention_record, fused_projection_needs_no_copies) {
  th_tape *tape = th_tape_new();
  th_tensor *x = th_input_grad(tape, dtype, TH_SHAPE(B, T, 3 * C), NULL);
  th_init_normal(x, 0, 1, (th_random){4, 4, 4});
  th_tensor *part[3];
  for (int i = 0; i < 3; i++)
    part[i] = th_split_heads(tape, th_slice(tape, x, 2, i * C, (i + 1) * C), H);
  th_tensor *y = th_merge_heads(tape, th_attention(tape, part[0], part[1], part[2], NULL));
  cr_assert(th_tensor_is_contiguous(y));
  cr_assert_eq(th_tape_node_count(tape), 1);
  th_tape_free(tape);
}

/* ---- shared memory ---- */

typedef th_tensor *cut(th_tape *tape, th_tensor *x, bool queries);

static th_tensor *all_of_it(th_tape *tape, th_tensor *x, bool queries) {
  (void)tape, (void)queries;
  return x;
}
/* Sample b asks sample b + 1; head h asks head h + 1; token t asks token t + 1. */
static th_tensor *next_sample(th_tape *tape, th_tensor *x, bool queries) {
  return th_slice(tape, x, 0, queries ? 0 : 1, queries ? B - 1 : B);
}
static th_tensor *next_head(th_tape *tape, th_tensor *x, bool queries) {
  return th_slice(tape, x, 1, queries ? 0 : 1, queries ? H - 1 : H);
}
static th_tensor *next_token(th_tape *tape, th_tensor *x, bool queries) {
  return th_slice(tape, x, 2, queries ? 0 : 1, queries ? T - 1 : T);
}
/* q = k^T, which leaves q's rows apart, so that it is copied. */
static th_tensor *turned(th_tape *tape, th_tensor *x, bool queries) {
  return queries ? x : th_transpose(tape, x, 0, 1);
}

/* dL/dx with q, k and v cut out of one x, or each out of an x of its own, and summed. */
static double *shared_gradient(th_dtype dtype, const double *values, cut *function, bool shared,
                               bool square) {
  ptrdiff_t samples = square ? H : B;
  th_tape *tape = th_tape_new();
  th_tensor *x[3];
  for (int i = 0; i < 3; i++)
    x[i] = shared && i > 0 ? x[0] : make(tape, dtype, TH_SHAPE(samples, H, T, D), values);
  th_attention_options options = {.causal = true};
  th_tensor *y = th_attention(tape, function(tape, x[0], true), function(tape, x[1], false),
                              function(tape, x[2], false), &options);
  cr_assert_not_null(y, "%s", th_tape_message(tape));
  backward_from(tape, y, values);
  double *sum = read_all(th_tensor_grad(x[0]));
  for (int i = 1; i < 3 && !shared; i++) {
    double *more = read_all(th_tensor_grad(x[i]));
    for (ptrdiff_t j = 0; j < th_tensor_count(x[i]); j++) sum[j] += more[j];
    free(more);
  }
  th_tape_free(tape);
  return sum;
}

/* Pieces that run side by side must not add to one gradient at once. */
TEST_BOTH(attention_record, inputs_may_share_memory) {
  double *values = normals(H * H * T * D, 51, 1);
  cut *const functions[] = {all_of_it, next_sample, next_head, next_token, turned};
  th_set_threads(4);
  for (int i = 0; i < 5; i++) {
    bool square = functions[i] == turned;
    ptrdiff_t count = (square ? H : B) * H * T * D;
    double *want = shared_gradient(dtype, values, functions[i], false, square);
    for (int repeat = 0; repeat < 5; repeat++) {
      double *got = shared_gradient(dtype, values, functions[i], true, square);
      for (ptrdiff_t j = 0; j < count; j++)
        cr_assert(fabs(got[j] - want[j]) <= tolerances[dtype].gradient * fmax(1, fabs(want[j])),
                  "cut %d, element %td: %g, not %g", i, j, got[j], want[j]);
      free(got);
    }
    free(want);
  }
  th_set_threads(0);
  free(values);
}

/* Seen to be apart: other tensors, one window, other columns of one projection. Anything else is not. */
Test(attention_record, heads_apart) {
  th_tape *tape = th_tape_new();
  th_tensor *x = th_input(tape, TH_F32, TH_SHAPE(H, H, T, D), NULL);
  th_tensor *y = th_input(tape, TH_F32, TH_SHAPE(H, H, T, D), NULL);
  cr_assert(th__heads_apart(x, y));
  cr_assert(th__heads_apart(x, th_slice(tape, x, 0, 0, H)));
  cut *const functions[] = {next_sample, next_head, next_token, turned};
  for (int i = 0; i < 4; i++)
    cr_assert_not(th__heads_apart(functions[i](tape, x, true), functions[i](tape, x, false)), "%d",
                  i);

  th_tensor *p = th_input(tape, TH_F32, TH_SHAPE(B, T, C), NULL); /* H heads, overlapping ranges */
  th_tensor *left = th_split_heads(tape, th_slice(tape, p, 2, 0, C / 2), H / 2);
  th_tensor *right = th_split_heads(tape, th_slice(tape, p, 2, C / 2, C), H / 2);
  th_tensor *middle = th_split_heads(tape, th_slice(tape, p, 2, C / 4, 3 * C / 4), H / 2);
  cr_assert(th__heads_apart(left, right) && th__heads_apart(right, left));
  cr_assert_not(th__heads_apart(left, middle));
  cr_assert_not(th__heads_apart(middle, right));
  th_tape_free(tape);
}

/* ---- memory ---- */

/* Only what is wanted is computed; the others stay without a gradient. */
TEST_BOTH(attention_record, constant_inputs) {
  double *values = normals(B * H * T * D, 61, 1);
  for (int wanted = 0; wanted < 3; wanted++) {
    double *want = NULL;
    for (int alone = 0; alone < 2; alone++) {
      th_tape *tape = th_tape_new();
      th_tensor *x[3];
      for (int i = 0; i < 3; i++) {
        x[i] = make(tape, dtype, TH_SHAPE(B, H, T, D), values);
        if (alone && i != wanted) x[i] = th_detach(tape, x[i]);
      }
      backward_from(tape, th_attention(tape, x[0], x[1], x[2], NULL), values);
      double *got = read_all(th_tensor_grad(x[wanted]));
      if (alone) cr_assert_arr_eq(got, want, (size_t)(B * H * T * D) * sizeof *got);
      free(want);
      want = got;
      th_tape_free(tape);
    }
    free(want);
  }
  free(values);
}

/* Takes `bytes` from the arena, or all it has left without a new chunk; how many it was. */
static size_t drain(th_tape *tape, size_t bytes) {
  size_t taken = 0;
  for (size_t piece = 1 << 20; piece >= 64; piece /= 2) {
    while (taken + piece <= bytes && th_tape_alloc(tape, piece) != NULL) taken += piece;
    th_tape_clear_error(tape);
  }
  return taken;
}

/* Runs with `left` bytes of memory from the forward on, or from the backward on. *held: how much the
 * arena holds free by then, found out by the first run. */
static th_status run_with(size_t left, bool from_backward, size_t *held, const problem *p) {
  th_tape *tape = th_tape_new();
  th_tensor *q = make(tape, TH_F64, TH_SHAPE(p->batch, p->heads, p->n_q, p->d_k), p->q);
  th_tensor *k = make(tape, TH_F64, TH_SHAPE(p->batch, p->key_heads, p->n_k, p->d_k), p->k);
  th_tensor *v = make(tape, TH_F64, TH_SHAPE(p->batch, p->key_heads, p->n_k, p->d_v), p->v);
  th_tensor *dy = make(tape, TH_F64, TH_SHAPE(p->batch, p->heads, p->n_q, p->d_v), p->dy);
  th_tensor *y = NULL, *weights = q;
  th_attention_options options = options_of(tape, p);
  options.weights = &weights;
  if (from_backward) y = th_attention(tape, q, k, v, &options);
  th__alloc_fail_at(1);
  size_t taken = drain(tape, *held == 0 ? SIZE_MAX : *held - left);
  if (*held == 0) *held = taken;
  if (!from_backward) y = th_attention(tape, q, k, v, &options);
  cr_assert_eq(y == NULL, weights == NULL);
  th_status status = y == NULL ? th_tape_status(tape) : th_backward_from(tape, y, dy);
  th__alloc_fail_at(0);
  th_tape_free(tape);
  return status;
}

/* However little memory there is: an error and no crash. */
Test(attention_record, out_of_memory) {
  problem p = random_problem(
      (problem){.batch = 2, .heads = 2, .key_heads = 1, .n_q = 40, .n_k = 40, .d_k = 16, .d_v = 16},
      CAUSAL | LENGTHS | KEY_MASK | MASK, 71);
  p.q[0] = p.k[0] = p.v[0] = p.dy[0] =
      (double)NAN; /* so that copies without them are made as well */
  for (int from_backward = 0; from_backward < 2; from_backward++) {
    size_t held = 0;
    int failed = 0;
    for (size_t left = 0; left <= held; left += 1024) {
      th_status status = run_with(left, from_backward != 0, &held, &p);
      if (status == TH_OK) break;
      cr_assert_eq(status, TH_ERR_MEMORY);
      failed++;
    }
    cr_assert_gt(failed, 20);
  }
  problem_free(&p);
}
