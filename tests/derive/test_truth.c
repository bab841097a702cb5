/* The true gradients: every rule of reverse differentiation against finite differences; and the
 * comparison itself, which must notice what is planted. */
#include "derive/slope.h"
#include "derive/support.h"

static const char *const functions[] = {"-X",
                                        "exp(X)",
                                        "log(P)",
                                        "sqrt(P)",
                                        "tanh(X)",
                                        "erf(X)",
                                        "sigmoid(X)",
                                        "relu(X)",
                                        "abs(X)",
                                        "sin(X)",
                                        "cos(X)",
                                        "sign(X) * X",
                                        "X + W",
                                        "X - W",
                                        "X * W",
                                        "X / P",
                                        "P / X",
                                        "P ** X",
                                        "X ** 3",
                                        "X ** -2",
                                        "P ** 0.5",
                                        "X ** 0",
                                        "v + X",
                                        "X - v",
                                        "v * X",
                                        "X / v[0]",
                                        "X[:, :1] * v",
                                        "sum(X)",
                                        "sum(X, axis=0)",
                                        "sum(X, axis=-1, keepdims=True) * X",
                                        "sum(C, axis=(0, 2))",
                                        "mean(C, axis=1)",
                                        "var(X, axis=-1)",
                                        "max(X)",
                                        "max(X, axis=0)",
                                        "max(C, axis=(0, -1), keepdims=True)",
                                        "min(X, axis=1)",
                                        "norm(X)",
                                        "norm(C, axis=-1)",
                                        "logsumexp(X)",
                                        "logsumexp(C, axis=(0, 1))",
                                        "logsumexp(X, axis=-1, keepdims=True) - X",
                                        "softmax(X)",
                                        "softmax(C, axis=1)",
                                        "softmax(30 * X)",
                                        "log_softmax(C, axis=0)",
                                        "softmax(where(X > 0, X, -inf))",
                                        "where(X > 0, X * W, W)",
                                        "where(X > 0, log(abs(X)), sqrt(-X))",
                                        "maximum(X, W)",
                                        "minimum(X, v)",
                                        "X @ W.T",
                                        "X.T @ W",
                                        "v @ X.T",
                                        "X @ v",
                                        "v @ v",
                                        "C @ X.T",
                                        "X @ C.mT",
                                        "C @ C.mT",
                                        "C @ v",
                                        "v @ C.mT",
                                        "C.T",
                                        "transpose(C, 1, 2, 0)",
                                        "reshape(C, 4, -1) * reshape(C, 4, -1)",
                                        "tril(X)",
                                        "triu(C, 1)",
                                        "diag(v)",
                                        "diag(X)",
                                        "outer(v, v)",
                                        "concat(X, W, axis=1)",
                                        "concat(v, v * v)",
                                        "X[0]",
                                        "X[:, ::-2]",
                                        "X[-1, 1:]",
                                        "C[..., None, 0]",
                                        "X[I]",
                                        "X[:, J]",
                                        "X[I, I]",
                                        "C[:, I, I]",
                                        "X[I][:, :2] * X[:4, :2][I]",
                                        "X * (X > W)",
                                        "f(X, W)",
                                        "f(f(X, X), v)"};

static void expect_confirmed(const char *function) {
  char text[1024];
  snprintf(
      text, sizeof text,
      "f(x, y) = x * tanh(y) + y\nI = input(4, integers(3))\nJ = arange(5) %% 3\nX = input(4, 3)\n"
      "W = input(4, 3)\nP = input(4, 3, positive)\nv = input(3)\nC = input(2, 4, 3)\nY = %s\nloss(Y)\n"
      "dX = X * 0\ndW = W * 0\ndP = P * 0\ndv = v * 0\ndC = C * 0\ndY = G\n",
      function);
  th__report *r = check_text(text);
  cr_assert_str_empty(r->fault.message, "%s: %s", function, r->fault.message);
  cr_assert_eq(r->values, 6, "%s: %d", function, r->values);
  cr_assert_eq(r->cross_checked, 6, "%s: %d of %d confirmed", function, r->cross_checked, r->values);
  th__report_free(r);
}

Test(truth, every_rule_is_confirmed_by_differences) {
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) expect_confirmed(functions[i]);
}

/* ---- the comparison notices ---- */

static const char sample[] =
    "X = input(4, 3, normal(%s))\nY = tanh(X) * X\nloss(Y)\ndX = X\ndY = G\n";

static void start(th__draw *draw, th__derivation *d, th__calc *c, const char *scale) {
  static char text[256];
  static const ptrdiff_t none[1];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  snprintf(text, sizeof text, sample, scale);
#pragma GCC diagnostic pop
  cr_assert(th__parse(c, text, strlen(text), &d->program));
  cr_assert(th__facts_find(c, &d->program, &d->facts));
  cr_assert(th__claims_find(c, &d->program, &d->facts, &d->claims));
  th__draw_start(draw, d, 0, 1, none);
  cr_assert(th__draw_forward(draw) && th__draw_reverse(draw));
}

