"""Writes numpy.inc: expressions of the derivation language with the values that NumPy gives them.

    python make_numpy.py > numpy.inc
"""
import math
import numpy as np

SETUP = """a = arange(1, 7) / 4
A = reshape(a, 2, 3)
B = sin(reshape(arange(12), 3, 4))
C = cos(reshape(arange(24), 2, 3, 4))
v = arange(3) - 1
s = 2.5
i = 1
ids = arange(4) % 3
f(x, y) = x * y + 1
def g(x): return f(x, x) - 1
"""

EXPRESSIONS = """1 + 2 * 3 - 4 / 8
2 ** 3 ** 2
-2 ** 2
(-2) ** 2
2 ** -1
-a[2] ** 2
7 // 2 + 7 % 4
-7 // 2
-7 % 4
1e-3 + .5 + 5. + 1.5E2
A + v
A * v - s
A[:, :1] * B[0]
v[:, None] * v[None, :]
A @ B
v @ B
A @ v
v @ v
C @ B.T
B @ C.mT
C.T
C.mT
A.T.T
A.shape
C.shape[1] + C.ndim + C.size
A > 0.5
(A > 0.5) & (A < 1.25)
(A <= 0.5) | (A >= 1.25)
~(A == 0.75)
A != 0.75
where(A > 0.5, A, -A)
where(v > 0, 1, A)
sum(A)
sum(A, axis=0)
sum(A, -1)
sum(C, axis=(0, 2))
sum(C, axis=(0, -1), keepdims=True)
mean(C, axis=1, keepdims=True)
mean(C)
C.mean(axis=2)
C.sum()
max(C, axis=-1)
max(C)
min(C, axis=0)
var(C, axis=-1)
norm(A)
norm(C, axis=-1, keepdims=True)
exp(A)
log(A)
sqrt(A)
tanh(B)
erf(B)
sigmoid(B * 9)
relu(B)
abs(B)
sign(v)
softmax(B)
softmax(C, axis=1)
softmax(where(B > 0, B, -inf))
log_softmax(B)
logsumexp(B)
logsumexp(B, axis=-1)
logsumexp(C, axis=(0, 1), keepdims=True)
np.exp(a).sum()
maximum(A, 1)
minimum(A, v)
eye(3)
eye(2, 3)
ones(2, 3) + zeros((2, 1))
arange(2, 9, 3)
arange(5, 0, -2)
tril(B)
tril(B, -1)
triu(B, 1)
triu(C)
tril(ones(3, 3), k=1)
diag(v)
diag(B)
outer(v, a)
reshape(C, 4, 6)
reshape(C, (6, -1))
C.reshape(-1)
reshape(B, C.shape[1], 2, 2)
transpose(C)
transpose(C, 1, 0, 2)
transpose(C, (2, 0, 1))
C.transpose(0, 2, 1)
concat(A, v[None, :])
concat((A, A[:, 1:]), axis=1)
concat([B, B], axis=-1)
concat(v, v, v)
C[0]
C[-1, 1]
C[0, 1, 2]
C[:, 1:]
C[..., 1]
C[1, ..., ::2]
C[:, ::-1, 1:-1]
B[::-2]
B[2:0:-1, 3]
B[5:]
B[None, 1, :, None]
C[i, :, 2 * i]
B[ids]
B[:, ids]
B[ids, arange(4)]
C[:, ids, arange(4)]
C[ids % 2, :, arange(4)]
C[0, :, ids]
B[reshape(ids[:4], 2, 2)]
B[-1 - ids % 2]
f(2, y=3)
g(A)
f(g(v), s)
(1, 2, 3)[1] if False else pi
True + False
dot(A, B)
matmul(v, B)
a \\
  + 1
max(A, axis=0) + (1
  + 2)""".split("\n")


def softmax(x, axis=-1):
    e = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def logsumexp(x, axis=None, keepdims=False):
    m = np.max(x, axis=axis, keepdims=True)
    out = m + np.log(np.sum(np.exp(x - m), axis=axis, keepdims=True))
    return out if keepdims else np.squeeze(out, axis=axis) if axis is not None else out.reshape(())


def varargs(function):
    return lambda *shape: function(shape[0] if isinstance(shape[0], tuple) else shape)


def concat(*parts, axis=0):
    return np.concatenate(parts[0] if isinstance(parts[0], (tuple, list)) else parts, axis=axis)


def transpose(x, *axes):
    return np.transpose(x, axes[0] if axes and isinstance(axes[0], tuple) else axes or None)


names = dict(
    np=np, pi=math.pi, inf=math.inf, concat=concat, transpose=transpose, softmax=softmax, logsumexp=logsumexp,
    log_softmax=lambda x, axis=-1: x - logsumexp(x, axis, True), erf=np.vectorize(math.erf),
    sigmoid=lambda x: 1 / (1 + np.exp(-x)), relu=lambda x: np.maximum(x, 0), norm=np.linalg.norm,
    ones=varargs(np.ones), zeros=varargs(np.zeros), eye=np.eye, arange=lambda *x: np.arange(*x),
    reshape=lambda x, *shape: np.reshape(x, shape[0] if isinstance(shape[0], tuple) else shape))
for name in """sum mean max min var exp log sqrt tanh abs sign sin cos maximum minimum where tril triu diag outer dot
               matmul""".split():
    names[name] = getattr(np, name)
names["norm"] = lambda x, axis=None, keepdims=False: np.sqrt(np.sum(x * x, axis=axis, keepdims=keepdims))


class Array(np.ndarray):
    """Adds .mT for NumPy 1."""
    @property
    def mT(self):
        return np.swapaxes(self, -1, -2).view(Array)


for line in SETUP.splitlines():
    if line.startswith("f(x, y)"):
        line = "def f(x, y): return x * y + 1"
    exec(line, names)
for name in "a A B C v".split():
    names[name] = np.asarray(names[name], dtype=float).view(Array)

print("/* Made by make_numpy.py with NumPy %s: what NumPy gives for these expressions. */" % np.__version__)
print("static const char setup[] =")
for line in SETUP.splitlines():
    print('    "%s\\n"' % line)
print("    ;")
joined, expressions = "", []
for line in EXPRESSIONS:
    joined = joined + "\n" + line if joined else line
    if joined.count("(") == joined.count(")") and not joined.endswith("\\"):
        expressions.append(joined)
        joined = ""
rows = []
for number, text in enumerate(expressions):
    if " if False else " in text:
        text = text.split(" else ")[1]
    value = np.asarray(eval(text, names), dtype=float)
    print("static const double v%d[] = {%s};" % (number, ", ".join(repr(float(x)) for x in value.ravel()) or "0"))
    shown = text.replace("\\", "\\\\").replace("\n", "\\n")
    rows.append('    {"%s", %d, {%s}, v%d},' % (shown, value.ndim, ", ".join(map(str, value.shape)) or "0", number))
print("static const expression expressions[] = {")
print("\n".join(rows))
print("};")
