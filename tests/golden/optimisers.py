"""Golden values of the optimisers and of gradient clipping."""

import numpy as np
import torch
from mpmath import mp

import reference as ref
from inc import Case, Draw, agree

ADAM = {"lr": 0.05, "beta1": 0.9, "beta2": 0.99, "eps": 1e-8}


def torch_steps(make, theta, gradients):
    parameter = torch.nn.Parameter(torch.tensor(theta))
    optim, path = make([parameter]), []
    for gradient in gradients:
        parameter.grad = torch.tensor(gradient)
        optim.step()
        path.append(parameter.detach().numpy().copy())
    return np.array(path)


def plain_adam(theta, gradients, lr, beta1, beta2, eps, weight_decay=0.0):
    """The algorithm as it is written down: decay from the weight before the update, eps outside the root."""
    theta, m, v, path = theta.copy(), np.zeros_like(theta), np.zeros_like(theta), []
    for t, g in enumerate(gradients, 1):
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g * g
        m_hat, v_hat = m / (1 - beta1**t), v / (1 - beta2**t)
        theta = theta - lr * (weight_decay * theta + m_hat / (np.sqrt(v_hat) + eps))
        path.append(theta.copy())
    return np.array(path)


def plain_sgd(theta, gradients, lr, momentum):
    theta, m, path = theta.copy(), np.zeros_like(theta), []
    for g in gradients:
        m = momentum * m + g
        theta = theta - lr * m
        path.append(theta.copy())
    return np.array(path)


def steps_case(name, note, options, torch_class, torch_options, plain, theta=None, gradients=None, shape=(2, 3)):
    draw = Draw(f"optimiser {note}")
    theta = draw.normal(*shape) if theta is None else np.array(theta, float)
    gradients = draw.normal(5, *theta.shape, sd=0.5) if gradients is None else np.array(gradients, float)
    path = torch_steps(lambda parameters: torch_class(parameters, **torch_options), theta, gradients)
    agree(f"{torch_class.__name__} {name}", plain(theta, gradients, **options), path)
    return Case(name, note, options, {"theta": theta, "gradients": gradients, "path": path})


def sgd():
    """m = momentum m + g; theta -= lr m. gradients: one per step; path: theta after each step."""
    for name, momentum in {"plain": 0.0, "momentum": 0.9}.items():
        options = {"lr": 0.1, "momentum": momentum}
        yield steps_case(name, f"momentum {momentum}", options, torch.optim.SGD, options, plain_sgd)


def adam_case(name, note, torch_class, decay=None, torch_decay=None, eps=1e-8, **rest):
    options = {**ADAM, "eps": eps} | ({} if decay is None else {"weight_decay": decay})
    torch_options = {"lr": options["lr"], "betas": (options["beta1"], options["beta2"]), "eps": eps,
                     "weight_decay": (decay if torch_decay is None else torch_decay) or 0.0}
    plain = plain_adam if torch_decay is None else lambda *a, **o: plain_adam(*a, **{**o, "weight_decay": torch_decay})
    return steps_case(name, note, options, torch_class, torch_options, plain, **rest)


def adam():
    """theta -= lr mhat / (sqrt(vhat) + eps), eps outside the root after the bias correction.
    gradients: one per step; path: theta after each step."""
    yield adam_case("plain", "eps 1e-8", torch.optim.Adam)
    yield adam_case("eps", "eps 0.1: where it is added shows", torch.optim.Adam, eps=0.1)
    yield adam_case("silent", "a gradient of 0 moves nothing at first, and later by momentum alone", torch.optim.Adam,
                    theta=[[1, -2]], gradients=[[[0, 0]], [[0.5, 0]], [[0, 0]], [[0, 0]]])


def adamw():
    """theta -= lr (weight_decay theta + mhat / (sqrt(vhat) + eps)), with theta before the update on the right. Decay is
    for matrices and tables; biases and gains (one axis) have none.
    gradients: one per step; path: theta after each step."""
    yield adam_case("plain", "no decay", torch.optim.AdamW, decay=0.0)
    yield adam_case("decay", "decay 0.3", torch.optim.AdamW, decay=0.3)
    yield adam_case("eps", "decay 0.3, eps 0.1", torch.optim.AdamW, decay=0.3, eps=0.1)
    yield adam_case("bias", "one axis: decay 0.3 is asked for and not applied", torch.optim.AdamW, decay=0.3,
                    torch_decay=0.0, shape=(4,))
    options = {"lr": 0.1, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0.5}
    case = steps_case("order", "one step from 1 with gradient 1: decay is taken from the weight before the update",
                      options, torch.optim.AdamW, {"lr": 0.1, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.5},
                      plain_adam, theta=[[1]], gradients=[[[1]]])
    agree("order", case.arrays["path"].ravel(), [0.8500000010], 1e-10)
    yield case


def clip_case(name, note, limit, **gradients):
    """Exactly: norm over all gradients, and gradients * limit / norm where the norm exceeds the limit."""
    exact = {key: ref.exactly(value) for key, value in gradients.items()}
    norm = mp.sqrt(sum((value * value).sum() for value in exact.values()))
    factor = min(1, ref.mpf(limit) / norm)
    arrays = {key: np.asarray(value, float) for key, value in gradients.items()} | {"norm": np.array(float(norm))}
    arrays |= {f"{key}_clipped": ref.rounded(value * factor) for key, value in exact.items()}
    parameters = [torch.nn.Parameter(torch.zeros(np.shape(value), dtype=torch.float64)) for value in gradients.values()]
    for parameter, value in zip(parameters, gradients.values()):
        parameter.grad = torch.tensor(np.asarray(value, float))
    agree("norm", torch.nn.utils.clip_grad_norm_(parameters, limit), float(norm))
    for parameter, key in zip(parameters, gradients):     # there, 1e-6 is added to the norm
        agree("clipped", parameter.grad, arrays[f"{key}_clipped"], 1e-5)
    return Case(name, note, {"limit": float(limit)}, arrays)


def clip():
    """Clipping by the global norm: all gradients together are scaled so that their norm is at most limit."""
    case = clip_case("three_four", "norm 5", 1, a=[3, 4])
    agree("three four", case.arrays["a_clipped"], [0.6, 0.8])
    yield case
    draw = Draw("clip")
    yield clip_case("two", "two gradients, one norm", 1.5, a=draw.normal(2, 3), b=draw.normal(4))
    yield clip_case("below", "below the limit: unchanged", 100, a=draw.normal(2, 3), b=draw.normal(4))
    case = clip_case("huge", "the squares overflow in f32", 2, a=np.full(128, 1e19))
    agree("huge", case.arrays["norm"], 1.1313708499e20, 1e-9)
    agree("huge", case.arrays["a_clipped"], np.full(128, 0.1767766953), 1e-9)
    yield case
