"""The ops once more, in plain numpy: what PyTorch's values and gradients are checked against.

Only forwards: gradients come from the complex step, so every function here accepts complex inputs
and is analytic in them (a maximum is taken of the real parts and acts as a constant).
"""

import numpy as np
from mpmath import mp, mpf

mp.dps = 60


def softmax_row(x):
    e = np.exp(x - x.real.max())
    return e / e.sum()


def softmax(x):
    return np.apply_along_axis(softmax_row, -1, x)


def log_softmax(x):
    shifted = x - x.real.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def logsumexp(x):
    top = x.real.max(-1)
    return top + np.log(np.exp(x - top[..., None]).sum(-1))


def relu(x):
    return np.where(x.real > 0, x, 0)


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x * x * x)))


def linear(x, w, b=0):
    return np.einsum("...i,oi->...o", x, w) + b


def cross_entropy(logits, targets, ignored=-1, mean=True):
    """Mean over the targets that count, or their sum; 0 when none does."""
    losses = [-log_softmax(row)[target] for row, target in zip(logits, targets) if target != ignored]
    return np.array(sum(losses) / (len(losses) if mean else 1) if losses else 0 * logits.sum())


def layer_norm(x, gain=1, bias=0, eps=1e-5):
    centred = x - x.mean(-1, keepdims=True)
    variance = (centred * centred).mean(-1, keepdims=True)
    return centred / np.sqrt(variance + eps) * gain + bias


def rms_norm(x, gain=1, eps=1e-5):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * gain


def turn(position, pair, width, base):
    """Cosine and sine of position * base^(-2 pair/width), to the last bit."""
    angle = mpf(position) * mpf(base) ** (mpf(-2 * pair) / width)
    return float(mp.cos(angle)), float(mp.sin(angle))


