"""What one device computes from all rows, in NumPy and 64-bit floats.

Checks compare distributed training with it. Parameters are dicts of arrays by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

__all__ = [
    "reference_adamw",
    "reference_clip",
    "reference_norm",
    "reference_perceptron",
    "reference_relu_layers",
    "reference_sgd",
]
Params = Mapping[str, Any]
Grads = tuple[float, dict[str, np.ndarray]]  # a loss and its gradients


def reference_perceptron(params: Params, x: Any, y: Any) -> Grads:
    """Returns the mean loss of `tanh(x @ w1 + b1) @ w2 + b2`, and its gradients.

    The loss of a row is the cross-entropy where `y` holds classes, whole numbers; else
    the squared error of the only output.

    Args:
        params: w1 (F, H), b1 (H,), w2 (H, C), b2 (C,).
        x: (..., F).
        y: (...), like the rows of x.
    """
    p = _wide(params)
    x, y = np.float64(x).reshape(-1, np.shape(x)[-1]), np.ravel(y)
    hidden = np.tanh(x @ p["w1"] + p["b1"])
    out = hidden @ p["w2"] + p["b2"]
    if np.issubdtype(y.dtype, np.integer):
        powers = np.exp(out - out.max(1, keepdims=True))
        chances = powers / powers.sum(1, keepdims=True)
        loss = -np.log(chances[np.arange(len(y)), y]).mean()
        back = (chances - np.eye(out.shape[1])[y]) / len(y)
    else:
        error = out - y[:, None]
        loss, back = np.mean(error**2), 2 * error / len(y)
    inner = back @ p["w2"].T * (1 - hidden**2)
    grads = {"w1": x.T @ inner, "b1": inner.sum(0)}
    return loss, grads | {"w2": hidden.T @ back, "b2": back.sum(0)}


def reference_relu_layers(params: Params, x: Any, y: Any) -> Grads:
    """Returns the mean squared error of layers `relu(x @ w1) @ w2`, and its gradients.

    Args:
        params: w1 (L, W, H), w2 (L, H, W).
        x: (B, W).
        y: (B, W).
    """
    w1, w2 = _wide(params)["w1"], _wide(params)["w2"]
    inputs, hidden, g1, g2 = [np.float64(x)], [], 0 * w1, 0 * w2
    for layer in range(len(w1)):
        hidden.append(np.maximum(inputs[-1] @ w1[layer], 0))
        inputs.append(hidden[-1] @ w2[layer])
    back = 2 * (inputs[-1] - y) / y.size
    for layer in reversed(range(len(w1))):
        g2[layer] = hidden[layer].T @ back
        inner = back @ w2[layer].T * (hidden[layer] > 0)
        g1[layer], back = inputs[layer].T @ inner, inner @ w1[layer].T
    return np.mean((inputs[-1] - y) ** 2), {"w1": g1, "w2": g2}


def reference_sgd(
    params: Params,
    x: Any,
    y: Any,
    lr: float,
    num_steps: int,
    grads: Callable[..., Grads] = reference_perceptron,
) -> tuple[dict, list[float]]:
    """Takes steps of gradient descent; returns parameters and the loss before each."""
    params, losses = _wide(params), []
    for _ in range(num_steps):
        loss, found = grads(params, x, y)
        params = {name: params[name] - lr * found[name] for name in params}
        losses.append(loss)
    return params, losses


def reference_adamw(
    params: Params,
    rates: Iterable[float],
    grads: Callable[[dict], Grads],
    weight_decay: float = 0.0,
) -> tuple[dict, dict, dict, list[float]]:
    """Takes a step of AdamW for each learning rate.

    Returns:
        Parameters, their first and second moments, and the loss before each step.
    """
    params, losses = _wide(params), []
    mu, nu = ({name: 0 * leaf for name, leaf in params.items()} for _ in range(2))
    for n, rate in enumerate(rates, 1):
        loss, found = grads(params)
        losses.append(loss)
        for name, g in found.items():
            mu[name] = 0.9 * mu[name] + 0.1 * g
            nu[name] = 0.999 * nu[name] + 0.001 * g**2
            step = mu[name] / (1 - 0.9**n) / (np.sqrt(nu[name] / (1 - 0.999**n)) + 1e-8)
            params[name] = params[name] - rate * (step + weight_decay * params[name])
    return params, mu, nu, losses


def reference_norm(grads: Params) -> float:
    """Returns the global norm: that of all gradients as one vector."""
    return np.sqrt(sum((g**2).sum() for g in grads.values()))


def reference_clip(grads: Params, max_norm: float) -> dict:
    """Scales gradients down where their global norm is larger than `max_norm`."""
    scale = min(1, max_norm / reference_norm(grads))
    return {name: scale * g for name, g in grads.items()}


def _wide(params: Params) -> dict[str, np.ndarray]:
    return {name: np.float64(leaf) for name, leaf in params.items()}
