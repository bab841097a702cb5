"""Golden values of one training step of other layouts than GPT-2's: Llama, an encoder with padding, encoder-decoder.

Each model is written twice: in PyTorch, whose autograd gives the gradients, and in numpy with loops over heads, whose
complex step confirms every one of them. Weights go by the names that the project gives them; matrices are (out, in).
"""

import numpy as np
import torch
import torch.nn.functional as F

import reference as ref
from inc import Case, Draw, agree, comment, complex_step
from models import allowed, dead
from recurrent import lstm_steps, rnn_steps, run, zeros

VOCAB, EPS = 7, 1e-5


# ---- weights

class Weights(dict):
    """Adds weights in the order of the project's list of parameters."""

    def __init__(self, name, width, biases):
        self.draw, self.width, self.biases = Draw(name), width, biases

    def table(self, name, rows):
        self[f"{name}.weight"] = self.draw.normal(rows, self.width, sd=0.5)

    def norm(self, name):
        self[f"{name}.weight"] = self.draw.normal(self.width, mean=1, sd=0.2)
        if self.biases:
            self[f"{name}.bias"] = self.draw.normal(self.width, sd=0.2)

    def dense(self, name, out, into):
        self[f"{name}.weight"] = self.draw.normal(out, into, sd=into**-0.5)
        if self.biases:
            self[f"{name}.bias"] = self.draw.normal(out, sd=0.2)

    def layer(self, name, heads, kv_heads, head_width, hidden, gate=False, cross=False):
        width, keys, values = self.width, kv_heads * head_width, kv_heads * self.width // heads
        self.norm(f"{name}.ln_1")
        self.dense(f"{name}.attn.c_attn", heads * head_width + keys + values, width)
        self.dense(f"{name}.attn.c_proj", width, width)
        if cross:
            self.norm(f"{name}.ln_x")
            self.dense(f"{name}.cross.c_q", heads * head_width, width)
            self.dense(f"{name}.cross.c_kv", keys + values, width)
            self.dense(f"{name}.cross.c_proj", width, width)
        self.norm(f"{name}.ln_2")
        if gate:
            self.dense(f"{name}.mlp.c_gate", hidden, width)
        self.dense(f"{name}.mlp.c_fc", hidden, width)
        self.dense(f"{name}.mlp.c_proj", width, hidden)


# ---- the same few functions for both sources

class Torch:
    """PyTorch: batched, the gradients' source."""

    def __init__(self, w):
        self.w = w

    def dense(self, x, name):
        return F.linear(x, self.w[f"{name}.weight"], self.w.get(f"{name}.bias"))

    def layer_norm(self, x, name):
        return F.layer_norm(x, x.shape[-1:], self.w[f"{name}.weight"], self.w.get(f"{name}.bias"), EPS)

    def rms_norm(self, x, name):
        return F.rms_norm(x, x.shape[-1:], self.w[f"{name}.weight"], EPS)

    def split(self, x, heads):
        return x.reshape(*x.shape[:2], heads, -1).transpose(1, 2)

    def attend(self, q, k, v, causal=False, lengths=None):
        group = q.shape[1] // k.shape[1]
        keep = allowed(q, k, causal=causal, key_lengths=lengths)
        y = F.scaled_dot_product_attention(q, k.repeat_interleave(group, 1), v.repeat_interleave(group, 1), keep)
        return y.transpose(1, 2).flatten(2)

    def rotate(self, x, base):
        half = x.shape[-1] // 2
        angle = torch.arange(x.shape[-2], dtype=x.dtype)[:, None] * base ** (-torch.arange(half, dtype=x.dtype) / half)
        turned = torch.cat([-x[..., half:], x[..., :half]], -1)
        return x * angle.cos().repeat(1, 2) + turned * angle.sin().repeat(1, 2)

    def rows(self, name, ids):
        return F.embedding(torch.from_numpy(ids).long(), self.w[f"{name}.weight"])

    def recur(self, x, name, lstm):
        w_x, w_h, bias = (self.w[f"{name}.{part}"] for part in ("w_x", "w_h", "bias"))
        first = zeros(x, w_h)[None]
        kind, states = (torch.nn.LSTM, (first, first)) if lstm else (torch.nn.RNN, first)
        return run(kind, x, states, w_x, w_h, bias)[0]

    def silu(self, x):
        return F.silu(x)

    def relu(self, x):
        return F.relu(x)

    def gelu_tanh(self, x):
        return F.gelu(x, approximate="tanh")

    def output(self, x, name):
        return F.linear(x, self.w[f"{name}.weight"])

    def mean(self, x, lengths):
        keep = (torch.arange(x.shape[1]) < torch.from_numpy(lengths)[:, None]).to(x.dtype)
        return (x * keep[..., None]).sum(1) / keep.sum(1, keepdim=True)

    def constant(self, array):
        return torch.from_numpy(array)

    def loss(self, logits, targets):
        return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), torch.from_numpy(targets).long().flatten())


