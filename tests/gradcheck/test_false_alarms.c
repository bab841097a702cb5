/* Correct functions at random points, at every size from 1e-6 to 1e6, with kinks and saturated softmax
 * rows: none may be called wrong, or anything else that counts as a failure. And the same claims, off by
 * a ten-thousandth, must be caught wherever the gradient can be seen at all.
 * ctest: full */
#include <stdio.h>

#include "pointwise.h"

/* clang-format off */
static double e_f(double x) { return exp(x); }
static double log_f(double x) { return log(x); }
static double log_d(double x) { return 1 / x; }
static double sqrt_f(double x) { return sqrt(x); }
static double sqrt_d(double x) { return 0.5 / sqrt(x); }
static double cube_f(double x) { return x * x * x; }
static double cube_d(double x) { return 3 * x * x; }
static double inverse_f(double x) { return 1 / x; }
static double inverse_d(double x) { return -1 / (x * x); }
static double tanh_f(double x) { return tanh(x); }
static double tanh_d(double x) { double c = cosh(x); return 1 / (c * c); }
static double erf_f(double x) { return erf(x); }
static double erf_d(double x) { return 1.12837916709551257390 * exp(-x * x); }
static double gauss_f(double x) { return exp(-x * x); }
static double gauss_d(double x) { return -2 * x * exp(-x * x); }
static double atan_f(double x) { return atan(x); }
static double atan_d(double x) { return 1 / (1 + x * x); }
static double wave_f(double x) { return sin(20 * x); }
static double wave_d(double x) { return 20 * cos(20 * x); }
static double soft_f(double x) { return fmax(x, 0) + log1p(exp(-fabs(x))); }
static double soft_d(double x) { return 1 / (1 + exp(-x)); }
static double abs_f(double x) { return fabs(x); }
static double abs_d(double x) { return x > 0 ? 1 : x < 0 ? -1 : 0; }
static double relu_f(double x) { return x > 0 ? x : 0; }
static double relu_d(double x) { return x > 0 ? 1 : 0; }
static double leaky_f(double x) { return x > 0 ? x : 0.01 * x; }
static double leaky_d(double x) { return x > 0 ? 1 : 0.01; }
static double hinge_f(double x) { return fmax(1 - x, 0); }
static double hinge_d(double x) { return x < 1 ? -1 : 0; }
static double three_halves_f(double x) { return pow(fabs(x), 1.5); }
static double three_halves_d(double x) { return x == 0 ? 0 : copysign(1.5 * sqrt(fabs(x)), x); }
static double signed_square_f(double x) { return x * fabs(x); }
static double signed_square_d(double x) { return 2 * fabs(x); }
static double offset_f(double x) { return 1e6 + sin(x); }
static double line_f(double x) { return 3 * x; }
static double line_d(double x) { return x == x ? 3 : 0; }
/* clang-format on */

typedef struct function {
  const char *name;
  pointwise p;
  bool positive; /* defined for x > 0 */
} function;

static const function functions[] = {
    {"exp", {e_f, e_f, false, 0}, false},
    {"log", {log_f, log_d, false, 0}, true},
    {"sqrt", {sqrt_f, sqrt_d, false, 0}, true},
    {"x^2", {square, twice, false, 0}, false},
    {"x^3", {cube_f, cube_d, false, 0}, false},
    {"1/x", {inverse_f, inverse_d, false, 0}, true},
    {"tanh", {tanh_f, tanh_d, false, 0}, false},
    {"erf", {erf_f, erf_d, false, 0}, false},
    {"exp(-x^2)", {gauss_f, gauss_d, false, 0}, false},
    {"atan", {atan_f, atan_d, false, 0}, false},
    {"sin 20x", {wave_f, wave_d, false, 0}, false},
    {"softplus", {soft_f, soft_d, false, 0}, false},
    {"|x|", {abs_f, abs_d, false, 0}, false},
    {"relu", {relu_f, relu_d, false, 0}, false},
    {"leaky relu", {leaky_f, leaky_d, false, 0}, false},
    {"hinge", {hinge_f, hinge_d, false, 0}, false},
    {"|x|^1.5", {three_halves_f, three_halves_d, false, 0}, false},
    {"x|x|", {signed_square_f, signed_square_d, false, 0}, false},
    {"1e6 + sin", {offset_f, cosine, false, 0}, false},
    {"3x", {line_f, line_d, false, 0}, false},
};
enum { FUNCTIONS = sizeof functions / sizeof *functions, POINTS = 12 };

static double off_df(double x);
static const pointwise *off_base;
static double off_df(double x) { return off_base->df(x) * (1 + 1e-4); }

static void draw_points(const function *f, double size, uint64_t seed, double *x) {
  for (uint64_t i = 0; i < POINTS; i++) {
    double z = th_random_normal((th_random){seed, 11, 0}, i);
    if (f->positive) z = fabs(z) + 0.01;
    x[i] = size * z;
  }
}

/* exp and its like overflow, or are flat, far from 0: there a size of at most 10. */
static bool fits(const function *f, double size) {
  return size <= 10 || f->positive || f->p.f == square || f->p.f == cube_f || f->p.f == abs_f ||
         f->p.f == relu_f || f->p.f == leaky_f || f->p.f == hinge_f || f->p.f == line_f ||
         f->p.f == signed_square_f || f->p.f == three_halves_f;
}

Test(false_alarms, functions_of_one_number_at_every_size) {
  int checked = 0, resolved = 0, caught = 0;
  for (int i = 0; i < FUNCTIONS; i++)
    for (int power = -6; power <= 6; power++) {
      const function *f = &functions[i];
      double x[POINTS], size = pow(10, power);
      if (!fits(f, size)) continue;
      draw_points(f, size, (uint64_t)(100 * i + power + 50), x);
      th_gradcheck_result r = check_pointwise(&f->p, POINTS, x, NULL);
      checked++;
      cr_expect(th_verdict_ok(r.verdict), "%s at size 1e%d: %s: %s", f->name, power,
                th_verdict_name(r.verdict), r.rows[0].detail);
      if (r.rows[0].below_floor + r.rows[0].kinks == POINTS) continue;
      resolved++;
      off_base = &f->p;
      const pointwise off = {f->p.f, off_df, false, 0};
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
  double (*const pairs[][2])(double) = {{log_f, log_d},         {sqrt_f, sqrt_d}, {square, twice},
                                        {cube_f, cube_d},       {abs_f, abs_d},   {relu_f, relu_d},
                                        {inverse_f, inverse_d}, {line_f, line_d}};
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
    for (uint64_t seed = 0; seed < 5; seed++) {
      double x[13];
      for (int k = 0; k < 13; k++)
        x[k] = pow(10, k - 6) * (0.5 + th_random_uniform((th_random){seed, 12, 0}, (uint64_t)k));
      th_gradcheck_result r =
          check_pointwise(&(pointwise){pairs[i][0], pairs[i][1], false, 0}, 13, x, NULL);
      cr_expect(th_verdict_ok(r.verdict), "function %zu, seed %d: %s: %s", i, (int)seed,
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
