#!/usr/bin/env python3
"""Makes the golden values: tests/golden/NAME.inc, one file per op, included by tests/ops/test_NAME.c.

    python tests/golden/make.py              write all files
    python tests/golden/make.py softmax gpt  write these
    python tests/golden/make.py --check      write nothing; exit 1 if a committed file says something else

Needs PyTorch, numpy and mpmath. Values and gradients come from PyTorch's autograd in float64 and are
checked here against a second source: a plain numpy forward and its complex-step derivative
(reference.py), or sixty-digit arithmetic where float64 cancels. No code of this project is involved.

An array is golden_OP_CASE_NAME, its dimensions golden_OP_CASE_NAME_shape (none for a single number); NAME is an input,
dy (upstream gradient), y (output) or dINPUT (gradient). Options are constants of the same form.

Every input is a multiple of 1/512 or a power of two, so f32 and f64 tests start from the same numbers. Upstream
gradients are random, never all ones. Known results from bug reports of other libraries are asserted.
Each function below makes one file; its docstring becomes the head of that file.
"""

import pathlib
import sys

import numpy as np
import torch
import torch.nn.functional as F

import layouts
import models
import optimisers
import positions
import recurrent
import reference as ref
from inc import Case, Draw, agree, differentiate, fragment, same_text

HERE = pathlib.Path(__file__).parent


# ---- element by element

def broadcasting(op, forward):
    """The same shapes for add, sub and mul."""
    shapes = {
        "same": ((3, 4), (3, 4), "same shape"),
        "row": ((3, 4), (4,), "one row serves all rows"),
        "column_row": ((4, 1), (1, 5), "a column with a row"),
        "leading": ((3, 4), (2, 3, 4), "the first operand lacks an axis"),
        "inner": ((2, 1, 4), (3, 1), "both stretch"),
        "scalar": ((2, 3), (1,), "one number"),
    }
    for name, (a, b, note) in shapes.items():
        draw = Draw(f"{op} {name}")
        yield differentiate(name, note, forward, forward, {"a": draw.normal(*a), "b": draw.normal(*b)})


def add():
    """y = a + b; shapes broadcast as in NumPy."""
    yield from broadcasting("add", lambda a, b: a + b)
    case = differentiate("bias_of_ones", "upstream of ones: a row that serves 3 rows gets 3", lambda a, b: a + b,
                         None, {"a": np.arange(12).reshape(3, 4), "b": np.arange(4)}, dy=np.ones((3, 4)))
    agree("bias gradient", case.arrays["db"], [3, 3, 3, 3])
    yield case


def sub():
    """y = a - b; shapes broadcast as in NumPy."""
    yield from broadcasting("sub", lambda a, b: a - b)


def mul():
    """y = a * b; shapes broadcast as in NumPy."""
    yield from broadcasting("mul", lambda a, b: a * b)
    case = differentiate("outer", "column times row, upstream of ones", lambda a, b: a * b, None,
                         {"a": [[1], [2], [3], [4]], "b": [[1, 10, 100, 1000]]}, dy=np.ones((4, 4)))
    agree("column gradient", case.arrays["da"], [[1111]] * 4)
    agree("row gradient", case.arrays["db"], [[10] * 4])
    yield case


def scale():
    """y = factor * x."""
    for name, factor in {"positive": 0.375, "negative": -1.75, "zero": 0.0}.items():
        forward = lambda x: factor * x
        yield differentiate(name, f"factor {factor}", forward, forward, {"x": Draw(f"scale {name}").normal(2, 3, 4)},
                            options={"factor": factor})


def bias():
    """y = x + bias over the last axis."""
    for name, shape in {"rank2": (3, 4), "rank3": (2, 3, 5), "rank1": (4,)}.items():
        draw = Draw(f"bias {name}")
        forward = lambda x, bias: x + bias
        yield differentiate(name, f"rank {len(shape)}", forward, forward,
                            {"x": draw.normal(*shape), "bias": draw.normal(shape[-1])})


def relu():
    """y = max(x, 0); the derivative at 0 is 0."""
    x = Draw("relu").normal(3, 5)
    x[0, 0], x[1, 2] = 0, 1 / 512
    yield differentiate("plain", "with a zero", lambda x: torch.relu(x), ref.relu, {"x": x})


