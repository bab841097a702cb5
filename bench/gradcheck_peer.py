#!/usr/bin/env python3
"""Tapehead's gradient checker beside torch.autograd.gradcheck (float64, defaults): the same planted faults and the same
correct functions at the same points, and a table of what either side caught, named, and called wrong without cause.

    python bench/gradcheck_peer.py --cases build/bench/bench_gradcheck_cases --threads 1

The C program draws the points, runs our checker, and prints each case with its inputs, output and gradients. Here every
fault is a torch.autograd.Function whose backward is spoilt in the same way. That the two sides check the same thing is
checked first: torch's outputs must be ours, and its spoilt gradients must be our spoilt gradients; and without the fault
torch's gradcheck must pass, so that what it catches is the fault. Correct functions use PyTorch's own operations.
Times are processor time of the checks alone; ours includes naming the mistake.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import time

import torch
import torch.nn.functional as F

GROUPS = "one number", "beside a kink", "at a kink", "softmax rows", "attention", "operations"
SAME = 1e-9  # relative to the largest entry


def function_of(forward, backward):
    """A torch function with a backward of its own: backward(inputs, output, dy) returns a gradient per input."""

    class Planted(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *inputs):
            output = forward(*inputs)
            ctx.save_for_backward(*inputs, output)
            return output

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, dy):
            *inputs, output = ctx.saved_tensors
            return tuple(backward(inputs, output, dy))

    return Planted.apply


# ---- forward and right backward of each operation ----

def attention_weights(q, k, causal, scale):
    scores = scale * (q @ k.transpose(-1, -2))
    n_q, n_k = scores.shape[-2:]
    if causal:
        hidden = torch.ones(n_q, n_k, dtype=torch.bool).triu(n_k - n_q + 1)
        scores = scores.masked_fill(hidden, -math.inf)
    return torch.softmax(scores, -1)


def attend(q, k, v, causal=False, scale=None):
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    return attention_weights(q, k, causal, scale or q.shape[-1] ** -0.5) @ v


def attention_backward(q, k, v, y, dy, causal, row_sum=True, extra=0, last_head=False):
    """dq, dk, dv; in the backward, keys below the causal limit + extra are seen."""
    heads, group = k.shape[1], q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    scale = q.shape[-1] ** -0.5
    scores = scale * (q @ k.transpose(-1, -2))
    n = scores.shape[-1]
    seen = torch.ones(n, n, dtype=torch.bool)
    limited = scores.masked_fill(~seen.tril(), -math.inf) if causal else scores
    weights = torch.exp(scores - torch.logsumexp(limited, -1, keepdim=True))
    weights = weights * seen.tril(extra) if causal else weights
    right = dy
    if last_head:
        right = dy * (torch.arange(dy.shape[1]) % group == group - 1)[:, None, None]
    dp = right @ v.transpose(-1, -2)
    ds = scale * weights * (dp - (right * y).sum(-1, keepdim=True) * row_sum)
    dq, dk, dv = ds @ k, ds.transpose(-1, -2) @ q, weights.transpose(-1, -2) @ right
    fold = lambda x: x.unflatten(1, (heads, group)).sum(2)
    return [dq, fold(dk), fold(dv)]


def rotation(x, sign):
    rows, width = x.shape
    angle = sign * torch.arange(rows, dtype=x.dtype)[:, None] / 2.0 ** torch.arange(width // 2, dtype=x.dtype)
    even, odd = x[:, 0::2], x[:, 1::2]
    turned = torch.cos(angle) * even - torch.sin(angle) * odd, torch.sin(angle) * even + torch.cos(angle) * odd
    return torch.stack(turned, -1).flatten(1)


def linear_backward(inputs, dy):
    x, weight = inputs[:2]
    flat_dy, flat_x = dy.flatten(0, -2), x.flatten(0, -2)
    return [dy @ weight, flat_dy.T @ flat_x] + [flat_dy.sum(0)] * (len(inputs) == 3)


def softmax_backward(y, dy):
    return [y * (dy - (y * dy).sum(-1, keepdim=True))]


def entropy_parts(logits, targets):
    counted = targets >= 0
    onehot = F.one_hot(targets.clamp(min=0), logits.shape[-1]).to(logits.dtype)
    return torch.softmax(logits, -1), onehot, counted[:, None]


def norm_parts(inputs, dy):
    x, gain, bias = inputs
    deviation = torch.sqrt(x.var(-1, unbiased=False, keepdim=True) + 1e-5)
    xhat, d = (x - x.mean(-1, keepdim=True)) / deviation, dy * gain
    return deviation, xhat, d, d.mean(-1, keepdim=True), xhat * (d * xhat).mean(-1, keepdim=True)


def norm_backward(inputs, dy):
    deviation, xhat, d, mean, projection = norm_parts(inputs, dy)
    return [(d - mean - projection) / deviation, (dy * xhat).sum(0), dy.sum(0)]


def embedding_backward(table, ids, dy):
    return torch.zeros_like(table).index_add_(0, ids, dy)


def gelu_backward(x, dy, second=1.0):
    density = torch.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    return [dy * (0.5 * torch.erfc(-x / math.sqrt(2)) + second * x * density)]


# ---- a fault: what becomes of the right gradients ----

def replace(i, change):
    """Input i's gradient g becomes change(g, inputs, y, dy)."""
    def spoil(gradients, inputs, y, dy):
        gradients[i] = change(gradients[i], inputs, y, dy)
        return gradients
    return spoil


