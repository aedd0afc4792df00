"""Draws what bounds a step: a chip's roofline, and what happens when on a device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np

from .canvas import CENTRED, HOST, INK, SHADES, TINTS, show, styled, titled
from .table import TURN_TINTS
from .training import label_ends

LOOKS = (("-o", SHADES[4]), ("--s", SHADES[5]), (":^", INK))


@styled
def draw_roofline(
    chip: Mapping[str, float],
    intensity: Any,
    reached: Mapping[str, Any],
    labels: Sequence[str],
    title: str = "",
) -> None:
    """Draws how fast a device computes: a line per layout, under the chip's roof.

    Args:
        chip: FLOPs ("compute") and bytes of memory ("memory") per second.
        intensity: FLOPs per byte of memory, at each point, in rising order.
        reached: FLOP/s at each point, by name; the first line follows the roof.
        labels: what is written above each point.
        title: a line above the picture.
    """
    _, axes = mpl.pyplot.subplots(figsize=(8, 3.6))
    corner = chip["compute"] / chip["memory"]
    slope = np.array([intensity[0], corner, max(intensity[-1], corner)])
    lowest = min(min(values) for values in reached.values()) / 2
    axes.fill_between(slope, np.minimum(chip["compute"], chip["memory"] * slope))
    axes.collections[0].set_color(HOST)
    names = list(reached)
    for place, name in reversed(list(enumerate(names))):  # the first on top
        mark, color = LOOKS[place % len(LOOKS)]
        axes.loglog(intensity, reached[name], mark, color=color, zorder=4)
    for text, *point in zip(labels, intensity, reached[names[0]], strict=True):
        axes.annotate(text, point, (0, 6), textcoords="offset points", ha="center")
    axes.set(ylim=(lowest, 4 * chip["compute"]), title=title)
    axes.set(xlabel="FLOPs per byte of memory", ylabel="FLOP/s of a device")
    label_ends(axes, names[::-1])
    axes.figure.tight_layout()
    texts = [
        f"{name} {', '.join(f'{value:.1e}' for value in values)}"
        for name, values in reached.items()
    ]
    alt = f"FLOP/s of a device, at {', '.join(labels)}: {'; '.join(texts)}."
    show(axes.figure, titled(title, alt))


@styled
def draw_timeline(
    rows: Mapping[str, Sequence[tuple[float, float, str]]],
    unit: str,
    title: str = "",
) -> None:
    """Draws a row of bars over time for each part of a device.

    Args:
        rows: (start, length, text) of each bar, by the row's name, from top to bottom.
            A text that is a number has its tint, and one that begins with F or B
            that of a forward or backward turn.
        unit: of the times.
        title: a line above the picture.
    """
    _, axes = mpl.pyplot.subplots(figsize=(9, 0.9 + 0.5 * len(rows)))
    ends = []
    for place, (name, bars) in enumerate(rows.items()):
        for start, length, text in bars:
            tint = TURN_TINTS.get(text[:1], HOST)
            tint = TINTS[int(text) % len(TINTS)] if text.isdigit() else tint
            look = {"facecolor": tint, "edgecolor": INK}
            axes.broken_barh([(start, length)], (place - 0.35, 0.7), **look)
            axes.text(start + length / 2, place, text, **CENTRED)
        last = max(start + length for start, length, _ in bars)
        ends.append(f"{name} until {last:.1f}")
    axes.set_yticks(range(len(rows)), list(rows))
    axes.set(ylim=(len(rows) - 0.5, -0.5), xlabel=unit, title=title)
    axes.figure.tight_layout()
    show(axes.figure, titled(title, f"{unit}: {', '.join(ends)}."))
