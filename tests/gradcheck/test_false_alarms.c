/* Correct functions at random points, at every size from 1e-6 to 1e6, with kinks and saturated softmax
 * rows: none may be called wrong, or anything else that counts as a failure. And the same claims, off by
 * a ten-thousandth, must be caught wherever the gradient can be seen at all.
 * ctest: full */
#include <stdio.h>

#include "functions.h"
#include "pointwise.h"

enum { POINTS = 12 };

/* What is checked, and the same claim off by a ten-thousandth. */
static const one_number *off_base;
static double off_df(double x) { return off_base->df(x) * (1 + 1e-4); }

static void draw_points(const one_number *f, double size, uint64_t seed, double *x) {
  for (uint64_t i = 0; i < POINTS; i++) {
    double z = th_random_normal((th_random){seed, 11, 0}, i);
    if (f->positive) z = fabs(z) + 0.01;
    x[i] = size * z;
  }
}

Test(false_alarms, functions_of_one_number_at_every_size) {
  int checked = 0, resolved = 0, caught = 0;
  for (int i = 0; i < FUNCTIONS; i++)
    for (int power = -6; power <= (functions[i].most > 1 ? functions[i].most : 1); power++) {
      const one_number *f = off_base = &functions[i];
      const pointwise right = {f->f, f->df, false, 0}, off = {f->f, off_df, false, 0};
      double x[POINTS];
      draw_points(f, pow(10, power), (uint64_t)(100 * i + power + 50), x);
      th_gradcheck_result r = check_pointwise(&right, POINTS, x, NULL);
      checked++;
      cr_expect(th_verdict_ok(r.verdict), "%s at size 1e%d: %s: %s", f->name, power,
                th_verdict_name(r.verdict), r.rows[0].detail);
      if (r.rows[0].below_floor + r.rows[0].kinks == POINTS) continue;
      resolved++;
      th_gradcheck_result wrong = check_pointwise(&off, POINTS, x, NULL);
      caught += wrong.verdict == TH_WRONG;
      cr_expect_eq(wrong.verdict, TH_WRONG, "%s at size 1e%d, off by 1e-4: %s", f->name, power,
                   th_verdict_name(wrong.verdict));
    }
  cr_assert_geq(checked, 190, "%d", checked);
  cr_assert_geq(resolved, checked - 10, "only %d of %d could be judged", resolved, checked);
  cr_assert_eq(caught, resolved);
}

/* Sizes from 1e-6 to 1e6 side by side in one tensor. */
Test(false_alarms, mixed_sizes) {
  for (int i = 0; i < FUNCTIONS; i++)
    for (uint64_t seed = 0; seed < 5 && functions[i].most == 6; seed++) {
      const pointwise p = {functions[i].f, functions[i].df, false, 0};
      double x[13];
      for (int k = 0; k < 13; k++)
        x[k] = pow(10, k - 6) * (0.5 + th_random_uniform((th_random){seed, 12, 0}, (uint64_t)k));
      th_gradcheck_result r = check_pointwise(&p, 13, x, NULL);
      cr_expect(th_verdict_ok(r.verdict), "%s, seed %d: %s: %s", functions[i].name, (int)seed,
                th_verdict_name(r.verdict), r.rows[0].detail);
    }
}

/* ---- saturated rows ---- */

static th_tensor *attend(th_tape *tape, th_tensor *const *in, const void *context) {
  return th_attention(tape, in[0], in[1], in[2], context);
}
static th_tensor *soften(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  return th_softmax(tape, in[0]);
}
static th_tensor *log_soften(th_tape *tape, th_tensor *const *in, const void *context) {
  (void)context;
  return th_log_softmax(tape, in[0]);
}

static void expect_no_alarm(const char *what, const th_check *check, int seeds) {
  for (int seed = 0; seed < seeds; seed++) {
    th_gradcheck_result r;
    th_error error = {TH_OK, ""};
    cr_assert_eq(th_gradcheck_case(check,
                                   &(th_gradcheck_options){.seed = (uint64_t)seed, .f32 = true}, &r,
                                   &error),
                 TH_OK, "%s", error.message);
    for (int row = 0; row < r.row_count; row++)
      cr_expect(th_verdict_ok(r.rows[row].verdict), "%s, seed %d, %s %s: %s", what, seed,
                r.rows[row].input, th_dtype_name(r.rows[row].dtype), r.rows[row].detail);
  }
}

Test(false_alarms, softmax_from_soft_to_dead) {
  for (double size = 1e-3; size <= 1e4; size *= 10) {
    const th_check softmax = {
        .forward = soften, .input_count = 1, .inputs = {{"x", TH_FILL_NORMAL, size, 2, {4, 8}}}};
    const th_check log_softmax = {.forward = log_soften,
                                  .input_count = 1,
                                  .inputs = {{"x", TH_FILL_NORMAL, size, 2, {4, 8}}}};
    char what[64];
    snprintf(what, sizeof what, "softmax at size %g", size);
    expect_no_alarm(what, &softmax, 5);
    expect_no_alarm(what, &log_softmax, 5);
  }
}

/* q, k ~ N(0, 1) and no scale: rows frozen on one key. */
Test(false_alarms, attention_without_scale_at_width_1024) {
  static const th_attention_options unscaled = {.scale = TH_SCALE_NONE};
  for (ptrdiff_t width = 4; width <= 1024; width *= 16) {
    const th_check check = {.forward = attend,
                            .context = &unscaled,
                            .input_count = 3,
                            .inputs = {{"q", TH_FILL_NORMAL, 0, 4, {1, 1, 2, width}},
                                       {"k", TH_FILL_NORMAL, 0, 4, {1, 1, 5, width}},
                                       {"v", TH_FILL_NORMAL, 0, 4, {1, 1, 5, 3}}}};
    char what[64];
    snprintf(what, sizeof what, "width %td", width);
    expect_no_alarm(what, &check, 2);
  }
}

/* Two points at which two large steps agree by chance, far from where D(h) is a parabola: once, this was
 * taken for accuracy. */
Test(false_alarms, steps_that_agree_by_chance) {
  static const th_attention_options unscaled = {.scale = TH_SCALE_NONE};
  static const uint64_t draws[] = {11168, 41167};
  static const ptrdiff_t shapes[3][4] = {{1, 1, 2, 1024}, {1, 1, 5, 1024}, {1, 1, 5, 3}};
  for (int n = 0; n < 2; n++) {
    th_tensor *inputs[3];
    for (uint32_t i = 0; i < 3; i++) {
      inputs[i] = th_tensor_new(TH_F64, 4, shapes[i], NULL);
      cr_assert_not_null(inputs[i]);
      for (ptrdiff_t k = 0; k < inputs[i]->count; k++)
        th__set(inputs[i], k, th_random_normal((th_random){draws[n], i + 1, 0}, (uint64_t)k));
    }
    th_gradcheck_result r;
    th_error error = {TH_OK, ""};
    cr_assert_eq(th_gradcheck(attend, inputs, 3, &unscaled, NULL, &r, &error), TH_OK, "%s",
                 error.message);
    cr_expect(th_verdict_ok(r.verdict), "draw %d: %s", (int)draws[n], th_verdict_name(r.verdict));
    for (int i = 0; i < 3; i++) th_tensor_free(inputs[i]);
  }
}
