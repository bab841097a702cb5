#!/usr/bin/env python3
"""The training step of `tapehead bench`, done by PyTorch: same shapes, same arithmetic, same measure.

    python bench/peer_torch.py --shapes micro,toy --threads 2 --steps 50 --mode eager,compile --json -

One step is forward, mean cross-entropy over all tokens, backward and AdamW on every parameter of a GPT-2 layout
(pre-norm, learned positions, GELU in the tanh form, feed-forward 4x, biases, causal, output matrix tied to the token
table, no dropout), f32, on random tokens that are drawn beforehand; "llama" is Llama's layout (RMS norm, rotary
positions, half as many heads of keys and values, SwiGLU, no biases, an output matrix of its own), "lstm" an nn.LSTM
between a token table and the output matrix tied to it. PyTorch gets its best: the faster of eager and
torch.compile, in each the fastest of its AdamW implementations (compiled is one), found by trial before the
measurement; gradients are set to None rather than zeroed, and Python's garbage collector rests while the clock runs.

Warm-up, which is not measured: three steps and half a second at least, compilation included. bench/compare.py runs this
and Tapehead in turns.
"""

import argparse
import gc
import itertools
import json
import logging
import os
import statistics
import sys
import time

SHAPES = {  # layers, heads, width, tokens, batch, vocabulary
    "micro": (1, 2, 32, 16, 32, 16),
    "toy": (2, 4, 64, 64, 16, 64),
    "chars": (4, 4, 128, 64, 12, 65),
    "small": (6, 6, 384, 256, 8, 65),
    "gpt2-124m": (12, 12, 768, 64, 4, 50257),
    "llama": (4, 4, 128, 64, 12, 65),
    "lstm": (1, 0, 128, 64, 32, 65),
}
MODES = "eager", "compile"
ADAMW = {"fused": {"fused": True}, "foreach": {"foreach": True}, "loop": {"foreach": False},
         "compiled": {"foreach": True}}  # the last only where the model is compiled too
BATCHES = 8            # different ones, used in turn
WARMUP_STEPS, WARMUP_SECONDS = 3, 0.5
TRIAL_STEPS, TRIAL_SECONDS = 3, 0.5


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--shapes", default=",".join(SHAPES), help="%(default)s")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=30, help="measured steps (%(default)s)")
    parser.add_argument("--mode", default=",".join(MODES), help="%(default)s")
    parser.add_argument("--adamw", default=",".join(ADAMW), help="implementations to choose from (%(default)s)")
    parser.add_argument("--json", metavar="FILE|-", default="-")
    options = parser.parse_args()
    for name, known in ("shapes", SHAPES), ("mode", MODES), ("adamw", ADAMW):
        values = getattr(options, name).split(",")
        setattr(options, name, values)
        for value in values:
            if value not in known:
                parser.error(f"--{name} {value}: there are {', '.join(known)}")
    if options.threads < 1 or options.steps < 1:
        parser.error("--threads and --steps are at least 1")
    if options.adamw == ["compiled"] and "eager" in options.mode:
        parser.error("--adamw compiled goes with --mode compile only")
    return options


if __name__ == "__main__":
    OPTIONS = arguments()
    for variable in "OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE":
        os.environ.pop(variable, None)
    os.environ["OMP_NUM_THREADS"] = str(OPTIONS.threads)  # read when torch is loaded

import torch  # noqa: E402
import torch.nn as nn  # noqa: E402
import torch.nn.functional as F  # noqa: E402


