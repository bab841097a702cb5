"""Reads a checkpoint that test_python.c wrote, as any program in Python would, and writes its tensors again.

    python python.py CHECKPOINT COPY

Exits with 77 where the safetensors package and PyTorch are missing.
"""

import json
import sys

try:
    import torch
    from safetensors import safe_open
    from safetensors.torch import load_file, save_file
except ImportError:
    sys.exit(77)

path, copy = sys.argv[1:]

with safe_open(path, framework="pt") as file:
    metadata = file.metadata()
    names = list(file.keys())
    table = file.get_tensor("wte.weight")
config = json.loads(metadata["tapehead.model"])
assert config["kind"] == "gpt" and config["layers"] == 2 and config["width"] == 8, config
assert metadata["note"] == "ü", metadata
assert list(table.shape) == [config["vocab"], config["width"]] and table.dtype == torch.float32

tensors = load_file(path)
assert sorted(tensors) == sorted(names)
weights = {name: x for name, x in tensors.items() if not name.startswith("optim.")}
for name, weight in weights.items():
    for moment in "mv":
        assert tensors[f"optim.{moment}.{name}"].shape == weight.shape, name
assert len(tensors) == 3 * len(weights)
optim = json.loads(metadata["tapehead.optim"])
assert optim["kind"] == "adamw" and optim["steps"] == 1
assert optim["parameter_steps"].keys() == weights.keys()
# One step of AdamW from zero: the second moment is (1 - beta2) / (1 - beta1)^2 of the first one's square.
m, v = tensors["optim.m.wte.weight"].double(), tensors["optim.v.wte.weight"].double()
assert m.abs().max() > 0 and torch.allclose(v, 0.001 * (m / 0.1) ** 2, rtol=1e-5), "moments"

save_file(tensors, copy, metadata=metadata)
