/* The checker itself: what it must reject, what it must not, and what it must leave as it was. */
#include "pointwise.h"
#include "tensor/alloc.h"

/* ---- gradients that are wrong ---- */

static double minus_twice(double x) { return -2 * x; }
static double four_times(double x) { return 4 * x; }
static double off_by_a_millionth(double x) { return 2 * x * (1 + 1e-6); }
static double wrong_above_two(double x) { return x > 2 ? 2 * x + 1e-4 : 2 * x; }
static double not_a_number(double x) { return x > 2 ? (double)NAN : 2 * x; }
static double infinite(double x) { return x > 2 ? (double)INFINITY : 2 * x; }

Test(checker, right_gradient_passes) {
  th_gradcheck_result r = check_pointwise(&(pointwise){sine, cosine, false, 0}, 4, points,
                                          &(th_gradcheck_options){.f32 = true});
  expect_verdict(&r, TH_PASS);
  cr_assert_eq(r.row_count, 2);
  cr_assert_eq(r.rows[0].compared, 4);
  cr_assert_leq(r.rows[0].max_rel_error, 1e-9);
}

Test(checker, wrong_gradients_are_wrong) {
  double (*const claims[])(double) = {
      zero, minus_twice, four_times, off_by_a_millionth, wrong_above_two, not_a_number, infinite};
  for (size_t i = 0; i < sizeof claims / sizeof *claims; i++)
    for (th_check_mode mode = TH_CHECK_EVERY; mode <= TH_CHECK_PROJECTION; mode++) {
      th_gradcheck_result r = check_pointwise(&(pointwise){square, claims[i], false, 0}, 4, points,
                                              &(th_gradcheck_options){.mode = mode});
      cr_expect_eq(r.verdict, TH_WRONG, "claim %zu passes in mode %s", i, th_check_mode_name(mode));
    }
}

Test(checker, names_the_worst_entry_and_both_values) {
  th_gradcheck_result r =
      check_pointwise(&(pointwise){square, wrong_above_two, false, 0}, 4, points, NULL);
  cr_assert_eq(r.rows[0].index, 2);
  cr_assert_float_eq(r.rows[0].analytic / r.rows[0].numeric, (5 + 1e-4) / 5, 1e-9);
  cr_assert_not_null(strstr(r.rows[0].detail, "[2]"), "%s", r.rows[0].detail);
}

Test(checker, overwriting_is_wrong) {
  th_gradcheck_result r = check_pointwise(&(pointwise){square, twice, true, 0}, 4, points, NULL);
  expect_verdict(&r, TH_WRONG);
  cr_assert_not_null(strstr(r.rows[0].detail, "overwritten"), "%s", r.rows[0].detail);
}

Test(checker, error_in_f32_only_is_found) {
  const pointwise p = {square, twice, false, 1.0001};
  th_gradcheck_result r = check_pointwise(&p, 4, points, NULL);
  expect_verdict(&r, TH_PASS);
  r = check_pointwise(&p, 4, points, &(th_gradcheck_options){.f32 = true});
  cr_assert_eq(r.rows[0].verdict, TH_PASS);
  cr_assert_eq(r.rows[1].verdict, TH_WRONG);
  cr_assert_eq(r.rows[1].dtype, TH_F32);
}

/* One wrong entry among 30000 must show in the few directions of a projection. */
Test(checker, projections_see_a_single_wrong_entry) {
  enum { COUNT = 30000 };
  double *x = malloc(COUNT * sizeof *x);
  for (int i = 0; i < COUNT; i++) x[i] = 1 + th_random_uniform((th_random){7, 0, 0}, (uint64_t)i);
  th_gradcheck_result r = check_pointwise(&(pointwise){square, twice, false, 0}, COUNT, x, NULL);
  cr_assert_eq(r.rows[0].mode, TH_CHECK_PROJECTION);
  expect_verdict(&r, TH_PASS);
  x[12345] = 0.5;
  r = check_pointwise(&(pointwise){square, wrong_at_one_place, false, 0}, COUNT, x, NULL);
  expect_verdict(&r, TH_WRONG);
  free(x);
}

/* ---- kinks (C14) ---- */

static double relu(double x) { return x > 0 ? x : 0; }
static double step_at_0(double x) { return x > 0 ? 1 : 0; }
static double half_at_0(double x) { return x > 0 ? 1 : x == 0 ? 0.5 : 0; }
static double one_at_0(double x) { return x >= 0 ? 1 : 0; }
static double above_one_at_0(double x) { return x > 0 ? 1 : x == 0 ? 1.01 : 0; }
static double below_zero_at_0(double x) { return x > 0 ? 1 : x == 0 ? -0.01 : 0; }
static double fooled_near_0(double x) { return x > 1e-5 ? 1 : x > 0 ? 0.505 : 0; }

