/* Verdicts: right is right and wrong is wrong, by line and as chained, at any size and scale. */
#include "derive/support.h"

#define ATTENTION                                                                                  \
  "n, d, e = 5, 8, 4\n"                                                                            \
  "Q = input(n, d)\nK = input(n, d)\nV = input(n, e)\n"                                            \
  "S = Q @ K.T / sqrt(d)\nP = softmax(S)\nO = P @ V\nloss(O)\n"                                    \
  "dV = P.T @ dO\ndP = dO @ V.T\n"

Test(derivations, attention) {
  expect_pass(ATTENTION "dS = P * (dP - sum(P * dP, axis=-1, keepdims=True))\n"
                        "dQ = dS @ K / sqrt(d)\ndK = dS.T @ Q / sqrt(d)\n");
}

Test(derivations, a_wrong_line_is_named_once) {
  th__report *r =
      check_text(ATTENTION "dS = P * dP\ndQ = dS @ K / sqrt(d)\ndK = dS.T @ Q / sqrt(d)\n");
  cr_assert_eq(r->verdict, TH__WRONG);
  cr_assert_eq(finding(r, "dP")->verdict, TH__PASS);
  cr_assert_eq(finding(r, "dS")->verdict, TH__WRONG);
  cr_assert_eq(finding(r, "dS")->place.line, 11);
  cr_assert_eq(finding(r, "dS")->chained, TH__WRONG);
  for (int i = 0; i < 2; i++) {
    const th__finding *f = finding(r, i == 0 ? "dQ" : "dK");
    cr_assert_eq(f->verdict, TH__PASS);
    cr_assert_eq(f->chained, TH__WRONG);
    cr_assert_str_eq(f->culprit, "dS");
    cr_assert_eq(f->culprit_line, 11);
    cr_assert_not(f->diagnosed);
  }
  th__report_free(r);
}

/* A wrong shape above leaves nothing to chain, which is that line's fault and no vacuous check. */
Test(derivations, a_wrong_shape_above_is_named_once) {
  th__report *r = check_text("n, d, e = 4, 3, 5\nX = input(n, d)\nW = input(d, e)\nU = X @ W\n"
                             "Y = tanh(U)\nloss(Y)\ndU = (dY * (1 - Y ** 2)).T\ndX = dU @ W.T\n"
                             "dW = X.T @ dU\n");
  cr_assert_eq(r->verdict, TH__WRONG, "%s", th__verdict_name(r->verdict));
  cr_assert_eq(finding(r, "dU")->diagnosis.kind, TH__BUG_TRANSPOSE);
  for (int i = 1; i < r->count; i++) {
    cr_assert_eq(r->findings[i].verdict, TH__PASS);
    cr_assert_eq(r->findings[i].chained, TH__WRONG);
    cr_assert_str_eq(r->findings[i].culprit, "dU");
  }
  th__report_free(r);
}

Test(derivations, through_helpers_too) {
  th__report *r = check_text(ATTENTION "T = P * dP\ndS = T\nU = dS / sqrt(d)\ndQ = U @ K\n");
  cr_assert_eq(finding(r, "dS")->verdict, TH__WRONG);
  cr_assert_eq(finding(r, "dQ")->verdict, TH__PASS);
  cr_assert_eq(finding(r, "dQ")->chained, TH__WRONG);
  cr_assert_str_eq(finding(r, "dQ")->culprit, "dS");
  th__report_free(r);
}

Test(derivations, two_errors_that_cancel_are_both_named) {
  th__report *r = check_text("X = input(4)\nY = 2 * X\nZ = 3 * Y\nloss(Z)\ndY = 6 * dZ\ndX = dY\n");
  cr_assert_eq(finding(r, "dY")->verdict, TH__WRONG);
  cr_assert_eq(finding(r, "dX")->verdict, TH__WRONG);
  cr_assert_eq(finding(r, "dX")->chained, TH__PASS); /* 6 dZ is the right result */
  th__report_free(r);
}

