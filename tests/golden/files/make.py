#!/usr/bin/env python3
"""Makes the small safetensors files beside it, as Python's own writer makes them; tests/io/test_stored.c knows what is
in them.

    python tests/golden/files/make.py           write them
    python tests/golden/files/make.py --check   write nothing; exit 1 if a committed file differs

Needs PyTorch and safetensors (0.8.0 made the committed ones). No code of this project is involved.
"""

import pathlib
import sys

import torch
from safetensors.torch import save

HERE = pathlib.Path(__file__).parent

# The edges of the 16-bit types: zeros, smallest subnormal and normal, largest, infinities, not a number.
F16_BITS = [0x0000, 0x8000, 0x0001, 0x83FF, 0x0400, 0x3C00, 0xC000, 0x3555, 0x7BFF, 0x7C00, 0xFC00, 0x7E00]
BF16_BITS = [0x0000, 0x8000, 0x0001, 0x0080, 0x3F80, 0xC000, 0x3EAB, 0x7F7F, 0x7F80, 0xFF80, 0x7FC0]


def bits(values, dtype):
    return torch.tensor(values, dtype=torch.int32).to(torch.int16).view(dtype)


def types():
    return {
        "f64": torch.tensor([[1 / 3, -2.5, 1e-300], [1e300, 0.0, -0.0]], dtype=torch.float64),
        "f32": torch.tensor([[1 / 3, -2.5], [3e38, 1e-45]], dtype=torch.float32),
        "f16": bits(F16_BITS, torch.float16),
        "bf16": bits(BF16_BITS, torch.bfloat16),
        "i64": torch.tensor([-(2**31), 0, 2**31 - 1], dtype=torch.int64),
        "i64.large": torch.tensor([2**31], dtype=torch.int64),
        "i32": torch.tensor([-(2**31), 7], dtype=torch.int32),
        "i16": torch.tensor([[-32768], [32767]], dtype=torch.int16),
        "i8": torch.tensor([-128, 127], dtype=torch.int8),
        "u8": torch.tensor([0, 255], dtype=torch.uint8),
        "bool": torch.tensor([True, False, True]),
        "scalar": torch.tensor(0.5),
        "empty": torch.zeros(0, 3),
    }


FILES = {
    "types.safetensors": lambda: save(types(), metadata={"über": "ß \"quoted\""}),
    "nothing.safetensors": lambda: save({}),
    "metadata.safetensors": lambda: save({}, metadata={"only": "this"}),
    # What th_params_load widens: a list of two parameters, in half precision and in double.
    "half.safetensors": lambda: save({"weight": torch.arange(6).reshape(2, 3).to(torch.float16) / 4,
                                      "bias": torch.tensor([0.5, -1.0]).to(torch.bfloat16)}),
    "double.safetensors": lambda: save({"weight": torch.arange(6, dtype=torch.float64).reshape(2, 3) / 4,
                                        "bias": torch.tensor([0.5, -1.0], dtype=torch.float64),
                                        "optim.m.weight": torch.zeros(7)}),
}

differing = 0
for name, make in FILES.items():
    data = make()
    if "--check" not in sys.argv[1:]:
        (HERE / name).write_bytes(data)
    elif (HERE / name).read_bytes() != data:
        print(f"{name} differs")
        differing = 1
sys.exit(differing)