class Block(nn.Module):
    def __init__(self, heads, width):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.c_attn, self.attn_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.c_fc, self.mlp_proj = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, tokens, width = x.shape
        q, k, v = (part.view(batch, tokens, self.heads, width // self.heads).transpose(1, 2)
                   for part in self.c_attn(self.ln_1(x)).split(width, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.attn_proj(y.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.mlp_proj(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class GPT(nn.Module):
    """Returns the loss."""

    def __init__(self, layers, heads, width, tokens, vocab):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, width), nn.Embedding(tokens, width)
        self.blocks = nn.ModuleList(Block(heads, width) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        self.register_buffer("positions", torch.arange(tokens), persistent=False)
        for name, parameter in self.named_parameters():
            if parameter.ndim > 1:
                nn.init.normal_(parameter, std=0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe(self.positions)
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.ln_f(x), self.wte.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


class LlamaBlock(nn.Module):
    def __init__(self, heads, width):
        super().__init__()
        self.heads, self.kv_heads, self.size = heads, heads // 2, width // heads
        hidden = (8 * width // 3 + 7) // 8 * 8
        self.ln_1, self.ln_2 = nn.RMSNorm(width, eps=1e-5), nn.RMSNorm(width, eps=1e-5)
        self.c_attn = nn.Linear(width, (heads + 2 * self.kv_heads) * self.size, bias=False)
        self.attn_proj = nn.Linear(width, width, bias=False)
        self.c_gate, self.c_fc = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.mlp_proj = nn.Linear(hidden, width, bias=False)

    def forward(self, x, cos, sin):
        batch, tokens, width = x.shape
        heads = self.c_attn(self.ln_1(x)).view(batch, tokens, -1, self.size).transpose(1, 2)
        turned, v = heads.split((self.heads + self.kv_heads, self.kv_heads), dim=1)
        a, b = turned.chunk(2, dim=-1)
        turned = turned * cos + torch.cat((-b, a), dim=-1) * sin
        q, k = turned.split((self.heads, self.kv_heads), dim=1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.attn_proj(y.transpose(1, 2).reshape(batch, tokens, width))
        z = self.ln_2(x)
        return x + self.mlp_proj(F.silu(self.c_gate(z)) * self.c_fc(z))


class Llama(nn.Module):
    """Returns the loss."""

    def __init__(self, layers, heads, width, tokens, vocab):
        super().__init__()
        self.wte, self.lm_head = nn.Embedding(vocab, width), nn.Linear(width, vocab, bias=False)
        self.blocks = nn.ModuleList(LlamaBlock(heads, width) for _ in range(layers))
        self.ln_f = nn.RMSNorm(width, eps=1e-5)
        half = width // heads // 2
        angles = torch.outer(torch.arange(tokens), 10000.0 ** (-torch.arange(half) / half)).repeat(1, 2)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)
        for parameter in self.parameters():
            if parameter.ndim > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens, targets):
        x = self.wte(tokens)
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        return F.cross_entropy(self.lm_head(self.ln_f(x)).flatten(0, 1), targets.flatten())


class LSTM(nn.Module):
    """Returns the loss."""

    def __init__(self, layers, heads, width, tokens, vocab):
        super().__init__()
        self.wte, self.lstm = nn.Embedding(vocab, width), nn.LSTM(width, width, layers, batch_first=True)
        nn.init.normal_(self.wte.weight, std=0.02)

    def forward(self, tokens, targets):
        states, _ = self.lstm(self.wte(tokens))
        return F.cross_entropy(F.linear(states, self.wte.weight).flatten(0, 1), targets.flatten())


MODELS = {"llama": Llama, "lstm": LSTM}  # all others: GPT


def timed(step, count):
    """Seconds of each of `count` steps."""
    seconds = []
    gc.collect()
    gc.disable()
    for _ in range(count):
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
    gc.enable()
    return seconds


def at_least(step, count, duration):
    """Steps until there are `count` of them and `duration` seconds are over; seconds of each."""
    seconds = timed(step, count)
    while sum(seconds) < duration:
        seconds += timed(step, count)
    return seconds


def stepper(model, adamw, batches):
    """A function that takes one training step."""
    optim = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, **ADAMW[adamw])
    update = torch.compile(optim.step, dynamic=False) if adamw == "compiled" else optim.step
    turn = itertools.cycle(batches)

    def step():
        tokens, targets = next(turn)
        optim.zero_grad(set_to_none=True)
        loss = model(tokens, targets)
        loss.backward()
        update()
        return loss

    return step


def choose_adamw(model, candidates, batches):
    """The implementation with the fastest step."""
    if len(candidates) == 1:
        return candidates[0]
    fastest = {}
    for adamw in candidates:
        step = stepper(model, adamw, batches)
        timed(step, 2)
        fastest[adamw] = min(at_least(step, TRIAL_STEPS, TRIAL_SECONDS))
    return min(fastest, key=fastest.get)


def measure(name, mode, options):
    layers, heads, width, tokens, batch, vocab = SHAPES[name]
    torch.manual_seed(0)
    model = MODELS.get(name, GPT)(layers, heads, width, tokens, vocab)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    batches = [torch.randint(vocab, (2, batch, tokens)).unbind() for _ in range(BATCHES)]
    if mode == "compile":
        torch._dynamo.reset()
        model = torch.compile(model, dynamic=False)
        model(*batches[0]).backward()  # so that a missing compiler shows here
    candidates = [adamw for adamw in options.adamw if adamw != "compiled" or mode == "compile"]
    adamw = choose_adamw(model, candidates, batches)
    step = stepper(model, adamw, batches)
    at_least(step, WARMUP_STEPS, WARMUP_SECONDS)
    seconds = timed(step, options.steps)
    median = statistics.median(seconds)
    return {"name": name, "threads": torch.get_num_threads(), "mode": mode, "steps": options.steps,
            "median_ms": 1e3 * median, "min_ms": 1e3 * min(seconds), "tokens_per_second": batch * tokens / median,
            "adamw": adamw, "parameters": parameters, "loss": step().item()}


def main(options):
    torch.set_num_threads(options.threads)
    logging.getLogger("torch").setLevel(logging.ERROR)
    rows, failures, best = [], [], {}
    for name in options.shapes:
        for mode in options.mode:
            try:
                row = measure(name, mode, options)
            except Exception as error:  # torch.compile without a C++ compiler raises one of many kinds
                if mode == "eager":
                    raise
                reason = (str(error).strip() or type(error).__name__).splitlines()[0]
                print(f"{name}: torch.compile does not work here, eager counts: {reason}", file=sys.stderr)
                failures.append({"name": name, "mode": mode, "reason": reason})
                continue
            print(f"{name} {mode}: median {row['median_ms']:.3f} ms, min {row['min_ms']:.3f} ms "
                  f"(AdamW {row['adamw']})", file=sys.stderr)
            rows.append(row)
        measured = [row for row in rows if row["name"] == name]
        if measured:
            best[name] = min(measured, key=lambda row: row["median_ms"])["mode"]
    text = json.dumps({"shapes": rows, "best": best, "failures": failures, "torch": torch.__version__,
                       "threads": options.threads}, indent=1)
    if options.json == "-":
        print(text)
    else:
        with open(options.json, "w") as file:
            file.write(text + "\n")


if __name__ == "__main__":
    main(OPTIONS)
