"""Cases of golden values, and how they become C fragments (NAME.inc)."""

import math
import re
import textwrap
import zlib
from dataclasses import dataclass, field

import numpy as np
import torch

STEP = 1e-40       # of the complex step: nothing is subtracted, so it may be this small
AGREE = 2e-13      # two independent float64 computations of one value, relative to the largest


@dataclass
class Case:
    """One input of one op with everything a test compares: arrays in the order they are printed."""
    name: str
    note: str
    options: dict = field(default_factory=dict)
    arrays: dict = field(default_factory=dict)


class Draw:
    """Random values of one case: the same for ever, whatever other cases exist."""

    def __init__(self, seed):
        self.random = np.random.RandomState(zlib.crc32(seed.encode()))

    def normal(self, *shape, sd=1.0, mean=0.0):
        """Multiples of 1/512, so that each value is the same number in float32 and float64."""
        return np.round((mean + sd * self.random.standard_normal(shape)) * 512) / 512

    def integers(self, low, high, *shape):
        """Whole numbers in [low, high)."""
        return self.random.randint(low, high, shape).astype(np.int32)

    def keep(self, *shape, share=0.6):
        """A mask: 1 = may attend."""
        return (self.random.random_sample(shape) < share).astype(np.uint8)


def agree(what, got, expected, tolerance=AGREE, size=None):
    """Stop unless the two agree, relative to the largest value (or to size); NaN is a disagreement."""
    got, expected = np.asarray(got), np.asarray(expected)
    if got.shape != expected.shape:
        raise SystemExit(f"{what}: shape {got.shape}, expected {expected.shape}")
    finite = np.isfinite(expected)
    size = np.abs(expected[finite]).max(initial=1e-300) if size is None else size
    same = np.where(finite, np.abs(got - np.where(finite, expected, 0)) <= tolerance * size, got == expected)
    if not same.all():
        raise SystemExit(f"{what}: two sources disagree\n{got}\n{expected}")


def complex_step(forward, inputs, name, dy):
    """Gradient of sum(dy * forward(inputs)) with respect to one input, by f(x + ih) = f(x) + ih f'(x)."""
    gradient = np.zeros(inputs[name].shape)
    for at in np.ndindex(inputs[name].shape):
        moved = inputs[name].astype(complex)
        moved[at] += 1j * STEP
        gradient[at] = (dy * forward(**{**inputs, name: moved}).imag).sum() / STEP
    return gradient


def differentiate(name, note, forward, reference, inputs, dy=None, options=None, constants=None, size=None):
    """A case from PyTorch's autograd in float64, checked against a numpy forward and its complex step.

    forward     torch function of the inputs by name; may return (y, {more outputs by name})
    reference   numpy function of the same inputs -> y, or None
    dy          upstream gradient; drawn when not given
    size        what disagreement is measured against, where the values themselves are tiny
    """
    inputs = {key: np.asarray(value, float) for key, value in inputs.items()}
    leaves = {key: torch.tensor(value, requires_grad=True) for key, value in inputs.items()}
    result = forward(**leaves)
    y, more = result if isinstance(result, tuple) else (result, {})
    dy = np.asarray(Draw(f"dy of {name}: {note}").normal(*y.shape) if dy is None else dy, float)
    y.backward(torch.from_numpy(dy.reshape(tuple(y.shape))))
    value = y.detach().numpy()
    gradients = {key: leaf.grad.numpy() for key, leaf in leaves.items()}
    if reference is not None:
        agree(f"{name}: y", reference(**inputs), value, size=size)
        for key in inputs:
            agree(f"{name}: d{key}", complex_step(reference, inputs, key, dy), gradients[key], size=size)
    arrays = {**inputs, **(constants or {}), "dy": dy, "y": value}
    arrays |= {key: tensor.detach().numpy() for key, tensor in more.items()}
    arrays |= {f"d{key}": gradient for key, gradient in gradients.items()}
    return Case(name, note, options or {}, arrays)


# ---- writing

def number(value):
    """The shortest decimal that reads back as exactly this value."""
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    value = float(value)
    if math.isinf(value):
        return "HUGE_VAL" if value > 0 else "-HUGE_VAL"  # INFINITY is a float
    if math.isnan(value):
        raise SystemExit("a golden value is NaN")
    return repr(0.0 if value == 0 else value)


def declaration(name, array):
    """static const TYPE name[] = {...}; and its shape."""
    array = np.asarray(array)
    kind = {"f": "double", "i": "int32_t", "u": "uint8_t"}[array.dtype.kind]
    values = [number(value) for value in array.ravel().tolist()]
    lines, line = [], "   "
    for value in values:
        if len(line) + len(value) + 2 > 118:
            lines.append(line)
            line = "   "
        line += f" {value},"
    lines.append(line)
    text = f"static const {kind} {name}[] = {{\n" + "\n".join(lines) + "\n};\n"
    if array.ndim:
        text += f"static const ptrdiff_t {name}_shape[] = {{{', '.join(map(str, array.shape))}}};\n"
    return text


def comment(text):
    lines = [line.strip() for line in text.strip().splitlines()]
    return "/* " + "\n * ".join(lines).replace(" * \n", " *\n") + " */\n"


def fragment(op, description, cases, tail=""):
    """The text of one .inc file."""
    head = f"Golden values of {op}. Made by tests/golden/make.py, which says how; do not edit."
    text = comment(f"{head}\n\n{description}")
    text += "#include <math.h>\n#include <stddef.h>\n#include <stdint.h>\n"
    for case in cases:
        prefix = f"golden_{op}_{case.name}"
        shapes = "  ".join(f"{key}{tuple(np.shape(array))}" for key, array in case.arrays.items())
        shapes = re.sub(r",\)", ")", shapes.replace(", ", ","))
        shapes = "\n".join(textwrap.wrap(shapes, 115, break_on_hyphens=False))
        text += "\n" + comment(f"{case.name}: {case.note}\n{shapes}")
        for key, value in case.options.items():
            if isinstance(value, int):
                text += f"enum {{ {prefix}_{key} = {value} }};\n"
            else:
                text += f"static const double {prefix}_{key} = {number(value)};\n"
        for key, array in case.arrays.items():
            text += declaration(f"{prefix}_{key}", array)
    return text + tail


def same_text(old, new):
    """Equal but for the last bits of the numbers, which another PyTorch may round otherwise."""
    pattern = r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[-+]?\d+)?(?![\w.])"
    if re.sub(pattern, "#", old) != re.sub(pattern, "#", new):
        return False
    pairs = zip(re.findall(pattern, old), re.findall(pattern, new))
    return all(abs(float(a) - float(b)) <= 1e-13 * max(1e-3, abs(float(b))) for a, b in pairs)