Test(derivations, upstream_under_both_names) {
  expect_pass("X = input(3, 2)\nY = X * X\nloss(Y)\ndY = G\ndX = 2 * X * G\n");
  expect_pass("X = input(3, 2)\nloss(X * X)\ndX = 2 * X * G\n");
  expect_wrong("X = input(3, 2)\nY = X * X\nloss(Y)\ndX = 2 * X\n", "dX", TH__BUG_FACTOR,
               "misses the factor");
}

Test(derivations, scalar_loss_with_and_without_its_gradient) {
  expect_pass("X = input(4)\nL = sum(X * X)\nloss(L)\ndX = 2 * X * dL\n");
  expect_pass("X = input(4)\nL = sum(X * X)\nloss(L)\ndX = 2 * X\n");
  expect_wrong("X = input(4)\nY = X * X\nL = sum(Y)\nloss(L)\ndY = ones(4) * dL\ndX = 2 * X\n",
               "dX", TH__BUG_FACTOR, "factor");
}

Test(derivations, accumulated_claims_are_judged_where_they_end) {
  const char *forward = "X = input(3, 3)\nA = input(3, 3)\nY = X @ A\nZ = X * A\n"
                        "loss(concat(Y, Z))\ndY = G[:3]\ndZ = G[3:]\n";
  char text[512];
  snprintf(text, sizeof text, "%sdX = dY @ A.T\ndX += dZ * A\n", forward);
  expect_pass(text);
  snprintf(text, sizeof text, "%sdX = dY @ A.T\ndX = dX + dZ * A\n", forward);
  expect_pass(text);
  snprintf(text, sizeof text, "%sdX = dY @ A.T\ndX = dZ * A\n", forward);
  expect_wrong(text, "dX", TH__BUG_OVERWRITTEN, "only the part through");
  snprintf(text, sizeof text, "%sdX = dY @ A.T\ndX += dZ\n", forward);
  th__report *r = check_text(text);
  cr_assert_eq(r->count, 3);
  cr_assert_eq(finding(r, "dX")->verdict, TH__WRONG);
  cr_assert_eq(finding(r, "dX")->place.line, 9);
  th__report_free(r);
}

Test(derivations, a_value_used_under_two_names) {
  expect_pass("X = input(3)\nY = X\nZ = X * Y\nloss(Z)\ndY = dZ * X\ndX = dZ * Y + dY\n");
}

Test(derivations, functions_of_one_expression) {
  expect_pass(
      "silu(x) = x * sigmoid(x)\ndef slope(x): return sigmoid(x) * (1 + x * (1 - sigmoid(x)))\n"
      "X = input(5)\nY = silu(X)\nloss(Y)\ndX = dY * slope(X)\n");
  expect_pass("softmax(x) = exp(x) / sum(exp(x))\nX = input(5)\nP = softmax(X)\nloss(P)\n"
              "dX = P * (dP - sum(P * dP))\n");
}

/* ---- sizes ---- */

Test(derivations, square_cases_hide_nothing) {
  /* n = d: a mean over the wrong axis divides by the wrong one. */
  expect_wrong(
      "n, d = 4, 4\nX = input(n, d)\nY = mean(X, axis=0)\nloss(Y)\ndX = ones(n, 1) * dY / d\n",
      "dX", TH__BUG_FACTOR, "n/d");
  /* A number where a size belongs. */
  expect_wrong(
      "n, d = 4, 4\nX = input(n, d)\nY = mean(X, axis=0)\nloss(Y)\ndX = ones(n, 1) * dY / 4\n",
      "dX", TH__BUG_FACTOR, "n/4");
  /* The claim's own shape fits only because n = d. */
  expect_wrong("n, d = 4, 4\nX = input(n, d)\nY = X * 2\nloss(Y)\ndX = 2 * dY.T\n", "dX",
               TH__BUG_TRANSPOSE, "transpose");
}

Test(derivations, fixed_sizes) {
  const char *text = "n, d = 4, 4\nX = input(n, d)\nY = mean(X, axis=0)\nloss(Y)\n"
                     "dX = ones(n, 1) * dY / d\n";
  th__derive_options fixed = {.seed = 1, .fixed_sizes = true};
  th__report *r = th__derive_check(text, strlen(text), &fixed);
  cr_assert_eq(r->verdict, TH__PASS);
  cr_assert_eq(r->sizes_varied, 0);
  cr_assert_eq(r->draws, 6);
  th__report_free(r);
}

