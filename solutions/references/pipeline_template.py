"""A task of your own for the full pipeline: copy this file, then change the four parts.

    python full_pipeline.py --directory /tmp/run --task my_task.py:MyTask

As it is, it learns from 20 numbers which of 3 classes a row belongs to.
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from full_pipeline import Task


class MyTask(Task):
    """Classifies rows by a perceptron with one hidden layer."""

    # 1. The data: rows to train on and held-out ones. Each is a tree of arrays (NumPy,
    #    or numpy.memmap where they exceed the memory) with as many rows.
    def load(self):
        rng = np.random.default_rng(0)
        x = rng.normal(size=(5000, 20)).astype(np.float32)
        y = (x @ rng.normal(size=(20, 3))).argmax(1)  # e.g. np.load(self.config.data)
        return {"x": x[:4500], "y": y[:4500]}, {"x": x[4500:], "y": y[4500:]}

    # 2. The first parameters: any nesting of dicts and lists, float32. `--hidden` and
    #    all other settings are in `self.config`.
    def init(self, key):
        one, two = jax.random.split(key)
        width = self.config.hidden
        return {
            "hidden": {"w": jax.random.normal(one, (20, width)) / 20**0.5},
            "out": {"w": jax.random.normal(two, (width, 3)) / width**0.5},
        }

    # 3. The loss of each row, its weight (1, or its number of valid tokens, if the loss
    #    is their sum), and further metrics of each row, which are averaged in the same
    #    way: of two rows with 3 and 1 valid tokens, 2 and 1 of them right, return the
    #    weights [3, 1] and {"accuracy": [2, 1]}; what is logged is (2 + 1) / (3 + 1).
    #    `key` is None in an evaluation.
    def loss(self, params, batch, key, step):
        h = jax.nn.relu(batch["x"] @ params["hidden"]["w"])
        if key is not None:
            h = h * jax.random.bernoulli(key, 0.9, h.shape) / 0.9  # dropout
        logits = h @ params["out"]["w"]
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, batch["y"])
        right = logits.argmax(1) == batch["y"]
        return losses, jnp.ones(len(losses)), {"accuracy": right}

    # 4. If you like, an optimizer of your own: `def optimizer(self): return optax...`;
    #    `full_pipeline.Task` has one, with warm-up, and says what else can be replaced.