Test(checker, kink_at_the_point_is_not_judged_but_bounded) {
  const double x[] = {0.0, 1.5, -2.0};
  double (*const fair[])(double) = {step_at_0, half_at_0, one_at_0};
  for (int i = 0; i < 3; i++) {
    th_gradcheck_result r = check_pointwise(&(pointwise){relu, fair[i], false, 0}, 3, x, NULL);
    expect_verdict(&r, TH_KINK);
    cr_assert_eq(r.rows[0].kinks, 1);
    cr_assert_eq(r.rows[0].index, 0);
    double low = fmin(r.rows[0].left, r.rows[0].right), high = fmax(r.rows[0].left, r.rows[0].right);
    cr_assert_float_eq(fmin(fabs(low), fabs(high)), 0, 1e-9);
    cr_assert(fmax(fabs(low), fabs(high)) >= 0.5); /* times the upstream weight */
  }
  th_gradcheck_result r = check_pointwise(&(pointwise){relu, above_one_at_0, false, 0}, 3, x, NULL);
  expect_verdict(&r, TH_WRONG);
  r = check_pointwise(&(pointwise){relu, below_zero_at_0, false, 0}, 3, x, NULL);
  expect_verdict(&r, TH_WRONG);
}

/* At 1e-7 the derivative exists, and steps below 1e-7 find it: 1, not 0.505. */
Test(checker, kink_close_by_is_seen_past) {
  const double x[] = {1e-7, -1e-7, 3e-5, 1.0};
  th_gradcheck_result r = check_pointwise(&(pointwise){relu, step_at_0, false, 0}, 4, x, NULL);
  expect_verdict(&r, TH_PASS);
  r = check_pointwise(&(pointwise){relu, fooled_near_0, false, 0}, 4, x, NULL);
  expect_verdict(&r, TH_WRONG);
  cr_assert_eq(r.rows[0].index, 0);
}

Test(checker, no_kink_where_the_function_only_bends) {
  const double x[] = {0.0, 1e-3, -1e-3, 50.0};
  th_gradcheck_result r = check_pointwise(&(pointwise){square, twice, false, 0}, 4, x, NULL);
  expect_verdict(&r, TH_PASS);
  cr_assert_eq(r.rows[0].kinks, 0);
}

/* ---- functions that change between calls (C15) ---- */

static th_tensor *products(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  th_tensor *a = th_slice(tape, in[0], 0, 0, 2), *b = th_slice(tape, in[0], 0, 1, 3);
  return th_sum(tape, th_mul(tape, a, b), TH_ALL_AXES); /* x0 x1 + x1 x2 */
}

Test(checker, inputs_come_back_bit_identical) {
  const double at[] = {2, 3, 5};
  th_tensor *x = vector(3, at);
  th_tensor_require_grad(x, NULL);
  th_tensor_write(th_tensor_grad(x), (double[]){7, 8, 9});
  th_gradcheck_result r;
  cr_assert_eq(th_gradcheck(products, &x, 1, NULL, NULL, &r, NULL), TH_OK);
  expect_verdict(&r, TH_PASS);
  cr_assert_eq(r.rows[0].compared, 3);
  cr_assert_arr_eq(th_tensor_data(x), at, sizeof at);
  cr_assert_arr_eq(th_tensor_data(th_tensor_grad(x)), ((double[]){7, 8, 9}), sizeof at);
  th_tensor_free(x);
}

typedef struct masking {
  bool redraw;
  uint64_t *calls;
} masking;

static th_tensor *masked(th_tape *tape, th_tensor *const *in, const void *context) {
  const masking *m = context;
  double keep[] = {2, 0, 2, 2};
  uint64_t call = (*m->calls)++;
  for (int i = 0; i < 4 && m->redraw; i++)
    keep[i] = th_random_below((th_random){call, 1, 0}, (uint64_t)i, 2) ? 2 : 0;
  th_dtype dtype = th_tensor_dtype(in[0]);
  th_tensor *mask = th_input(tape, dtype, TH_SHAPE(4), NULL);
  th_tensor_write(mask, keep);
  return th_mul(tape, in[0], mask);
}