Test(derivations, sizes_that_belong_together_are_no_false_alarm) {
  /* heads must divide the width */
  expect_pass("n, c, h = 3, 8, 2\nX = input(n, c)\nY = reshape(X, n, h, c / h)\nZ = Y * Y\nloss(Z)\n"
              "dY = 2 * Y * dZ\ndX = reshape(dY, n, c)\n");
  /* c = h * w, all three as plain numbers */
  expect_pass(
      "n, c, h, w = 3, 8, 2, 4\nX = input(n, c)\nY = reshape(X, n, h, w)\nZ = Y * Y\nloss(Z)\n"
      "dY = 2 * Y * dZ\ndX = reshape(dY, n, c)\n");
  /* h is half of d, and nothing in the forward pass insists on it */
  expect_pass(
      "n, d, h = 4, 6, 3\nX = input(n, d)\nY = concat(-X[:, h:], X[:, :h], axis=1)\nloss(Y)\n"
      "dX = concat(dY[:, h:], -dY[:, :h], axis=1)\n");
  /* the same where n happens to be half of d too */
  expect_pass(
      "n, d, h = 3, 6, 3\nX = input(n, d)\nY = concat(-X[:, h:], X[:, :h], axis=1)\nloss(Y)\n"
      "dX = concat(dY[:, h:], -dY[:, :h], axis=1)\n");
}

Test(derivations, an_integer_that_is_no_size_is_not_varied) {
  expect_pass("p = 2\nX = input(4)\nY = X ** p\nloss(Y)\ndX = 2 * X * dY\n");
}

Test(derivations, sizes_reach_shapes_through_functions) {
  th__report *r =
      check_text("n, h, w = 3, 2, 5\nsplit(x, k) = reshape(x, n, k, w)\nX = input(n, h * w)\n"
                 "Y = split(X, h)\nloss(Y)\ndX = reshape(dY, n, h * w)\n");
  cr_assert_eq(r->verdict, TH__PASS, "%s", r->fault.message);
  cr_assert_eq(r->sizes_varied, 4);
  th__report_free(r);
}

/* ---- kinks ---- */

Test(derivations, kinks_are_not_judged_but_their_limits_are) {
  const char *relu = "X = zeros(3)\nY = relu(X)\nloss(Y)\ndX = %s\n";
  static const struct {
    const char *claim;
    th__verdict verdict;
  } cases[] = {{"dY * (X > 0)", TH__PASS},
               {"dY * (X >= 0)", TH__KINK},
               {"dY * 0.3", TH__KINK},
               {"dY * (X >= 0) * 1.1", TH__WRONG},
               {"-0.1 * dY", TH__WRONG}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[128];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(text, sizeof text, relu, cases[i].claim);
#pragma GCC diagnostic pop
    th__report *r = check_text(text);
    cr_assert_eq(finding(r, "dX")->verdict, cases[i].verdict, "%s: %s", cases[i].claim,
                 th__verdict_name(r->verdict));
    th__report_free(r);
  }
}

Test(derivations, near_a_kink_is_not_at_it) {
  expect_wrong("X = input(3) * 1e-9\nY = relu(X)\nloss(Y)\ndX = dY * 0.5\n", "dX", TH__BUG_UNKNOWN,
               "");
  expect_pass("A = input(3)\nX = A * 1e-9\nY = relu(X)\nloss(Y)\ndX = dY * (X > 0)\n");
}

Test(derivations, ties) {
  th__report *r = check_text("X = ones(4)\nY = max(X)\nloss(Y)\ndX = dY * (X == max(X))\n");
  cr_assert_eq(r->verdict, TH__KINK, "%s", th__verdict_name(r->verdict));
  th__report_free(r);
  expect_pass("X = input(4)\nY = max(X)\nloss(Y)\ndX = dY * (X == max(X))\n");
}

/* ---- numbers large, small and saturated ---- */