Test(truth, a_wrong_rule_would_be_noticed) {
  static const char *const scales[] = {"1e-6", "1", "1e6"};
  static const double plants[] = {0, -1, 2, 1.00001};
  for (int s = 0; s < 3; s++)
    for (int p = -1; p < 4; p++) { /* -1: nothing planted */
      th__arena arena = {0};
      th__limits limits = {100000, 1e8, 1000};
      th__calc c = {.arena = &arena, .limits = limits};
      th__derivation d = {.limits = limits, .seed = 5, .folder = ""};
      th__draw draw;
      start(&draw, &d, &c, scales[s]);
      th__vertex *x = th__scope_find(&draw.values, "X")->value;
      for (ptrdiff_t i = 0; p >= 0 && i < x->value->count; i++)
        x->gradient->v[i] *= (th__number)plants[p];
      double budget = 1e8;
      int checked = 0;
      const th__vertex *fault = th__proof_find_fault(&draw, &budget, &checked);
      cr_assert_eq(fault, p < 0 ? NULL : x, "scale %s, plant %d", scales[s], p);
      th__draw_free(&draw);
      th__arena_free(&arena);
    }
}

/* One-sided slopes at a kink. */
Test(truth, slopes_of_both_sides) {
  static const char text[] = "X = zeros(1)\nY = relu(X) + exp(X)\nloss(Y)\ndX = X\ndY = G\n";
  static const ptrdiff_t none[1];
  th__arena arena = {0};
  th__limits limits = {100000, 1e8, 1000};
  th__calc c = {.arena = &arena, .limits = limits};
  th__derivation d = {.limits = limits, .seed = 5, .folder = ""};
  th__draw draw;
  cr_assert(th__parse(&c, text, strlen(text), &d.program));
  cr_assert(th__facts_find(&c, &d.program, &d.facts));
  cr_assert(th__claims_find(&c, &d.program, &d.facts, &d.claims));
  th__draw_start(&draw, &d, 0, 1, none);
  cr_assert(th__draw_forward(&draw) && th__draw_reverse(&draw));
  cr_assert_gt(draw.graph.kinks, 0);
  th__trial trial = th__trial_start(&draw);
  const th__vertex *x = th__scope_find(&draw.values, "X")->value;
  th__number direction = 1, g = draw.upstream->v[0];
  double error;
  cr_assert_float_eq((double)(th__slope(&trial, x, &direction, TH__LEFT, &error) / g), 1, 1e-9);
  cr_assert_float_eq((double)(th__slope(&trial, x, &direction, TH__RIGHT, &error) / g), 2, 1e-9);
  th__trial_free(&trial);
  th__draw_free(&draw);
  th__arena_free(&arena);
}

/* ---- bounds hold: the same thing computed in two ways differs by no more than both errors ---- */

static const char *const identities[][2] = {
    {"softmax(X)", "exp(X) / sum(exp(X), axis=-1, keepdims=True)"},
    {"logsumexp(X, axis=-1)", "log(sum(exp(X), axis=-1))"},
    {"sum(X, axis=0)", "ones(4) @ X"},
    {"X @ W.T", "sum(X[:, None, :] * W, axis=-1)"},
    {"sigmoid(X)", "(1 + tanh(X / 2)) / 2"},
    {"X ** 5", "X * X * X * X * X"},
    {"exp(X) ** 3", "exp(3 * X)"},
    {"log(P * P)", "2 * log(P)"},
    {"mean(X, axis=-1)", "X @ ones(3) / 3"},
    {"sin(2 * X)", "2 * sin(X) * cos(X)"},
    {"norm(X, axis=-1) ** 2", "sum(X * X, axis=-1)"},
    {"(X + 1e6) - 1e6", "X"},
    {"exp(X + 20) / exp(20)", "exp(X)"},
    {"var(X + 1000, axis=-1)", "mean(X * X, axis=-1) - mean(X, axis=-1) ** 2"}};

Test(truth, error_bounds_hold) {
  for (size_t i = 0; i < sizeof identities / sizeof *identities; i++) {
    char text[512];
    snprintf(
        text, sizeof text,
        "X = input(4, 3)\nW = input(4, 3)\nP = input(4, 3, positive)\nA = %s\nY = 0 * sum(X) + A\nloss(Y)\n"
        "dA = G + (%s) - (%s)\n",
        identities[i][0], identities[i][0], identities[i][1]);
    expect_pass(text);
  }
}
