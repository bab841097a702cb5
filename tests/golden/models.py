"""Golden values of attention, of multi-head attention and of one training step of a small GPT."""

import numpy as np
import torch
import torch.nn.functional as F

import reference as ref
from inc import Case, Draw, agree, comment, complex_step, differentiate


def allowed(q, k, causal=False, key_lengths=None, key_mask=None, mask=None):
    """(B, 1 or H, n_q, n_k) of bool: who may attend to whom; every mask must allow it."""
    n_q, n_k = q.shape[2], k.shape[2]
    keep = torch.ones(q.shape[0], 1, n_q, n_k, dtype=torch.bool)
    if causal:
        keep = keep & torch.ones(n_q, n_k, dtype=torch.bool).tril(n_k - n_q)
    if key_lengths is not None:
        keep = keep & (torch.arange(n_k) < torch.from_numpy(key_lengths)[:, None])[:, None, None, :]
    if key_mask is not None:
        keep = keep & torch.from_numpy(key_mask).bool()[:, None, None, :]
    if mask is not None:
        mask = torch.from_numpy(mask).bool()
        keep = keep & (mask[:, None] if mask.ndim == 3 else mask)
    return keep


def attend(q, k, v, scale, **masks):
    """Attention and its weights. A query that may attend to nothing is taken out: output 0, gradient 0."""
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    keep = allowed(q, k, **masks)
    alive = keep.any(-1, keepdim=True)
    scores = (scale * (q @ k.transpose(2, 3))).masked_fill(~keep, -torch.inf)
    p = torch.softmax(torch.where(alive, scores, 0), -1) * alive
    y = p @ v
    if alive.all():
        agree("scaled_dot_product_attention", F.scaled_dot_product_attention(
            q, k, v, attn_mask=keep, scale=float(scale)).detach(), y.detach())
    return y, {"weights": p}


# ---- attention

def attention_case(name, note, inputs, scale, dy=None, size=None, **masks):
    shown = {key: np.array(value, copy=True) for key, value in masks.items() if key != "causal"}
    per_batch = masks.get("mask")
    numpy_masks = {**masks, "mask": per_batch[:, None]} if per_batch is not None and per_batch.ndim == 3 else masks
    return differentiate(name, note, lambda q, k, v: attend(q, k, v, scale, **masks),
                         lambda q, k, v: ref.attention(q, k, v, scale, **numpy_masks), inputs, dy=dy, size=size,
                         options={"scale": float(scale), "causal": int(masks.get("causal", False))}, constants=shown)


def drawn(name, batch=2, heads=2, n_q=3, n_k=5, d_k=4, d_v=3, key_heads=None):
    draw, key_heads = Draw(f"attention {name}"), key_heads or heads
    return draw, {"q": draw.normal(batch, heads, n_q, d_k, sd=1.5),
                  "k": draw.normal(batch, key_heads, n_k, d_k, sd=1.5), "v": draw.normal(batch, key_heads, n_k, d_v)}


def scales():
    for name, scale in {"sqrt": 0.5, "none": 1.0, "dk": 0.25, "factor": 0.3, "negative": -0.7}.items():
        yield attention_case(name, f"d_k 4, scale {scale}", drawn(name)[1], scale)
    yield attention_case("wide_values", "d_v 6, d_k 2", drawn("wide_values", d_k=2, d_v=6)[1], 2**-0.5)
    yield attention_case("grouped", "4 query heads on 2 key heads: query head h reads key head h / 2",
                         drawn("grouped", heads=4, key_heads=2)[1], 0.5)
    yield attention_case("multi_query", "3 query heads on 1 key head, causal",
                         drawn("multi_query", heads=3, key_heads=1, n_q=4, n_k=4)[1], 0.5, causal=True)


