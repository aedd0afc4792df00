"""A language model of your own text file, byte by byte, for the full pipeline.

The file is never read as a whole: a `numpy.memmap` stands for it, and each process
reads the rows of its own devices.
"""

from __future__ import annotations

from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from full_pipeline import RunError
from pipeline_transformer import Transformer


class Text(Transformer):
    """`Transformer` over 256 bytes; the file's last tenth is held out."""

    num_letters: ClassVar = 256

    def load(self) -> tuple[Any, Any]:
        """Returns rows to train on and held-out ones: u8[N, 65], the last byte shared."""
        path = self.config.data
        try:
            text = np.memmap(path, np.uint8, "r")
        except (OSError, ValueError) as error:
            raise RunError(f"--data {path!r}: {error}. Name a file of text.") from None
        if len(text) < 20 * self.row:
            raise RunError(f"--data {path}: {len(text)} bytes are too few.")
        rows = np.lib.stride_tricks.sliding_window_view(text, self.row + 1)[:: self.row]
        return rows[: len(rows) * 9 // 10], rows[len(rows) * 9 // 10 :]

    def loss(self, params: Any, batch: Any, key: Any, step: Any) -> tuple:
        """Cross-entropy of the next bytes, in nats."""
        text = batch.astype(jnp.int32)
        return super().loss(params, (text[:, :-1], text[:, 1:]), key, step)

    def show(self, run: Any) -> str:
        """Writes a text of its own."""
        return self.write(run, "The ", 300, seed=self.config.seed)

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def decode(self, letters: list[int]) -> str:
        return bytes(letters).decode(errors="replace")