def rope(x, base=10000, offset=0, interleaved=False):
    """Pair by pair; x (..., T, D)."""
    y, (length, width) = np.zeros_like(x), x.shape[-2:]
    for t, i in np.ndindex(length, width // 2):
        a, b = (2 * i, 2 * i + 1) if interleaved else (i, i + width // 2)
        c, s = turn(offset + t, i, width, base)
        y[..., t, a] = c * x[..., t, a] - s * x[..., t, b]
        y[..., t, b] = s * x[..., t, a] + c * x[..., t, b]
    return y


def may_attend(b, h, i, j, n_q, n_k, causal, key_lengths, key_mask, mask):
    """Whether query i of batch b and head h may see key j: every mask must allow it."""
    if causal and j > i + n_k - n_q:
        return False
    if key_lengths is not None and j >= key_lengths[b]:
        return False
    if key_mask is not None and not key_mask[b, j]:
        return False
    if mask is not None:
        mask = mask.reshape((1,) * (4 - mask.ndim) + mask.shape)
        return bool(mask[b % mask.shape[0], h % mask.shape[1], i, j])
    return True


def attention(q, k, v, scale, causal=False, key_lengths=None, key_mask=None, mask=None):
    """Query by query over the keys it may see; one that sees none stays 0."""
    batch, heads, n_q, _ = q.shape
    group, n_k = heads // k.shape[1], k.shape[2]
    y = np.zeros((batch, heads, n_q, v.shape[3]), np.result_type(q, k, v, scale))
    for b, h, i in np.ndindex(batch, heads, n_q):
        seen = [j for j in range(n_k) if may_attend(b, h, i, j, n_q, n_k, causal, key_lengths, key_mask, mask)]
        if seen:
            scores = scale * (k[b, h // group, seen] @ q[b, h, i])
            y[b, h, i] = softmax_row(scores) @ v[b, h // group, seen]
    return y


def split_heads(x, heads):
    batch, length, width = x.shape
    return x.reshape(batch, length, heads, width // heads).transpose(0, 2, 1, 3)


def merge_heads(x):
    batch, heads, length, width = x.shape
    return x.transpose(0, 2, 1, 3).reshape(batch, length, heads * width)


def multi_head_attention(x, memory, wq, wk, wv, wo, heads, bq=0, bk=0, bv=0, bo=0, **masks):
    q = split_heads(linear(x, wq, bq), heads)
    k = split_heads(linear(memory, wk, bk), heads)
    v = split_heads(linear(memory, wv, bv), heads)
    y = attention(q, k, v, q.shape[3] ** -0.5, **masks)
    return linear(merge_heads(y), wo, bo)


def gpt_loss(weights, tokens, targets, layers, heads):
    """Mean cross-entropy of a GPT-2 layout with tied output matrix; weights by name."""
    def norm(x, name):
        return layer_norm(x, weights[f"{name}.weight"], weights[f"{name}.bias"])

    def dense(x, name):
        return linear(x, weights[f"{name}.weight"], weights[f"{name}.bias"])

    x = weights["wte.weight"][tokens] + weights["wpe.weight"][: tokens.shape[1]]
    for layer in range(layers):
        h = f"h.{layer}"
        q, k, v = (split_heads(part, heads) for part in
                   np.split(dense(norm(x, f"{h}.ln_1"), f"{h}.attn.c_attn"), 3, axis=2))
        y = attention(q, k, v, q.shape[3] ** -0.5, causal=True)
        x = x + dense(merge_heads(y), f"{h}.attn.c_proj")
        x = x + dense(gelu_tanh(dense(norm(x, f"{h}.ln_2"), f"{h}.mlp.c_fc")), f"{h}.mlp.c_proj")
    logits = linear(norm(x, "ln_f"), weights["wte.weight"])
    return cross_entropy(logits.reshape(-1, logits.shape[2]), targets.ravel())


# ---- 60 digits, where float64 itself would round the answer away

def exactly(array):
    """The float64 values as mpmath numbers."""
    return np.vectorize(mpf, otypes=[object])(np.asarray(array, float))


def rounded(array):
    """Back to the nearest float64."""
    return np.vectorize(float, otypes=[float])(array)


def exact_softmax_row(x, g):
    """softmax of one row of mpmath numbers, and the gradient for upstream g, with sixty digits to lose."""
    e = np.array([mp.exp(value - max(x)) for value in x])
    y = e / e.sum()
    return y, y * (g - (g * y).sum())


def exact_attention(q, k, v, dy, scale):
    """One batch, one head, no mask: q (n_q,d_k), k (n_k,d_k), v (n_k,d_v) -> y, weights, dq, dk, dv."""
    q, k, v, dy, scale = exactly(q), exactly(k), exactly(v), exactly(dy), mpf(scale)
    rows = [exact_softmax_row(scale * (k @ query), v @ upstream) for query, upstream in zip(q, dy)]
    p, ds = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
    results = {"y": p @ v, "weights": p, "dq": scale * (ds @ k), "dk": scale * (ds.T @ q), "dv": p.T @ dy}
    return {key: rounded(value) for key, value in results.items()}


def exact_gelu(x, form):
    """y and dy/dx of the exact and of the tanh form."""
    x = exactly(x)
    if form == "exact":
        inside = np.vectorize(mp.ncdf, otypes=[object])(x)
        slope = np.vectorize(mp.npdf, otypes=[object])(x)
    else:
        root = mp.sqrt(2 / mp.pi)
        inside = np.vectorize(lambda a: 1 / (1 + mp.exp(-2 * root * (a + mpf("0.044715") * a**3))), otypes=[object])(x)
        slope = 2 * inside * (1 - inside) * root * (1 + 3 * mpf("0.044715") * x**2)
    return rounded(x * inside), rounded(inside + x * slope)


def exact_tanh(x):
    """y and dy/dx."""
    x = exactly(x)
    return rounded(np.vectorize(mp.tanh, otypes=[object])(x)), rounded(np.vectorize(mp.sech, otypes=[object])(x)**2)


def exact_sigmoid_parts(x):
    """sigmoid(x) and sigmoid(-x), as mpmath numbers."""
    logistic = np.vectorize(lambda a: 1 / (1 + mp.exp(-a)), otypes=[object])
    return logistic(x), logistic(-x)


def exact_sigmoid(x):
    """y and dy/dx."""
    s, rest = exact_sigmoid_parts(exactly(x))
    return rounded(s), rounded(s * rest)


def exact_silu(x):
    """y and dy/dx."""
    x = exactly(x)
    s, rest = exact_sigmoid_parts(x)
    return rounded(x * s), rounded(s * (1 + x * rest))