Test(checker, fixed_mask_passes_redrawn_mask_is_noisy) {
  th_tensor *x = vector(4, points);
  uint64_t calls = 0;
  masking m = {false, &calls};
  th_gradcheck_result r;
  cr_assert_eq(th_gradcheck(masked, &x, 1, &m, &(th_gradcheck_options){.serial = true}, &r, NULL),
               TH_OK);
  expect_verdict(&r, TH_PASS);
  m.redraw = true;
  cr_assert_eq(th_gradcheck(masked, &x, 1, &m, &(th_gradcheck_options){.serial = true}, &r, NULL),
               TH_OK);
  expect_verdict(&r, TH_NOISY);
  cr_assert_not_null(strstr(r.rows[0].detail, "not deterministic"), "%s", r.rows[0].detail);
  th_tensor_free(x);
}

/* f rounded to f32 inside: the differences never settle. */
static double coarse_sine(double x) { return (double)(float)sin(x); }

Test(checker, rough_function_does_not_pass) {
  th_gradcheck_result r =
      check_pointwise(&(pointwise){coarse_sine, cosine, false, 0}, 4, points, NULL);
  cr_assert_neq(r.verdict, TH_WRONG, "%s", r.rows[0].detail);
  r = check_pointwise(&(pointwise){coarse_sine, zero, false, 0}, 4, points, NULL);
  expect_verdict(&r, TH_WRONG);
}

/* ---- checks that could not fail ---- */

static th_tensor *constant(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  return th_scale(tape, in[0], 0.0);
}
static th_tensor *detached(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  return th_add(tape, in[0], th_detach(tape, in[1]));
}
static th_tensor *all_detached(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  return th_detach(tape, in[0]);
}

static double zero_slope(double x) { return 0 * x; }

Test(checker, vacuous_checks_say_so) {
  th_tensor *x[] = {vector(4, points), vector(4, points), vector(0, points)};
  th_gradcheck_result r;
  cr_assert_eq(th_gradcheck(constant, x, 1, NULL, NULL, &r, NULL), TH_OK);
  expect_verdict(&r, TH_VACUOUS);
  cr_assert_not_null(strstr(r.rows[0].detail, "constant"), "%s", r.rows[0].detail);

  cr_assert_eq(th_gradcheck(detached, x, 2, NULL, NULL, &r, NULL), TH_OK);
  cr_assert_eq(r.rows[0].verdict, TH_PASS);
  cr_assert(!th_verdict_ok(r.rows[1].verdict));
  cr_assert_eq(th_gradcheck(all_detached, x, 1, NULL, NULL, &r, NULL), TH_OK);
  cr_assert(!th_verdict_ok(r.verdict));

  cr_assert_eq(th_gradcheck(constant, x + 2, 1, NULL, NULL, &r, NULL), TH_OK);
  expect_verdict(&r, TH_VACUOUS);
  cr_assert_eq(r.rows[0].compared, 0);
  for (int i = 0; i < 3; i++) th_tensor_free(x[i]);
}

/* Zeros are symmetric, whatever the function is. */
Test(checker, second_order_of_nothing_is_vacuous) {
  th_tensor *x[] = {vector(4, points), vector(4, points)};
  const th_gradcheck_options options = {.mode = TH_CHECK_HESSIAN};
  th_gradcheck_result r;
  cr_assert_eq(th_gradcheck(constant, x, 1, NULL, &options, &r, NULL), TH_OK);
  expect_verdict(&r, TH_VACUOUS);
  cr_assert_not_null(strstr(r.rows[0].detail, "constant"), "%s", r.rows[0].detail);
  cr_assert_eq(th_gradcheck(all_detached, x, 1, NULL, &options, &r, NULL), TH_OK);
  expect_verdict(&r, TH_VACUOUS);
  cr_assert_not_null(strstr(r.rows[0].detail, "claimed gradient is 0"), "%s", r.rows[0].detail);
  r = check_pointwise(&(pointwise){sine, zero_slope, false, 0}, 4, points, &options);
  expect_verdict(&r, TH_VACUOUS);
  r = check_pointwise(&(pointwise){sine, cosine, false, 0}, 4, points, &options);
  expect_verdict(&r, TH_PASS);
  for (int i = 0; i < 2; i++) th_tensor_free(x[i]);
}

static double not_finite(double x) { return x > 2 ? (double)INFINITY : x; }

Test(checker, output_that_is_not_finite_is_wrong) {
  th_gradcheck_result r = check_pointwise(&(pointwise){not_finite, one, false, 0}, 4, points, NULL);
  expect_verdict(&r, TH_WRONG);
}

