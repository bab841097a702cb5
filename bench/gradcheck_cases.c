/* gradcheck_cases: the gradient checker on the planted faults of the catalogue, or on 200 correct functions at random
 * points; each case as one line of JSON with its inputs, output and gradients, so that another checker can be given the
 * same (bench/gradcheck_peer.py).
 *     bench_gradcheck_cases faults|correct [SEED] */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "autograd/gradcheck/gradcheck.h"
#include "autograd/power/power.h"

#include "../tests/gradcheck/functions.h"

/* ---- functions of one number, with the derivative that their backward claims ---- */

static th_status pointwise_backward(th_node *node) {
  const one_number *p = *(const one_number **)th_node_saved(node);
  const th_tensor *x = th_node_input(node, 0), *dy = th_node_upstream(node);
  th_tensor *dx = th_node_grad(node, 0);
  for (ptrdiff_t i = 0; i < x->count; i++)
    th__set(dx, i, th__get(dx, i) + p->df(th__get(x, i)) * th__get(dy, i));
  return TH_OK;
}

static th_tensor *run_pointwise(th_tape *tape, th_tensor *const *in, const void *context) {
  static const th_op op = {.name = "pointwise", .backward = pointwise_backward};
  const one_number *p = context;
  th_tensor *x = in[0], *y = th_output(tape, x->dtype, x->ndim, x->shape);
  if (y == NULL) return NULL;
  for (ptrdiff_t i = 0; i < x->count; i++) th__set(y, i, p->f(th__get(x, i)));
  return th_record(tape, &op, y, &x, 1, &p, sizeof p);
}

/* ---- operations ---- */

/* clang-format off */
#define FUNCTION(name, call) \
  static th_tensor *name(th_tape *tape, th_tensor *const *in, const void *context) { (void)context; return call; }
FUNCTION(relu, th_relu(tape, in[0]))
FUNCTION(gelu, th_gelu(tape, in[0], TH_GELU_EXACT))
FUNCTION(softmax, th_softmax(tape, in[0]))
FUNCTION(log_softmax, th_log_softmax(tape, in[0]))
FUNCTION(cross_entropy, th_cross_entropy(tape, in[0], in[1]))
FUNCTION(linear, th_linear(tape, in[0], in[1], in[2]))
FUNCTION(matmul, th_matmul(tape, in[0], in[1], 0))
FUNCTION(layer_norm, th_layer_norm(tape, in[0], in[1], in[2], 1e-5))
FUNCTION(mul, th_mul(tape, in[0], in[1]))
FUNCTION(mean, th_mean(tape, in[0], -1))
FUNCTION(attention, th_attention(tape, in[0], in[1], in[2], context))
/* clang-format on */

/* ---- one line of JSON ---- */

/* NaN and infinity have no JSON. */
static void print_number(double x) {
  if (isfinite(x))
    printf("%.17g", x);
  else
    printf("null");
}

static void print_values(const char *key, const th_tensor *x) {
  double *values = x != NULL ? malloc((size_t)(x->count + 1) * sizeof *values) : NULL;
  printf("%s", key);
  if (values == NULL) {
    printf("null");
    return;
  }
  th_tensor_read(x, values);
  for (ptrdiff_t k = 0; k < x->count; k++) {
    printf("%c", k > 0 ? ',' : '[');
    print_number(values[k]);
  }
  printf("]");
  free(values);
}

static void print_input(const th_tensor *x) {
  printf("{\"integers\":%s,\"shape\":[", x->dtype == TH_F64 ? "false" : "true");
  for (int i = 0; i < x->ndim; i++) printf("%s%td", i > 0 ? "," : "", x->shape[i]);
  print_values("],\"values\":", x);
  printf("}");
}

/* Inputs, output, and the gradients of sum(cos(k) y_k). */
static bool print_run(const th_check *check, th_tensor *const *inputs) {
  th_tape *tape = th_tape_new();
  th_tensor *on_tape[TH_MAX_INPUTS];
  bool good = tape != NULL;
  printf(",\"inputs\":[");
  for (int i = 0; i < check->input_count && good; i++) {
    const th_tensor *x = inputs[i];
    if (i > 0) printf(",");
    print_input(x);
    on_tape[i] = x->dtype == TH_F64 ? th_input_grad(tape, x->dtype, x->ndim, x->shape, x->data)
                                    : th_input(tape, x->dtype, x->ndim, x->shape, x->data);
    good = on_tape[i] != NULL;
  }
  th_tensor *y = good ? check->forward(tape, on_tape, check->context) : NULL;
  th_tensor *dy = y != NULL ? th_input(tape, y->dtype, y->ndim, y->shape, NULL) : NULL;
  for (ptrdiff_t k = 0; dy != NULL && k < dy->count; k++) th__set(dy, k, cos((double)k));
  good = dy != NULL && th_backward_from(tape, y, dy) == TH_OK;
  if (good) {
    print_values("],\"output\":", y);
    printf(",\"gradients\":[");
    for (int i = 0; i < check->input_count; i++)
      print_values(i > 0 ? "," : "", th_tensor_grad(on_tape[i]));
    printf("]");
  } else {
    fprintf(stderr, "gradcheck_cases: %s\n", tape != NULL ? th_tape_message(tape) : "no memory");
  }
  th_tape_free(tape);
  return good;
}