/* 0 ** 1 * log(0) is no number, and must not become a bound: V is 0 above the diagonal. */
Test(derivations, powers_of_zero) {
  static const char forward[] = "n, d = 4, 3\nX = input(n, d)\nV = tril(X, -1)\nR = relu(X)\n"
                                "Y = V ** 3 + R ** 2\nZ = sqrt(1 + Y ** 2)\nloss(Z)\n"
                                "dY = dZ * Y / Z\n";
  char text[400];
  snprintf(text, sizeof text,
           "%sdV = dY * 3 * V ** 2\ndR = 2 * R * dY\ndX = tril(dV, -1) + where(X > 0, dR, 0)\n",
           forward);
  expect_pass(text);
  snprintf(text, sizeof text, "%sdR = 2 * dY * R ** 1\ndV = dY * V ** 2\n", forward);
  expect_wrong(text, "dV", TH__BUG_FACTOR, "= 1/3");
  th__report *r = check_text(text);
  cr_assert_eq(finding(r, "dR")->verdict, TH__PASS);
  th__report_free(r);
}

/* L is 0 at the point itself, and so is every slope; what differences show is rounding. */
Test(derivations, slopes_that_are_all_zero) {
  expect_pass("e, m = 3, 4\nX = input(e, m)\nV = tril(X, -1)\nU = outer(V[0], V[:, 1])\n"
              "W = outer(U[0], U[:, 1])\nloss(W)\n"
              "dU = (arange(m) == 0)[:, None] * (dW @ U[:, 1]) + "
              "(U[0] @ dW)[:, None] * (arange(e) == 1)\n"
              "dV = (arange(e) == 0)[:, None] * (dU @ V[:, 1]) + "
              "(V[0] @ dU)[:, None] * (arange(m) == 1)\n");
}

/* P is some e^-25 where V is 0: a kink nearer than any step of a difference. */
Test(derivations, kinks_too_near_for_differences) {
  expect_pass("n = 4\nX = input(n, n)\nT = input(n, n)\nV = triu(X * X, 1)\n"
              "P = exp(-25 - T * T)\nY = maximum(P, V)\nloss(Y)\n"
              "dP = (P > V) * dY\ndV = (P <= V) * dY\ndX = 2 * X * triu(dV, 1)\n");
}

Test(derivations, saturated_softmax) {
  const char *forward = "n, d = 6, 1024\nQ = input(n, d)\nK = input(n, d)\nV = input(n, 5)\n"
                        "S = Q @ K.T\nP = softmax(S)\nO = P @ V\nloss(O)\n";
  char text[512];
  snprintf(text, sizeof text,
           "%sdP = dO @ V.T\ndS = P * (dP - sum(P * dP, axis=-1, keepdims=True))\ndQ = dS @ K\n"
           "dK = dS.T @ Q\n",
           forward);
  expect_pass(text);
  /* Nothing that is wrong by a factor hides below the rounding of a saturated row. */
  snprintf(text, sizeof text,
           "%sdP = dO @ V.T\ndS = 1.0001 * P * (dP - sum(P * dP, axis=-1, keepdims=True))\n",
           forward);
  expect_wrong(text, "dS", TH__BUG_FACTOR, "1.0001");
}

Test(derivations, from_1e_minus_6_to_1e6) {
  static const char *const sizes[] = {"1e-6", "1e-3", "1", "1e3", "1e6"};
  for (int i = 0; i < 5; i++)
    for (int j = 0; j < 5; j++) {
      char text[512];
      snprintf(text, sizeof text,
               "n, d = 4, 3\nX = input(n, d, normal(%s))\nW = input(d, n, normal(%s))\n"
               "A = X @ W\nY = tanh(A) * A\nM = mean(X, axis=-1, keepdims=True)\nZ = (X - M) ** 2\n"
               "loss(concat(Y, Z, axis=1))\ndY = G[:, :n]\ndZ = G[:, n:]\n"
               "dA = dY * (tanh(A) + A * (1 - tanh(A) ** 2))\n"
               "dX = dA @ W.T + 2 * dZ * (X - M) - mean(2 * dZ * (X - M), axis=-1, keepdims=True)\n"
               "dW = X.T @ dA\n",
               sizes[i], sizes[j]);
      expect_pass(text);
    }
}

