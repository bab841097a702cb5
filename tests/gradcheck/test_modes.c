/* The modes that do not look at every coordinate: samples, symmetry, precision; and functions that drift. */
#include "pointwise.h"

Test(modes, samples_come_from_every_row_and_say_what_they_miss) {
  enum { ROWS = 50, WIDTH = 20 };
  double x[ROWS * WIDTH];
  for (int i = 0; i < ROWS * WIDTH; i++)
    x[i] = 1 + th_random_uniform((th_random){7, 0, 0}, (uint64_t)i);
  th_tensor *matrix = th_tensor_from(TH_F64, TH_SHAPE(ROWS, WIDTH), x, NULL);
  const th_gradcheck_options options = {.mode = TH_CHECK_SAMPLE, .samples = 2 * ROWS};
  th_gradcheck_result r;
  const pointwise right = {square, twice, false, 0};
  cr_assert_eq(th_gradcheck(pointwise_function, &matrix, 1, &right, &options, &r, NULL), TH_OK);
  expect_verdict(&r, TH_PASS);
  cr_assert_eq(r.rows[0].compared, 2 * ROWS);
  cr_assert_float_eq(r.rows[0].miss, 1 - 2.0 / WIDTH, 1e-12);
  /* A row that is wrong as a whole cannot be missed. */
  for (int row = 0; row < ROWS; row += 7) {
    double kept[WIDTH];
    memcpy(kept, x + row * WIDTH, sizeof kept);
    for (int i = 0; i < WIDTH; i++) x[row * WIDTH + i] = 0.5;
    th_tensor_write(matrix, x);
    const pointwise wrong = {square, wrong_at_one_place, false, 0};
    cr_assert_eq(th_gradcheck(pointwise_function, &matrix, 1, &wrong, &options, &r, NULL), TH_OK);
    expect_verdict(&r, TH_WRONG);
    memcpy(x + row * WIDTH, kept, sizeof kept);
  }
  th_tensor_free(matrix);
}

/* How often a single wrong entry is missed is what the row says: 1 - m/n. */
Test(modes, samples_miss_as_often_as_they_say) {
  enum { COUNT = 40, ROUNDS = 400 };
  double x[COUNT], miss = 0;
  int missed = 0;
  for (int i = 0; i < COUNT; i++) x[i] = i == 13 ? 0.5 : 1 + i / 40.0;
  const pointwise wrong = {square, wrong_at_one_place, false, 0};
  for (uint64_t seed = 0; seed < ROUNDS; seed++) {
    th_gradcheck_result r =
        check_pointwise(&wrong, COUNT, x,
                        &(th_gradcheck_options){
                            .mode = TH_CHECK_SAMPLE, .samples = 10, .seed = seed, .serial = true});
    missed += th_verdict_ok(r.verdict);
    miss = r.rows[0].miss;
  }
  cr_assert_float_eq(miss, 0.75, 1e-12);
  cr_assert_float_eq(missed / (double)ROUNDS, miss, 4 * sqrt(0.75 * 0.25 / ROUNDS));
}

static th_status matrix_backward(th_node *node) {
  const double *jacobian = *(const double **)th_node_saved(node);
  const double *x = th_tensor_data(th_node_input(node, 0));
  const double *dy = th_tensor_data(th_node_upstream(node));
  double *dx = th_tensor_data(th_node_grad(node, 0));
  for (int i = 0; i < 2; i++) /* y_k = (A x)_k^2, claimed with the matrix given */
    for (int k = 0; k < 2; k++)
      dx[i] +=
          2 * (2 * x[0] * (k == 0) + (x[0] + 3 * x[1]) * (k == 1)) * jacobian[2 * k + i] * dy[k];
  return TH_OK;
}

static th_tensor *matrix_function(th_tape *tape, th_tensor *const *in, const void *context) {
  static const th_op op = {.name = "squares", .backward = matrix_backward};
  const double *x = th_tensor_data(in[0]), a = 2 * x[0], b = x[0] + 3 * x[1];
  th_tensor *y = th_input(tape, TH_F64, TH_SHAPE(2), (double[]){a * a, b * b});
  return th_record(tape, &op, y, (th_tensor *[]){in[0]}, 1, &context, sizeof context);
}

