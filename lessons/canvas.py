"""What all pictures share: colours, boxes, arrows.

The pictures have a white ground of their own, so that they read alike in light and
dark themes, and on grey paper. Every colour comes with a label that says the same.
"""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch

INK, FAINT, HOST = "#1a1a1a", "#8a8a8a", "#f2f2f2"
# Light tints of the Okabe-Ito colours, which colour-blind readers can tell apart.
TINTS = (
    "#fbe3a8", "#bfe3f7", "#a9dfc9", "#f6f0a0",
    "#b5cfe8", "#f3c3a4", "#e6c6da", "#d9d9d9",
)  # fmt: skip
LINES = ("-", "--", ":", "-.")


def canvas(columns: int, height: float, width: float) -> tuple[Any, Axes]:
    """Makes a white figure without axes, `columns` wide and one high in its units."""
    figure, axes = plt.subplots(figsize=(width, height), facecolor="white")
    axes.set_xlim(0, columns)
    axes.set_ylim(0, 1)
    axes.axis("off")
    return figure, axes


def box(axes, x, y, text, device: int | None, *, width=1.0, bold=False) -> None:
    """Draws a labelled box in its device's tint; None: the host's."""
    tint = HOST if device is None else TINTS[device % len(TINTS)]
    style = "round,pad=0,rounding_size=0.08"
    axes.add_patch(
        FancyBboxPatch(
            (x + 0.05, y), width - 0.1, 0.78, style, facecolor=tint, edgecolor=INK
        )
    )
    weight = "bold" if bold else "normal"
    lines = text.splitlines()
    size = min(9, 9 * 9.8 * width / max(map(len, lines)), 27 / len(lines))
    label = axes.text(x + width / 2, y + 0.39, text, fontsize=size, weight=weight)
    label.set(ha="center", va="center", color=INK)


def arrow(axes: Axes, x: float, start: float, stop: float) -> None:
    """Draws a vertical arrow."""
    style = {"arrowstyle": "-|>", "color": INK, "linewidth": 1}
    axes.annotate("", (x, stop), (x, start), arrowprops=style)
