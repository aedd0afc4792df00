"""Draws handwritten digits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np

from .canvas import show, styled, titled


@styled
def draw_digits(images: Any, said: Sequence[int], title: str = "") -> None:
    """Draws images in a row, and above each the digit that a network reads in it.

    Args:
        images: f32[N, 8, 8] or f32[N, 8, 8, 1], dark where they are large.
        said: a digit for each image.
        title: a line above the picture.
    """
    count = len(images)
    figure, places = mpl.pyplot.subplots(
        1, count, figsize=(0.75 * count, 1.5), squeeze=False
    )
    for axes, image, digit in zip(places[0], images, said, strict=True):
        axes.imshow(np.reshape(image, (8, 8)), cmap="Greys")
        axes.set_axis_off()
        axes.set_title(str(digit))
    figure.suptitle(title, fontsize=11)
    figure.tight_layout()
    digits = ", ".join(map(str, said))
    alt = f"{count} images of handwritten digits in a row. The network reads {digits}."
    show(figure, titled(title, alt))