def gelu():
    """y = x Phi(x), exactly and in the tanh form. Values with sixty digits, so the tails are right to the last bit
    of their own size, where 1 + erf and 1 + tanh cancel in float64."""
    inputs = {"plain": (Draw("gelu").normal(3, 5, sd=1.5), "usual values"),
              "tails": (np.array([-12, -8, -6, -4, -2, -0.5, 0, 0.5, 2, 4, 6, 8, 12.0]), "far out on both sides")}
    for form in "exact", "tanh":
        for name, (x, note) in inputs.items():
            y, slope = ref.exact_gelu(x, form)
            dy = Draw(f"gelu {form} {name}").normal(*x.shape)
            approximate = "none" if form == "exact" else "tanh"
            torchs = differentiate(name, note, lambda x: F.gelu(x, approximate=approximate), None, {"x": x}, dy=dy)
            agree("gelu y", y, torchs.arrays["y"], 1e-15)
            agree("gelu dx", dy * slope, torchs.arrays["dx"], 1e-14)
            yield Case(f"{form}_{name}", f"{form} form, {note}", {}, {"x": x, "dy": dy, "y": y, "dx": dy * slope})


def pointwise(op, forward, exact, far):
    """Usual values, and values near 0 and far out, whose y and slope are right to the last bit of their own size."""
    inputs = {"plain": (Draw(op).normal(3, 5, sd=1.5), "usual values"),
              "tails": (np.array([-far, -30, -17, -9.5, -6, -2, -0.625, -0.25, -2**-12, -2**-60, 0,
                                  2**-60, 2**-12, 0.25, 0.625, 2, 6, 9.5, 17, 30, far]), "near 0 and far out")}
    for name, (x, note) in inputs.items():
        y, slope = exact(x)
        dy = Draw(f"{op} {name}").normal(*x.shape)
        torchs = differentiate(name, note, forward, None, {"x": x}, dy=dy)
        agree(f"{op} y", y, torchs.arrays["y"], 1e-15)
        agree(f"{op} dx", dy * slope, torchs.arrays["dx"], 1e-14)
        yield Case(name, note, {}, {"x": x, "dy": dy, "y": y, "dx": dy * slope})


def tanh():
    """y = tanh x, in sixty digits; the slope is 1 / cosh^2 x, where 1 - y^2 would cancel in float64."""
    yield from pointwise("tanh", lambda x: torch.tanh(x), ref.exact_tanh, 40)


def sigmoid():
    """y = 1 / (1 + exp(-x)), in sixty digits; the slope is y(x) y(-x), where y (1 - y) would cancel in float64."""
    yield from pointwise("sigmoid", lambda x: torch.sigmoid(x), ref.exact_sigmoid, 80)


def silu():
    """y = x / (1 + exp(-x)), in sixty digits."""
    yield from pointwise("silu", lambda x: F.silu(x), ref.exact_silu, 80)


def swiglu():
    """y = silu(a) * b, of one shape."""
    forward = lambda a, b: F.silu(a) * b
    for name, shape in {"rank1": (5,), "rank2": (3, 4), "rank3": (2, 3, 4)}.items():
        draw = Draw(f"swiglu {name}")
        yield differentiate(name, "usual values", forward, lambda a, b: a / (1 + np.exp(-a)) * b,
                            {"a": draw.normal(*shape, sd=1.5), "b": draw.normal(*shape)})
    a = np.array([-80, -30, -17, -2**-12, 0, 2**-60, 17, 30, 80.0])
    draw = Draw("swiglu tails")
    b, dy = draw.normal(*a.shape), draw.normal(*a.shape)
    y, slope = ref.exact_silu(a)
    torchs = differentiate("tails", "", forward, None, {"a": a, "b": b}, dy=dy)
    for key, value in {"y": y * b, "da": dy * b * slope, "db": dy * y}.items():
        agree(f"swiglu {key}", torchs.arrays[key], value, 1e-14)
    yield Case("tails", "a far out", {}, {"a": a, "b": b, "dy": dy, "y": y * b, "da": dy * b * slope, "db": dy * y})


