/* What cannot be checked is refused with the place and the reason: never a crash, never gigabytes. */
#include "derive/support.h"
#include "tensor/alloc.h"

#define FORWARD "X = input(3)\nY = X * 2\nloss(Y)\n"

typedef struct refusal {
  const char *text;
  int line, column;
  const char *message;
} refusal;

static const refusal refusals[] = {
    /* words */
    {"X = 3x\n", 1, 5, "a letter follows the number 3"},
    {"X = 3 $ 4\n", 1, 7, "unexpected character '$'"},
    {"X = 3 ^ 4\n", 1, 7, "a power is written **"},
    {"X = 3; Y = 4\n", 1, 6, "a line of its own"},
    {"X = \"abc\n", 1, 5, "not closed"},
    {"X = 1e99999\n", 1, 5, "out of range"},
    {"X = 1 \\ 2\n", 1, 7, "the line must end"},
    {"X = \x01\n", 1, 5, "this is not text: it holds the byte 0x01"},
    {"X = 1 # \xff\n", 1, 9, "this is not text: it holds the byte 0xFF"},
    /* lines */
    {"", 1, 1, "no loss(...)"},
    {"# nothing\n\n", 1, 1, "no loss(...)"},
    {"X = (3\n", 2, 1, "but the file ends here"},
    {"X = 3 +\nY = 2\n", 1, 8, "but the line ends here"},
    {"X = 3 4\n", 1, 7, "expected the end of the line, got '4'"},
    {"X == 3\n", 1, 7, "expected = after this"},
    {"X[0] = 3\n", 1, 1, "a part of an array cannot be assigned"},
    {"2 = 3\n", 1, 1, "only a name can be assigned"},
    {"X, X = 3, 4\n", 1, 4, "the name X twice"},
    {"X = 1 < 2 < 3\n", 1, 11, "comparisons in a row"},
    {"for i in range(3): X = 3\n", 1, 1, "expected an assignment"},
    {"import numpy as np\n", 1, 1, "expected an assignment"},
    {"def f(x):\n  y = x\n", 2, 3, "a function is one expression"},
    {"X = f(1)(2)\n", 1, 9, "only a name can be called"},
    {"X = (1, 2)[\n", 2, 1, "expected"},
    {"X = Y[]\n", 1, 7, "expected an index"},
    {"X = 3\nloss(X, 2)\n", 2, 1, "loss takes one value"},
    {FORWARD "loss(X)\n", 4, 1, "a second loss; the first is on line 3"},
    {"X += 3\nloss(X)\ndX = G\n", 1, 1, "+= before loss"},
    /* names */
    {FORWARD "dX = dY * Z\n", 4, 11, "there is no value 'Z'"},
    {FORWARD "dX = dY * x\n", 4, 11, "did you mean 'X'?"},
    {FORWARD "dX = foo(dY)\n", 4, 6, "there is no function 'foo'"},
    {FORWARD "dX = dY.foo\n", 4, 9, "there is no .foo"},
    {FORWARD "dZ = dY\n", 4, 1, "dZ: there is no value 'Z' to have a gradient"},
    {FORWARD "dx = dY\n", 4, 1, "did you mean dX?"},
    {FORWARD "dZ = dY\ndX = 2 * dZ\n", 4, 1, "dZ: there is no value 'Z'"},
    {FORWARD "delta = dY\ndX = 2 * dY\n", 4, 1, "delta: there is no value 'elta'"},
    {"weight = input(3)\nY = weight * 2\nloss(Y)\ndwieght = dY\ndweigt = 2 * dY\ndY = dweigt / 2\n",
     4, 1, "dwieght"},
    {FORWARD "dX = dX\n", 4, 1, "used in its own claim"},
    {FORWARD "dX += dY\n", 4, 1, "dX += before any dX = ..."},
    {FORWARD "Y = 3\ndX = dY\n", 4, 1, "Y has a value of the forward pass (line 2)"},
    {FORWARD "T += 3\ndX = dY\n", 4, 1, "only a claim can be added to"},
    {"X = input(3)\nX = X * 2\nloss(X)\ndX = G\n", 2, 1, "X has a value already (line 1)"},
    {"k = input(3)\ndk = 2 * k\nloss(dk)\ndk = G\n", 4, 1, "dk has a value of the forward pass"},
    {FORWARD, 3, 1, "nothing is claimed"},
    {"X = input(3)\nY = X * 2\ndX = Y\nloss(Y)\n", 4, 1, "dX on line 3 stands before it"},
    {"f(x) = f(x)\nX = input(3)\nY = f(X)\nloss(Y)\ndX = dY\n", 1, 8, "does f call itself?"},
    {"f(x) = x\nY = f(1, 2)\nloss(Y)\ndY = G\n", 2, 5, "f takes 1 arguments"},
    {"f(x) = x\nY = f(y=1)\nloss(Y)\ndY = G\n", 2, 5, "f has no parameter 'y'"},
    /* shapes and arguments */
    {"X = input(3)\nW = input(4)\nY = X * W\nloss(Y)\ndX = dY\n", 3, 7,
     "shapes (3,) and (4,) do not fit for *"},
    {"X = input(3, 4)\nY = X @ X\nloss(Y)\ndX = dY\n", 2, 7,
     "shapes (3, 4) and (3, 4) do not fit for @"},
    {"X = input(3)\nY = X @ 2\nloss(Y)\ndX = dY\n", 2, 7, "@ needs matrices or vectors"},
    {FORWARD "dX = dY @ eye(4)\n", 4, 9, "do not fit for @"},
    {FORWARD "dX = where(dY > 0, dY, ones(2))\n", 4, 6, "do not fit for where"},
    {FORWARD "dX = reshape(dY, 2, 2)\n", 4, 6,
     "shape (3,) has 3 entries, reshape to (2, 2) needs 4"},
    {FORWARD "dX = concat(dY, eye(2))\n", 4, 6, "do not fit for concat along axis 0"},
    {FORWARD "dX = transpose(dY, 1)\n", 4, 6, "axis 1 does not exist"},
    {FORWARD "dX = sum(dY, axis=3)\n", 4, 19, "axis 3 of an array of shape (3,)"},
    {FORWARD "dX = sum(dY, keep=1)\n", 4, 19, "sum has no argument 'keep'"},
    {FORWARD "dX = exp(dY, dY)\n", 4, 14, "exp has too many arguments"},
    {FORWARD "dX = exp()\n", 4, 6, "exp lacks its argument 'x'"},
    {FORWARD "dX = dY[5]\n", 4, 9, "index 5 of an axis of length 3"},
    {FORWARD "dX = dY[1.5]\n", 4, 9, "index 1.5"},
    {FORWARD "dX = dY[0, 0]\n", 4, 8, "2 indices for an array of shape (3,)"},
    {FORWARD "dX = dY[X > 0]\n", 4, 9, "a mask cannot be an index"},
    {FORWARD "dX = dY[::0]\n", 4, 9, "a step of 0"},
    {FORWARD "dX = (dY, 2)\n", 4, 6, "a list of values"},
    {FORWARD "dX = \"x\"\n", 4, 6, "a text can only name a file"},
    {FORWARD "dX = dY.reshape(1,1,1,1,1,1,1,1,3)\n", 4, 33, "more than 8 sizes"},
    {"X = mean(zeros(0))\nloss(X)\ndX = G\n", 1, 5, "the mean of no entries"},
    {"X = max(zeros(0))\nloss(X)\ndX = G\n", 1, 5, "the largest of no entries"},
    /* inputs */
    {"X = input(-3)\nloss(X)\ndX = G\n", 1, 5, "a negative size: -3"},
    {"X = input(2.5)\nloss(X)\ndX = G\n", 1, 11, "size must be a whole number, got 2.5"},
    {"X = input(3, gaussian)\nloss(X)\ndX = G\n", 1, 14,
     "'gaussian' is neither a size nor a distribution"},
    {"X = input(3, integers)\nloss(X)\ndX = G\n", 1, 14, "write integers(k)"},
    {"X = input(3, integers(0))\nY = X + 0\nloss(Y)\ndY = G\n", 1, 23, "the limit must be positive"},
    {"X = input(3, 3, mask(upper))\nY = X + 0\nloss(Y)\ndY = G\n", 1, 17, "write mask(causal)"},
    {"X = input(3, mask(causal))\nY = X + 0\nloss(Y)\ndY = G\n", 1, 14, "a mask of shape (3,)"},
    {"X = input(\"a.npy\")\nloss(X)\ndX = G\n", 1, 5, "files cannot be read here"},
    {FORWARD "dX = input(3)\n", 4, 6, "an input after loss(...)"},
    {"I = input(3, integers(4))\nX = input(5)\nY = X[I]\nloss(Y)\ndI = dY\n", 5, 1,
     "I holds whole numbers"},
    {"X = input(3)\nY = log(X)\nloss(Y)\ndX = dY / X\n", 2, 5, "not a number, and it begins here"},
    {"X = input(3)\nY = X / 0\nloss(Y)\ndX = dY\n", 2, 7, "infinite, and it begins here"},
    /* sizes without end */
    {"X = eye(100000)\nloss(X)\ndX = G\n", 1, 5,
     "too large: one evaluation may hold 3000000 numbers"},
    {"X = input(4611686018427387904, 4)\nloss(X)\ndX = G\n", 1, 11, "must be a whole number"},
    {"X = zeros(1000000, 1000000, 1000000, 1000000)\nloss(X)\ndX = G\n", 1, 5, "too large"},
    {"n = 3000\nX = input(n)\nY = outer(X, X)\nloss(Y)\ndX = G\n", 3, 5, "too large"},
    {"n = 1000\nX = input(n, n)\nY = X @ X\nloss(Y)\ndX = G\n", 3, 7, "too much to compute"},
    {"X = arange(0, 1000000000000000)\nloss(X)\ndX = G\n", 1, 5, "too large"},
};