Test(derivations, liberties_in_good_faith) {
  expect_pass("X = input(6)\nr = norm(X)\nY = X / r\nloss(Y)\n"
              "dX = (dY - Y * sum(Y * dY)) / (r + 1e-12)\n");
  /* a constant typed with ten digits against sqrt(2 / pi) */
  expect_pass("X = input(6)\nY = tanh(0.7978845608 * X)\nloss(Y)\n"
              "dX = dY * (1 - Y ** 2) * sqrt(2 / pi)\n");
}

Test(derivations, small_mistakes_are_mistakes) {
  /* eps forgotten in the backward pass only */
  expect_wrong(
      "n, d = 4, 6\nX = input(n, d)\nm = mean(X, axis=-1, keepdims=True)\n"
      "v = mean((X - m) ** 2, axis=-1, keepdims=True)\nY = (X - m) / sqrt(v + 1e-5)\nloss(Y)\n"
      "dX = (dY - mean(dY, axis=-1, keepdims=True) - Y * mean(dY * Y, axis=-1, keepdims=True)) / sqrt(v)\n",
      "dX", TH__BUG_UNKNOWN, "");
}

/* ---- claims about nothing ---- */

Test(derivations, zero_gradients) {
  th__report *r =
      check_text("X = input(3)\nZ = input(2)\nY = X * 1\nloss(Y)\ndX = dY\ndZ = zeros(2)\n");
  cr_assert_eq(r->verdict, TH__PASS);
  cr_assert_not_null(strstr(finding(r, "dZ")->note, "0 in every draw"));
  cr_assert_null(strstr(finding(r, "dX")->note, "0 in every draw"));
  th__report_free(r);
  expect_wrong("X = input(3)\nZ = input(2)\nY = X * 1\nloss(Y)\ndX = dY\ndZ = dY[:2]\n", "dZ",
               TH__BUG_UNKNOWN, "should be 0");
  /* a key bias: its gradient is 0 because a softmax does not feel it */
  expect_pass(
      "n, d = 4, 3\nQ = input(n, d)\nK = input(n, d)\nb = input(d)\nV = input(n, d)\n"
      "B = K + b\nS = Q @ B.T\nP = softmax(S)\nO = P @ V\nloss(O)\ndP = dO @ V.T\n"
      "dS = P * (dP - sum(P * dP, axis=-1, keepdims=True))\ndB = dS.T @ Q\ndb = sum(dB, axis=0)\n");
}

Test(derivations, shapes_that_differ_by_axes_of_length_1) {
  th__report *r = check_text("X = input(3, 4)\nb = input(4)\nY = X + b\nloss(Y)\n"
                             "db = sum(dY, axis=0, keepdims=True)\n");
  cr_assert_eq(r->verdict, TH__PASS);
  cr_assert_not_null(strstr(finding(r, "db")->note, "has shape (1, 4) and is read as (4,)"));
  th__report_free(r);
}

Test(derivations, the_same_seed_gives_the_same_report) {
  const char *text = ATTENTION "dS = P * dP\n";
  th__report *a = check_text(text), *b = check_text(text);
  cr_assert_eq(finding(a, "dS")->max_abs_error, finding(b, "dS")->max_abs_error);
  cr_assert_str_eq(finding(a, "dS")->where, finding(b, "dS")->where);
  th__report *c = th__derive_check(text, strlen(text), &(th__derive_options){.seed = 2});
  cr_assert_neq(finding(a, "dS")->max_abs_error, finding(c, "dS")->max_abs_error);
  th__report_free(a);
  th__report_free(b);
  th__report_free(c);
}

Test(derivations, any_number_of_draws) {
  const char *text = ATTENTION "dS = P * (dP - sum(P * dP, axis=-1, keepdims=True))\n";
  static const int draws[] = {1, 2, 3, 25};
  for (int i = 0; i < 4; i++) {
    th__report *r =
        th__derive_check(text, strlen(text), &(th__derive_options){.seed = 1, .draws = draws[i]});
    cr_assert_eq(r->verdict, TH__PASS);
    cr_assert_eq(r->draws, draws[i]);
    th__report_free(r);
  }
}