def dropout():
    """y = x * keep / (1 - p), for a given keep (1 = kept)."""
    for name, p in {"half": 0.5, "tenth": 0.1, "none": 0.0}.items():
        draw = Draw(f"dropout {name}")
        keep = draw.keep(3, 4, share=1 - p)
        forward = lambda x: x * (keep if isinstance(x, np.ndarray) else torch.from_numpy(keep)) / (1 - p)
        yield differentiate(name, f"p = {p}", forward, forward, {"x": draw.normal(3, 4)},
                            options={"p": p}, constants={"keep": keep})
    keep = np.array([1, 0, 1, 1], np.uint8)
    case = differentiate("fixed", "p = 0.5, upstream of ones", lambda x: x * torch.from_numpy(keep) / 0.5, None,
                         {"x": [1, 2, 3, 4]}, dy=np.ones(4), options={"p": 0.5}, constants={"keep": keep})
    agree("dropout dx", case.arrays["dx"], [2, 0, 2, 2])
    yield case


# ---- matrices and axes

def matmul():
    """y = op(A) op(B) in the last two axes; t marks a transposed operand (nn, tn, nt, tt). Leading axes are equal, or
    one operand is 2-D and serves all."""
    leading = {"": ((), ()), "batch_": ((2,), (2,)), "batches_": ((2, 3), (2, 3)),
               "shared_b_": ((2,), ()), "shared_a_": ((), (2,))}
    for prefix, (lead_a, lead_b) in leading.items():
        for ta, tb in (False, False), (True, False), (False, True), (True, True):
            name = prefix + "nt"[ta] + "nt"[tb]
            draw = Draw(f"matmul {name}")
            a = draw.normal(*lead_a, *((4, 3) if ta else (3, 4)))
            b = draw.normal(*lead_b, *((5, 4) if tb else (4, 5)))
            swap = lambda x, on: x.swapaxes(-1, -2) if on else x
            yield differentiate(name, f"transpose A {int(ta)}, transpose B {int(tb)}",
                                lambda a, b: torch.matmul(swap(a, ta), swap(b, tb)),
                                lambda a, b: (swap(a, ta)[..., None] * swap(b, tb)[..., None, :, :]).sum(-2),
                                {"a": a, "b": b}, options={"transpose_a": int(ta), "transpose_b": int(tb)})


def linear():
    """y = x W^T + b, W (out, in)."""
    for name, lead in {"rank2": (3,), "rank3": (2, 3), "rank1": ()}.items():
        draw = Draw(f"linear {name}")
        inputs = {"x": draw.normal(*lead, 4), "w": draw.normal(5, 4)}
        yield differentiate(name, "without bias", lambda x, w: F.linear(x, w), ref.linear, inputs)
        yield differentiate(f"{name}_bias", "with bias", lambda x, w, b: F.linear(x, w, b), ref.linear,
                            {**inputs, "b": draw.normal(5)})


def transpose():
    """y = x with two axes exchanged."""
    for axis1, axis2 in (0, 1), (0, 2), (1, 2):
        forward = lambda x: x.swapaxes(axis1, axis2)
        yield differentiate(f"axes{axis1}{axis2}", f"axes {axis1} and {axis2}", forward, forward,
                            {"x": Draw(f"transpose {axis1}{axis2}").normal(2, 3, 4)},
                            options={"axis1": axis1, "axis2": axis2})


def contiguous():
    """y = x, whose memory holds it with the first two axes exchanged; here as plain arrays."""
    yield differentiate("plain", "rank 3", lambda x: x.clone(), lambda x: x, {"x": Draw("contiguous").normal(2, 3, 4)})


def reshape():
    """y = the elements of x in the same order, in another shape."""
    for name, shape in {"join": (6, 4), "split": (3, 2, 2, 2), "flat": (24,), "ones": (1, 6, 1, 4)}.items():
        forward = lambda x: x.reshape(shape)
        yield differentiate(name, "x".join(map(str, shape)), forward, forward,
                            {"x": Draw(f"reshape {name}").normal(2, 3, 4)})