Test(refusals, name_place_and_reason) {
  for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
    const refusal *r = &refusals[i];
    expect_refused(r->text, strlen(r->text), r->line, r->column, r->message);
  }
}

Test(refusals, a_line_that_does_not_fit_leaves_the_others_judged) {
  th__report *r =
      check_text("X = input(3)\nY = X * 2\nZ = Y * 3\nloss(Z)\ndY = 2 * dZ\ndX = dY @ eye(5)\n");
  cr_assert_eq(r->verdict, TH__ERROR);
  cr_assert_eq(finding(r, "dY")->verdict, TH__WRONG);
  cr_assert_eq(finding(r, "dX")->verdict, TH__ERROR);
  cr_assert_not_null(strstr(finding(r, "dX")->fault.message, "do not fit for @"));
  th__report_free(r);
}

Test(refusals, a_helper_that_does_not_fit_is_reported_itself) {
  th__report *r = check_text(FORWARD "T = dY @ eye(4)\ndX = T\ndY = G\n");
  cr_assert_eq(r->verdict, TH__ERROR);
  cr_assert_eq(r->fault.place.line, 4);
  cr_assert_eq(finding(r, "dX")->verdict, TH__ERROR);
  cr_assert_str_empty(finding(r, "dX")->fault.message);
  cr_assert_not_null(strstr(finding(r, "dX")->note, "line 4"));
  cr_assert_eq(finding(r, "dY")->verdict, TH__PASS);
  th__report_free(r);
}

