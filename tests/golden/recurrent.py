"""Golden values of the recurrent layers: torch.nn.RNN and torch.nn.LSTM in float64."""

import numpy as np
import torch

from inc import Draw, agree, differentiate


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def rnn_steps(x, w_x, w_h, bias=0, h0=0):
    """The cell, step by step, in plain numpy."""
    h, steps = h0 + np.zeros((x.shape[0], w_h.shape[1])), []
    for t in range(x.shape[1]):
        h = np.tanh(x[:, t] @ w_x.T + h @ w_h.T + bias)
        steps.append(h)
    return np.stack(steps, 1)


def lstm_steps(x, w_x, w_h, bias=0, h0=0, c0=0):
    h, c = (state + np.zeros((x.shape[0], w_h.shape[1])) for state in (h0, c0))
    hs, cs = [], []
    for t in range(x.shape[1]):
        i, f, g, o = np.split(x[:, t] @ w_x.T + h @ w_h.T + bias, 4, axis=1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        hs.append(h)
        cs.append(c)
    return np.stack(hs, 1), np.stack(cs, 1)


def run(kind, x, states, w_x, w_h, bias=None):
    """The torch module with these weights; its second bias, which Tapehead adds to the first, is 0."""
    layer = kind(w_x.shape[1], w_h.shape[1], bias=bias is not None, batch_first=True).double()
    weights = {"weight_ih_l0": w_x, "weight_hh_l0": w_h}
    if bias is not None:
        weights |= {"bias_ih_l0": bias, "bias_hh_l0": torch.zeros_like(bias)}
    return torch.func.functional_call(layer, weights, (x, states))


def zeros(x, w_h):
    return torch.zeros(x.shape[0], w_h.shape[1], dtype=torch.float64)


def inputs_of(draw, sizes, gates, sd=0.6, bias=True, states=()):
    batch, steps, inner, width = sizes
    arrays = {"x": draw.normal(batch, steps, inner), "w_x": draw.normal(gates * width, inner, sd=sd),
              "w_h": draw.normal(gates * width, width, sd=sd)}
    if bias:
        arrays["bias"] = draw.normal(gates * width, sd=0.5)
    return arrays | {state: draw.normal(batch, width, sd=0.7) for state in states}


def rnn():
    """h_t = tanh(W_x x_t + W_h h_(t-1) + b): w_x (H, in), w_h (H, H). y holds all h, (B, T, H)."""
    def forward(x, w_x, w_h, bias=None, h0=None):
        h0 = zeros(x, w_h) if h0 is None else h0
        return run(torch.nn.RNN, x, h0[None], w_x, w_h, bias)[0]

    def case(name, note, inputs):
        return differentiate(name, note, forward, rnn_steps, inputs)
    yield case("plain", "neither bias nor first state", inputs_of(Draw("rnn plain"), (2, 4, 3, 5), 1, bias=False))
    yield case("bias", "with bias", inputs_of(Draw("rnn bias"), (3, 3, 2, 4), 1))
    yield case("state", "with a first state", inputs_of(Draw("rnn state"), (2, 3, 3, 4), 1, states=["h0"]))
    yield case("one_step", "a single step", inputs_of(Draw("rnn one"), (3, 1, 2, 3), 1, states=["h0"]))
    yield case("saturated", "large weights", inputs_of(Draw("rnn large"), (2, 4, 3, 3), 1, sd=3))
    yield case("wide", "more sequences and columns than a tile has",
               inputs_of(Draw("rnn wide"), (7, 5, 3, 35), 1, sd=0.2, states=["h0"]))
    yield case("long", "many steps", inputs_of(Draw("rnn long"), (1, 24, 2, 3), 1))


def lstm():
    """c_t = f c_(t-1) + i g, h_t = o tanh(c_t), gates stacked as i, f, g, o: w_x (4H, in), w_h (4H, H).
    y = h + c / 2 of all steps, (B, T, H), so that a gradient arrives at both; h and c stand beside it."""
    def forward(x, w_x, w_h, bias=None, h0=None, c0=None):
        h = (zeros(x, w_h) if h0 is None else h0)[None]
        c = (zeros(x, w_h) if c0 is None else c0)[None]
        whole, hs, cs = run(torch.nn.LSTM, x, (h, c), w_x, w_h, bias)[0], [], []
        for t in range(x.shape[1]):  # torch gives the cells of the last step only
            _, (h, c) = run(torch.nn.LSTM, x[:, t:t + 1], (h, c), w_x, w_h, bias)
            hs.append(h[0])
            cs.append(c[0])
        h, c = torch.stack(hs, 1), torch.stack(cs, 1)
        agree("whole sequence and steps", whole.detach().numpy(), h.detach().numpy())
        return whole + c / 2, {"h": whole, "c": c}

    def reference(**inputs):
        h, c = lstm_steps(**inputs)
        return h + c / 2

    def case(name, note, inputs):
        return differentiate(name, note, forward, reference, inputs)
    both = ["h0", "c0"]
    yield case("plain", "neither bias nor first states", inputs_of(Draw("lstm plain"), (2, 4, 3, 3), 4, bias=False))
    yield case("bias", "with bias", inputs_of(Draw("lstm bias"), (3, 3, 2, 4), 4))
    yield case("state", "with first states", inputs_of(Draw("lstm state"), (2, 3, 3, 4), 4, states=both))
    yield case("one_step", "a single step", inputs_of(Draw("lstm one"), (3, 1, 2, 3), 4, states=both))
    yield case("saturated", "large weights", inputs_of(Draw("lstm large"), (2, 4, 3, 3), 4, sd=3))
    yield case("wide", "more sequences and columns than a tile has",
               inputs_of(Draw("lstm wide"), (7, 3, 2, 9), 4, sd=0.3, states=both))
    yield case("long", "many steps", inputs_of(Draw("lstm long"), (1, 24, 2, 2), 4))