static double seconds_since(clock_t start) {
  return (double)(clock() - start) / (double)CLOCKS_PER_SEC;
}

/* ---- planted faults ---- */

static bool print_fault(const th__fault *fault, uint64_t seed) {
  th__planted planted;
  th_check check;
  th__power_result result;
  th_error error = {TH_OK, ""};
  th_tensor *inputs[TH_MAX_INPUTS];
  clock_t start = clock();
  th_status status = th__power_run(fault, TH_CHECK_AUTO, seed, &result, &error);
  double seconds = seconds_since(start);
  th__plant(fault, &planted, &check);
  if (status != TH_OK || th__fill(&check, seed, inputs, &error) != TH_OK) {
    fprintf(stderr, "gradcheck_cases: %s\n", error.message);
    return false;
  }
  printf("{\"op\":\"%s\",\"fault\":\"%s\",\"case\":\"%s\",\"input\":%d,\"kind\":\"%s\"", fault->op,
         fault->title, fault->where, fault->input, th__bug_name(fault->kind));
  printf(",\"caught\":%s,\"named\":%s,\"diagnosis\":\"%s\",\"seconds\":%.6f",
         result.caught ? "true" : "false", result.named ? "true" : "false", result.diagnosis,
         seconds);
  bool good = print_run(&check, inputs);
  printf("}\n");
  for (int i = 0; i < check.input_count; i++) th_tensor_free(inputs[i]);
  return good;
}

/* ---- correct functions ---- */

/* Draws the inputs at the case's size and checks: param of each input is its own share of the size. */
typedef struct points {
  const char *group, *name;
  double size;
  bool positive, at_kink; /* |x|; each third point is the kink itself */
  double kink;
} points;

static int number; /* of the case, which draws its points */

static double draw(const points *p, th_random stream, ptrdiff_t k) {
  double z = p->size * th_random_normal(stream, (uint64_t)k);
  if (p->positive) z = fabs(z) + 0.01 * p->size;
  if (p->at_kink && k % 3 == 0) z = 0;
  return p->kink + z;
}

static bool print_case(const points *p, const th_check *check, uint64_t seed) {
  th_tensor *inputs[TH_MAX_INPUTS];
  th_gradcheck_result result;
  th_error error = {TH_OK, ""};
  uint64_t draws = seed + 1000 + (uint64_t)number++;
  th_status status = th__fill(check, draws, inputs, &error);
  if (status != TH_OK) return false;
  for (int i = 0; i < check->input_count; i++)
    for (ptrdiff_t k = 0; inputs[i]->dtype == TH_F64 && k < inputs[i]->count; k++)
      th__set(inputs[i], k, draw(p, (th_random){draws, (uint32_t)i + 1, 0}, k));
  clock_t start = clock();
  status = th_gradcheck(check->forward, inputs, check->input_count, check->context, NULL, &result,
                        &error);
  double seconds = seconds_since(start);
  if (status != TH_OK) fprintf(stderr, "gradcheck_cases: %s: %s\n", p->name, error.message);
  for (int r = 0; r < result.row_count && status == TH_OK; r++)
    if (!th_verdict_ok(result.rows[r].verdict))
      fprintf(stderr,
              "%s at size %g, input %d, entry %td: claimed %.17g, measured %.17g +- %.2g, %s\n",
              p->name, p->size, result.rows[r].input_index, result.rows[r].index,
              result.rows[r].analytic, result.rows[r].numeric, result.rows[r].error_bar,
              result.rows[r].detail);
  bool ok = status == TH_OK && th_verdict_ok(result.verdict);
  printf("{\"group\":\"%s\",\"name\":\"%s\",\"size\":%g,\"ok\":%s,\"verdict\":\"%s\"", p->group,
         p->name, p->size, ok ? "true" : "false",
         status == TH_OK ? th_verdict_name(result.verdict) : "error");
  printf(",\"seconds\":%.6f", seconds);
  bool good = print_run(check, inputs) && status == TH_OK;
  printf("}\n");
  for (int i = 0; i < check->input_count; i++) th_tensor_free(inputs[i]);
  return good;
}

/* clang-format off */
#define N(...) {"x", TH_FILL_NORMAL, 0, __VA_ARGS__}
/* clang-format on */

static bool print_functions(uint64_t seed) {
  bool good = true;
  for (int i = 0; i < FUNCTIONS; i++) {
    const one_number *f = &functions[i];
    const th_check check = {
        .forward = run_pointwise, .context = f, .input_count = 1, .inputs = {N(1, {12})}};
    for (int power = -6; power <= f->most; power += 2)
      good = print_case(&(points){"one number", f->name, pow(10, power), f->positive, false, 0},
                        &check, seed) &&
             good;
  }
  return good;
}