def slice_():
    """y = those of x with begin <= index < end on one axis; dx is 0 elsewhere."""
    for axis, begin, end in (0, 1, 2), (1, 0, 2), (2, 1, 4):
        part = tuple(slice(begin, end) if i == axis else slice(None) for i in range(3))
        forward = lambda x: x[part]
        yield differentiate(f"axis{axis}", f"axis {axis}, {begin} .. {end - 1}", forward, forward,
                            {"x": Draw(f"slice {axis}").normal(2, 3, 5)},
                            options={"axis": axis, "begin": begin, "end": end})


def split_heads():
    """x (B, T, H*D) -> y (B, H, T, D): head h holds columns h*D .. h*D+D-1."""
    heads = 3
    split = lambda x: x.reshape(*x.shape[:2], heads, -1).transpose(1, 2)
    yield differentiate("split", "3 heads of width 2", split, lambda x: ref.split_heads(x, heads),
                        {"x": Draw("split").normal(2, 4, 6)}, options={"heads": heads})


def merge_heads():
    """x (B, H, T, D) -> y (B, T, H*D), the way back from split_heads."""
    merge = lambda x: x.transpose(1, 2).reshape(x.shape[0], x.shape[2], -1)
    yield differentiate("merge", "3 heads of width 2", merge, ref.merge_heads, {"x": Draw("merge").normal(2, 3, 4, 2)})


def reduction(op):
    x = Draw(op).normal(2, 3, 4)
    yield differentiate("all", "all axes", lambda x: getattr(x, op)(), lambda x: getattr(x, op)(), {"x": x})
    for axis in range(3):
        yield differentiate(f"axis{axis}", f"axis {axis}, which disappears", lambda x: getattr(x, op)(axis),
                            lambda x: getattr(x, op)(axis), {"x": x}, options={"axis": axis})


def sum_():
    """y = sum of x over all axes or over one."""
    yield from reduction("sum")


def mean():
    """y = mean of x over all axes or over one."""
    yield from reduction("mean")


# ---- softmax and losses

SATURATED = 10, 20, 40, 64


def exact_rows(name, note, x, dy, op):
    """softmax, or log_softmax, of each row with sixty digits."""
    y, dx = np.zeros(np.shape(x)), np.zeros(np.shape(x))
    for i, (row, g) in enumerate(zip(ref.exactly(x), ref.exactly(dy))):
        p, dp = ref.exact_softmax_row(row, g)
        if op == "log_softmax":
            p, dp = np.array([ref.mp.log(value) for value in p]), g - p * g.sum()
        y[i], dx[i] = ref.rounded(p), ref.rounded(dp)
    arrays = {"x": np.asarray(x, float), "dy": np.asarray(dy, float), "y": y, "dx": dx}
    torchs = differentiate(name, note, lambda x: getattr(torch, op)(x, -1), None, {"x": x}, dy=dy)
    agree(f"{op} {name}: y", torchs.arrays["y"], y, 1e-15)
    agree(f"{op} {name}: dx", torchs.arrays["dx"], dx, 1e-15, size=np.abs(dy).max())  # PyTorch cancels here
    return Case(name, note, {}, arrays)


def saturated_rows(op):
    case = exact_rows("saturated", "rows [d, 0], d = 10, 20, 40, 64, upstream [1, 0]; exact to the last bit",
                      [[d, 0] for d in SATURATED], [[1, 0]] * len(SATURATED), op)
    yield case
    draw = Draw(f"{op} sharp")
    yield exact_rows("sharp", "rows of whole numbers with gaps up to 60; every gradient exact relative to its own size",
                     draw.integers(-30, 31, 4, 6), draw.normal(4, 6), op)


