/* Every kind of mistake is named, in the program's own words. ctest: full */
#include "derive/support.h"

#define ATTENTION                                                                                  \
  "n, d, e = 5, 8, 4\n"                                                                            \
  "Q = input(n, d)\nK = input(n, d)\nV = input(n, e)\nM = input(n, n, mask(causal))\n"             \
  "Z = Q @ K.T / sqrt(d)\nS = where(M, Z, -inf)\nP = softmax(S)\nO = P @ V\nloss(O)\n"             \
  "dP = dO @ V.T\n"
#define NORM                                                                                       \
  "n, d = 4, 6\nX = input(n, d)\ng = input(d)\nm = mean(X, axis=-1, keepdims=True)\n"              \
  "A = X - m\nv = mean(A * A, axis=-1, keepdims=True)\nr = 1 / sqrt(v + 1e-5)\nN = A * r\n"        \
  "Y = N * g\nloss(Y)\ndN = dY * g\n"

typedef struct mistake {
  const char *forward, *claim;
  const char *name;
  th__bug kind;
  const char *sentence;
} mistake;

static const mistake mistakes[] = {
    /* factors, named by what the sizes do */
    {ATTENTION, "dS = P * (dP - sum(P * dP, axis=-1, keepdims=True)) / sqrt(d)\n", "dS",
     TH__BUG_FACTOR, "right up to a factor 0.35355339 = 1/sqrt(d)"},
    {ATTENTION, "dQ = where(M, dZ, 0) @ K\n", "dQ", TH__BUG_FACTOR, "2.8284271 = sqrt(d)"},
    {ATTENTION, "dQ = dZ @ K / d\n", "dQ", TH__BUG_FACTOR, "= 1/sqrt(d)"},
    {ATTENTION, "dV = 2 * P.T @ dO\n", "dV", TH__BUG_FACTOR, "right up to a factor 2 = 2"},
    {"n, m = 4, 7\nX = input(n, m)\nL = mean(X * X)\nloss(L)\n", "dX = 2 * X * dL\n", "dX",
     TH__BUG_FACTOR, "= n*m"},
    {"n, m = 4, 7\nX = input(n, m)\nL = mean(X * X)\nloss(L)\n", "dX = X / m * dL\n", "dX",
     TH__BUG_FACTOR, "= n/2"},
    {"s = input()\nX = input(5)\nY = s * X\nloss(Y)\n", "dX = dY\n", "dX", TH__BUG_FACTOR, "1/s"},
    {"X = input(5)\nY = tanh(X)\nloss(Y)\n", "dX = dY\n", "dX", TH__BUG_FACTOR, "(1 - Y**2)"},
    {"X = input(5)\nY = sigmoid(X)\nloss(Y)\n", "dX = dY * Y\n", "dX", TH__BUG_FACTOR, "(1 - Y)"},
    {NORM,
     "dX = (dN - mean(dN, axis=-1, keepdims=True) - N * mean(dN * N, axis=-1, keepdims=True))\n",
     "dX", TH__BUG_FACTOR, "misses the factor r"},
    /* saturated in some draws, where rounding is all there is to see */
    {"d, e, m = 7, 3, 4\nU = input(d, m)\nX = input(e, d)\nV = X - sum(X)\n"
     "W = concat((V[-1:], V[:-1]), axis=0) + V\nY = sigmoid(W)\nloss(Y)\n",
     "dW = dY * Y * (1 - Y) * 1.0001\n", "dW", TH__BUG_FACTOR, "right up to a factor 1.0001"},
    /* signs: of everything, and of one term */
    {ATTENTION, "dV = -P.T @ dO\n", "dV", TH__BUG_SIGN, "wrong sign"},
    {ATTENTION, "dS = P * (dP + sum(P * dP, axis=-1, keepdims=True))\n", "dS", TH__BUG_SIGN,
     "P * sum(P * dP, axis=-1) with the wrong sign"},
    {NORM,
     "dX = r * (dN + mean(dN, axis=-1, keepdims=True) - N * mean(dN * N, axis=-1, keepdims=True))\n",
     "dX", TH__BUG_SIGN, "wrong sign"},
    /* transposes: of the result, by shape, and of an operand */
    {"n, m = 4, 4\nX = input(n, m)\nW = input(m, n)\nY = X @ W\nloss(Y)\n", "dW = dY.T @ X\n", "dW",
     TH__BUG_TRANSPOSE, "equals its transpose"},
    {"n, m, o = 4, 5, 6\nX = input(n, m)\nW = input(m, o)\nY = X @ W\nloss(Y)\n", "dW = dY.T @ X\n",
     "dW", TH__BUG_TRANSPOSE, "equals its transpose"},
    {ATTENTION, "dK = dZ @ Q / sqrt(d)\n", "dK", TH__BUG_TRANSPOSE, "dZ.T in place of dZ"},
    {"n, d = 5, 3\nX = input(n, d)\nS = X @ X.T\nloss(S)\n", "dX = dS @ X + dS @ X\n", "dX",
     TH__BUG_TRANSPOSE, "dS.T in place of dS"},
    /* sums and means of rows */
    {ATTENTION, "dS = P * dP\n", "dS", TH__BUG_MISSING_ROW_SUM,
     "-P * sum(P * dP, axis=-1) (fit 1.000)"},
    {"n, d = 4, 6\nX = input(n, d)\nY = X - mean(X)\nloss(Y)\n", "dX = dY\n", "dX",
     TH__BUG_MISSING_MEAN, "misses the term -mean(dY) (fit 1.000)"},
    {"n, d = 4, 6\nX = input(n, d)\nY = X - mean(X, axis=0)\nloss(Y)\n", "dX = dY\n", "dX",
     TH__BUG_MISSING_MEAN, "-mean(dY, axis=0)"},
    {NORM, "dX = r * (dN - mean(dN, axis=-1, keepdims=True))\n", "dX", TH__BUG_MISSING_MEAN,
     "mean("},
    {NORM, "dX = r * (dN - N * mean(dN * N, axis=-1, keepdims=True))\n", "dX", TH__BUG_MISSING_MEAN,
     "-r * mean(dN, axis=-1) (fit 1.000)"},
    {"n, d = 4, 6\nX = input(n, d)\nY = X - logsumexp(X, axis=-1, keepdims=True)\nP = exp(Y)\nloss(Y)\n",
     "dX = dY\n", "dX", TH__BUG_MISSING_ROW_SUM, "-P * sum(dY, axis=-1)"},
    /* other terms, and parts by use */
    {"X = input(6)\nY = X * sigmoid(X)\ns = sigmoid(X)\nloss(Y)\n", "dX = dY * s\n", "dX",
     TH__BUG_MISSING_TERM, "dY"},
    {"n, d = 4, 3\nX = input(n, d)\nW = input(d, d)\nF = X @ W\nY = X + F\nloss(Y)\ndF = dY\n",
     "dX = dF @ W.T\n", "dX", TH__BUG_MISSING_TERM, "misses the term d"},
    {"X = input(5)\nY = 2 * X\nloss(Y)\n", "dX = zeros(5)\n", "dX", TH__BUG_MISSING_TERM,
     "zero everywhere"},
    {"n, d = 4, 3\nX = input(n, d)\nA = input(d, d)\nB = input(d, d)\nQ = X @ A\nK = X @ B\n"
     "S = Q @ K.T\nloss(S)\ndQ = dS @ K\ndK = dS.T @ Q\n",
     "dX = dQ @ A.T\ndX = dK @ B.T\n", "dX", TH__BUG_OVERWRITTEN, "only the part through"},
    {"n, d = 4, 3\nX = input(n, d)\nA = input(d, d)\nB = input(d, d)\nQ = X @ A\nK = X @ B\n"
     "S = Q @ K.T\nloss(S)\ndQ = dS @ K\ndK = dS.T @ Q\n",
     "dX = dQ @ A.T\n", "dX", TH__BUG_OVERWRITTEN, "the part through K (line 6)"},
    {"n, d, e = 4, 3, 5\nX = input(n, d)\nW = input(e, d)\nY = X @ W.T\nloss(Y)\n",
     "dW = dY[:-1].T @ X[:-1]\n", "dW", TH__BUG_MISSING_TERM,
     "misses the last term of the sum in dY.T @ X"},
    {"n, d = 4, 3\nX = input(n, d)\ns = input(n)\nY = X * s[:, None]\nloss(Y)\n", "dX = dY\n", "dX",
     TH__BUG_FACTOR, "misses the factor s"},
    {"n, v, d = 7, 3, 4\nE = input(v, d)\nI = input(n, v, onehot)\nY = I @ E\nloss(Y)\n",
     "later = triu(ones(n, n), 1) @ I\ndE = where(later > 0, 0, I).T @ dY\n", "dE",
     TH__BUG_OVERWRITTEN, "the last one wins"},
    {"n, d = 4, 5\nA = input(n, d)\nB = input(n, d)\na = norm(A, axis=-1, keepdims=True)\n"
     "b = norm(B, axis=-1, keepdims=True)\nc = sum(A * B, axis=-1, keepdims=True) / (a * b)\nloss(c)\n",
     "dA = dc * B / (a * b)\n", "dA", TH__BUG_OVERWRITTEN,
     "use 1 in a (line 4) and use 2 in a (line 4)"},
    /* masks */
    {"n = 5\nX = input(n, n)\nM = input(n, n, mask(causal))\nY = X * M\nloss(Y)\n", "dX = dY\n",
     "dX", TH__BUG_MASK_NOT_APPLIED, "mask M"},
    {"X = input(6)\nY = relu(X)\nloss(Y)\n", "dX = dY\n", "dX", TH__BUG_MASK_NOT_APPLIED, "mask"},
    {"n = 5\nX = input(n, n)\nM = input(n, n, mask(causal))\nY = X * M\nloss(Y)\n",
     "dX = dY * tril(ones(n, n), -1)\n", "dX", TH__BUG_MASK_SHIFTED, "mask M shifted"},
    {"n = 5\nX = input(n, n)\nM = input(n, n, mask(causal))\nY = X * M\nloss(Y)\n",
     "dX = dY * tril(ones(n, n), 1)\n", "dX", TH__BUG_MASK_SHIFTED, "mask M shifted"},
    {ATTENTION, "R = softmax(Z)\ndS = R * (dP - sum(R * dP, axis=-1, keepdims=True))\n", "dS",
     TH__BUG_MASK_NOT_APPLIED, "mask M"},
    {ATTENTION, "dV = softmax(Z).T @ dO\n", "dV", TH__BUG_MASK_NOT_APPLIED,
     "right with P in place of softmax(..)"},
    /* heads */
    {"n, h, w = 4, 3, 2\nX = input(n, h * w)\nY = transpose(reshape(X, n, h, w), 1, 0, 2)\nloss(Y)\n",
     "dX = reshape(dY, n, h * w)\n", "dX", TH__BUG_HEADS_PERMUTED, "another order"},
    {"n, h, w = 4, 3, 2\nX = input(n, h * w)\nY = reshape(X, n, h, w)\nloss(Y)\n",
     "dX = reshape(dY[:, ::-1], n, h * w)\n", "dX", TH__BUG_HEADS_PERMUTED, "blocks of axis 1"},
    {"n, h, w = 4, 3, 2\nX = input(h, n, w)\nY = transpose(X, 1, 0, 2)\nloss(Y)\n",
     "dX = reshape(dY, h, n, w)\n", "dX", TH__BUG_HEADS_PERMUTED, "another order"},
    /* sums over broadcast axes */
    {"n, d = 4, 6\nX = input(n, d)\nb = input(d)\nY = X + b\nloss(Y)\n", "db = dY\n", "db",
     TH__BUG_NOT_SUMMED, "not summed over axis 0"},
    {"n, d = 4, 6\nX = input(n, d)\nb = input(d)\nY = X + b\nloss(Y)\n", "db = dY[-1]\n", "db",
     TH__BUG_NOT_SUMMED, "last row of dY"},
    {"n, d = 4, 6\nX = input(n, d)\ng = input(d)\nY = X * g + g\nloss(Y)\n",
     "dg = (dY * X)[-1] + sum(dY, axis=0)\n", "dg", TH__BUG_NOT_SUMMED,
     "right with a sum over axis 0 in place of this index"},
    {"b, n, d = 2, 4, 6\nX = input(b, n, d)\ng = input(d)\nY = X * g\nloss(Y)\n",
     "dg = sum(dY * X, axis=0)\n", "dg", TH__BUG_NOT_SUMMED, "not summed over axis 0"},
    {"n, d = 4, 6\nX = input(n, d)\nb = input(d)\nY = X + b\nloss(Y)\n", "db = mean(dY, axis=0)\n",
     "db", TH__BUG_FACTOR, "= 1/n"},
    /* rotations, in both layouts */
    {"n, h = 4, 3\nX = input(n, 2 * h)\na = reshape(arange(n), n, 1) * 10.0 ** (-arange(h))\n"
     "c = concat(cos(a), cos(a), axis=1)\ns = concat(sin(a), sin(a), axis=1)\n"
     "turn(x) = concat(-x[:, h:], x[:, :h], axis=1)\nY = X * c + turn(X) * s\nloss(Y)\n",
     "dX = dY * c + turn(dY) * s\n", "dX", TH__BUG_ROTATED, "rotated the wrong way"},
    {"n, h = 4, 3\nX = input(n, h, 2)\na = reshape(arange(n), n, 1) * 10.0 ** (-arange(h))\n"
     "c = cos(a)[:, :, None]\ns = sin(a)[:, :, None]\n"
     "turn(x) = concat(-x[:, :, 1:], x[:, :, :1], axis=2)\nY = X * c + turn(X) * s\nloss(Y)\n",
     "dX = dY * c + turn(dY) * s\n", "dX", TH__BUG_ROTATED, "rotated the wrong way"},
    /* nothing that is known */
    {"X = input(6)\nY = exp(X)\nloss(Y)\n", "dX = cos(dY) * X\n", "dX", TH__BUG_UNKNOWN,
     "none of the usual mistakes; 6 of 6 entries are wrong"},
    {"X = input(6)\nY = exp(X)\nloss(Y)\n", "dX = log(-Y * Y)\n", "dX", TH__BUG_UNKNOWN,
     "not a number in 6 of 6"},
    /* one slip that only the text shows */
    {"n, d = 4, 3\nX = input(n, d)\nA = input(d, d)\nB = input(d, d)\nY = X @ A @ B\nloss(Y)\n",
     "dX = dY @ A.T @ A.T\n", "dX", TH__BUG_UNKNOWN, "right with B in place of A"},
};

Test(mistakes, are_named) {
  for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
    const mistake *m = &mistakes[i];
    char text[1024];
    snprintf(text, sizeof text, "%s%s", m->forward, m->claim);
    expect_wrong(text, m->name, m->kind, m->sentence);
  }
}