def masked():
    for name, n_q, n_k in ("causal", 4, 4), ("causal_cached", 2, 4), ("causal_one", 1, 4), ("causal_few_keys", 4, 2):
        yield attention_case(name, f"n_q {n_q}, n_k {n_k}: the last query meets the last key",
                             drawn(name, n_q=n_q, n_k=n_k)[1], 0.5, causal=True)
    lengths = np.array([5, 2, 0], np.int32)
    yield attention_case("key_lengths", "the last sample has no keys: output 0, gradient 0",
                         drawn("key_lengths", batch=3)[1], 0.5, key_lengths=lengths)
    draw, inputs = drawn("key_mask")
    yield attention_case("key_mask", "1 = may attend", inputs, 0.5,
                         key_mask=np.array([[0, 1, 1, 0, 1], [1, 1, 0, 0, 0]], np.uint8))
    for name, shape in {"mask": (3, 5), "mask_batch": (2, 3, 5), "mask_heads": (2, 2, 3, 5)}.items():
        draw, inputs = drawn(name)
        mask = draw.keep(*shape)
        mask[..., 1, :] = 0
        yield attention_case(name, "query 1 sees nothing: output 0, gradient 0", inputs, 0.5, mask=mask)
    draw, inputs = drawn("all_masks", batch=3, heads=4, key_heads=2, n_q=4, n_k=6)
    masks = {"causal": True, "key_lengths": np.array([6, 4, 5], np.int32), "key_mask": draw.keep(3, 6, share=0.8),
             "mask": draw.keep(3, 4, 4, 6, share=0.7)}
    masks["mask"][1, 2, 3] = 0
    assert not allowed(torch.from_numpy(inputs["q"]), torch.from_numpy(inputs["k"]), **masks)[1, 2, 3].any()
    yield attention_case("all_masks", "all four at once, grouped heads: a key must be allowed by every mask, and some "
                         "queries see nothing", inputs, 0.5, **masks)


def known():
    """Small cases with a result that was worked out by hand or reported elsewhere."""
    one = lambda rows: np.array(rows, float)[None, None]
    q = one([[9, 9], [1, 0], [0, 1]])
    case = attention_case("causal_left_padding", "causal, and key 0 is padding: query 0 sees nothing",
                          {"q": q, "k": q, "v": one([[100, 100], [1, 2], [3, 4]])}, 2**-0.5, causal=True,
                          key_mask=np.array([[0, 1, 1]], np.uint8))
    agree("left padding", case.arrays["y"][0, 0], [[0, 0], [1, 2], [2.3395230987, 3.3395230987]], 1e-9)
    yield case

    zeros = lambda n: np.zeros((1, 1, n, 2))
    values = one([[1], [2], [3], [4]])
    for n_q, n_k, right in (3, 3, [1, 1.5, 7 / 3]), (2, 4, [2, 2.5]), (1, 4, [2.5]), (4, 2, [0, 0, 1, 1.5]):
        v = one([[1], [2], [4]]) if n_k == 3 else values[:, :, :n_k]
        case = attention_case(f"means_{n_q}_{n_k}", "all scores 0, causal: each output is a mean",
                              {"q": zeros(n_q), "k": zeros(n_k), "v": v}, 2**-0.5, causal=True)
        agree(case.name, case.arrays["y"].ravel(), right)
        yield case


def split():
    """Attention on the strided views that split_heads gives."""
    heads = 2

    def forward(x):
        q = x.reshape(*x.shape[:2], heads, -1).transpose(1, 2)
        return attend(q, q, q, q.shape[3] ** -0.5)[0]

    def reference(x):
        q = ref.split_heads(x, heads)
        return ref.attention(q, q, q, q.shape[3] ** -0.5)

    case = differentiate("split_heads", "x (B,T,H*D) split in 2 heads, q = k = v; y is (B,H,T,D)", forward, reference,
                         {"x": np.arange(8).reshape(1, 2, 4) / 10}, options={"heads": heads})
    agree("split heads", case.arrays["y"][0], [[[0.2028282386, 0.3028282386], [0.2253192675, 0.3253192675]],
                                               [[0.4141186124, 0.5141186124], [0.4363608077, 0.5363608077]]], 1e-9)
    yield case
    yield differentiate("split_heads_batch", "the same for two samples of five tokens", forward, reference,
                        {"x": Draw("split_heads_batch").normal(2, 5, 6)}, options={"heads": heads})