def softmax():
    """y = softmax of x over the last axis. Where a row is saturated, the values are those of exact arithmetic."""
    for name, shape in {"rank2": (3, 5), "rank3": (2, 3, 4), "single": (2, 1), "wide": (2, 37)}.items():
        yield differentiate(name, "usual values", lambda x: torch.softmax(x, -1), ref.softmax,
                            {"x": Draw(f"softmax {name}").normal(*shape, sd=1.5)})
    for case in saturated_rows("softmax"):
        if case.name == "saturated":
            agree("p(1-p)", case.arrays["dx"][:, 0],
                  [4.5395807736e-05, 2.0611536139e-09, 4.2483542553e-18, 1.6038108905e-28], 1e-9)
        yield case
    yield exact_rows("large", "1e4 and its neighbours: the maximum has to go first",
                     [[10000, 10001, 9999], [-10000, -10003, -10001]], Draw("softmax large").normal(2, 3), "softmax")
    row = differentiate("", "", lambda x: torch.softmax(x, -1), None, {"x": [1, -np.inf, 2.5]}, dy=[0.75, 3, -0.5])
    yield Case("minus_infinity", "an entry of -inf gets weight 0; a row of nothing else is 0 with gradient 0", {},
               {key: np.stack([row.arrays[key], np.full(3, rest)])
                for key, rest in {"x": -np.inf, "dy": 1.25, "y": 0, "dx": 0}.items()})


def log_softmax():
    """y = x - log sum exp x over the last axis."""
    for name, shape in {"rank2": (3, 5), "rank3": (2, 3, 4), "single": (2, 1)}.items():
        yield differentiate(name, "usual values", lambda x: torch.log_softmax(x, -1), ref.log_softmax,
                            {"x": Draw(f"log_softmax {name}").normal(*shape, sd=1.5)})
    yield from saturated_rows("log_softmax")


def exact_logsumexp(name, note, x, dy):
    """logsumexp of each row with sixty digits; PyTorch agrees as far as float64 goes."""
    y, dx = np.zeros(len(x)), np.zeros(np.shape(x))
    for i, row in enumerate(ref.exactly(x)):
        p, _ = ref.exact_softmax_row(row, row)
        y[i] = float(ref.mp.log(sum(ref.mp.exp(value) for value in row)))
        dx[i] = ref.rounded(p * dy[i])
    torchs = differentiate(name, note, lambda x: torch.logsumexp(x, -1), None, {"x": x}, dy=dy)
    agree(f"logsumexp {name}: y", torchs.arrays["y"], y, 1e-15, size=max(1, np.abs(y).max()))
    agree(f"logsumexp {name}: dx", torchs.arrays["dx"], dx, 1e-15 * max(10, np.abs(x).max()))  # exp(x - y), y rounded
    return Case(name, note, {}, {"x": np.asarray(x, float), "dy": np.asarray(dy, float), "y": y, "dx": dx})


def logsumexp():
    """y = log sum exp x over the last axis, which disappears. Where a row is saturated, the values are those of exact
    arithmetic."""
    for name, shape in {"rank1": (5,), "rank2": (3, 5), "rank3": (2, 3, 4), "single": (2, 1), "wide": (2, 37)}.items():
        yield differentiate(name, "usual values", lambda x: torch.logsumexp(x, -1), ref.logsumexp,
                            {"x": Draw(f"logsumexp {name}").normal(*shape, sd=1.5)})
    yield exact_logsumexp("saturated", "rows [-d, 0], d = 10, 20, 40, 64: y is nearly 0, exact to the last bit",
                          [[-d, 0] for d in SATURATED], [0.75, -1.5, 2, 1])
    draw = Draw("logsumexp sharp")
    yield exact_logsumexp("sharp", "rows of whole numbers with gaps up to 60",
                          draw.integers(-30, 31, 4, 6), draw.normal(4))
    yield exact_logsumexp("large", "1e4 and its neighbours: the maximum has to go first",
                          [[10000, 10001, 9999], [-10000, -10003, -10001]], draw.normal(2))
    row = differentiate("", "", lambda x: torch.logsumexp(x, -1), None, {"x": [[1, -np.inf, 2.5]]}, dy=[0.75])
    yield Case("minus_infinity", "an entry of -inf gets weight 0; a row of nothing else is -inf with gradient 0", {},
               {"x": np.array([[1, -np.inf, 2.5], [-np.inf] * 3]), "dy": np.array([0.75, 1.25]),
                "y": np.array([row.arrays["y"][0], -np.inf]), "dx": np.stack([row.arrays["dx"][0], np.zeros(3)])})