Test(modes, second_derivatives_are_symmetric) {
  static const double right[] = {2, 0, 1, 3}, transposed[] = {2, 1, 0, 3}, doubled[] = {4, 0, 2, 6};
  th_tensor *x = vector(2, (double[]){0.7, -0.4});
  const th_gradcheck_options options = {.mode = TH_CHECK_HESSIAN};
  th_gradcheck_result r;
  cr_assert_eq(th_gradcheck(matrix_function, &x, 1, right, &options, &r, NULL), TH_OK);
  expect_verdict(&r, TH_PASS);
  cr_assert_eq(r.row_count, 1);
  cr_assert_leq(r.rows[0].max_rel_error, 1e-7);
  cr_assert_eq(th_gradcheck(matrix_function, &x, 1, transposed, &options, &r, NULL), TH_OK);
  expect_verdict(&r, TH_WRONG);
  /* What it cannot see, as the header says: twice a gradient is a gradient. */
  cr_assert_eq(th_gradcheck(matrix_function, &x, 1, doubled, &options, &r, NULL), TH_OK);
  expect_verdict(&r, TH_PASS);
  cr_assert_eq(th_gradcheck(matrix_function, &x, 1, doubled, NULL, &r, NULL), TH_OK);
  expect_verdict(&r, TH_WRONG);
  cr_assert_str_eq(r.rows[0].diagnosis, "factor");
  cr_assert_float_eq(r.rows[0].factor, 2, 1e-6);
  th_tensor_free(x);
}

static th_tensor *rectified(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  return th_relu(tape, in[0]);
}

/* Differences across thousands of kinks settle nowhere; two that agree by chance prove nothing. */
Test(modes, second_derivatives_across_kinks_are_no_false_alarm) {
  enum { COUNT = 24576 };
  double *values = malloc(COUNT * sizeof *values);
  for (int i = 0; i < COUNT; i++) values[i] = th_random_normal((th_random){3, 0, 0}, (uint64_t)i);
  th_tensor *x = vector(COUNT, values);
  for (uint64_t seed = 0; seed < 6; seed++) {
    th_gradcheck_result r;
    const th_gradcheck_options options = {.mode = TH_CHECK_HESSIAN, .seed = seed};
    cr_assert_eq(th_gradcheck(rectified, &x, 1, NULL, &options, &r, NULL), TH_OK);
    cr_expect(th_verdict_ok(r.verdict), "%s: %s", th_verdict_name(r.verdict), r.rows[0].detail);
  }
  th_tensor_free(x);
  free(values);
}

/* Several kinks along one direction: looked at one by one. A wrong claim there is still wrong. */
Test(modes, projections_through_several_kinks_are_no_false_alarm) {
  double values[12] = {0};
  for (int i = 0; i < 12; i += 2) values[i] = i - 5;
  th_tensor *x = vector(12, values);
  for (uint64_t seed = 0; seed < 10; seed++) {
    th_gradcheck_result r;
    const th_gradcheck_options options = {.mode = TH_CHECK_PROJECTION, .seed = seed};
    cr_assert_eq(th_gradcheck(rectified, &x, 1, NULL, &options, &r, NULL), TH_OK);
    cr_expect(r.verdict == TH_KINK, "%s: %s", th_verdict_name(r.verdict), r.rows[0].detail);
    r = check_pointwise(&(pointwise){fabs, twice, false, 0}, 12, values, &options);
    expect_verdict(&r, TH_WRONG);
  }
  th_tensor_free(x);
}

Test(modes, precision_mode_compares_f32_with_f64_only) {
  th_gradcheck_result r = check_pointwise(&(pointwise){sine, cosine, false, 0}, 4, points,
                                          &(th_gradcheck_options){.mode = TH_CHECK_PRECISION});
  expect_verdict(&r, TH_PASS);
  cr_assert_eq(r.row_count, 1);
  cr_assert_eq(r.rows[0].dtype, TH_F32);
}

/* Deterministic at first, another function from the 30th call on. */
static th_tensor *drifting(th_tape *tape, th_tensor *const *in, const void *context) {
  uint64_t *calls = *(uint64_t *const *)context;
  return th_scale(tape, in[0], ++*calls < 30 ? 2.0 : 3.0);
}

Test(modes, function_that_drifts_is_noisy) {
  th_tensor *x = vector(4, points);
  uint64_t calls = 0, *counter = &calls;
  th_gradcheck_result r;
  const th_gradcheck_options options = {.serial = true};
  cr_assert_eq(th_gradcheck(drifting, &x, 1, &counter, &options, &r, NULL), TH_OK);
  expect_verdict(&r, TH_NOISY);
  th_tensor_free(x);
}