def saturated():
    """Values with sixty digits: every gradient is right relative to its own size, however small. The draw is one in
    which no sum over keys cancels, so that an exact softmax backward gives them all, to 1e-6 in f32 too."""
    ones, zeros = np.ones((1, 64)), np.zeros((1, 64))
    draw = Draw("saturated 75")
    whole = {"q": draw.integers(-4, 5, 3, 4), "k": draw.integers(-3, 4, 5, 4), "v": draw.normal(5, 3)}
    dead = {"q": ones, "k": np.concatenate([ones, zeros]), "v": [[1], [0]]}
    for name, inputs, scale, dy in (("dead", dead, 1, [[1]]), ("dead_scaled", dead, 0.125, [[1]]),
                                    ("sharp", whole, 2, draw.normal(3, 3))):
        note = {"sharp": "whole-number scores with gaps of tens: exact in f32 too"}.get(
            name, f"scores 64 and 0 times {scale}: dq is scale p(1-p)")
        exact = ref.exact_attention(**inputs, dy=dy, scale=scale)
        arrays = {key: np.asarray(value, float)[None, None] for key, value in {**inputs, "dy": dy, **exact}.items()}
        case = Case(f"saturated_{name}", note, {"scale": float(scale), "causal": 0}, arrays)
        torchs = attention_case("", "", {key: arrays[key] for key in "qkv"}, float(scale), dy=arrays["dy"], size=1)
        for key in "y", "dq", "dk", "dv":
            agree(f"{case.name} {key}", torchs.arrays[key], arrays[key], 1e-14, size=1)  # PyTorch cancels here
        if name != "sharp":
            agree(case.name, arrays["dq"].ravel(), [1.6038108905e-28 if scale == 1 else 4.1904708845e-05] * 64, 1e-9)
        yield case


def attention():
    """y = softmax(scale q k^T) v over the keys a query may attend to.
    q (B,H,n_q,d_k)  k (B,Hk,n_k,d_k)  v (B,Hk,n_k,d_v)  y (B,H,n_q,d_v)  weights (B,H,n_q,n_k)
    causal 1: query i sees keys 0 .. i + n_k - n_q. In every mask 1 means "may attend"; masks combine by AND.
    A query that may attend to nothing gives output 0, weights 0 and gradient 0."""
    for group in scales, masked, known, split, saturated:
        yield from group()


# ---- multi-head attention

def project(x, memory, wq, wk, wv, wo, heads, bq=None, bk=None, bv=None, bo=None, **masks):
    split_one = lambda x: x.reshape(*x.shape[:2], heads, -1).transpose(1, 2)
    q, k, v = split_one(F.linear(x, wq, bq)), split_one(F.linear(memory, wk, bk)), split_one(F.linear(memory, wv, bv))
    y, more = attend(q, k, v, q.shape[3] ** -0.5, **masks)
    return F.linear(y.transpose(1, 2).reshape(*x.shape[:2], -1), wo, bo), more


def multi_head_case(name, note, self_attention, biases, c=6, c_kv=6, c_out=6, d_k=3, d_v=3, heads=2, **masks):
    draw = Draw(f"multi_head {name}")
    inputs = {"x": draw.normal(2, 3, c)}
    if not self_attention:
        inputs["memory"] = draw.normal(2, 5, c_kv)
    inputs |= {"wq": draw.normal(heads * d_k, c, sd=0.6), "wk": draw.normal(heads * d_k, c_kv, sd=0.6),
               "wv": draw.normal(heads * d_v, c_kv, sd=0.6), "wo": draw.normal(c_out, heads * d_v, sd=0.6)}
    if biases:
        inputs |= {"bq": draw.normal(heads * d_k, sd=0.3), "bk": draw.normal(heads * d_k, sd=0.3),
                   "bv": draw.normal(heads * d_v, sd=0.3), "bo": draw.normal(c_out, sd=0.3)}
    memory = lambda inputs: inputs if "memory" in inputs else {**inputs, "memory": inputs["x"]}
    shown = {key: value for key, value in masks.items() if key != "causal"}
    case = differentiate(name, note, lambda **inputs: project(heads=heads, **memory(inputs), **masks),
                         lambda **inputs: ref.multi_head_attention(heads=heads, **memory(inputs), **masks), inputs,
                         options={"heads": heads, "causal": int(masks.get("causal", False))}, constants=shown, size=1)
    if biases:
        case.arrays["dbk"] = dead(case.arrays["dbk"])
    if biases and c == c_kv == c_out == heads * d_k == heads * d_v:
        compare_with_torch_module(case, {key: torch.from_numpy(value) for key, value in memory(inputs).items()}, heads,
                                  **masks)
    return case


def dead(gradient):
    """That of a bias of keys, which adds the same to all scores of a row: 0, less what rounding left of it."""
    agree("gradient of a key bias", gradient, np.zeros_like(gradient), 1e-14, size=1)
    return np.zeros_like(gradient)