def loss_case(name, note, logits, targets, dy=0.75, mean=True):
    """Cross-entropy, as a mean or a sum, with sixty digits; PyTorch agrees as far as float64 goes."""
    logits, targets = np.asarray(logits, float), np.asarray(targets, np.int32)
    rows, labels = logits.reshape(-1, logits.shape[-1]), targets.ravel()
    counted = int((labels != -1).sum()) if mean else int((labels != -1).any())
    y, dx = ref.mpf(0), np.zeros(rows.shape)
    for i, label in enumerate(labels):
        if label != -1:
            one = np.arange(rows.shape[1]) == label
            p, _ = ref.exact_softmax_row(ref.exactly(rows[i]), ref.exactly(one))
            others = p[~one].sum()
            y -= ref.mp.log(p[label]) / counted
            dx[i] = ref.rounded(np.where(one, -others, p) * dy / counted)
    case = Case(name, note, {}, {"logits": logits, "targets": targets, "dy": np.array(dy), "y": np.array(float(y)),
                                 "dlogits": dx.reshape(logits.shape)})
    if counted:
        torchs = differentiate(name, note, lambda logits: F.cross_entropy(
            logits.reshape(rows.shape), torch.from_numpy(labels).long(), ignore_index=-1,
            reduction="mean" if mean else "sum"),
            lambda logits: ref.cross_entropy(logits.reshape(rows.shape), labels, mean=mean), {"logits": logits}, dy=dy,
            size=max(1, np.abs(y)))
        agree(f"{name}: loss", torchs.arrays["y"], case.arrays["y"], 1e-15, size=np.abs(y) + 1)
        agree(f"{name}: gradient", torchs.arrays["dlogits"], case.arrays["dlogits"], 1e-15, size=1)
    return case


def cross_entropy():
    """y = mean over the targets other than -1 of -log softmax(logits)[target]; y and dy are single numbers."""
    draw = Draw("cross_entropy")
    yield loss_case("plain", "all count", draw.normal(4, 5, sd=1.5), draw.integers(0, 5, 4))
    yield loss_case("ignored", "two of six do not count", draw.normal(2, 3, 4, sd=1.5), [[1, -1, 0], [3, 3, -1]], -1.25)
    yield loss_case("all_ignored", "nothing counts: 0, gradient 0", draw.normal(2, 3), [-1, -1])
    case = loss_case("two_rows", "targets 0 and 2", [[2.5, 0, 0], [0, 0, 2.5]], [0, 2], 1)
    agree("two rows", case.arrays["y"], 0.1520083844, 1e-9)
    yield case
    case = loss_case("huge_equal", "two logits of 1e8: ln 2", [[1e8, 1e8]], [1], 1)
    agree("huge", case.arrays["y"], 0.6931471806, 1e-9)
    yield case
    case = loss_case("huge", "logits 1e8 and 1e8 - 8", [[1e8, 1e8 - 8]], [1], 1)
    agree("huge", case.arrays["y"], 8.0003354064, 1e-9)
    agree("huge", case.arrays["dlogits"], [[0.9996646499, -0.9996646499]], 1e-9)
    yield case
    for d in SATURATED:
        yield loss_case(f"right{d}", f"[{d}, 0], target 0: nearly no loss, exact to the last bit", [[d, 0]], [0], 1)
        yield loss_case(f"wrong{d}", f"[{d}, 0], target 1", [[d, 0]], [1], 1)


def cross_entropy_sum():
    """y = sum over the targets other than -1 of -log softmax(logits)[target]; y and dy are single numbers."""
    draw = Draw("cross_entropy_sum")
    yield loss_case("plain", "all count", draw.normal(4, 5, sd=1.5), draw.integers(0, 5, 4), mean=False)
    yield loss_case("ignored", "two of six do not count", draw.normal(2, 3, 4, sd=1.5), [[1, -1, 0], [3, 3, -1]], -1.25,
                    mean=False)
    yield loss_case("all_ignored", "nothing counts: 0, gradient 0", draw.normal(2, 3), [-1, -1], mean=False)
    yield loss_case("huge", "logits 1e8 and 1e8 - 8", [[1e8, 1e8 - 8]], [1], 1, mean=False)
    yield loss_case("saturated", "rows [d, 0], d = 10, 20, 40, 64, target 0: exact to the last bit",
                    [[d, 0] for d in SATURATED], [0] * len(SATURATED), 1, mean=False)


