"""Positions as angles: rope and sinusoidal."""

import numpy as np
import torch

import reference as ref
from inc import Case, Draw, agree, differentiate


def rope():
    """y = x (..., T, D) with each pair of row t turned by (offset + t) base^(-2i/D). Pairs are (i, i + D/2), or
    (2i, 2i + 1) where interleaved is 1."""
    def torchs(x, base, offset, interleaved, turns=None):
        length, width = x.shape[-2:]
        if turns is None:
            rates = base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
            turns = torch.polar(torch.tensor(1.0, dtype=torch.float64),
                                torch.outer(torch.arange(offset, offset + length, dtype=torch.float64), rates))
        if interleaved:  # as Llama's own code: pairs are complex numbers
            return torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (-1, 2))) * turns).flatten(-2)
        cosine, sine = (torch.cat([part, part], -1) for part in (turns.real, turns.imag))  # as Hugging Face's
        return x * cosine + torch.cat([-x[..., width // 2:], x[..., :width // 2]], -1) * sine

    def case(name, note, x, base=10000, offset=0, interleaved=0, dy=None, exact=False):
        (length, width), turns = np.shape(x)[-2:], None
        if exact:
            turns = torch.tensor([[complex(*ref.turn(offset + t, i, width, base)) for i in range(width // 2)]
                                  for t in range(length)], dtype=torch.complex128)
        made = differentiate(name, note, lambda x: torchs(x, base, offset, interleaved, turns),
                             lambda x: ref.rope(x, base, offset, interleaved), {"x": x}, dy=dy,
                             options={"base": float(base), "offset": offset, "interleaved": interleaved})
        plain = torchs(torch.tensor(made.arrays["x"]), base, offset, interleaved).numpy()
        agree(f"{name}: angles in float64", plain, made.arrays["y"], 1e-8)
        return made

    draw = Draw("rope")
    for interleaved in 0, 1:
        form = "_interleaved" if interleaved else ""
        yield case(f"heads{form}", "rank 4", draw.normal(2, 2, 3, 4), interleaved=interleaved)
        yield case(f"offset{form}", "another base, later positions", draw.normal(2, 3, 6), 100, 70, interleaved)
        yield case(f"far{form}", "positions around 10^6, angles exact", draw.normal(3, 10), 10000, 999999, interleaved,
                   exact=True)
    yield case("long", "70 rows of a width that fills no vector", draw.normal(70, 6))
    turned = case("one_pair", "position 1, one radian: the gradient turns back", [[1, 2]], offset=1, dy=[[1, 0]])
    agree("one pair", turned.arrays["y"], [[-1.1426396638, 1.9220755965]], 1e-9)
    agree("one pair dx", turned.arrays["dx"], [[0.5403023059, -0.8414709848]], 1e-9)
    yield turned
    still = case("position_zero", "position 0: nothing turns", [[1, 2]], dy=[[1, 0]])
    agree("position 0", [still.arrays["y"], still.arrays["dx"]], [[[1, 2]], [[1, 0]]])
    yield still


def sinusoidal():
    """y (T, C): column 2i is the sine, 2i + 1 the cosine of (offset + t) 10000^(-2i/C)."""
    for name, offset, length, width in ("start", 0, 5, 6), ("later", 70, 40, 10), ("far", 999999, 3, 64):
        exact = [[ref.turn(offset + t, i, width, 10000)[::-1] for i in range(width // 2)] for t in range(length)]
        exact = np.array(exact).reshape(length, width)
        rates = torch.exp(torch.arange(0, width, 2, dtype=torch.float64) * (-np.log(10000.0) / width))
        angles = torch.arange(offset, offset + length, dtype=torch.float64)[:, None] * rates
        plain = torch.stack([angles.sin(), angles.cos()], -1).flatten(-2).numpy()
        agree(f"{name}: angles in float64", plain, exact, 1e-13 if offset < 100 else 1e-8)
        yield Case(name, f"positions {offset} and on", {"offset": offset, "length": length, "width": width},
                   {"y": exact})