def compare_with_torch_module(case, t, heads, **masks):
    layer = torch.nn.MultiheadAttention(t["x"].shape[2], heads, batch_first=True, dtype=torch.float64)
    layer.in_proj_weight.data = torch.cat([t["wq"], t["wk"], t["wv"]])
    layer.in_proj_bias.data = torch.cat([t["bq"], t["bk"], t["bv"]])
    layer.out_proj.weight.data, layer.out_proj.bias.data = t["wo"], t["bo"]
    keep = allowed(t["x"][:, None], t["memory"][:, None], **masks).expand(-1, heads, -1, -1).flatten(0, 1)
    y, _ = layer(t["x"], t["memory"], t["memory"], attn_mask=~keep, need_weights=False)
    agree(f"{case.name}: nn.MultiheadAttention", y.detach(), case.arrays["y"])


def multi_head_attention():
    """y = heads joined, times wo: queries from x (B,n_q,C), keys and values from memory (B,n_k,C_kv), or from x itself.
    wq, wk (H*d_k, C or C_kv)  wv (H*d_v, C_kv)  wo (C_out, H*d_v), each (out, in); scale 1/sqrt(d_k)."""
    yield multi_head_case("self", "self-attention without biases", True, False)
    yield multi_head_case("self_bias", "self-attention with biases", True, True)
    yield multi_head_case("self_causal", "causal self-attention with biases", True, True, causal=True)
    yield multi_head_case("cross", "cross-attention without biases", False, False)
    yield multi_head_case("cross_bias", "cross-attention with biases, per-sample key lengths", False, True,
                          key_lengths=np.array([5, 3], np.int32))
    yield multi_head_case("cross_widths", "C 6, C_kv 4, C_out 5, d_k 2, d_v 3, 3 heads, biases", False, True,
                          c_kv=4, c_out=5, d_k=2, heads=3)


# ---- GPT

LAYERS, HEADS, WIDTH, CONTEXT, VOCAB, BATCH, TOKENS = 2, 2, 8, 6, 7, 2, 5


def gpt_weights():
    """GPT-2's names, every matrix (out, in); c_attn stacks the rows of W_q, W_k and W_v."""
    draw = Draw("gpt")
    weights = {"wte.weight": draw.normal(VOCAB, WIDTH, sd=0.5), "wpe.weight": draw.normal(CONTEXT, WIDTH, sd=0.25)}

    def norm(name):
        weights[f"{name}.weight"] = draw.normal(WIDTH, mean=1, sd=0.2)
        weights[f"{name}.bias"] = draw.normal(WIDTH, sd=0.2)

    def dense(name, out, into):
        weights[f"{name}.weight"] = draw.normal(out, into, sd=into**-0.5)
        weights[f"{name}.bias"] = draw.normal(out, sd=0.2)

    for layer in range(LAYERS):
        norm(f"h.{layer}.ln_1")
        dense(f"h.{layer}.attn.c_attn", 3 * WIDTH, WIDTH)
        dense(f"h.{layer}.attn.c_proj", WIDTH, WIDTH)
        norm(f"h.{layer}.ln_2")
        dense(f"h.{layer}.mlp.c_fc", 4 * WIDTH, WIDTH)
        dense(f"h.{layer}.mlp.c_proj", WIDTH, 4 * WIDTH)
    norm("ln_f")
    return weights