def embedding():
    """y = rows of table by id. A row hit several times gets the sum of its gradients."""
    def case(name, note, table, ids, dy=None):
        ids = np.array(ids, np.int32)
        return differentiate(name, note, lambda table: F.embedding(torch.from_numpy(ids).long(), table),
                             lambda table: table[ids], {"table": table}, dy=dy, constants={"ids": ids})
    draw = Draw("embedding")
    yield case("plain", "with repeats", draw.normal(5, 3), [[4, 0, 2, 2], [1, 2, 4, 2]])
    hit = case("repeats", "row 2 is hit three times", draw.normal(4, 2), [2, 0, 2, 2],
               [[1, 10], [2, 20], [3, 30], [4, 40]])
    agree("repeats", hit.arrays["dtable"], [[2, 20], [0, 0], [8, 80], [0, 0]])
    yield hit


def layer_norm():
    """y = (x - mean) / sqrt(variance + eps) * gain + bias over the last axis, eps inside the root."""
    def case(name, note, inputs, eps=1e-5, dy=None):
        def forward(x, gain=1, bias=0):  # not F.layer_norm: its dgain is 7e-9 instead of 0 for length_one
            centred = x - x.mean(-1, keepdim=True)
            return centred / (centred.square().mean(-1, keepdim=True) + eps).sqrt() * gain + bias
        return differentiate(name, note, forward, lambda **inputs: ref.layer_norm(**inputs, eps=eps), inputs,
                             dy=dy, options={"eps": eps})
    draw = Draw("layer_norm")
    x, gain, bias = draw.normal(2, 3, 5, sd=2, mean=0.5), draw.normal(5, mean=1, sd=0.3), draw.normal(5)
    yield case("plain", "neither gain nor bias", {"x": x})
    yield case("gain", "gain only", {"x": x, "gain": gain})
    yield case("gain_bias", "gain and bias", {"x": x, "gain": gain, "bias": bias})
    yield case("eps", "a large eps", {"x": x[0], "gain": gain, "bias": bias}, eps=0.5)
    yield case("wide", "a row longer than a vector register", {"x": draw.normal(2, 37), "gain": draw.normal(37),
                                                              "bias": draw.normal(37)})
    yield case("offset", "mean 1000, spread 1", {"x": draw.normal(2, 6, mean=1000)})
    rows = [-474.3416490253, -158.1138830084, 158.1138830084, 474.3416490253]
    for name, value in {"constant_row": 5, "zero_row": 0}.items():
        flat = case(name, "no spread: the gradient is that of eps alone",
                    {"x": [[value] * 4], "gain": [1] * 4, "bias": [0.5] * 4}, dy=[[1, 2, 3, 4]])
        agree(f"{name} dx", flat.arrays["dx"], [rows], 1e-9)
        agree(f"{name} dgain", flat.arrays["dgain"], [0] * 4)
        yield flat
    single = case("length_one", "a row of one number", {"x": [[1e6]], "gain": [2], "bias": [3]}, dy=[[0.75]])
    agree("length one", [single.arrays[key].item() for key in ("y", "dx", "dgain", "dbias")], [3, 0, 0, 0.75])
    yield single