/* Points at the kink and beside it. */
static bool print_kinks(uint64_t seed) {
  bool good = true;
  const th_check relu_check = {.forward = relu, .input_count = 1, .inputs = {N(1, {12})}};
  for (int power = -6; power <= 6; power += 2)
    good = print_case(&(points){"one number", "relu", pow(10, power), false, false, 0}, &relu_check,
                      seed) &&
           good;
  for (int i = FIRST_KINKED; i <= FUNCTIONS; i++) { /* relu is the last */
    const one_number *f = i < FUNCTIONS ? &functions[i] : NULL;
    const th_check check = {
        .forward = run_pointwise, .context = f, .input_count = 1, .inputs = {N(1, {12})}};
    const char *name = f != NULL ? f->name : "relu";
    double kink = strcmp(name, "hinge") == 0;
    for (int k = 0; k < 3; k++)
      good = print_case(&(points){k == 0 ? "at a kink" : "beside a kink", name,
                                  k == 0   ? 1
                                  : k == 1 ? 1e-7
                                           : 1e-9,
                                  false, k == 0, kink},
                        f != NULL ? &check : &relu_check, seed) &&
             good;
  }
  return good;
}

static bool print_rows(uint64_t seed) {
  bool good = true;
  static const th_check checks[] = {
      {.variant = "softmax", .forward = softmax, .input_count = 1, .inputs = {N(2, {4, 8})}},
      {.variant = "log_softmax", .forward = log_softmax, .input_count = 1, .inputs = {N(2, {4, 8})}},
      {.variant = "cross_entropy",
       .forward = cross_entropy,
       .input_count = 2,
       .inputs = {N(2, {7, 5}), {"targets", TH_FILL_LABELS, 5, 1, {7}}}}};
  for (int i = 0; i < 3; i++)
    for (int power = i < 2 ? -3 : -2; power <= 4; power++)
      good =
          print_case(&(points){"softmax rows", checks[i].variant, pow(10, power), false, false, 0},
                     &checks[i], seed) &&
          good;
  return good;
}

/* Without a scale the scores are of size sqrt(d_k): rows frozen on one key. */
static bool print_attention(uint64_t seed) {
  static const th_attention_options plain = {0}, unscaled = {.scale = TH_SCALE_NONE};
  static const th_attention_options causal = {.scale = TH_SCALE_NONE, .causal = true};
  const struct {
    const char *name;
    const th_attention_options *options;
    ptrdiff_t width;
    int times;
  } runs[] = {{"attention", &plain, 4, 2},
              {"attention", &plain, 64, 2},
              {"attention", &plain, 1024, 2},
              {"attention unscaled", &unscaled, 4, 4},
              {"attention unscaled", &unscaled, 64, 4},
              {"attention unscaled", &unscaled, 1024, 4},
              {"attention causal", &causal, 1024, 3}};
  bool good = true;
  for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
    for (int k = 0; k < runs[i].times; k++) {
      const th_check check = {.forward = attention,
                              .context = runs[i].options,
                              .input_count = 3,
                              .inputs = {N(4, {1, 1, 2, runs[i].width}),
                                         N(4, {1, 1, 5, runs[i].width}), N(4, {1, 1, 5, 3})}};
      good = print_case(&(points){"attention", runs[i].name, 1, false, false, 0}, &check, seed) &&
             good;
    }
  return good;
}

static bool print_operations(uint64_t seed) {
  static const th_check checks[] = {
      {.variant = "linear",
       .forward = linear,
       .input_count = 3,
       .inputs = {N(2, {3, 4}), N(2, {5, 4}), N(1, {5})}},
      {.variant = "matmul",
       .forward = matmul,
       .input_count = 2,
       .inputs = {N(2, {3, 4}), N(2, {4, 3})}},
      {.variant = "layer_norm",
       .forward = layer_norm,
       .input_count = 3,
       .inputs = {N(2, {3, 6}), N(1, {6}), N(1, {6})}},
      {.variant = "mul", .forward = mul, .input_count = 2, .inputs = {N(2, {3, 4}), N(2, {3, 4})}},
      {.variant = "mean", .forward = mean, .input_count = 1, .inputs = {N(2, {3, 4})}},
      {.variant = "gelu", .forward = gelu, .input_count = 1, .inputs = {N(1, {12})}}};
  bool good = true;
  for (size_t i = 0; i < sizeof checks / sizeof *checks; i++)
    for (int power = -6; power <= (checks[i].forward == gelu ? 0 : 6); power += 3)
      good = print_case(&(points){"operations", checks[i].variant, pow(10, power), false, false, 0},
                        &checks[i], seed) &&
             good;
  return good;
}

int main(int argc, char **argv) {
  uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
  bool good = true;
  if (argc > 1 && strcmp(argv[1], "faults") == 0) {
    for (const th__fault *fault = th__faults; fault->title != NULL; fault++)
      good = print_fault(fault, seed) && good;
  } else if (argc > 1 && strcmp(argv[1], "correct") == 0) {
    good = print_functions(seed) && print_kinks(seed) && print_rows(seed) &&
           print_attention(seed) && print_operations(seed);
  } else {
    fprintf(stderr, "usage: bench_gradcheck_cases faults|correct [SEED]\n");
    return 2;
  }
  return good ? 0 : 1;
}