class Numpy:
    """The same with loops, analytic for the complex step."""

    def __init__(self, w):
        self.w = w

    def dense(self, x, name):
        return ref.linear(x, self.w[f"{name}.weight"], self.w.get(f"{name}.bias", 0))

    def layer_norm(self, x, name):
        return ref.layer_norm(x, self.w[f"{name}.weight"], self.w.get(f"{name}.bias", 0), EPS)

    def rms_norm(self, x, name):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPS) * self.w[f"{name}.weight"]

    split = staticmethod(ref.split_heads)

    def attend(self, q, k, v, causal=False, lengths=None):
        return ref.merge_heads(ref.attention(q, k, v, q.shape[3] ** -0.5, causal=causal, key_lengths=lengths))

    def rotate(self, x, base):
        """Each pair as a complex number... of numbers that are complex already: real and imaginary part by hand."""
        y, half = np.array(x), x.shape[-1] // 2
        for t, i in np.ndindex(x.shape[-2], half):
            cos, sin = np.cos(t * base ** (-i / half)), np.sin(t * base ** (-i / half))
            a, b = x[..., t, i], x[..., t, i + half]
            y[..., t, i], y[..., t, i + half] = a * cos - b * sin, a * sin + b * cos
        return y

    def rows(self, name, ids):
        return self.w[f"{name}.weight"][ids]

    def recur(self, x, name, lstm):
        weights = [self.w[f"{name}.{part}"] for part in ("w_x", "w_h", "bias")]
        return lstm_steps(x, *weights)[0] if lstm else rnn_steps(x, *weights)

    def silu(self, x):
        return x / (1 + np.exp(-x))

    relu = staticmethod(ref.relu)
    gelu_tanh = staticmethod(ref.gelu_tanh)

    def output(self, x, name):
        return ref.linear(x, self.w[f"{name}.weight"])

    def mean(self, x, lengths):
        return np.stack([row[:length].sum(0) / length for row, length in zip(x, lengths)])

    def constant(self, array):
        return array

    def loss(self, logits, targets):
        return ref.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.ravel())


def self_attention(f, x, name, heads, kv_heads, head_width, rope_base=None, **masks):
    qkv, queries, keys = f.dense(x, f"{name}.c_attn"), heads * head_width, kv_heads * head_width
    q = f.split(qkv[..., :queries], heads)
    k = f.split(qkv[..., queries:queries + keys], kv_heads)
    v = f.split(qkv[..., queries + keys:], kv_heads)
    if rope_base is not None:
        q, k = f.rotate(q, rope_base), f.rotate(k, rope_base)
    return f.dense(f.attend(q, k, v, **masks), f"{name}.c_proj")