def rms_norm():
    """y = x / sqrt(mean(x^2) + eps) * gain over the last axis, eps inside the root."""
    def case(name, note, inputs, eps=1e-5, dy=None):
        def forward(x, gain=1):
            return x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * gain
        made = differentiate(name, note, forward, lambda **inputs: ref.rms_norm(**inputs, eps=eps), inputs,
                             dy=dy, options={"eps": eps})
        theirs = F.rms_norm(torch.tensor(made.arrays["x"]), made.arrays["x"].shape[-1:], eps=eps).numpy()
        agree(f"{name}: F.rms_norm", theirs * made.arrays.get("gain", 1), made.arrays["y"])
        return made
    draw = Draw("rms_norm")
    x, gain = draw.normal(2, 3, 5, sd=2, mean=0.5), draw.normal(5, mean=1, sd=0.3)
    yield case("plain", "no gain", {"x": x})
    yield case("gain", "with a gain", {"x": x, "gain": gain})
    yield case("eps", "a large eps", {"x": x[0], "gain": gain}, eps=0.5)
    yield case("wide", "a row longer than a vector register", {"x": draw.normal(2, 37), "gain": draw.normal(37)})
    zero = case("zero_row", "zeros: the gradient is that of eps alone", {"x": [[0] * 4], "gain": [1, 1, 1, 2]},
                dy=[[1, 2, 3, -4]])
    agree("zero row dx", zero.arrays["dx"], [[1 / 1e-5**0.5 * h for h in (1, 2, 3, -8)]])
    agree("zero row dgain", zero.arrays["dgain"], [0] * 4)
    yield zero
    x, eps, gain, dy = ref.mpf(3), ref.mpf(1e-5), 2, 0.75
    r = 1 / ref.mp.sqrt(x * x + eps)
    yield Case("length_one", "a row of one number: dx = gain g eps r^3, which a difference would cancel", {"eps": 1e-5},
               {"x": np.array([[3.0]]), "gain": np.array([2.0]), "dy": np.array([[0.75]]),
                "y": np.array([[float(x * r * gain)]]), "dx": np.array([[float(gain * dy * eps * r**3)]]),
                "dgain": np.array([float(dy * x * r)])})


def concat():
    """y = a, b and c joined along one axis."""
    for axis in range(3):
        draw, sizes = Draw(f"concat {axis}"), (2, 1, 3)
        shapes = [tuple(size if i == axis else n for i, n in enumerate((2, 3, 4))) for size in sizes]
        yield differentiate(f"axis{axis}", f"axis {axis}", lambda a, b, c: torch.cat([a, b, c], axis),
                            lambda a, b, c: np.concatenate([a, b, c], axis),
                            {name: draw.normal(*shape) for name, shape in zip("abc", shapes)}, options={"axis": axis})


def split():
    """y = the middle one of three pieces of x along one axis; dx is 0 elsewhere."""
    for axis, sizes in (0, (1, 2, 1)), (1, (2, 1, 0)), (2, (1, 3, 1)):
        shape = [sum(sizes) if i == axis else n for i, n in enumerate((2, 3, 4))]
        yield differentiate(f"axis{axis}", f"axis {axis} into {sizes}", lambda x: torch.split(x, sizes, axis)[1],
                            lambda x: np.split(x, np.cumsum(sizes)[:-1], axis)[1],
                            {"x": Draw(f"split {axis}").normal(*shape)},
                            options={"axis": axis} | {f"size{i}": size for i, size in enumerate(sizes)})


OPS = [add, sub, mul, scale, bias, relu, gelu, tanh, sigmoid, silu, swiglu, dropout,
       matmul, linear, contiguous, reshape, transpose, slice_,
       split_heads, merge_heads, sum_, mean,
       softmax, log_softmax, logsumexp, cross_entropy, cross_entropy_sum, embedding, layer_norm, rms_norm,
       positions.rope, positions.sinusoidal, concat, split,
       models.attention, models.multi_head_attention, models.gpt,
       layouts.llama, layouts.classifier, layouts.seq2seq, layouts.lstm_model, layouts.rnn_model,
       recurrent.rnn, recurrent.lstm,
       optimisers.sgd, optimisers.adam, optimisers.adamw, optimisers.clip]


def main(arguments):
    check = "--check" in arguments
    wanted = [argument for argument in arguments if argument != "--check"]
    makers = {op.__name__.rstrip("_"): op for op in OPS}
    if set(wanted) - set(makers):
        raise SystemExit(f"no such op: {' '.join(sorted(set(wanted) - set(makers)))}; there are {' '.join(makers)}")
    stale = []
    for name in wanted or makers:
        cases = list(makers[name]())
        tail = models.gpt_table(cases) if name == "gpt" else ""
        if makers[name].__module__ == "layouts":
            tail = layouts.table(name, cases)
        text = fragment(name, makers[name].__doc__, cases, tail)
        path = HERE / f"{name}.inc"
        if not check:
            path.write_text(text)
        elif not path.exists() or not same_text(path.read_text(), text):
            stale.append(path.name)
    if stale:
        raise SystemExit(f"not what make.py makes: {' '.join(stale)}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(sys.argv[1:])