/* ---- inputs ---- */

static th_tensor *multiply(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  return th_mul(tape, in[0], in[1]);
}

Test(checker, same_tensor_twice_is_a_total) {
  th_tensor *x = vector(4, points), *twice_x[] = {x, x};
  th_gradcheck_result r;
  cr_assert_eq(th_gradcheck(multiply, twice_x, 2, NULL, NULL, &r, NULL), TH_OK);
  expect_verdict(&r, TH_PASS);
  cr_assert_eq(r.row_count, 1);
  th_tensor_free(x);
}

Test(checker, overlapping_inputs_are_refused) {
  th_tape *tape = th_tape_new();
  th_tensor *x = th_input(tape, TH_F64, TH_SHAPE(6), NULL);
  th_tensor *both[] = {th_slice(tape, x, 0, 0, 4), th_slice(tape, x, 0, 2, 6)};
  th_gradcheck_result r;
  th_error error;
  cr_assert_eq(th_gradcheck(multiply, both, 2, NULL, NULL, &r, &error), TH_ERR_VALUE);
  cr_assert_not_null(strstr(error.message, "share memory"), "%s", error.message);
  th_tensor *apart[] = {th_slice(tape, x, 0, 0, 3), th_slice(tape, x, 0, 3, 6)};
  th_tensor_write(x, (double[]){1, 2, 3, 4, 5, 6});
  cr_assert_eq(th_gradcheck(multiply, apart, 2, NULL, NULL, &r, &error), TH_OK);
  expect_verdict(&r, TH_PASS);
  th_tape_free(tape);
}

Test(checker, bad_calls_are_refused) {
  th_tensor *x = vector(4, points), *none = NULL;
  th_tensor *ids = th_tensor_new(TH_I32, TH_SHAPE(3), NULL);
  th_gradcheck_result r;
  th_error error;
  cr_assert_eq(th_gradcheck(multiply, &none, 1, NULL, NULL, &r, &error), TH_ERR_VALUE);
  cr_assert_eq(th_gradcheck(multiply, &x, 0, NULL, NULL, &r, &error), TH_ERR_VALUE);
  cr_assert_eq(th_gradcheck(constant, &ids, 1, NULL, NULL, &r, &error), TH_ERR_VALUE);
  cr_assert_not_null(strstr(error.message, "nothing to check"), "%s", error.message);
  th_tensor *unlike[] = {x, th_tensor_new(TH_F64, TH_SHAPE(3), NULL)};
  cr_assert_eq(th_gradcheck(multiply, unlike, 2, NULL, NULL, &r, &error), TH_ERR_SHAPE);
  cr_assert_not_null(strstr(error.message, "mul"), "%s", error.message);
  th_tensor_free(x);
  th_tensor_free(ids);
  th_tensor_free(unlike[1]);
}

/* Also while a mistake is being named, which a wrong gradient brings about. */
Test(checker, every_allocation_may_fail) {
  const pointwise claims[] = {{square, twice, false, 0}, {square, cosine, false, 0}};
  th_tensor *x = vector(3, points);
  for (th_check_mode mode = TH_CHECK_AUTO; mode <= TH_CHECK_PRECISION; mode++)
    for (int c = 0; c < 2; c++) {
      th_status status = TH_ERR_MEMORY;
      const th_gradcheck_options options = {
          .mode = mode, .samples = 2, .projections = 2, .f32 = true, .serial = true};
      for (size_t n = 1; status == TH_ERR_MEMORY; n++) {
        th_gradcheck_result r;
        th__alloc_fail_at(n);
        status = th_gradcheck(pointwise_function, &x, 1, &claims[c], &options, &r, NULL);
        th__alloc_fail_at(0);
        cr_assert(status == TH_ERR_MEMORY || status == TH_OK, "allocation %zu: %s", n,
                  th_status_text(status));
        cr_assert_lt(n, 100000);
      }
    }
  th_tensor_free(x);
}

Test(checker, same_result_on_any_number_of_threads) {
  double x[200];
  for (int i = 0; i < 200; i++) x[i] = th_random_normal((th_random){3, 0, 0}, (uint64_t)i);
  th_set_threads(1);
  th_gradcheck_result a = check_pointwise(&(pointwise){sine, cosine, false, 0}, 200, x, NULL);
  th_set_threads(3);
  th_gradcheck_result b = check_pointwise(&(pointwise){sine, cosine, false, 0}, 200, x, NULL);
  th_set_threads(0);
  cr_assert_arr_eq(&a, &b, sizeof a);
}