/* ---- no text, too much text, too deep ---- */

static char *repeated(const char *before, const char *piece, size_t times, const char *after) {
  size_t size = strlen(before) + times * strlen(piece) + strlen(after) + 1;
  char *text = malloc(size);
  cr_assert_not_null(text);
  strcpy(text, before);
  char *at = text + strlen(before);
  for (size_t i = 0; i < times; i++, at += strlen(piece)) memcpy(at, piece, strlen(piece));
  strcpy(at, after);
  return text;
}

static void expect_refused_repeated(const char *before, const char *piece, size_t times,
                                    const char *after, const char *message) {
  char *text = repeated(before, piece, times, after);
  th__report *r = th__derive_check(text, strlen(text), &(th__derive_options){.seed = 1});
  cr_assert_not_null(r);
  cr_assert_geq(r->verdict, TH__VACUOUS, "%s x %zu", piece, times);
  const char *said = r->fault.message[0] != '\0' ? r->fault.message : r->findings[0].fault.message;
  cr_assert_not_null(strstr(said, message), "%s x %zu: \"%s\"", piece, times, said);
  th__report_free(r);
  free(text);
}

Test(refusals, depth) {
  expect_refused_repeated("X = ", "(", 100000, "1\n", "nested too deeply");
  expect_refused_repeated("X = ", "[", 100000, "1\n", "nested too deeply");
  expect_refused_repeated("X = ", "-", 100000, "1\n", "nested too deeply");
  expect_refused_repeated("X = 1", "**1", 100000, "\n", "nested too deeply");
  expect_refused_repeated("X = 1", "+1", 100000, "\n", "levels deep");
  expect_refused_repeated("X = x", ".T", 100000, "\n", "levels deep");
  expect_refused_repeated("X = x", "[0]", 100000, "\n", "levels deep");
  expect_refused_repeated("X = ", "exp(", 100000, "1\n", "nested too deeply");
}

