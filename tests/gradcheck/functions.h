/* functions.h: functions of one number with their derivatives, smooth or with a kink: none may raise a false
 * alarm. For the tests here and for bench/gradcheck_cases.c. */
#ifndef TESTS_GRADCHECK_FUNCTIONS_H
#define TESTS_GRADCHECK_FUNCTIONS_H

#include <math.h>
#include <stdbool.h>

typedef struct one_number {
  const char *name;
  double (*f)(double x), (*df)(double x);
  bool positive; /* defined for x > 0 */
  int most;      /* sizes up to 10^most: beyond, it overflows or is flat */
} one_number;

/* clang-format off */
static double squared(double x) { return x * x; }
static double squared_d(double x) { return 2 * x; }
static double sqrt_d(double x) { return 0.5 / sqrt(x); }
static double cube(double x) { return x * x * x; }
static double cube_d(double x) { return 3 * x * x; }
static double inverse(double x) { return 1 / x; }
static double inverse_d(double x) { return -1 / (x * x); }
static double tanh_d(double x) { double c = cosh(x); return 1 / (c * c); }
static double erf_d(double x) { return 1.12837916709551257390 * exp(-x * x); }
static double gauss(double x) { return exp(-x * x); }
static double gauss_d(double x) { return -2 * x * exp(-x * x); }
static double atan_d(double x) { return 1 / (1 + x * x); }
static double wave(double x) { return sin(20 * x); }
static double wave_d(double x) { return 20 * cos(20 * x); }
static double soft(double x) { return fmax(x, 0) + log1p(exp(-fabs(x))); }
static double soft_d(double x) { return 1 / (1 + exp(-x)); }
static double abs_d(double x) { return x > 0 ? 1 : x < 0 ? -1 : 0; }
static double leaky(double x) { return x > 0 ? x : 0.01 * x; }
static double leaky_d(double x) { return x > 0 ? 1 : 0.01; }
static double hinge(double x) { return fmax(1 - x, 0); }
static double hinge_d(double x) { return x < 1 ? -1 : 0; }
static double three_halves(double x) { return pow(fabs(x), 1.5); }
static double three_halves_d(double x) { return x == 0 ? 0 : copysign(1.5 * sqrt(fabs(x)), x); }
static double signed_square(double x) { return x * fabs(x); }
static double signed_square_d(double x) { return 2 * fabs(x); }
static double offset(double x) { return 1e6 + sin(x); }
static double line(double x) { return 3 * x; }
static double line_d(double x) { return x == x ? 3 : 0; }
/* clang-format on */

/* The last three have a kink, hinge at 1 and the others at 0. */
static const one_number functions[] = {
    {"exp", exp, exp, false, 0},
    {"tanh", tanh, tanh_d, false, 0},
    {"erf", erf, erf_d, false, 0},
    {"exp(-x^2)", gauss, gauss_d, false, 0},
    {"atan", atan, atan_d, false, 0},
    {"sin 20x", wave, wave_d, false, 0},
    {"softplus", soft, soft_d, false, 0},
    {"1e6 + sin", offset, cos, false, 0},
    {"log", log, inverse, true, 6},
    {"sqrt", sqrt, sqrt_d, true, 6},
    {"1/x", inverse, inverse_d, true, 6},
    {"x^2", squared, squared_d, false, 6},
    {"x^3", cube, cube_d, false, 6},
    {"x|x|", signed_square, signed_square_d, false, 6},
    {"|x|^1.5", three_halves, three_halves_d, false, 6},
    {"3x", line, line_d, false, 6},
    {"|x|", fabs, abs_d, false, 6},
    {"leaky relu", leaky, leaky_d, false, 6},
    {"hinge", hinge, hinge_d, false, 6},
};
enum { FUNCTIONS = sizeof functions / sizeof *functions, FIRST_KINKED = FUNCTIONS - 3 };

#endif
