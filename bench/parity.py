#!/usr/bin/env python3
"""Does `tapehead train` learn a text as well as PyTorch? Same shape, data, initialisation, schedule; several seeds.

    bible -f gen1:1-rev22:21 | head -c 1000000 >kjv.txt
    python bench/parity.py --tapehead build/tapehead --text kjv.txt --seeds 3

Per seed both train the character model (4 layers, 4 heads, width 128, block 64, batch 12) for 2000 steps, each from its
own random numbers: N(0, 0.02^2), residual projections divided by sqrt(2 layers), AdamW that decays matrices only,
clipping at 1, linear warm-up and half a cosine. One ruler measures both: Tapehead's last.safetensors is loaded into the
PyTorch model, and the same code computes the loss over the whole held-out tenth, in windows side by side.
"""

import argparse
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

LAYERS, HEADS, WIDTH, BLOCK, BATCH = 4, 4, 128, 64, 12
FLOOR, WARMUP, DECAY, CLIP = 0.1, 100, 0.1, 1.0  # the floor as a share of the peak


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tapehead", default="build/tapehead", help="the command (%(default)s)")
    parser.add_argument("--text", required=True, help="a text of one byte per character")
    parser.add_argument("--seeds", type=int, default=3, help="%(default)s")
    parser.add_argument("--steps", type=int, default=2000, help="%(default)s")
    parser.add_argument("--lr", type=float, default=1e-3, help="the peak (%(default)s)")
    parser.add_argument("--threads", type=int, default=2, help="%(default)s")
    parser.add_argument("--limit", type=float, default=0.02, help="exit 1 if the means differ by more (%(default)s)")
    parser.add_argument("--json", metavar="FILE", help="all that was measured")
    return parser.parse_args()


if __name__ == "__main__":
    OPTIONS = arguments()
    for variable in "OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE":
        os.environ.pop(variable, None)
    os.environ["OMP_NUM_THREADS"] = str(OPTIONS.threads)  # read when torch is loaded

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from safetensors.torch import load_file  # noqa: E402

from peer_torch import GPT  # noqa: E402


class Text:
    """The vocabulary in the order of the bytes, the first nine tenths for training."""

    def __init__(self, path):
        data = pathlib.Path(path).read_bytes()
        number = {byte: i for i, byte in enumerate(sorted(set(data)))}
        ids = torch.tensor([number[byte] for byte in data])
        cut = len(ids) - len(ids) // 10
        self.vocab, self.training, self.heldout = len(number), ids[:cut], ids[cut:]

    def batch(self, generator):
        starts = torch.randint(len(self.training) - BLOCK, (BATCH, 1), generator=generator)
        places = starts + torch.arange(BLOCK)
        return self.training[places], self.training[places + 1]


def new_model(text, seed):
    torch.manual_seed(seed)
    model = GPT(LAYERS, HEADS, WIDTH, BLOCK, text.vocab)  # N(0, 0.02^2), biases 0
    with torch.no_grad():
        for block in model.blocks:
            block.attn_proj.weight /= math.sqrt(2 * LAYERS)
            block.mlp_proj.weight /= math.sqrt(2 * LAYERS)
    return model


def rate(step, options):
    """Of steps 1, 2, ...: as th_schedule_lr."""
    if step <= WARMUP:
        return options.lr * step / WARMUP
    done = (step - WARMUP) / (options.steps - WARMUP)
    return options.lr * (FLOOR + (1 - FLOOR) * (1 + math.cos(math.pi * done)) / 2)


def train_torch(text, seed, options):
    model = new_model(text, seed)
    parameters = list(model.parameters())
    optim = torch.optim.AdamW([{"params": [p for p in parameters if p.ndim > 1], "weight_decay": DECAY},
                               {"params": [p for p in parameters if p.ndim == 1], "weight_decay": 0.0}], fused=True)
    generator = torch.Generator().manual_seed(seed)
    start = time.monotonic()
    for step in range(1, options.steps + 1):
        for group in optim.param_groups:
            group["lr"] = rate(step, options)
        optim.zero_grad(set_to_none=True)
        model(*text.batch(generator)).backward()
        torch.nn.utils.clip_grad_norm_(parameters, CLIP)
        optim.step()
    return model, time.monotonic() - start


def train_ours(text, seed, options, folder):
    """A PyTorch model with the weights that Tapehead trained."""
    environment = dict(os.environ, OMP_NUM_THREADS=str(options.threads))
    start = time.monotonic()
    subprocess.run([options.tapehead, "train", "--text", options.text, "--symbols", "bytes", "--out", folder,
                    "--layers", str(LAYERS), "--heads", str(HEADS), "--d-model", str(WIDTH), "--seq", str(BLOCK),
                    "--batch", str(BATCH), "--init", "gpt2", "--steps", str(options.steps), "--lr", str(options.lr),
                    "--schedule", "cosine", "--warmup", str(WARMUP), "--min-lr", str(FLOOR * options.lr),
                    "--weight-decay", str(DECAY), "--clip", str(CLIP), "--seed", str(seed)],
                   env=environment, stdout=subprocess.DEVNULL, check=True)
    seconds = time.monotonic() - start
    model = new_model(text, seed)
    names = {"attn.c_attn": "c_attn", "attn.c_proj": "attn_proj", "mlp.c_fc": "c_fc", "mlp.c_proj": "mlp_proj"}
    state = {}
    for name, tensor in load_file(pathlib.Path(folder) / "last.safetensors").items():
        if not name.startswith("optim."):
            for ours, torchs in names.items():
                name = name.replace(ours, torchs)
            state[name.replace("h.", "blocks.", 1) if name.startswith("h.") else name] = tensor
    model.load_state_dict(state)  # refuses a missing or unknown name
    return model, seconds


@torch.no_grad()
def heldout_loss(model, text):
    """Over all whole windows, each character once."""
    count = (len(text.heldout) - 1) // BLOCK
    tokens = text.heldout[:count * BLOCK].view(count, BLOCK)
    targets = text.heldout[1:count * BLOCK + 1].view(count, BLOCK)
    losses = [model(*pair) * len(pair[0]) for pair in zip(tokens.split(64), targets.split(64))]
    return float(sum(losses)) / count


def main(options):
    torch.set_num_threads(options.threads)
    text = Text(options.text)
    rows = []
    print(f"{len(text.training)} characters to train on, {len(text.heldout)} held out, vocabulary {text.vocab}, "
          f"{options.steps} steps, PyTorch {torch.__version__}, {options.threads} threads")
    print(f"{'seed':>4}{'tapehead':>12}{'torch':>12}{'tapehead s':>12}{'torch s':>12}")
    for seed in range(1, options.seeds + 1):
        with tempfile.TemporaryDirectory() as folder:
            ours, ours_seconds = train_ours(text, seed, options, folder + "/run")
        peer, peer_seconds = train_torch(text, seed, options)
        rows.append({"seed": seed, "tapehead": heldout_loss(ours, text), "torch": heldout_loss(peer, text),
                     "tapehead_seconds": ours_seconds, "torch_seconds": peer_seconds})
        print(f"{seed:>4}{rows[-1]['tapehead']:>12.4f}{rows[-1]['torch']:>12.4f}{ours_seconds:>12.1f}"
              f"{peer_seconds:>12.1f}", flush=True)
    ours, peer = (statistics.mean(row[side] for row in rows) for side in ("tapehead", "torch"))
    print(f"mean{ours:>12.4f}{peer:>12.4f}   difference {ours - peer:+.4f} nats per character")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")
    return 0 if abs(ours - peer) <= options.limit else 1


if __name__ == "__main__":
    sys.exit(main(OPTIONS))
