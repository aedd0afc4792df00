"""The full pipeline's first two tasks: digits, and a linear regression."""

from __future__ import annotations

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import optax
from full_pipeline import Task
from jax.sharding import PartitionSpec as P


class Digits(Task):
    """Recognises scikit-learn's digits by a perceptron of two hidden layers, by AdamW."""

    specs: ClassVar = {"w1": P(None, "model"), "b1": P("model"), "w2": P("model", None)}

    def load(self) -> tuple[tuple, tuple]:
        """Returns rows to train on and held-out ones: (f32[N, 64] in 0..1, i32[N])."""
        from sklearn.datasets import load_digits

        x, y = load_digits(return_X_y=True)
        order = np.random.default_rng(0).permutation(len(x))
        x, y = np.float32(x[order] / 16), np.int32(y[order])
        return (x[:1437], y[:1437]), (x[1437:], y[1437:])

    def init(self, key: Any) -> dict[str, Any]:
        """Draws the parameters, float32."""
        width = self.config.hidden
        sizes = ((64, width), (width, width), (width, 10))
        ends = np.cumsum([n_in * n_out for n_in, n_out in sizes])
        # One draw for all: random numbers are most of what there is to compile.
        pieces = jnp.split(jax.random.normal(key, (ends[-1],)), ends[:-1])
        params = {}
        for n, (piece, shape) in enumerate(zip(pieces, sizes, strict=True), 1):
            params[f"w{n}"] = piece.reshape(shape) / shape[0] ** 0.5
            params[f"b{n}"] = jnp.zeros(shape[1])
        return params

    def loss(self, params: Any, batch: Any, key: Any, step: Any) -> tuple:
        """Cross-entropy of each row, computed in `compute_dtype`, and the accuracy."""
        (x, y), dtype = batch, self.config.compute_dtype
        low = jax.tree.map(lambda p: p.astype(dtype), params)
        hidden = jax.nn.relu(x.astype(dtype) @ low["w1"] + low["b1"])
        hidden = jax.nn.relu(hidden @ low["w2"] + low["b2"])
        logits = (hidden @ low["w3"]).astype(jnp.float32) + params["b3"]
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, y)
        return losses, jnp.ones(len(x)), {"accuracy": logits.argmax(-1) == y}


class Regression(Task):
    """Fits `sharded_pipeline`'s linear model by SGD, from zeros, in float32."""

    def load(self) -> tuple[tuple, tuple]:
        """Returns rows to train on and held-out ones: (f32[N, 32], f32[N])."""
        from sharded_pipeline import make_data

        x, y, _ = make_data(4096 + 1024)
        return (x[:4096], y[:4096]), (x[4096:], y[4096:])

    def init(self, key: Any) -> dict[str, Any]:
        """Makes zeros."""
        return {"w": jnp.zeros(32), "b": jnp.zeros(())}

    def loss(self, params: Any, batch: Any, key: Any, step: Any) -> tuple:
        """Squared error of each row."""
        x, y = batch
        losses = (x @ params["w"] + params["b"] - y) ** 2
        return losses, jnp.ones(len(x)), {}

    def optimizer(self) -> Any:
        """Makes plain SGD."""
        return optax.sgd(self.config.peak_lr)