def transposed(g, *_):
    return g.transpose(-1, -2).contiguous().view(g.shape)  # square ones: the same as reading the axes the other way


def last_row(g, inputs, y, dy):
    return dy.flatten(0, -2)[-1]


def exchanged(g, *_):
    return g[:, [1, 0] + list(range(2, g.shape[1]))]


def attention_fault(only, **how):
    def spoil(gradients, inputs, y, dy):
        wrong = attention_backward(*inputs, y, dy, **how)
        return [wrong[i] if only in (-1, i) else g for i, g in enumerate(gradients)]
    return spoil


def last_hit(g, inputs, y, dy):
    g = g.clone()
    for hit, row in enumerate(inputs[1].tolist()):
        g[row] = dy[hit]
    return g


def ignored_rows(g, inputs, y, dy):
    p, onehot, counted = entropy_parts(*inputs)
    return torch.where(counted, g, p * dy / counted.sum())


def scaled(factor):
    return lambda g, *_: g * factor


def power_of_width(power):
    return lambda g, inputs, *_: g * inputs[0].shape[-1] ** power


def power_of_rows(power):
    return lambda g, inputs, *_: g * (inputs[0].numel() // inputs[0].shape[-1]) ** power


def nothing(g, *_):
    return None


NORM = "layer_norm"
FAULTS = {  # (operation, fault): how; what is not here has no counterpart in a torch.autograd.Function
    ("linear", "dx negated"): replace(0, scaled(-1)),
    ("linear", "dW doubled"): replace(1, scaled(2)),
    ("linear", "dW transposed"): replace(1, transposed),
    ("linear", "dW without the last row's term"): replace(
        1, lambda g, i, y, dy: g - dy.flatten(0, -2)[-1][:, None] * i[0].flatten(0, -2)[-1]),
    ("linear", "dx without the last output's term"): replace(0, lambda g, i, y, dy: g - dy[..., -1:] * i[1][-1]),
    ("linear", "db of the last row only"): replace(2, last_row),
    ("linear", "db averaged over the rows"): replace(2, power_of_rows(-1)),
    ("linear", "dx never written"): replace(0, nothing),
    ("matmul", "da transposed"): replace(0, transposed),
    ("softmax", "row sum missing"): replace(0, lambda g, i, y, dy: y * dy),
    ("log_softmax", "row sum missing"): replace(0, lambda g, i, y, dy: dy.clone()),
    ("softmax", "zeros written"): replace(0, lambda g, *_: torch.zeros_like(g)),
    ("cross_entropy", "one hot missing"): replace(
        0, lambda g, i, y, dy: torch.where(i[1][:, None] >= 0, entropy_parts(*i)[0] * dy / (i[1] >= 0).sum(), g)),
    ("cross_entropy", "not divided by the counted rows"): replace(0, power_of_rows(1)),
    ("cross_entropy", "ignored rows not masked"): replace(0, ignored_rows),
    (NORM, "mean(dxhat) missing"): replace(
        0, lambda g, i, y, dy: g + norm_parts(i, dy)[3] / norm_parts(i, dy)[0]),
    (NORM, "xhat mean(dxhat xhat) missing"): replace(
        0, lambda g, i, y, dy: g + norm_parts(i, dy)[4] / norm_parts(i, dy)[0]),
    (NORM, "dbias of the last row only"): replace(2, last_row),
    ("attention", "scale forgotten in dq"): replace(0, power_of_width(0.5)),
    ("attention", "scale twice in dk"): replace(1, power_of_width(-0.5)),
    ("attention", "1/d_k for 1/sqrt(d_k) in dq"): replace(0, power_of_width(-0.5)),
    ("attention", "row sum missing in dq"): attention_fault(0, causal=False, row_sum=False),
    ("attention", "row sum missing in dk"): attention_fault(1, causal=False, row_sum=False),
    ("attention", "mask one column too far in dv"): attention_fault(2, causal=True, extra=1),
    ("attention", "mask one column short"): attention_fault(-1, causal=True, extra=-1),
    ("attention", "mask not applied"): attention_fault(-1, causal=True, extra=10 ** 6),
    ("attention", "heads of dq exchanged"): replace(0, exchanged),
    ("attention", "dv = P dy"): replace(
        2, lambda g, i, y, dy: attention_weights(i[0], i[1], False, i[0].shape[-1] ** -0.5) @ dy),
    ("attention", "dk of the group's last head only"): attention_fault(1, causal=False, last_head=True),
    ("attention", "heads of dk exchanged"): replace(1, exchanged),
    ("embedding", "the last of two hits wins"): replace(0, last_hit),
    ("relu", "gradient where x < 0"): replace(0, lambda g, i, y, dy: dy.clone()),
    ("dropout", "gradient where dropped"): replace(0, lambda g, i, y, dy: dy * (4.0 / 3)),
    ("dropout", "1/(1-p) forgotten"): replace(0, scaled(0.75)),
    ("gelu", "x phi(x) missing"): replace(0, lambda g, i, y, dy: gelu_backward(i[0], dy, 0.0)[0]),
    ("add", "broadcast operand's last row only"): replace(1, last_row),
    ("bias", "bias of the last row only"): replace(1, last_row),
    ("mean", "1/n forgotten"): replace(0, power_of_width(1)),
    ("rotate", "turned by +angle"): replace(0, lambda g, i, y, dy: rotation(dy, 1)),
}


def operation(entry):
    """(forward, right backward) of the faulty operation."""
    causal = "causal" in entry["case"]
    kept = None
    if entry["op"] == "dropout":
        kept = torch.tensor(entry["output"], dtype=torch.float64).view(entry["inputs"][0]["shape"]) != 0
    return {
        "linear": (F.linear, lambda i, y, dy: linear_backward(i, dy)),
        "matmul": (torch.matmul, lambda i, y, dy: [dy @ i[1].T, i[0].T @ dy]),
        "softmax": (lambda x: torch.softmax(x, -1), lambda i, y, dy: softmax_backward(y, dy)),
        "log_softmax": (lambda x: torch.log_softmax(x, -1),
                        lambda i, y, dy: [dy - torch.exp(y) * dy.sum(-1, keepdim=True)]),
        "cross_entropy": (lambda x, t: F.cross_entropy(x, t, ignore_index=-1), lambda i, y, dy: [
            (lambda p, onehot, counted: (p - onehot) * counted * dy / counted.sum())(*entropy_parts(*i)), None]),
        "layer_norm": (lambda x, g, b: F.layer_norm(x, x.shape[-1:], g, b), lambda i, y, dy: norm_backward(i, dy)),
        "attention": (lambda q, k, v: attend(q, k, v, causal),
                      lambda i, y, dy: attention_backward(*i, y, dy, causal)),
        "embedding": (lambda table, ids: table[ids], lambda i, y, dy: [embedding_backward(*i, dy), None]),
        "relu": (torch.relu, lambda i, y, dy: [dy * (i[0] > 0)]),
        "gelu": (F.gelu, lambda i, y, dy: gelu_backward(i[0], dy)),
        "dropout": (lambda x: x * kept / 0.75, lambda i, y, dy: [dy * kept / 0.75]),
        "add": (torch.add, lambda i, y, dy: [dy, dy.flatten(0, -2).sum(0)]),
        "bias": (torch.add, lambda i, y, dy: [dy, dy.flatten(0, -2).sum(0)]),
        "mean": (lambda x: x.mean(-1),
                 lambda i, y, dy: [(dy[..., None] / i[0].shape[-1]).expand(i[0].shape).clone()]),
        "rotate": (lambda x: rotation(x, 1), lambda i, y, dy: [rotation(dy, -1)]),
    }[entry["op"]]


def faulty(entry, spoil):
    """The whole function of the case with a spoilt operation in it (spoil None: the right one)."""
    forward, right = operation(entry)
    backward = right if spoil is None else (
        lambda inputs, y, dy: spoil(list(right(inputs, y, dy)), inputs, y, dy))
    inner = function_of(forward, backward)
    if entry["case"] != "multi_head_attention":
        return inner

    def layer(x, wq, wk, wv, wo):
        split = lambda y: y.unflatten(-1, (2, -1)).transpose(1, 2)
        y = inner(split(x @ wq.T), split(x @ wk.T), split(x @ wv.T))
        return y.transpose(1, 2).flatten(2) @ wo.T
    return layer


# ---- correct functions ----

ATTENTION = {"attention": (False, None), "attention unscaled": (False, 1.0), "attention causal": (True, 1.0)}
CORRECT = {
    "exp": torch.exp, "tanh": torch.tanh, "erf": torch.erf, "exp(-x^2)": lambda x: torch.exp(-x * x),
    "atan": torch.atan, "sin 20x": lambda x: torch.sin(20 * x), "softplus": lambda x: F.softplus(x, threshold=1e9),
    "1e6 + sin": lambda x: 1e6 + torch.sin(x), "log": torch.log, "sqrt": torch.sqrt, "1/x": lambda x: 1 / x,
    "x^2": lambda x: x * x, "x^3": lambda x: x * x * x, "x|x|": lambda x: x * x.abs(),
    "|x|^1.5": lambda x: x.abs() ** 1.5, "3x": lambda x: 3 * x, "|x|": torch.abs,
    "leaky relu": lambda x: F.leaky_relu(x, 0.01), "hinge": lambda x: torch.relu(1 - x), "relu": torch.relu,
    "softmax": lambda x: torch.softmax(x, -1), "log_softmax": lambda x: torch.log_softmax(x, -1),
    "cross_entropy": lambda x, t: F.cross_entropy(x, t, ignore_index=-1), "linear": F.linear, "matmul": torch.matmul,
    "layer_norm": lambda x, g, b: F.layer_norm(x, x.shape[-1:], g, b), "mul": torch.mul, "mean": lambda x: x.mean(-1),
    "gelu": F.gelu,
    **{name: (lambda q, k, v, how=how: attend(q, k, v, *how)) for name, how in ATTENTION.items()},
}


# ---- running ----

def tensors(entry):
    def one(x):
        values = torch.tensor(x["values"], dtype=torch.float64).view(x["shape"])
        return values.long() if x["integers"] else values.requires_grad_()
    return [one(x) for x in entry["inputs"]]


def far(ours, theirs):
    """How far two lists of numbers lie apart, as a share of the largest."""
    ours, theirs = torch.tensor(ours, dtype=torch.float64).flatten(), theirs.detach().flatten()
    largest = max(ours.abs().max().item(), theirs.abs().max().item())
    return (ours - theirs).abs().max().item() / largest if largest > 0 else 0.0


def same(entry, function, what, gradients=True):
    """Outputs and gradients of sum(cos(k) y_k) must be those of the C program."""
    inputs = tensors(entry)
    y = function(*inputs)
    apart = [far(entry["output"], y)]
    y.backward(torch.cos(torch.arange(y.numel(), dtype=torch.float64)).view(y.shape))
    for x, ours in zip(inputs, entry["gradients"]):
        if gradients and x.requires_grad and ours is not None:
            apart.append(far(ours, x.grad if x.grad is not None else torch.zeros_like(x)))
    if not max(apart) <= SAME:
        raise SystemExit(f"gradcheck_peer: {what}: the two sides differ by {apart}")


def check(function, inputs):
    """Whether torch's gradcheck, with defaults, is content; and the seconds it took."""
    start = time.process_time()
    good = torch.autograd.gradcheck(function, inputs, raise_exception=False)
    return good, time.process_time() - start


def cases(options, which):
    environment = {**os.environ, "OMP_NUM_THREADS": str(options.threads), "OMP_WAIT_POLICY": "passive"}
    command = [options.cases, which, str(options.seed)]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def run_faults(options):
    rows = []
    for entry in cases(options, "faults"):
        name = f"{entry['op']}: {entry['fault']}"
        row = {"fault": name, "caught": entry["caught"], "named": entry["named"], "seconds": entry["seconds"]}
        spoil = FAULTS.get((entry["op"], entry["fault"]))
        if spoil is not None:
            if not check(faulty(entry, None), tensors(entry))[0]:
                raise SystemExit(f"gradcheck_peer: {name}: wrong without the fault, too")
            same(entry, faulty(entry, spoil), name)
            good, row["torch_seconds"] = check(faulty(entry, spoil), tensors(entry))
            row["torch_caught"] = not good
        rows.append(row)
    return rows


def run_correct(options):
    rows = []
    for entry in cases(options, "correct"):
        function = CORRECT[entry["name"]]
        good, seconds = check(function, tensors(entry))
        rows.append({"group": entry["group"], "name": entry["name"], "size": entry["size"], "alarm": not entry["ok"],
                     "verdict": entry["verdict"], "seconds": entry["seconds"], "torch_alarm": not good,
                     "torch_seconds": seconds})
        # Frozen rows: what is left of the gradient is a difference of nearly equal numbers.
        frozen = entry["group"] in ("attention", "softmax rows")
        same(entry, function, f"{entry['name']} at size {entry['size']:g}", gradients=not frozen)
    return rows


def print_table(faults, correct):
    both = [row for row in faults if "torch_caught" in row]
    count = lambda rows, key: sum(bool(row[key]) for row in rows)
    total = lambda rows, key: f"{sum(row[key] for row in rows):.2f} s"
    print("| | cases | tapehead | torch.autograd.gradcheck |\n| --- | --- | --- | --- |")
    print(f"| faults caught | {len(both)} | {count(both, 'caught')} | {count(both, 'torch_caught')} |")
    print(f"| faults named right | {len(both)} | {count(both, 'named')} | names none |")
    print(f"| faults without a counterpart, caught | {len(faults) - len(both)} | "
          f"{count([r for r in faults if r not in both], 'caught')} | - |")
    print(f"| time for the faults | {len(both)} | {total(both, 'seconds')} | {total(both, 'torch_seconds')} |")
    for group in GROUPS:
        rows = [row for row in correct if row["group"] == group]
        print(f"| false alarms: {group} | {len(rows)} | {count(rows, 'alarm')} | {count(rows, 'torch_alarm')} |")
    print(f"| false alarms in all | {len(correct)} | {count(correct, 'alarm')} | {count(correct, 'torch_alarm')} |")
    print(f"| time for correct ones | {len(correct)} | {total(correct, 'seconds')} | {total(correct, 'torch_seconds')} |")
    for row in both:
        if not (row["caught"] and row["torch_caught"]):
            print(f"missed by {'torch' if row['caught'] else 'tapehead'}: {row['fault']}", file=sys.stderr)
    for row in correct:
        sides = [side for side, key in (("tapehead", "alarm"), ("torch", "torch_alarm")) if row[key]]
        if sides:
            print(f"false alarm of {' and '.join(sides)}: {row['name']} at size {row['size']:g} ({row['group']})",
                  file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cases", default="build/bench/bench_gradcheck_cases", help="the C program (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="%(default)s")
    parser.add_argument("--threads", type=int, default=1, help="%(default)s")
    parser.add_argument("--json", metavar="FILE", help="all rows")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    faults, correct = run_faults(options), run_correct(options)
    print_table(faults, correct)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"torch": torch.__version__, "faults": faults, "correct": correct}, file, indent=1)
    missed = [row for row in faults if not row["caught"]] + [row for row in correct if row["alarm"]]
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
