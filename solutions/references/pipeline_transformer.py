"""A small decoder-only language model for the full pipeline, and the text it reads.

What differs from the classifier of digits is all here: the model, where its logical axes
lie on the mesh, and the data. Attention heads and the perceptron's units are split over
"model" (tensor parallelism), the width of every matrix over "data" (FSDP). The model is
written as for one device: the pipeline gathers a layer's weights when it needs them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import optax
from full_pipeline import RunError, Task
from jax.sharding import PartitionSpec as P

WORDS = (  # a sentence takes one of each row
    ("ada", "bob", "eve", "max"),
    ("sees", "finds", "draws", "needs"),
    ("two", "three", "four", "five", "six"),
    ("red", "blue", "small", "round", "old"),
    ("cars", "boats", "birds", "books", "stones", "houses"),
)
PRONOUNS = {"ada": "she", "bob": "he", "eve": "she", "max": "he"}


def sentence(words: tuple[str, ...]) -> str:
    """Writes "ada sees two red cars, she likes them. ": who it is decides the pronoun."""
    return f"{' '.join(words)}, {PRONOUNS[words[0]]} likes them. "


LETTERS = sorted({*"".join(word for row in WORDS for word in row), *"she likes them,."})


def corpus(num_letters: int, seed: int) -> np.ndarray:
    """Writes sentences, each word drawn evenly: i32[num_letters], places in LETTERS."""
    rng, parts, length = np.random.default_rng(seed), [], 0
    while length < num_letters:
        parts.append(sentence(tuple(row[rng.integers(len(row))] for row in WORDS)))
        length += len(parts[-1])
    text = "".join(parts)[:num_letters]
    return np.array([LETTERS.index(letter) for letter in text], np.int32)


def entropy_floor() -> float:
    """Returns the nats a letter that such text holds: no model can lose less."""
    a_row = [len(sentence((name, "", "", "", ""))) for name in WORDS[0]]
    rest = (np.mean([len(word) for word in row]) for row in WORDS[1:])
    return sum(np.log(len(row)) for row in WORDS) / (np.mean(a_row) + sum(rest))


def norm(x: Any, scale: Any) -> Any:
    """Divides by the root mean square over the last axis, in float32."""
    x = x.astype(jnp.float32)
    return scale * x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6)


class Transformer(Task):
    """Predicts the next letter, from those before it in a row of 64.

    `hidden` of the settings is the width. The layers' parameters are stacked, and taken
    one layer after the other by a scan; of each layer, only its input is kept for the
    gradient (`jax.checkpoint`).
    """

    num_layers: ClassVar = 4
    num_heads: ClassVar = 8
    num_letters: ClassVar = len(LETTERS)
    row: ClassVar = 64  # letters
    tokens_per_row: ClassVar = row
    rules: ClassVar = (("heads", "model"), ("units", "model"), ("width", "data"))
    axes: ClassVar = {  # the logical axes of each parameter
        "letters": ("letter", "width"),
        "places": ("place", "width"),
        "qkv": ("layer", "width", "kind", "heads", "size"),
        "out": ("layer", "heads", "size", "width"),
        "up": ("layer", "width", "units"),
        "down": ("layer", "units", "width"),
        "scale_1": ("layer", "whole"),
        "scale_2": ("layer", "whole"),
        "scale": ("whole",),
    }

    def load(self) -> tuple[tuple, tuple]:
        """Returns rows to train on and held-out ones: (i32[N, 64], the letters after)."""
        parts = []
        for seed, num_rows in enumerate((4096, 256)):
            text = corpus(num_rows * self.row + 1, seed)
            parts.append(
                (text[:-1].reshape(-1, self.row), text[1:].reshape(-1, self.row))
            )
        return tuple(parts)

    def size_of_a_head(self) -> int:
        """Raises `RunError` where the width is no multiple of the heads."""
        width, heads = self.config.hidden, self.num_heads
        if width % heads:
            raise RunError(f"A width (hidden) of {width} for {heads} heads.")
        return width // heads

    def init(self, key: Any) -> dict[str, Any]:
        """Draws the parameters, float32; raises as `size_of_a_head`."""
        width, heads, layers = self.config.hidden, self.num_heads, self.num_layers
        size, deep = self.size_of_a_head(), (2 * layers) ** -0.5
        shapes = {
            "letters": ((self.num_letters, width), 1.0),
            "places": ((self.row, width), 1.0),
            "qkv": ((layers, width, 3, heads, size), width**-0.5),
            "out": ((layers, heads, size, width), deep * width**-0.5),
            "up": ((layers, width, 4 * width), width**-0.5),
            "down": ((layers, 4 * width, width), deep * (4 * width) ** -0.5),
        }
        params = {
            name: scale * jax.random.normal(jax.random.fold_in(key, number), shape)
            for number, (name, (shape, scale)) in enumerate(shapes.items())
        }
        ones = {"scale_1": (layers, width), "scale_2": (layers, width), "scale": width}
        return params | {name: jnp.ones(shape) for name, shape in ones.items()}

    def logits(self, params: dict[str, Any], x: Any) -> Any:
        """Computes f32[B, T, letters] from i32[B, T], places in LETTERS; T is 64 at most."""
        dtype = self.config.compute_dtype

        def taken(layer, names):
            return [jnp.asarray(layer[name], dtype) for name in names]

        def block(h, layer):
            qkv, out, up, down = taken(layer, ("qkv", "out", "up", "down"))
            y = norm(h, layer["scale_1"]).astype(dtype)
            q, k, v = jnp.moveaxis(jnp.einsum("btw,wkhs->kbths", y, qkv), 0, 0)
            scores = jnp.einsum("bths,buhs->bhtu", q, k).astype(jnp.float32)
            scores = jnp.where(seen, scores * q.shape[-1] ** -0.5, -jnp.inf)
            mixed = jax.nn.softmax(scores).astype(dtype)
            heads = jnp.einsum("bhtu,buhs->bths", mixed, v)
            h += jnp.einsum("bths,hsw->btw", heads, out).astype(jnp.float32)
            y = norm(h, layer["scale_2"]).astype(dtype)
            return h + (jax.nn.gelu(y @ up) @ down).astype(jnp.float32), None

        seen = jnp.tril(jnp.ones((x.shape[1],) * 2, bool))
        letters, places = taken(params, ("letters", "places"))
        h = letters[x].astype(jnp.float32) + places[: x.shape[1]].astype(jnp.float32)
        layers = {
            name: params[name] for name in self.axes if self.axes[name][0] == "layer"
        }
        h, _ = jax.lax.scan(jax.checkpoint(block), h, layers)
        y = norm(h, params["scale"]).astype(dtype)
        return (y @ letters.T).astype(jnp.float32) * self.config.hidden**-0.5

    def loss(self, params: Any, batch: Any, key: Any, step: Any) -> tuple:
        """Cross-entropy of the next letters, in nats, summed over each row."""
        x, y = batch
        logits = self.logits(params, x)
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, y)
        return losses.sum(-1), jnp.full(len(x), x.shape[1], jnp.float32), {}

    def show(self, run: Callable) -> str:
        """Says what the loss is to be compared with, and writes a text of its own."""
        floor, even = entropy_floor(), np.log(len(LETTERS))
        text = f"entropy floor {floor:.4f}, uniform guess {even:.4f}\n"
        return text + self.write(run, "ada ", 160, seed=self.config.seed)

    def encode(self, text: str) -> list[int]:
        return [LETTERS.index(letter) for letter in text]

    def decode(self, letters: list[int]) -> str:
        return "".join(LETTERS[place] for place in letters)

    def write(self, run: Callable, start: str, length: int, seed: int) -> str:
        """Continues a text by so many letters, each drawn as the model expects it."""

        def step(params, state, key):
            row, place = state  # the letters so far, then anything
            shown = self.logits(params, row[None])[0, place - 1]
            letter = jax.random.categorical(key, shown).astype(row.dtype)
            full = place == self.row
            row = jnp.where(full, jnp.roll(row, -1), row)
            row = row.at[jnp.minimum(place, self.row - 1)].set(letter)
            return (row, jnp.minimum(place + 1, self.row)), letter

        first = self.encode(start)[-self.row :]
        row = jnp.zeros(self.row, jnp.int32).at[: len(first)].set(jnp.array(first))
        keys = jax.random.split(jax.random.key(seed), length)

        def letters(params):
            state = row, jnp.int32(len(first))
            return jax.lax.scan(functools.partial(step, params), state, keys)[1]

        return start + self.decode(run(letters).tolist())