def gpt_logits(w, tokens):
    norm = lambda x, name: F.layer_norm(x, (WIDTH,), w[f"{name}.weight"], w[f"{name}.bias"], 1e-5)
    dense = lambda x, name: F.linear(x, w[f"{name}.weight"], w[f"{name}.bias"])
    x = F.embedding(tokens, w["wte.weight"]) + w["wpe.weight"][:TOKENS]
    for h in (f"h.{layer}" for layer in range(LAYERS)):
        q, k, v = (part.reshape(BATCH, TOKENS, HEADS, -1).transpose(1, 2)
                   for part in dense(norm(x, f"{h}.ln_1"), f"{h}.attn.c_attn").chunk(3, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + dense(y.transpose(1, 2).reshape(x.shape), f"{h}.attn.c_proj")
        hidden = F.gelu(dense(norm(x, f"{h}.ln_2"), f"{h}.mlp.c_fc"), approximate="tanh")
        x = x + dense(hidden, f"{h}.mlp.c_proj")
    return F.linear(norm(x, "ln_f"), w["wte.weight"])


def gpt_training(weights, tokens, targets, steps, decay):
    """Losses of some AdamW steps on one batch; matrices and tables decay, biases and gains do not."""
    w = {name: torch.tensor(value, requires_grad=True) for name, value in weights.items()}
    groups = [{"params": [p for p in w.values() if p.ndim > 1], "weight_decay": decay},
              {"params": [p for p in w.values() if p.ndim == 1], "weight_decay": 0.0}]
    optim = torch.optim.AdamW(groups, lr=0.01, betas=(0.9, 0.999), eps=1e-8)
    losses = []
    for _ in range(steps):
        optim.zero_grad()
        loss = F.cross_entropy(gpt_logits(w, tokens).flatten(0, 1), targets.flatten())
        loss.backward()
        optim.step()
        losses.append(loss.item())
    return np.array(losses)


def gpt():
    """One training step of a GPT-2 layout: pre-norm, learned positions, GELU in the tanh form, feed-forward 4x, biases,
    causal, output matrix tied to wte, norms with eps 1e-5; loss = mean cross-entropy over all tokens.
    golden_gpt_params lists every parameter with its value and its gradient. Matrices are (out, in), so the rows of
    c_attn are those of W_q, then W_k, then W_v.
    losses: of five AdamW steps on this batch (lr 0.01, betas 0.9 and 0.999, eps 1e-8), without decay and with decay 0.1
    on everything but biases and gains; the first is the loss of the weights given here."""
    draw, weights = Draw("gpt tokens"), gpt_weights()
    tokens, targets = draw.integers(0, VOCAB, BATCH, TOKENS), draw.integers(0, VOCAB, BATCH, TOKENS)
    t_tokens, t_targets = torch.from_numpy(tokens).long(), torch.from_numpy(targets).long()
    w = {name: torch.tensor(value, requires_grad=True) for name, value in weights.items()}
    logits = gpt_logits(w, t_tokens)
    loss = F.cross_entropy(logits.flatten(0, 1), t_targets.flatten())
    loss.backward()

    reference = lambda **weights: ref.gpt_loss(weights, tokens, targets, LAYERS, HEADS)
    agree("gpt loss", reference(**weights), loss.detach())
    arrays = {"tokens": tokens, "targets": targets, "logits": logits.detach().numpy(), "loss": loss.detach().numpy()}
    for decay, name in (0.0, "losses"), (0.1, "losses_decay"):
        arrays[name] = gpt_training(weights, t_tokens, t_targets, 5, decay)
        agree(name, arrays[name][0], loss.detach())
    for name, value in weights.items():
        gradient = w[name].grad.numpy()
        agree(f"gpt d{name}", complex_step(reference, weights, name, 1.0), gradient, size=1)
        if name.endswith("c_attn.bias"):
            gradient[WIDTH : 2 * WIDTH] = dead(gradient[WIDTH : 2 * WIDTH])
        arrays[name.replace(".", "_")] = value
        arrays["d_" + name.replace(".", "_")] = gradient
    sizes = {"layers": LAYERS, "heads": HEADS, "width": WIDTH, "context": CONTEXT, "vocab": VOCAB}
    yield Case("step", f"{LAYERS} layers, {HEADS} heads, width {WIDTH}, context {CONTEXT}, vocabulary {VOCAB}", sizes,
               arrays)


GPT_PARAMS = """\
#define GOLDEN_GPT_PARAM(name, id, ndim)                                                           \\
  {name, ndim, golden_gpt_step_##id##_shape, golden_gpt_step_##id, golden_gpt_step_d_##id}
static const struct {
  const char *name;
  int ndim;
  const ptrdiff_t *shape;
  const double *value, *gradient;
} golden_gpt_params[] = {
"""


def gpt_table(cases):
    """The parameters once more as a table that a test can walk."""
    rows = []
    for name in gpt_weights():
        key = name.replace(".", "_")
        rows.append(f'    GOLDEN_GPT_PARAM("{name}", {key}, {cases[0].arrays[key].ndim}),\n')
    return ("\n" + comment("All parameters, in order of use.") + GPT_PARAMS + "".join(rows)
            + "};\n#undef GOLDEN_GPT_PARAM\n")