def cross_attention(f, x, memory, name, heads, **masks):
    q, kv = f.split(f.dense(x, f"{name}.c_q"), heads), f.dense(memory, f"{name}.c_kv")
    k, v = f.split(kv[..., :kv.shape[-1] // 2], heads), f.split(kv[..., kv.shape[-1] // 2:], heads)
    return f.dense(f.attend(q, k, v, **masks), f"{name}.c_proj")


# ---- cases

def step(note, forward, weights, targets, sizes, constants, key_biases=()):
    """One step: logits, loss, and every gradient from both sources. key_biases: (name, begin, end) that are dead."""
    leaves = {name: torch.tensor(value, requires_grad=True) for name, value in weights.items()}
    f = Torch(leaves)
    logits = forward(f)
    loss = f.loss(logits, targets)
    loss.backward()

    def reference(**w):
        f = Numpy(w)
        return f.loss(forward(f), targets)

    agree("loss", reference(**weights), loss.detach())
    arrays = {**constants, "targets": targets, "logits": logits.detach().numpy(), "loss": loss.detach().numpy()}
    bounds = {name: (begin, end) for name, begin, end in key_biases}
    for name, value in weights.items():
        gradient = leaves[name].grad.numpy()
        agree(f"d{name}", complex_step(reference, weights, name, 1.0), gradient, size=1)
        if name in bounds:
            begin, end = bounds[name]
            gradient[begin:end] = dead(gradient[begin:end])
        key = name.replace(".", "_")
        NAMES[key] = name
        arrays[key], arrays[f"d_{key}"] = value, gradient
    yield Case("step", note, sizes, arrays)


def llama():
    """One training step of a Llama layout: RMS norm before each branch, rotary positions (pairs i and i + D/2, base
    100), 4 query heads on 2 heads of keys and values, SwiGLU, no biases, an output matrix of its own, eps 1e-5;
    loss = mean cross-entropy. The rows of c_attn are those of W_q, then W_k, then W_v.
    golden_llama_params lists every parameter with its value and its gradient."""
    layers, heads, kv_heads, width, head_width, hidden, context, base = 2, 4, 2, 8, 4, 6, 6, 100.0
    weights, draw = Weights("llama", width, False), Draw("llama tokens")
    weights.table("wte", VOCAB)
    for layer in range(layers):
        weights.layer(f"h.{layer}", heads, kv_heads, head_width, hidden, gate=True)
    weights.norm("ln_f")
    weights.table("lm_head", VOCAB)
    tokens, targets = draw.integers(0, VOCAB, 2, 5), draw.integers(0, VOCAB, 2, 5)

    def forward(f):
        x = f.rows("wte", tokens)
        for h in (f"h.{layer}" for layer in range(layers)):
            x = x + self_attention(f, f.rms_norm(x, f"{h}.ln_1"), f"{h}.attn", heads, kv_heads, head_width, base,
                                   causal=True)
            inside = f.rms_norm(x, f"{h}.ln_2")
            x = x + f.dense(f.silu(f.dense(inside, f"{h}.mlp.c_gate")) * f.dense(inside, f"{h}.mlp.c_fc"),
                            f"{h}.mlp.c_proj")
        return f.output(f.rms_norm(x, "ln_f"), "lm_head")

    sizes = {"layers": layers, "heads": heads, "kv_heads": kv_heads, "width": width, "head_width": head_width,
             "hidden": hidden, "context": context, "vocab": VOCAB, "rope_base": base}
    yield from step("heads of keys 4 wide, of values 2", forward, weights, targets, sizes, {"tokens": tokens})


def sinusoid(length, width):
    position, pair = np.arange(length)[:, None], np.arange(width // 2)
    angle = position / 10000.0 ** (2 * pair / width)
    return np.stack([np.sin(angle), np.cos(angle)], -1).reshape(length, width)


def classifier():
    """One training step of an encoder with padding: sequences of 6, 3 and 1 tokens; norm after each branch (Vaswani et
    al. 2017), sinusoidal positions, ReLU, biases, eps 1e-5; the mean over each sequence's own last states, times a
    head; loss = mean cross-entropy of the three answers. Tokens in the padding are drawn like any other.
    golden_classifier_params lists every parameter with its value and its gradient."""
    layers, heads, width, hidden, context, classes = 2, 2, 8, 6, 6, 3
    weights, draw = Weights("classifier", width, True), Draw("classifier tokens")
    weights.table("wte", VOCAB)
    for layer in range(layers):
        weights.layer(f"h.{layer}", heads, heads, width // heads, hidden)
    weights.dense("head", classes, width)
    tokens, targets = draw.integers(0, VOCAB, 3, context), np.array([2, 0, 1], np.int32)
    lengths = np.array([6, 3, 1], np.int32)

    def forward(f):
        x = f.rows("wte", tokens) + f.constant(sinusoid(context, width))
        for h in (f"h.{layer}" for layer in range(layers)):
            y = self_attention(f, x, f"{h}.attn", heads, heads, width // heads, lengths=lengths)
            x = f.layer_norm(x + y, f"{h}.ln_1")
            y = f.dense(f.relu(f.dense(x, f"{h}.mlp.c_fc")), f"{h}.mlp.c_proj")
            x = f.layer_norm(x + y, f"{h}.ln_2")
        return f.dense(f.mean(x, lengths), "head")

    sizes = {"layers": layers, "heads": heads, "width": width, "hidden": hidden, "context": context,
             "classes": classes, "vocab": VOCAB}
    yield from step("lengths 6, 3, 1", forward, weights, targets, sizes, {"tokens": tokens, "lengths": lengths},
                    [(f"h.{layer}.attn.c_attn.bias", width, 2 * width) for layer in range(layers)])


def seq2seq():
    """One training step of an encoder and a decoder with one layer each: sources of 5 and 2 tokens, targets of 4; norm
    before each branch and at each end, learned positions, GELU in the tanh form, biases, output tied to the one token
    table, eps 1e-5; loss = mean cross-entropy.
    golden_seq2seq_params lists every parameter with its value and its gradient."""
    heads, width, hidden, context = 2, 8, 6, 6
    weights, draw = Weights("seq2seq", width, True), Draw("seq2seq tokens")
    weights.table("wte", VOCAB)
    for side in "enc", "dec":
        weights.table(f"{side}.wpe", context)
        weights.layer(f"{side}.0", heads, heads, width // heads, hidden, cross=side == "dec")
        weights.norm(f"{side}.ln_f")
    source, target = draw.integers(0, VOCAB, 2, 5), draw.integers(0, VOCAB, 2, 4)
    targets, lengths = draw.integers(0, VOCAB, 2, 4), np.array([5, 2], np.int32)

    def feed_forward(f, x, name):
        inside = f.gelu_tanh(f.dense(f.layer_norm(x, f"{name}.ln_2"), f"{name}.mlp.c_fc"))
        return x + f.dense(inside, f"{name}.mlp.c_proj")

    def forward(f):
        sizes = heads, heads, width // heads
        x = f.rows("wte", source) + f.rows("enc.wpe", np.arange(source.shape[1]))
        x = x + self_attention(f, f.layer_norm(x, "enc.0.ln_1"), "enc.0.attn", *sizes, lengths=lengths)
        memory = f.layer_norm(feed_forward(f, x, "enc.0"), "enc.ln_f")
        x = f.rows("wte", target) + f.rows("dec.wpe", np.arange(target.shape[1]))
        x = x + self_attention(f, f.layer_norm(x, "dec.0.ln_1"), "dec.0.attn", *sizes, causal=True)
        x = x + cross_attention(f, f.layer_norm(x, "dec.0.ln_x"), memory, "dec.0.cross", heads, lengths=lengths)
        return f.output(f.layer_norm(feed_forward(f, x, "dec.0"), "dec.ln_f"), "wte")

    sizes = {"layers": 1, "heads": heads, "width": width, "hidden": hidden, "context": context, "vocab": VOCAB}
    dead_biases = [("enc.0.attn.c_attn.bias", width, 2 * width), ("dec.0.attn.c_attn.bias", width, 2 * width),
                   ("dec.0.cross.c_kv.bias", 0, width)]
    yield from step("lengths 5, 2", forward, weights, targets, sizes,
                    {"source": source, "lengths": lengths, "target": target}, dead_biases)


def recurrent_model(name, lstm, untied):
    layers, width, gates = 2, 6, 4 if lstm else 1
    weights, draw = Weights(name, width, True), Draw(f"{name} tokens")
    weights.table("wte", VOCAB)
    for layer in range(layers):
        for part in "w_x", "w_h":
            weights[f"h.{layer}.{part}"] = weights.draw.normal(gates * width, width, sd=width**-0.5)
        weights[f"h.{layer}.bias"] = weights.draw.normal(gates * width, sd=0.5)
    if untied:
        weights.table("lm_head", VOCAB)
    tokens, targets = draw.integers(0, VOCAB, 2, 5), draw.integers(0, VOCAB, 2, 5)

    def forward(f):
        x = f.rows("wte", tokens)
        for layer in range(layers):
            x = f.recur(x, f"h.{layer}", lstm)
        return f.output(x, "lm_head" if untied else "wte")

    sizes = {"layers": layers, "width": width, "vocab": VOCAB}
    yield from step(f"{layers} layers, width {width}", forward, weights, targets, sizes, {"tokens": tokens})


def lstm_model():
    """One training step of an LSTM language model with two layers, output tied to wte; loss = mean cross-entropy.
    golden_lstm_model_params lists every parameter with its value and its gradient; gates are stacked as i, f, g, o."""
    yield from recurrent_model("lstm_model", True, False)


def rnn_model():
    """The same for tanh cells, with an output matrix of its own."""
    yield from recurrent_model("rnn_model", False, True)


# ---- the parameters once more, as a table that a test can walk

NAMES = {}  # by the name of their array

TABLE = """\
#define GOLDEN_PARAM(name, id, ndim)                                                               \\
  {name, ndim, golden_MODEL_step_##id##_shape, golden_MODEL_step_##id, golden_MODEL_step_d_##id}
static const golden_param golden_MODEL_params[] = {
"""


def table(model, cases):
    rows = []
    for key, array in cases[0].arrays.items():
        if f"d_{key}" in cases[0].arrays:
            rows.append(f'    GOLDEN_PARAM("{NAMES[key]}", {key}, {array.ndim}),\n')
    text = comment("All parameters, in order of use. The type: tests/nn/step.h.") + TABLE.replace("MODEL", model)
    return "\n" + text + "".join(rows) + "};\n#undef GOLDEN_PARAM\n"