Test(refusals, length) {
  expect_refused_repeated("X = ", "1 ", 1 << 20, "\n", "too long for a derivation");
  expect_refused_repeated("", "a = 1\n", 2000, "loss(a)\n", "more than 1000 statements");
  char *comment = repeated("# ", "x", 500000, "\nX = input(2)\nY = X\nloss(Y)\ndX = dY\n");
  th__report *r = check_text(comment);
  cr_assert_eq(r->verdict, TH__PASS, "%s", r->fault.message);
  th__report_free(r);
  free(comment);
  /* calls that double: 2^30 operations */
  char text[2048] = "f0(x) = x + x\n";
  for (int i = 1; i < 30; i++) {
    size_t used = strlen(text);
    snprintf(text + used, sizeof text - used, "f%d(x) = f%d(x) + f%d(x)\n", i, i - 1, i - 1);
  }
  strcat(text, "X = input(2)\nY = f29(X)\nloss(Y)\ndX = dY\n");
  r = check_text(text);
  cr_assert_not_null(strstr(r->fault.message, "operations"), "%s", r->fault.message);
  th__report_free(r);
}

Test(refusals, junk) {
  expect_refused("\0\1\2", 3, 1, 1, "not text: it holds the byte 0x00");
  expect_refused("X = 1\0", 6, 1, 6, "not text");
  expect_refused("X = 1\nY = 2\n\x7f\x45LF", 16, 3, 1, "not text");
  /* any cut of a good file, and any single byte replaced, gives a report */
  static const char good[] =
      "n, d = 3, 2\nX = input(n, d, normal)\nY = X[:, ::-1] @ eye(d) * 1.5e0\n"
      "loss(Y)\ndX = where(True, 1.5 * dY[:, ::-1], dY)\n";
  expect_pass(good);
  for (size_t cut = 0; cut < sizeof good - 1; cut++) {
    th__report *r = th__derive_check(good, cut, &(th__derive_options){.seed = 1, .draws = 1});
    cr_assert_not_null(r);
    th__report_free(r);
  }
  static const char bytes[] = "([{)]},.:=+-*/@%<>&|~#\\\"'\n\t 0z\xc3";
  for (size_t at = 0; at < sizeof good - 1; at++)
    for (size_t b = 0; b < sizeof bytes - 1; b++) {
      char text[sizeof good];
      memcpy(text, good, sizeof good);
      text[at] = bytes[b];
      th__report *r =
          th__derive_check(text, sizeof good - 1, &(th__derive_options){.seed = 1, .draws = 1});
      cr_assert_not_null(r);
      th__report_free(r);
    }
}

/* ---- out of memory ---- */

Test(refusals, every_allocation_may_fail) {
  static const char text[] =
      "n, d = 3, 2\nX = input(n, d)\nW = input(d, d)\nY = X @ W\nZ = softmax(Y)\n"
      "loss(Z)\ndY = Z * dZ\ndX = dY @ W.T\n";
  for (size_t n = 1; n < 10000; n++) {
    th__alloc_fail_at(n);
    size_t before = th__alloc_count();
    th__report *r =
        th__derive_check(text, sizeof text - 1, &(th__derive_options){.seed = 1, .draws = 3});
    bool failed = th__alloc_count() - before >= n;
    th__alloc_fail_at(0);
    if (!failed) {
      cr_assert_gt(n, 5);
      cr_assert_eq(r->verdict, TH__WRONG);
      th__report_free(r);
      return;
    }
    /* Memory that ended is an error, or it ended in the search for a name of the mistake. */
    cr_assert(r == NULL || r->verdict == TH__ERROR || r->verdict == TH__WRONG, "n = %zu: %s", n,
              th__verdict_name(r->verdict));
    th__report_free(r);
  }
  cr_assert_fail("it never came to an end");
}
