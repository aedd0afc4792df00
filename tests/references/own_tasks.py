"""Tasks as a user of the full pipeline would write them, for its tests."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from full_pipeline import Task
from jax.sharding import PartitionSpec as P


class Tokens(Task):
    """Rows of 1 to 8 valid tokens, one weight for all: the mean is known exactly."""

    specs = {"layers/*/w": P("model")}  # noqa: RUF012
    tokens_per_row = 8

    def load(self):
        rng = np.random.default_rng(0)
        x = rng.normal(size=(128, 8)).astype(np.float32)
        valid = np.arange(8) <= rng.integers(0, 8, (128, 1))
        return ({"x": x, "valid": valid},) * 2

    def init(self, key):
        return {"layers": [{"w": jnp.zeros(8)}, {"w": jnp.zeros(8)}]}

    def loss(self, params, batch, key, step):
        shift = params["layers"][0]["w"] + params["layers"][1]["w"]
        losses = (batch["x"] - shift) ** 2 * batch["valid"]
        above = (batch["x"] > 0) & batch["valid"]  # as many tokens as are right, say
        return losses.sum(1), batch["valid"].sum(1), {"above": above.sum(1)}


class BatchNorm(Tokens):
    """Keeps a running mean of what it has seen; an evaluation counts from that."""

    specs = {}  # noqa: RUF012

    def mutable(self):
        return ({"mean": jnp.zeros(8)},)

    def loss(self, params, batch, key, step, running):
        mean = batch["x"].mean(0)
        if key is None:
            mean = running["mean"]
        running = {"mean": 0.9 * running["mean"] + 0.1 * mean}
        shift = params["layers"][0]["w"] - params["layers"][1]["w"] + mean
        losses = ((batch["x"] - shift) ** 2).sum(1)
        return (
            losses,
            jnp.ones(len(losses)),
            {"first_mean": mean[:1].repeat(len(losses))},
            running,
        )


class Dropout(Tokens):
    """Its loss is the draw itself: what differs between devices and steps is seen."""

    def loss(self, params, batch, key, step):
        draw = 0.0 if key is None else jax.random.uniform(key)
        zero = 0 * params["layers"][0]["w"].sum()
        return jnp.full(len(batch["x"]), draw) + zero, jnp.ones(len(batch["x"])), {}


class Misnamed(Tokens):
    """Names a parameter that it does not have."""

    specs = {"layer/*/w": P("model")}  # noqa: RUF012


class Numbers:
    """A stream of batches with a state, as Grain's."""

    data = None  # a file to wait for

    def __init__(self):
        self.place = 0

    def __iter__(self):
        return self

    def __next__(self):
        if self.data and self.place == 4 and jax.process_index() == 1:
            Path(self.data).read_text(encoding="utf-8")
        self.place += 1
        rng = np.random.default_rng(self.place)
        return {"x": rng.normal(size=(16, 8)).astype(np.float32)}

    def get_state(self):
        return {"place": self.place}

    def set_state(self, state):
        self.place = state["place"]


class Streamed(Task):
    """Reads a stream; its one matrix is sharded over both axes."""

    specs = {"w": P("data", "model")}  # noqa: RUF012

    def load(self):
        return Numbers(), {"x": np.eye(8, dtype=np.float32)}

    def init(self, key):
        return {"w": jax.random.normal(key, (8, 8))}

    def loss(self, params, batch, key, step):
        losses = ((batch["x"] @ params["w"] - batch["x"]) ** 2).sum(1)
        return losses, jnp.ones(len(losses)), {}


class Halting(Streamed):
    """In process 1, waits before the fifth batch until the file `data` has a writer."""

    def load(self):
        stream, held_out = super().load()
        stream.data = self.config.data
        return stream, held_out
